-- Exercise 02: close the gaps, and pay for it once.
--
-- Change what is returned. It is checked with other shapes, too.
--     ringside exercise 02
return {
  -- Part 1. `piece` is the right half of a wider tensor: rows with gaps between them. Return the same elements on the
  -- same device, row after row without gaps, in a storage of their own: one allocation of just these bytes, no second
  -- copy.
  dense = function(piece)
    return piece
  end,

  -- Part 2. What you then have, if the piece is [rows, columns].
  strides = function(rows, columns)
    return { 0, 0 }
  end,
  offset = -1, -- of dense in its storage, in elements
  again = -1, -- how many bytes dense:contiguous() allocates
}
