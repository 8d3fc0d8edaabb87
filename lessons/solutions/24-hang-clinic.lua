-- Solution of exercise 24: three programs that hang, and a line that mends each.
--
-- Run them before you mend them: the report names rank, call and line.
--     ringside exercise 24
local rs = require "ringside"
local dist = rs.distributed

return {
  -- Rank 0 alone has `x`, and validates the model with BatchNorm inside of `ddp`; the others wait for it at the barrier.
  -- Answers rank 0's output, on the others nil. Training goes on afterwards.
  validate = function(ddp, x, rank)
    local out = nil
    ddp:eval()
    if rank == 0 then out = ddp.module(x) end
    dist.barrier()
    ddp:train()
    return out
  end,

  -- Calls all of `calls`, a table from names to functions; each makes a collective of its own. `names` are its names, but each
  -- rank has collected them in another order.
  share = function(calls, names)
    table.sort(names)
    for _, name in ipairs(names) do calls[name]() end
  end,

  -- A step a batch, and ranks have different numbers of batches. All batches of all ranks shall count: in a step that some
  -- ranks have no batch for, those add nothing to the gradient, which is divided by the number of all ranks as ever.
  train = function(ddp, optimizer, batches)
    ddp:join(function()
      for _, x in ipairs(batches) do
        optimizer:zero_grad()
        ddp(x):sum():backward()
        optimizer:step()
      end
    end)
  end,
}
