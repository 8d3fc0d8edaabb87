-- Solution 17: all but the last forward and backward run in no_sync, and each loss counts one part of the mean.
--
-- `batches` is a list of micro-batches, each a tensor of one row; ddp(x):sum() is a micro-batch's loss. All ranks have as
-- many. After the call the gradients have to be the mean over all micro-batches of all ranks, not the sum; and what the
-- ranks all-reduce has to be as few bytes as can be. The function is called more than once, with as many or as few
-- micro-batches as there are; zero_grad is not its business.
--     ringside exercise 17
return {
  accumulate = function(ddp, batches)
    local function one(x) (ddp(x):sum() / #batches):backward() end
    for i, x in ipairs(batches) do
      if i < #batches then
        ddp:no_sync(function() one(x) end)
      else
        one(x)
      end
    end
  end,
}
