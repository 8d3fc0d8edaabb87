-- What a random training under Join must end with (join_draw.lua says what a program is), worked out in plain numbers,
-- all ranks beside each other. Each parameter is a vector of equal elements, so one number stands for it.
local R = {}

-- Deterministic numbers of a rank's iteration: what the loss weighs parameter i by, and what the buffer takes in.
function R.weight(rank, step, i) return ((rank * 7 + step * 5 + i * 3) % 11 - 4) / 8 end
function R.taken(rank, step) return ((rank * 5 + step * 3) % 7 - 2) / 16 end
function R.start(i) return 1 + i / 8 end

local function has(list, i)
  for _, j in ipairs(list) do
    if i == j then return true end
  end
  return false
end

-- The blocks that a rank's forward uses.
function R.used(program, rank, step) return program.used[(rank * 5 + step) % #program.used + 1] end

local function new_rank(program)
  local rank = { p = {}, grad = {}, marks = {}, buffer = 0.5, record = { gradients = {}, losses = {} } }
  for i = 1, program.params do rank.p[i] = R.start(i) end
  return rank
end

local function copied(list, count)
  local out = {}
  for i = 1, count do out[i] = list[i] or false end
  return out
end

-- loss = sum over used i of w_i (1 + buffer) p_i^2 / 2, summed over an element a parameter; its gradients.
local function forward(program, rank, r, step, grads)
  rank.buffer = rank.buffer * 0.5 + R.taken(r, step)
  local loss = 0
  for _, i in ipairs(R.used(program, r, step)) do
    local factor = R.weight(r, step, i) * (1 + rank.buffer)
    loss = loss + factor * rank.p[i] * rank.p[i] / 2 * program.sizes[i]
    if grads then
      rank.grad[i] = (rank.grad[i] or 0) + factor * rank.p[i]
      rank.marks[i] = true
    end
  end
  rank.record.losses[#rank.record.losses + 1] = loss
end

local function reduce(program, ranks, live, state, divisor)
  local map = {}
  for i = 1, program.params do
    map[i] = state.some_joined and state.map[i] or false
    for _, r in ipairs(live) do map[i] = map[i] or ranks[r].marks[i] or false end
  end
  for i = 1, program.params do
    local sum = 0
    for _, r in ipairs(live) do sum = sum + (ranks[r].grad[i] or 0) end
    if i ~= program.delayed and (map[i] or not program.options.find_unused_parameters) then
      for _, r in ipairs(live) do
        ranks[r].grad[i] = program.hook == "twice" and 2 * sum or sum / (program.hook and program.world or divisor)
      end
    end
  end
  for _, r in ipairs(live) do ranks[r].marks = {} end
  state.map = map
end

local function reduce_delayed(program, ranks, live)
  local sum = 0
  for _, r in ipairs(live) do sum = sum + (ranks[r].grad[program.delayed] or 0) end
  for _, r in ipairs(live) do ranks[r].grad[program.delayed] = sum / program.world end
end

local function step_optimizer(program, rank)
  rank.record.gradients[#rank.record.gradients + 1] = copied(rank.grad, program.params)
  for i = 1, program.params do
    if rank.grad[i] then rank.p[i] = rank.p[i] - 0.125 * rank.grad[i] end
    if program.zero == "none" then rank.grad[i] = nil elseif program.zero == "zero" and rank.grad[i] then rank.grad[i] = 0 end
  end
end

-- One epoch under Join (or without one, where all have as many steps).
local function epoch(program, ranks, part, state)
  local world, last = program.world, 0
  for r = 0, world - 1 do last = math.max(last, part.counts[r]) end
  for step = 0, last - 1 do
    local live, mode = {}, part.modes[step + 1]
    for r = 0, world - 1 do
      if part.counts[r] > step then live[#live + 1] = r end
    end
    state.some_joined = #live < world
    if state.some_joined and part.throw then
      for r = 0, world - 1 do ranks[r].record.raised = part.counts[r] > step and "detected" or "exhausted" end
      return false
    end
    if program.options.static_graph and state.some_joined and not state.began then return nil end
    if part.counter then
      for _, r in ipairs(live) do ranks[r].record.counted = (ranks[r].record.counted or 0) + #live end
    end
    if state.sync_buffers and program.options.forward_sync_buffers ~= false then
      local root = part.join and live[#live] or 0
      for r = 0, world - 1 do ranks[r].buffer = ranks[root].buffer end
    end
    for _, r in ipairs(live) do forward(program, ranks[r], r, step, mode ~= "no_grad") end
    state.sync_buffers = mode == "sync"
    if mode == "sync" then
      state.began = true
      local by_live = part.join and part.initial == false and not part.counter
      reduce(program, ranks, live, state, by_live and #live or world)
    end
    if mode ~= "no_grad" and program.delayed then reduce_delayed(program, ranks, live) end
    if mode == "sync" then
      for _, r in ipairs(live) do step_optimizer(program, ranks[r]) end
    end
  end
  if not part.join then return true end
  local root
  for r = 0, world - 1 do root = part.counts[r] == last and r or root end
  for r = 0, world - 1 do
    ranks[r].p = table.move(ranks[root].p, 1, program.params, 1, {})
    if program.options.forward_sync_buffers ~= false then ranks[r].buffer = ranks[root].buffer end
    ranks[r].record.root = root
  end
  return true
end

-- By rank what it records; nil: ranks without inputs cannot know what the others send.
function R.run(program)
  local ranks, state = {}, { sync_buffers = true, map = {} }
  for r = 0, program.world - 1 do ranks[r] = new_rank(program) end
  for _, part in ipairs(program.parts) do
    local went = epoch(program, ranks, part, state)
    if went == nil then return nil end
    if not went then break end
  end
  local records = {}
  for r = 0, program.world - 1 do
    records[r] = ranks[r].record
    records[r].weights, records[r].buffer = copied(ranks[r].p, program.params), ranks[r].buffer
  end
  return records
end

R.has = has
return R
