-- Solution 22: place k of rank r is card r + k * ranks of the deck; behind the last sample it begins again.
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
    local right = 0
    for r = 0, ranks - 1 do
      for k, good in ipairs(correct[r]) do
        local place = r + (k - 1) * ranks
        if place < samples and good then right = right + 1 end
      end
    end
    return right / samples
  end,
}
