-- Training under PowerSGD: the hook with the random Q that the file gives, and after each step what its state remembers of
-- each bucket. Used by golden_ddp_train.lua.
local rs = require "ringside"
local power = rs.distributed.algorithms.ddp_comm_hooks.powerSGD_hook

return function(tools)
  local same, known, make, plain = tools.same, tools.known, tools.make, tools.plain
  local TOLERANCE = { 1e-6, 1e-3 }
  local OPTIONS = "matrix_approximation_rank start_powerSGD_iter min_compression_rate use_error_feedback warm_start " ..
    "orthogonalization_epsilon random_seed compression_stats_logging_frequency batch_tensors_with_same_shape"

  local function by_bucket(memory)
    local out = {}
    for bucket, t in pairs(memory) do out[tostring(bucket)] = plain(t) end
    return out
  end

  local function match_memory(what, got, golden)
    local wrong
    for bucket, tensor in pairs(golden) do
      wrong = wrong or tools.match_plain(what .. " of bucket " .. bucket, got[bucket], tensor, TOLERANCE)
    end
    for bucket in pairs(got) do
      wrong = wrong or same(what .. " of bucket " .. bucket .. " is there", true, golden[bucket] ~= nil)
    end
    return wrong
  end

  -- The hook and its state, which is answered.
  local function registers(hook)
    return function(ddp, case)
      known("psgd", case.psgd, OPTIONS)
      local state = power.PowerSGDState(nil, case.psgd)
      if case.powersgd_random_q then
        local given = {}
        for i, golden in ipairs(case.powersgd_random_q) do given[i] = make(golden) end
        state:set_random_q(given)
      end
      ddp:register_comm_hook(state, hook)
      return state
    end
  end

  return {
    tolerance = TOLERANCE,
    register = { powersgd = registers(power.powerSGD_hook), batched_powersgd = registers(power.batched_powerSGD_hook) },

    -- What the state holds after a step, to be sent from the rank; nil: no such state.
    look = function(state)
      if not state then return nil end
      local rate, before, after = state:compression_stats()
      return { iter = state.iter, error = by_bucket(state.error_dict), p = by_bucket(state.p_memory_dict),
        q = by_bucket(state.q_memory_dict), stats = { rate, before, after } }
    end,

    match = function(what, got, golden)
      if not golden then return got and same(what .. " powersgd", "a state", "none") or nil end
      if not got then return same(what .. " powersgd", "none", "a state") end
      known("powersgd", golden, "iter error p q stats")
      return same(what .. " iter", got.iter, golden.iter) or match_memory(what .. " error", got.error, golden.error) or
        match_memory(what .. " p", got.p, golden.p) or match_memory(what .. " q", got.q, golden.q) or
        golden.stats and tools.compare(what .. " stats", got.stats, golden.stats, TOLERANCE) or nil
    end,
  }
end
