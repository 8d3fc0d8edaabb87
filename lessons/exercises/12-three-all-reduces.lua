-- Exercise 12: let the program choose by size.
--
-- A hop costs 10 us and then a microsecond for every 10 000 bytes. The tree is asked for in worlds of 4, 8 or 16 ranks,
-- the others in worlds that are no power of two, too. There halving-doubling first folds: with P the power of two below
-- the world, the extra ranks hand over their whole tensor to a partner, P ranks halve and double, and the partners hand
-- the whole sum back.
--     ringside exercise 12
return {
  -- How long each of them takes for so many bytes, in us. The bytes divide by whatever you divide them by.
  ring_us = function(bytes, world)
    return 0
  end,

  tree_us = function(bytes, world)
    return 0
  end,

  halving_doubling_us = function(bytes, world)
    return 0
  end,

  -- "ring", "tree" or "halving_doubling". Ten sizes are summed by your choice; no fixed choice may be as fast in all.
  choose = function(bytes, world)
    return "ring"
  end,
}
