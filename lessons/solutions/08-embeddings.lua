-- Solution of exercise 08: when does dense win?
--
-- Each of `world` ranks looks up r rows of a table, no row twice. The table has `rows` rows of `width` float32. Dense, a ring
-- all-reduces all of it: a rank sends 2 (world - 1) / world of its bytes. Sparse, a rank's r rows go round to all others: an
-- index of 8 bytes and the row's floats, world - 1 times.
--     ringside exercise 08
return {
  -- Bytes that a rank sends for the dense gradient.
  dense_bytes = function(rows, width, world)
    return 2 * (world - 1) / world * rows * width * 4
  end,

  -- Bytes that a rank sends for its r rows (without the count, 8 bytes a hop).
  sparse_bytes = function(r, width, world)
    return (world - 1) * r * (8 + 4 * width)
  end,

  -- The smallest r for which the dense gradient is fewer bytes than the sparse one.
  dense_wins = function(rows, width, world)
    return 2 * rows * 4 * width // (world * (8 + 4 * width)) + 1 -- world - 1 stands on both sides
  end,
}
