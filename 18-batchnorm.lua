-- Exercise 18: every rank keeps its own statistics.
--
-- Lesson 18's BatchNorm, trained for some steps in two runs: once as DDP does it, once with forward_sync_buffers = false.
-- Everything else is alike. Each rank has one batch, which comes in every step, and the ranks' batches differ. Say what
-- the running means come to, and what differs between the two runs. Then a SyncBatchNorm: what it comes to.
--     ringside exercise 18
return {
  -- running_mean on `rank` after so many training forwards (one or more). means[0], means[1] ... are the means of the
  -- ranks' batches; `synced` is whether rank 0's buffers go to all before each forward. The momentum is 0.1.
  running_mean = function(means, rank, steps, synced)
    return 0
  end,

  -- Is it another in the two runs, on rank 0 and on any other rank? The last loss in training; the averaged gradient of
  -- the weight; running_mean after the last step; and then the loss of the rank's own batch after ddp:eval().
  differs = {
    rank_0 = { training_loss = true, gradient = true, running_mean = true, evaluation_loss = true },
    others = { training_loss = true, gradient = true, running_mean = true, evaluation_loss = true },
  },

  -- running_mean and running_var of a SyncBatchNorm with one channel after so many training forwards; the first begins
  -- at 0, the second at 1, and it takes the variance that is divided by one value less. batches[0], batches[1] ... are
  -- the ranks' batches, each a list of numbers; one may be empty.
  shared = function(batches, steps)
    return 0, 1
  end,
}
