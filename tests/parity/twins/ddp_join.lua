-- Uneven inputs: what each rank's gradients are under Join, by both divisors, with and without unused parameters, no_sync,
-- a communication hook, and joinables of the script's own.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local Join = dist.algorithms.Join
rs.lesson { title = "join", devices = 0 }

local Scale = nn.Module("Scale")
function Scale:init()
  self.w = nn.Parameter(rs.ones(1))
  self.v = nn.Parameter(rs.ones(1))
  self:register_buffer("seen", rs.zeros(1))
end
function Scale:forward(x, names)
  self.seen:add_(x:mean())
  local sum
  for name in names:gmatch(".") do sum = sum and sum + self[name] * x or self[name] * x end
  return sum
end

local function line_of(numbers)
  local words = {}
  for i, number in ipairs(numbers) do words[i] = string.format("%.9g", number) end
  return table.concat(words, " ")
end
local function grads(net)
  local numbers = {}
  for p in net:parameters() do numbers[#numbers + 1] = p.grad and p.grad:item() or -1 end
  return line_of(numbers)
end
local function number(x) return rs.tensor { x + 0.0 } end

local COUNTS = { { 3, 5, 1 }, { 0, 2, 4 }, { 2, 2, 2 }, { 4, 0, 0 } }

local function trainings(rank, lines)
  for _, counts in ipairs(COUNTS) do
    for _, initial in ipairs { true, false } do
      for _, find in ipairs { false, true } do
        local net = Scale()
        local ddp = nn.parallel.DistributedDataParallel(net, { find_unused_parameters = find, bucket_cap_mb = 0.000001 })
        local sgd = rs.optim.SGD(ddp:parameters(), { lr = 0.125 })
        ddp:join({ divide_by_initial_world_size = initial }, function()
          for i = 0, counts[rank + 1] - 1 do
            ddp:zero_grad()
            ddp(number(rank + 1 + i), "wv"):sum():backward()
            lines[#lines + 1] = grads(net)
            sgd:step()
          end
        end)
        lines[#lines + 1] = line_of { net.w:item(), net.v:item(), net.seen:item(), ddp._authoritative_rank }
      end
    end
  end
end

local function accumulates(rank, lines)
  local net = Scale()
  local ddp = nn.parallel.DistributedDataParallel(net, { forward_sync_buffers = false })
  ddp:join(function()
    for i = 0, 2 * (rank + 1) - 1 do
      local x = number(rank + 2 + i)
      if i % 2 == 0 then
        ddp:no_sync(function() ddp(x, "wv"):sum():backward() end)
      else
        ddp(x, "wv"):sum():backward()
        lines[#lines + 1] = grads(net)
        ddp:zero_grad()
      end
    end
  end)
  lines[#lines + 1] = line_of { net.seen:item(), ddp:_get_ddp_logging_data().join_uneven_inputs }
end

local function branches(rank, lines)
  local net = Scale()
  local ddp = nn.parallel.DistributedDataParallel(net, { find_unused_parameters = true })
  ddp:join(function()
    for i = 1, rank + 1 do
      ddp:zero_grad()
      ddp(rs.ones(1), ({ "w", "v", "w" })[i]):sum():backward()
      lines[#lines + 1] = grads(net)
    end
  end)
end

local function hooked(rank, lines)
  local ddp, seen = nn.parallel.DistributedDataParallel(Scale()), {}
  ddp:register_comm_hook(nil, function(_, bucket)
    seen[#seen + 1] = bucket:buffer():sum():item()
    return dist.all_reduce(bucket:buffer(), { async_op = true }):get_future():then_(function(future)
      return future:value()[1] * 2
    end)
  end)
  ddp:join(function()
    for _ = 0, rank do
      ddp:zero_grad()
      ddp(number(rank + 1), "wv"):sum():backward()
      lines[#lines + 1] = grads(ddp)
    end
  end)
  lines[#lines + 1] = line_of(seen)
end

local CounterHook = dist.algorithms.JoinHook("CounterHook")
function CounterHook:init(counter, step) self.counter, self.step = counter, step end
function CounterHook:main_hook()
  self.counter.shadowed = self.counter.shadowed + 1
  dist.all_reduce(rs.zeros(1))
end
function CounterHook:post_hook(is_last_joiner) self.counter.last = is_last_joiner end

local Counter = dist.algorithms.Joinable("Counter")
function Counter:init() self.total, self.shadowed, self.last = 0, 0, false end
function Counter:count()
  local work, t = Join.notify_join_context(self), rs.ones(1)
  dist.all_reduce(t)
  self.total = self.total + t:item()
  return work
end
function Counter:join_hook(kwargs) return CounterHook(self, kwargs.step or 1) end
function Counter:join_device() return "cpu" end
function Counter:join_process_group() return dist.group.WORLD end

local function counters(rank, lines)
  for _, throws in ipairs { false, true } do
    local first, second = Counter(), Counter()
    local ddp = nn.parallel.DistributedDataParallel(Scale())
    local rounds, raised, works = 0, 0, 0
    local ok, err = pcall(function()
      local options = { throw_on_early_termination = throws, divide_by_initial_world_size = false }
      Join({ first, ddp, second }, options, function()
        for _ = 1, 2 + rank do
          works = works + (first:count() and 1 or 0)
          ddp:zero_grad()
          ddp(number(rank + 1), "wv"):sum():backward()
          lines[#lines + 1] = grads(ddp)
          works = works + (second:count() and 1 or 0)
          rounds = rounds + 1
        end
      end)
    end)
    if not ok then raised = err.kind == "RuntimeError" and err.message:find "exhausted all inputs" and 1 or 2 end
    lines[#lines + 1] = line_of { first.total, second.total, first.shadowed, first.last and 1 or 0, rounds, raised, works }
  end
end

local ranks = dist.spawn(function(rank)
  local lines = {}
  for _, part in ipairs { trainings, accumulates, branches, hooked, counters } do part(rank, lines) end
  return lines
end, { world = 3 })
for rank = 0, 2 do
  for i, line in ipairs(ranks[rank]) do print("rank" .. rank .. "-" .. i - 1 .. " " .. line) end
end
