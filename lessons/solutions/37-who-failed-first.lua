-- Solution of exercise 37: read the flight recorder of a job that stopped.
--
-- `entries` are the calls of one rank, in the order in which it made them. Of each you need is_p2p (a send or receive), state
-- ("scheduled", "started", "completed") and time_created_ns. `record[rank]` are those of rank 0 to world - 1. The functions are
-- run on records of several jobs, in which ranks raise, are killed, come late, or a link dies. Sends and receives do not count.
--     ringside exercise 37
local function progress(entries)
  local enqueued, completed = 0, 0
  for _, call in ipairs(entries) do
    if not call.is_p2p then
      enqueued = enqueued + 1
      if call.state == "completed" then completed = completed + 1 end
    end
  end
  return { enqueued, completed }
end

local function behind(record, world)
  local least, most = 0, 0
  for rank = 1, world - 1 do
    local enqueued = progress(record[rank])[1]
    if enqueued < progress(record[least])[1] then least = rank end
    if enqueued > progress(record[most])[1] then most = rank end
  end
  if progress(record[least])[1] < progress(record[most])[1] then return least end
  return nil
end

return {
  -- How many collectives a rank has enqueued, and how many of them completed: a list of two numbers.
  progress = progress,

  -- The rank that is behind: it never made the call in which the others wait. nil: nobody is behind.
  behind = behind,

  -- What held the job up: "a rank" that did not come, "the wire" that carried nothing any more, or "nothing".
  cause = function(record, world)
    if behind(record, world) ~= nil then return "a rank" end
    for rank = 0, world - 1 do
      local calls = progress(record[rank])
      if calls[2] < calls[1] then return "the wire" end
    end
    return "nothing"
  end,

  -- Of the first collective: which rank came last to it, and how many us after the first one. A list of two numbers.
  latest = function(record, world)
    local first, last, who = nil, nil, nil
    for rank = 0, world - 1 do
      for _, call in ipairs(record[rank]) do
        if not call.is_p2p then
          local ns = call.time_created_ns
          first = math.min(first or ns, ns)
          if last == nil or ns > last then last, who = ns, rank end
          break
        end
      end
    end
    return { who, (last - first) / 1000 }
  end,
}
