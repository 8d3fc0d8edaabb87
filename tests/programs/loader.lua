-- Random loaders against a rule in plain Lua: which samples come, in which batches, from which worker, and how a pass goes
-- on that was broken off. Arguments: a seed, how many loaders.
local rs = require "ringside"
local data = rs.utils.data
local seed, count = tonumber((...)), tonumber((select(2, ...)))
rs.lesson { title = "loader", devices = 0, prefix = "" }
math.randomseed(seed)
local function draw(n) return math.random(0, n) end

local Numbers = data.Dataset("Numbers")
function Numbers:init(n) self.n = n end
function Numbers:len() return self.n end
function Numbers:getitem(i)
  rs.advance(i % 7)
  local info = data.get_worker_info()
  return { i, info and info.id or 0 }
end
local Stream = data.IterableDataset("Stream")
function Stream:init(ends) self.ends = ends end
function Stream:iter()
  local info = data.get_worker_info()
  local worker = info and info.id or 0
  local i = 0
  return function()
    rs.advance((i * 5 + worker * 3) % 11)
    if i == self.ends[worker + 1] then return nil end
    i = i + 1
    return { 100 * worker + i, worker }
  end
end

-- ---- the rule ----

local function cut(indices, size, drop_last)
  local batches = {}
  for first = 1, #indices, size do
    local batch = table.move(indices, first, math.min(first + size - 1, #indices), 1, {})
    if #batch == size or not drop_last then batches[#batches + 1] = batch end
  end
  return batches
end

-- Batches of indices: batch b, from 0 on, is worker b's, modulo the workers.
local function rule_of_indices(indices, o)
  local out = {}
  for b, batch in ipairs(cut(indices, o.batch_size, o.drop_last)) do
    out[b] = table.concat(batch, " ") .. " of " .. (o.num_workers > 0 and (b - 1) % o.num_workers or 0)
  end
  return out
end

-- Of streams: round and round, but for those that have ended.
local function rule_of_streams(ends, o)
  local queues, out, left = {}, {}, 0
  for worker = 0, math.max(o.num_workers, 1) - 1 do
    local all = {}
    for i = 1, ends[worker + 1] do all[i] = 100 * worker + i end
    queues[worker] = cut(all, o.batch_size, o.drop_last)
    left = left + #queues[worker]
  end
  while left > 0 do
    for worker = 0, #queues do
      local batch = table.remove(queues[worker], 1)
      if batch then
        out[#out + 1], left = table.concat(batch, " ") .. " of " .. worker, left - 1
      end
    end
  end
  return out
end

-- ---- what comes ----

local function read(loader, most)
  local out = {}
  for x, workers in loader do
    out[#out + 1] = table.concat(x:tolist(), " ") .. " of " .. workers[0]:item()
    if #out == most then break end
  end
  return out
end

local function options_for(n)
  local o = { batch_size = 1 + draw(4), drop_last = draw(1) == 1, num_workers = draw(4) }
  if o.num_workers > 0 then
    o.prefetch_factor, o.persistent_workers = 1 + draw(3), draw(1) == 1
  end
  o.order = {}
  for i = 1, n do o.order[i] = (i - 1) * 3 % n end
  return o
end

local function arguments(o, more)
  local a = { batch_size = o.batch_size, drop_last = o.drop_last, num_workers = o.num_workers,
    prefetch_factor = o.prefetch_factor, persistent_workers = o.persistent_workers }
  for name, value in pairs(more or {}) do a[name] = value end
  return a
end

local function same(a, b) return table.concat(a, "|") == table.concat(b, "|") end
local function tell(what, number, got, wanted)
  if same(got, wanted) then return true end
  print(("seed %d, loader %d, %s: %s; expected %s"):format(seed, number, what, table.concat(got, "|"), table.concat(wanted, "|")))
  return false
end

local right = true
for number = 1, count do
  local n = 1 + draw(20)
  local o = options_for(n)
  local wanted, set = rule_of_indices(o.order, o), Numbers(n)
  local function make() return data.DataLoader(set, arguments(o, { sampler = o.order })) end
  local loader = make()
  for _ = 1, 2 do right = tell("indices", number, read(loader), wanted) and right end
  local most = draw(#wanted)
  local first = most > 0 and read(loader, most) or {}
  local state = most > 0 and loader:state_dict() or { batches = 0, sampler = { yielded = 0 } }
  local again = make()
  again:load_state_dict(state)
  table.move(read(again), 1, #wanted, #first + 1, first)
  right = tell("broken off after " .. most, number, first, wanted) and right
  right = tell("the pass after it", number, read(again), wanted) and right

  local ends = {}
  for worker = 1, 5 do ends[worker] = draw(9) end
  local streams = data.DataLoader(Stream(ends), arguments(o))
  wanted = rule_of_streams(ends, o)
  right = tell("streams", number, read(streams), wanted) and right
  most = draw(#wanted)
  first = most > 0 and read(streams, most) or {}
  state = most > 0 and streams:state_dict() or { batches = 0, sampler = { yielded = 0 } }
  again = data.DataLoader(Stream(ends), arguments(o))
  again:load_state_dict(state)
  table.move(read(again), 1, #wanted, #first + 1, first)
  right = tell("streams, broken off after " .. most, number, first, wanted) and right
end
rs.check(count .. " random loaders give what the rule says", right)
