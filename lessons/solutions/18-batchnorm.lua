-- Solution 18: normalising takes the batch's own numbers; only who evaluates reads the running ones.
--
-- Lesson 18's BatchNorm, trained for some steps in two runs: once as DDP does it, once with forward_sync_buffers = false.
-- Everything else is alike. Each rank has one batch, which comes in every step, and the ranks' batches differ. Say what
-- the running means come to, and what differs between the two runs. Then a SyncBatchNorm: what it comes to.
--     ringside exercise 18
return {
  -- running_mean on `rank` after so many training forwards (one or more). means[0], means[1] ... are the means of the
  -- ranks' batches; `synced` is whether rank 0's buffers go to all before each forward. The momentum is 0.1.
  running_mean = function(means, rank, steps, synced)
    local running = 0
    for step = 1, steps do
      -- The last forward is this rank's own; what it begins with is rank 0's, or its own as well.
      local from = synced and step < steps and 0 or rank
      running = 0.9 * running + 0.1 * means[from]
    end
    return running
  end,

  -- Is it another in the two runs, on rank 0 and on any other rank? The last loss in training; the averaged gradient of
  -- the weight; running_mean after the last step; and then the loss of the rank's own batch after ddp:eval().
  differs = {
    rank_0 = { training_loss = false, gradient = false, running_mean = false, evaluation_loss = false },
    others = { training_loss = false, gradient = false, running_mean = true, evaluation_loss = true },
  },

  -- running_mean and running_var of a SyncBatchNorm with one channel after so many training forwards; the first begins
  -- at 0, the second at 1, and it takes the variance that is divided by one value less. batches[0], batches[1] ... are
  -- the ranks' batches, each a list of numbers; one may be empty.
  shared = function(batches, steps)
    -- One batch, of all ranks' rows: no mean of means, for the ranks' batches have not the same length.
    local count, sum, squares = 0, 0, 0
    for rank = 0, #batches do
      for _, x in ipairs(batches[rank]) do
        count, sum = count + 1, sum + x
      end
    end
    local mean = sum / count
    for rank = 0, #batches do
      for _, x in ipairs(batches[rank]) do squares = squares + (x - mean) ^ 2 end
    end
    local kept = 0.9 ^ steps
    return (1 - kept) * mean, kept + (1 - kept) * squares / (count - 1)
  end,
}
