-- Exercise 22: an exact accuracy, though samples are drawn twice.
--
-- A data set of `samples` samples was evaluated by several ranks, each with its share of a DistributedSampler that was
-- not shuffled. Some samples were drawn by more than one rank. accuracy(correct, ranks, samples) is the part of all samples
-- that the model gets right, each counted once. Ranks may have drawn nothing but samples that others have, too.
--     ringside exercise 22
return {
  -- correct[r]: rank r's share in order, true where its model was right: {true, false, ...}; r from 0 on
  -- ranks:      how many there were
  -- samples:    how many samples the data set has
  accuracy = function(correct, ranks, samples)
    local right, all = 0, 0
    for r = 0, ranks - 1 do
      for _, good in ipairs(correct[r]) do
        right, all = right + (good and 1 or 0), all + 1
      end
    end
    return right / all
  end,
}
