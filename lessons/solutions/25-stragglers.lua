-- Solution of exercise 25: find the culprit from the bars alone.
--
-- `bars[rank]` is how long a rank's all-reduce lasted in one step, in us: rank 0 to world - 1. The delay is in the
-- backward, so all backwards last equally long: only the bars can tell. The functions are run on worlds of other sizes.
--     ringside exercise 25
local function last(bars, world)
  local least = 0
  for rank = 1, world - 1 do
    if bars[rank] < bars[least] then least = rank end
  end
  return least
end

return {
  -- The rank that came last.
  culprit = last,

  -- How long the others waited for it at most, in us.
  longest_wait = function(bars, world)
    local most = 0
    for rank = 0, world - 1 do most = math.max(most, bars[rank] - bars[last(bars, world)]) end
    return most
  end,

  -- Which share of all ranks' time went into waiting for the last one, in a step of `step_us`: from 0 to 1.
  lost_share = function(bars, world, step_us)
    local waited = 0
    for rank = 0, world - 1 do waited = waited + bars[rank] - bars[last(bars, world)] end
    return waited / (world * step_us)
  end,

  -- `steps` is a list of such bars, one a step. A rank that is late now and then is bad luck; one that is late in more
  -- than half of the steps is a straggler. Its number, or nil.
  straggler = function(steps, world)
    local late = {}
    for _, bars in ipairs(steps) do
      local rank = last(bars, world)
      late[rank] = (late[rank] or 0) + 1
      if 2 * late[rank] > #steps then return rank end
    end
    return nil
  end,
}
