-- Exercise 36: a checkpoint with everything in it.
--
-- run.ddp is a network under DistributedDataParallel, run.opt its optimizer, run.schedule a scheduler, run.loader a
-- DataLoader in the midst of a pass; the network has dropout. The state is a table of your own.
--     ringside exercise 36
local rs = require "ringside"

return {
  -- Answers all that the next step depends on. Training may go on afterwards: what was saved shall not change with it.
  save = function(run)
    return { model = run.ddp:state_dict() }
  end,

  -- Puts it into a run that was just made in the same way, by another process.
  resume = function(run, state)
    run.ddp:load_state_dict(state.model)
  end,

  -- The weights in what save answered, as a table that a network without DDP loads. The state stays as it is.
  plain = function(state)
    return state.model
  end,
}
