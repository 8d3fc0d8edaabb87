-- Solution 07: a row counts 1 / batch in the mean of all, so losses / batch in its own replica's number.
--
-- Lesson 07 (b) again: each replica returns one number, DataParallel hands you the vector of these numbers, and your
-- loss is their mean. With ten rows on four devices w.grad came out as 6.25, but one device says 5.5: a row that is
-- alone in its chunk counted three times as much as the others.
--
-- Let each replica weight its number so that every row of the batch counts the same, whatever the chunks are.
return {
  -- out:    the outputs of this replica, one row for each row of its chunk
  -- batch:  how many rows the whole batch has
  -- losses: how many replicas return a number, which is how many numbers the mean is taken of
  -- Answers one number: a tensor without dimensions.
  loss = function(out, batch, losses)
    return out:sum() * (losses / batch)
  end,
}
