-- Solution of exercise 36: a checkpoint with everything in it.
--
-- run.ddp is a network under DistributedDataParallel, run.opt its optimizer, run.schedule a scheduler, run.loader a
-- DataLoader in the midst of a pass; the network has dropout. The state is a table of your own.
--     ringside exercise 36
local rs = require "ringside"

-- state_dict answers the very tensors, which the next step changes.
local function copied(value)
  if type(value) ~= "table" then return type(value) == "userdata" and value:clone() or value end
  local copy = {}
  for key, inner in pairs(value) do copy[key] = copied(inner) end
  return copy
end

return {
  -- Answers all that the next step depends on. Training may go on afterwards: what was saved shall not change with it.
  save = function(run)
    return copied { model = run.ddp:state_dict(), opt = run.opt:state_dict(), schedule = run.schedule:state_dict(),
      loader = run.loader:state_dict(), rng = rs.get_rng_state() }
  end,

  -- Puts it into a run that was just made in the same way, by another process.
  resume = function(run, state)
    run.ddp:load_state_dict(state.model)
    run.opt:load_state_dict(state.opt)
    run.schedule:load_state_dict(state.schedule)
    run.loader:load_state_dict(state.loader)
    rs.set_rng_state(state.rng)
  end,

  -- The weights in what save answered, as a table that a network without DDP loads. The state stays as it is.
  plain = function(state)
    local dict = {}
    for name, tensor in pairs(state.model) do dict[name] = tensor end
    rs.nn.modules.utils.consume_prefix_in_state_dict_if_present(dict, "module.")
    return dict
  end,
}
