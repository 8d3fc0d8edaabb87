-- Random trainings with uneven inputs under Join on worlds of 2 to 5 ranks (join_draw.lua): both divisors, buffers, unused
-- parameters, hooks, no_sync, forwards without gradients, no inputs at all, several joinables, errors on early
-- termination. Each must end with what join_rules.lua works out. Arguments: first=SEED count=N, show=1. Prints a
-- checksum for each seed, so that executors can be compared.
local rs = require "ringside"
rs.lesson { title = "Random trainings under Join", devices = 0, prefix = "" }
local P = assert(loadfile "tests/programs/program.lua")()
local D = assert(loadfile "tests/programs/join_draw.lua")(P)
local R = assert(loadfile "tests/programs/join_rules.lua")()
local nn, dist, algorithms = rs.nn, rs.distributed, rs.distributed.algorithms
local DDP = nn.parallel.DistributedDataParallel

io.stdout:setvbuf "line"
local options = { first = 1, count = 20 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  if not name then error("an argument is NAME=VALUE, not " .. word) end
  options[name] = math.tointeger(value) or value
end

-- ---- one rank ----

local Net = nn.Module "Net"
function Net:init(program)
  self.program = program
  for i = 1, program.params do
    self["p" .. i] = nn.Parameter(rs.full({ program.sizes[i] }, R.start(i), { dtype = "float64" }))
  end
  self:register_buffer("taken", rs.full({ 1 }, 0.5, { dtype = "float64" }))
end
function Net:forward(rank, step)
  self.taken:copy_(self.taken * 0.5 + R.taken(rank, step))
  local factor, loss = 1 + self.taken, nil
  for _, i in ipairs(R.used(self.program, rank, step)) do
    local p = self["p" .. i]
    local term = (p * p):sum() * factor * (R.weight(rank, step, i) / 2)
    loss = loss and loss + term or term
  end
  return loss
end

local HOOKS = {
  mean = function(_, bucket)
    local work = dist.all_reduce(bucket:buffer():div_(dist.get_world_size()), { async_op = true })
    return work:get_future():then_(function(future) return future:value()[1] end)
  end,
  twice = function(_, bucket)
    return dist.all_reduce(bucket:buffer(), { async_op = true }):get_future():then_(function(future)
      return future:value()[1] * 2
    end)
  end,
}

local CounterHook, Counter = algorithms.JoinHook "CounterHook", algorithms.Joinable "Counter"
function CounterHook:main_hook() dist.all_reduce(rs.zeros { 1 }) end
Counter.join_device = "cpu"
function Counter:init() self.total, self.join_process_group = 0, dist.group.WORLD end
function Counter:join_hook() return CounterHook() end
function Counter:forward()
  algorithms.Join.notify_join_context(self)
  local t = rs.ones { 1 }
  dist.all_reduce(t)
  self.total = self.total + math.tointeger(t:item())
end

local function wrapped(program, net)
  local chosen = {}
  for name, value in pairs(program.options) do chosen[name] = value end
  if program.delayed then
    chosen.delay_all_reduce_named_params = { { "p" .. program.delayed, net["p" .. program.delayed] } }
    chosen.param_to_hook_all_reduce = net.p1
  end
  local ddp = DDP(net, chosen)
  if program.hook then ddp:register_comm_hook(nil, HOOKS[program.hook]) end
  return ddp
end

local function elements(t) return t and t[0]:item() or false end

local function noted(program, net)
  local out = {}
  for i = 1, program.params do out[i] = elements(net["p" .. i].grad) end
  return out
end

local function train(program, rank)
  local net, record, total = Net(program), { gradients = {}, losses = {} }, 0
  local ddp = wrapped(program, net)
  local sgd = rs.optim.SGD(net:parameters(), { lr = 0.125 })
  local function step(part, number, counter)
    local mode = part.modes[number + 1]
    if counter then counter() end
    if mode == "no_grad" then
      rs.no_grad(function() table.insert(record.losses, ddp(rank, number):item()) end)
      return
    end
    local function both()
      local loss = ddp(rank, number)
      table.insert(record.losses, loss:item())
      loss:backward()
    end
    if mode == "no_sync" then return ddp:no_sync(both) end
    both()
    table.insert(record.gradients, noted(program, net))
    sgd:step()
    if program.zero ~= "keep" then sgd:zero_grad { set_to_none = program.zero == "none" } end
  end
  for _, part in ipairs(program.parts) do
    local counter = part.counter and Counter() or nil
    local function body()
      for number = 0, part.counts[rank] - 1 do step(part, number, counter) end
    end
    local ok, err = true, nil
    if part.join then
      local list, chosen = counter and { counter, ddp } or { ddp }, { throw_on_early_termination = part.throw,
        divide_by_initial_world_size = part.initial }
      ok, err = pcall(algorithms.Join, list, chosen, body)
      record.root = ok and ddp._authoritative_rank or record.root
    else
      body()
    end
    if counter then total = total + counter.total end
    if not ok then
      local says = type(err) == "table" and err.kind == "RuntimeError" and err.message or ""
      record.raised = says:find("Rank " .. rank .. " exhausted", 1, true) and "exhausted" or
        says:find("at least one rank that exhausted", 1, true) and "detected"
      if not record.raised then error(err, 0) end
      break
    end
  end
  record.counted = total > 0 and total or nil
  record.weights, record.buffer = {}, elements(net.taken)
  for i = 1, program.params do record.weights[i] = elements(net["p" .. i]) end
  return record
end

-- ---- comparing ----

local function different(got, want, path)
  if type(want) == "number" and type(got) == "number" then
    if got == want or math.abs(got - want) <= 1e-9 * math.max(1, math.abs(want)) then return nil end
  elseif type(want) == "table" and type(got) == "table" then
    if #got ~= #want then return ("%s: %d entries, expected %d"):format(path, #got, #want) end
    for key, value in pairs(want) do
      local words = different(got[key], value, path .. " " .. tostring(key))
      if words then return words end
    end
    return nil
  elseif got == want then
    return nil
  end
  return ("%s: %s, expected %s"):format(path, tostring(got), tostring(want))
end

local NAMES = { "losses", "gradients", "weights", "buffer", "root", "raised", "counted" }

local function bits_of(value, h)
  if type(value) == "table" then
    for _, item in ipairs(value) do h = bits_of(item, h) end
  elseif value then
    local bits = type(value) == "number" and string.unpack("<i8", string.pack("<d", value)) or #value
    h = ((h ~ bits) * 0x100000001B3) & 0xffffffffffffffff
    h = h ~ h >> 29
  end
  return h
end

-- Seed by seed; another one where a rank could not know what the others send.
local function drawn(seed)
  local program = D.new(seed)
  while not R.run(program) do
    seed = seed + 1000003
    program = D.new(seed)
  end
  return program
end

-- nil or what is wrong, and a checksum.
local function check(program)
  local wanted = R.run(program)
  local ranks = dist.spawn(function(rank) return train(program, rank) end, { world = program.world })
  local h = 0x1234567
  for rank = 0, program.world - 1 do
    for _, name in ipairs(NAMES) do
      local words = different(ranks[rank][name], wanted[rank][name], ("rank %d %s"):format(rank, name))
      if words then return words, 0 end
      h = bits_of(ranks[rank][name], h)
    end
  end
  return nil, h
end

local failures = 0
for seed = options.first, options.first + options.count - 1 do
  local program = drawn(seed)
  if options.show then print("-- seed " .. seed .. "\n" .. D.describe(program)) end
  local ok, words, h = pcall(check, program)
  if not ok then words, h = tostring(words), 0 end
  if words then
    failures = failures + 1
    if failures <= 10 then print(("# seed %d: %s\n%s"):format(seed, words, D.describe(program))) end
  end
  print(("seed %d world %d: %016x"):format(seed, program.world, h))
end
if failures > 0 then error(failures .. " programs went wrong", 0) end
