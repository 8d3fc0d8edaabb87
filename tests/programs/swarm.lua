-- A swarm of random programs: collectives, sends and receives in groups, steps of DDP, futures and the store, blocking or
-- later; in half of them one rank makes a mistake. What must hold: the run ends; who makes no mistake gets the right numbers,
-- and DDP the gradients of one process; who is stuck is told by kind, rank and line; memory comes back. A line for each
-- seed says how it ended. Arguments: first=SEED count=N, announce=1 (each seed before it runs), plants=0 (nobody makes
-- a mistake), limit=SECONDS (of every wait, for the executor that does not see that nobody can go on), fault=KIND rank=R
-- (what --fault does to the one program of this run, and to whom).
local rs = require "ringside"
local nn, dist, futures = rs.nn, rs.distributed, rs.futures
rs.lesson { title = "Swarm", prefix = "", devices = 4 }

io.stdout:setvbuf "line"
local options = { first = 1, count = 20, plants = 1, announce = 0, limit = "0", fault = "none", rank = -1 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=([%w.]+)$")
  if not name or options[name] == nil then error("an argument is NAME=VALUE, not " .. word) end
  options[name] = math.tointeger(value) or value
end

local function dice(seed)
  local state = seed * 2654435761 % 4294967296
  local function draw(low, high)
    state = (state * 1103515245 + 12345) % 4294967296
    return low + (state >> 8) % (high - low + 1)
  end
  return draw, function(list) return list[draw(1, #list)] end
end

-- ---- what is to be done, the same on all ranks ----

local KINDS = { "all_reduce", "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "barrier", "object",
  "message", "message", "store", "counter", "future", "compute", "ddp", "ddp" }
local MISTAKES = { "skips", "swaps", "shape", "dtype", "root", "tag", "group", "returns", "throws", "no_sync", "waits" }

local function program_of(seed)
  local draw, pick = dice(seed)
  local program = { world = draw(1, 5), groups = {}, steps = {}, bucket = pick { 0.00001, 0.0001, 1 }, unused = draw(0, 3) == 0 }
  local all = {}
  for r = 0, program.world - 1 do all[r + 1] = r end
  program.groups[1] = all
  for g = 2, draw(1, 3) do
    local ranks = {}
    for r = 0, program.world - 1 do
      if draw(0, 2) > 0 then ranks[#ranks + 1] = r end
    end
    program.groups[g] = #ranks > 0 and ranks or { draw(0, program.world - 1) }
  end
  for i = 1, draw(3, 12) do
    local step = { number = i, kind = pick(KINDS), group = draw(1, #program.groups), async = draw(0, 2) == 0, count = draw(1, 9),
      tag = draw(0, 2), us = draw(0, 50) }
    local ranks = program.groups[step.group]
    step.root, step.from, step.to = pick(ranks), pick(ranks), pick(ranks)
    program.steps[i] = step
    program.ddp = program.ddp or step.kind == "ddp"
  end
  if options.plants == 1 and draw(0, 1) == 0 then
    local step = pick(program.steps)
    program.mistake = { kind = pick(MISTAKES), at = step.number, rank = pick(program.groups[step.group]) }
  end
  return program
end

-- ---- how a rank does it ----

-- f(rank) of all ranks of the list, added up.
local function sum_over(ranks, f)
  local sum = 0
  for _, r in ipairs(ranks) do sum = sum + f(r) end
  return sum
end

local function place_of(ranks, rank)
  for i, r in ipairs(ranks) do
    if r == rank then return i end
  end
end

local function expect(what, got, wanted)
  for i, value in ipairs(wanted) do
    if got[i] ~= value then error(("wrong number: %s: element %d is %s, not %s"):format(what, i - 1, got[i], value), 0) end
  end
end

local function all_of(count, value)
  local list = {}
  for i = 1, count do list[i] = value end
  return list
end

-- Each does its part of a step; answers a work and what to do once that is over. c: the step, with ranks, group, size, dtype.
local DO = {}

local function number(c, rank) return rank * 10 + c.number end
local function filled(c, rank, count) return rs.full({ count or c.size }, number(c, rank), { dtype = c.dtype }) end

function DO.all_reduce(c, rank)
  local t = filled(c, rank)
  local work = dist.all_reduce(t, { group = c.group, async_op = c.async })
  local sum = sum_over(c.ranks, function(r) return number(c, r) end)
  return work, function() expect("all_reduce", t:tolist(), all_of(c.size, sum)) end
end

function DO.broadcast(c, rank)
  local t = filled(c, rank)
  local work = dist.broadcast(t, { src = c.root, group = c.group, async_op = c.async })
  return work, function() expect("broadcast", t:tolist(), all_of(c.size, number(c, c.root))) end
end

function DO.all_gather(c, rank)
  local out = rs.zeros({ #c.ranks, c.size }, { dtype = c.dtype })
  local work = dist.all_gather_into_tensor(out, filled(c, rank), { group = c.group, async_op = c.async })
  return work, function()
    for i, r in ipairs(c.ranks) do expect("all_gather", out[i - 1]:tolist(), all_of(c.size, number(c, r))) end
  end
end

function DO.reduce_scatter(c, rank)
  local out = rs.zeros({ c.size }, { dtype = c.dtype })
  local work = dist.reduce_scatter_tensor(out, filled(c, rank, #c.ranks * c.size), { group = c.group, async_op = c.async })
  local sum = sum_over(c.ranks, function(r) return number(c, r) end)
  return work, function() expect("reduce_scatter", out:tolist(), all_of(c.size, sum)) end
end

function DO.all_to_all(c, rank)
  local out = rs.zeros({ #c.ranks }, { dtype = c.dtype })
  local work = dist.all_to_all_single(out, filled(c, rank, #c.ranks), { group = c.group, async_op = c.async })
  return work, function()
    for i, r in ipairs(c.ranks) do expect("all_to_all", { out[i - 1]:item() }, { number(c, r) }) end
  end
end

function DO.barrier(c) return dist.barrier { group = c.group, async_op = c.async } end

function DO.object(c, rank)
  local list = {}
  dist.all_gather_object(list, { rank = rank, text = ("x"):rep(rank) }, { group = c.group })
  for i, r in ipairs(c.ranks) do expect("object", { list[i].rank, #list[i].text }, { r, r }) end
end

function DO.message(c, rank)
  if c.from == c.to then return end
  if rank == c.from then
    local t = filled(c, rank)
    if not c.async then dist.send(t, c.to, { group = c.group, tag = c.tag }) return end
    return dist.isend(t, c.to, { group = c.group, tag = c.tag }), function() expect("sent", t:tolist(), all_of(c.size, number(c, rank))) end
  elseif rank == c.to then
    local t, work = rs.zeros(c.size, { dtype = c.dtype }), nil
    if c.async then work = dist.irecv(t, c.from, { group = c.group, tag = c.tag })
    else dist.recv(t, c.from, { group = c.group, tag = c.tag }) end
    return work, function() expect("message", t:tolist(), all_of(c.size, number(c, c.from))) end
  end
end

function DO.store(c, rank)
  local key = "step " .. c.number
  if rank == c.root then dist.store:set(key, tostring(c.number)) end
  expect("store", { dist.store:get(key) }, { tostring(c.number) })
end

-- The last one to count opens the door.
function DO.counter(c)
  local key = "counter " .. c.number
  if dist.store:add(key, 1) == #c.ranks then dist.store:set(key .. " is full", "yes") end
  dist.store:wait { key .. " is full" }
end

function DO.future(c, rank)
  local t = filled(c, rank)
  local later = dist.all_reduce(t, { group = c.group, async_op = true }):get_future():then_(function(done)
    return done:value()[1]:sum():item()
  end)
  local sum = c.size * sum_over(c.ranks, function(r) return number(c, r) end)
  if not c.async then
    expect("future", { later:wait() }, { sum })
    return
  end
  return futures.collect_all { later }, function() expect("future", { later:value() }, { sum }) end
end

function DO.compute(c) rs.advance(c.us) end

-- A step of DDP has the gradients of one process that has the batches of all.
function DO.ddp(c, rank, model)
  local function batch(r) return rs.full({ 2, 3 }, (number(c, r) % 7) - 3.0) + rs.arange(6):view(2, 3):float() * 0.25 end
  local function loss(net, x) return (net(x) ^ 2):mean() end
  local function backward() loss(model.ddp, batch(rank)):backward() end
  model.ddp:zero_grad()
  if c.no_sync then model.ddp:no_sync(backward) else backward() end
  if c.spoilt then return end
  local whole = {}
  for r = 0, dist.get_world_size() - 1 do whole[r + 1] = batch(r) end
  model.alone:zero_grad()
  loss(model.alone, rs.cat(whole)):backward()
  local mine = model.net:parameters()
  for i, p in ipairs(model.alone:parameters()) do
    if not rs.allclose(p.grad, mine[i].grad, 1e-4, 1e-4) then
      error(("wrong number: gradient %d of DDP: %s, of one process %s"):format(i, tostring(mine[i].grad), tostring(p.grad)), 0)
    end
  end
end

-- ---- mistakes ----

local SPOIL = {
  shape = function(c) c.size = c.size + 1 end,
  dtype = function(c) c.dtype = "float64" end,
  root = function(c) c.root = (c.root + 1) % c.world end,
  tag = function(c) c.tag = c.tag + 1 end,
  group = function(c) c.group = nil end,
  no_sync = function(c) c.no_sync = true end,
  waits = function(c) dist.store:get("nobody sets " .. c.number) end,
  throws = function() error("planted", 0) end,
}

local function run(rank, program)
  local groups, model, later, steps = {}, {}, {}, table.move(program.steps, 1, #program.steps, 1, {})
  local mistake = program.mistake
  local mine = mistake and mistake.rank == rank and mistake
  local limit = mistake and options.limit ~= "0" and tonumber(options.limit) or nil
  if limit then
    dist.set_timeout(limit)
    dist.store:set_timeout(limit)
  end
  for g = 2, #program.groups do groups[g] = dist.new_group(program.groups[g], { timeout = limit }) end
  if program.ddp then
    local function net()
      rs.manual_seed(program.bucket == 1 and 1 or 2)
      return nn.Sequential { nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2) }
    end
    model.net, model.alone = net(), net()
    model.ddp = nn.parallel.DistributedDataParallel(model.net, { bucket_cap_mb = program.bucket, find_unused_parameters = program.unused })
  end
  if mine and mine.kind == "swaps" and steps[mine.at + 1] then
    steps[mine.at], steps[mine.at + 1] = steps[mine.at + 1], steps[mine.at]
  end
  for i, step in ipairs(steps) do
    local c = { size = step.count, dtype = "float32", ranks = program.groups[step.group], world = program.world,
      group = groups[step.group], spoilt = mistake ~= nil }
    for name, value in pairs(step) do
      if name ~= "group" then c[name] = value end
    end
    local wrong = mine and mine.at == i and mine.kind
    if wrong == "returns" then return end
    if SPOIL[wrong] then SPOIL[wrong](c) end
    if wrong ~= "skips" and (c.kind == "ddp" or place_of(c.ranks, rank)) then
      local work, check = DO[c.kind](c, rank, model)
      if mistake then check = nil end                                  -- of numbers nothing is promised
      if c.async and work then later[#later + 1] = { work, check } elseif check then check() end
    end
    if #later > 2 or (#later > 0 and i % 4 == 0) then
      local first = table.remove(later, 1)
      first[1]:wait()
      if first[2] then first[2]() end
    end
  end
  for _, one in ipairs(later) do
    one[1]:wait()
    if one[2] then one[2]() end
  end
end

-- ---- what must hold ----

local STUCK = { DeadlockError = true, MismatchError = true, TimeoutError = true, DistStoreError = true }

-- "rank 2", "ranks 0, 2-4", or a row of the report: "2  ".
local function names(message, rank)
  local function holds(list)
    for low, high in list:gmatch "(%d+)%-?(%d*)" do
      if tonumber(low) <= rank and rank <= (tonumber(high) or tonumber(low)) then return true end
    end
  end
  for list in message:gmatch "ranks? ([%d, and%-]+)" do
    if holds(list) then return true end
  end
  for list in message:gmatch "\n([%d, %-]+)  " do
    if holds(list) then return true end
  end
end

local function told_with_place(why, rank)
  local message = tostring(why)
  if not message:find "ranks? %d" or (rank and not names(message, rank)) then
    return ("rank %s is not named"):format(rank or "of any number")
  end
  if not message:find("line %d") and not message:find("%.lua:%d+: ") then return "no line is named" end
end

local function kind_of(why)
  local inner = why.kind == "RuntimeError" and tostring(why):match("running the callback: (%w+): ")   -- as PyTorch tells it
  return inner or why.kind
end

-- Of a run in which something went wrong from outside. Who is late, and what comes late, changes nothing; what is lost or
-- comes twice may be taken for another message.
local function badly_ended(why)
  local fault, kind = options.fault, kind_of(why)
  if fault == "late" or fault == "delay" then return "it only was late" end
  if tostring(why):find("wrong number", 1, true) then
    return fault ~= "lose" and fault ~= "double" and "a number" or nil
  end
  if fault == "allocation" or fault == "write" or fault == "double" then return nil end        -- an object's bytes may be another's
  if kind ~= "KilledError" and not STUCK[kind] then return "another kind" end
  return told_with_place(why, fault == "kill" and options.rank or nil)
end

-- Of a run that did not end well: what is wrong with how it was told; nil: nothing.
local function badly_told(program, why)
  if type(why) ~= "table" or not why.kind then return "no kind" end
  if options.fault ~= "none" then return badly_ended(why) end
  local mistake, message = program.mistake, tostring(why)
  if not mistake then return "nobody made a mistake" end
  if mistake.kind == "throws" and message:find("planted", 1, true) then return nil end
  local refused = (mistake.kind == "group" or mistake.kind == "root") and (why.kind == "ValueError" or why.kind == "RuntimeError")
  if not STUCK[kind_of(why)] and not refused then return "another kind" end
  if message:find("wrong number", 1, true) then return "a number" end
  if options.limit ~= "0" then return nil end                          -- whose time is over first tells of it
  return told_with_place(why, mistake.rank)
end

local function memory()
  for _ = 1, 3 do collectgarbage() end
  return rs.cuda.memory_allocated("cpu")
end

local function one(seed)
  local program = program_of(seed)
  return program, pcall(dist.spawn, function(rank) run(rank, program_of(seed)) end, { world = program.world })
end

local failed, before = 0, memory()
for seed = options.first, options.first + options.count - 1 do
  if options.announce == 1 then print("-- seed " .. seed) end
  local program, worked, why = one(seed)
  local mistake, wrong = program.mistake, not worked and badly_told(program, why) or nil
  why = not worked and why or nil
  local after = memory()
  if not wrong and after ~= before then wrong = ("%d bytes stay"):format(after - before) end
  before = after
  local planted = mistake and ("rank %d %s at %d"):format(mistake.rank, mistake.kind, mistake.at) or "no mistake"
  print(("seed %d world %d %s: %s"):format(seed, program.world, planted, worked and "ends" or (type(why) == "table" and why.kind or "?")))
  if wrong then
    failed = failed + 1
    print(("not ok: seed %d: %s (%s): %s"):format(seed, wrong, planted, tostring(why)))
  end
end
print(("# %d programs"):format(options.count))
if failed > 0 then error(failed .. " programs went wrong", 0) end
