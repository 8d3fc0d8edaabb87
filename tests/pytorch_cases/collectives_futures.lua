-- Works and futures of collectives: T117 (many in flight, their works dropped), T122 (a thousand at once), T127 (a chain
-- on a work's future); and what the golden rows "async" and "future" say of them, with other numbers.
local rs = require "ringside"
local dist, futures = rs.distributed, rs.futures

rs.lesson { title = "PyTorch cases: works and futures", seed = 3, prefix = "" }

local function refused(kind, words, f, ...)
  local ok, e = pcall(f, ...)
  return not ok and type(e) == "table" and e.kind == kind and e.message:find(words, 1, true) ~= nil
end
local function all(list, f)
  for r = 0, #list do if not f(list[r], r) then return false end end
  return true
end

-- ---- rows of PyTorch's tests ----

local out = dist.spawn(function(rank)
  local cubes = rs.full({ 2, 2, 2 }, 2.0)
  local fut = dist.all_reduce(cubes, { async_op = true }):get_future()
  local last = fut:then_(function(f) return f:value()[1] * 3 end):then_(function(f) return f:wait() + 1 end)
  return last:wait():view(-1):tolist()
end, { world = 3 })
rs.check("T127 all-reduce, then times 3, then plus 1: cubes of 2 on 3 ranks become 19", all(out, function(list)
  for i = 1, 8 do if list[i] ~= 19 then return false end end
  return #list == 8
end))

out = dist.spawn(function(rank)
  local tensors = {}
  for i = 1, 16 do
    tensors[i] = rs.full({ 100, 100 }, i - 1.0)
    dist.all_reduce(tensors[i], { async_op = true })
  end
  collectgarbage()
  dist.barrier()
  local low, high = {}, {}
  for i, t in ipairs(tensors) do low[i], high[i] = t:min():item(), t:max():item() end
  return { low, high }
end, { world = 3 })
rs.check("T117 16 all-reduces whose works nobody keeps are over after a barrier", all(out, function(ends)
  for i = 1, 16 do if ends[1][i] ~= 3 * (i - 1) or ends[2][i] ~= 3 * (i - 1) then return false end end
  return true
end))

out = dist.spawn(function(rank)
  local works, tensors = {}, {}
  for i = 1, 1000 do
    tensors[i] = rs.full({ 1 }, i - 1.0 + rank)
    works[i] = dist.all_reduce(tensors[i], { async_op = true })
  end
  local wrong = 0
  for i = 1, 1000 do
    works[i]:wait()
    if tensors[i]:item() ~= 2 * (i - 1) + 1 then wrong = wrong + 1 end
  end
  return wrong
end, { world = 2 })
rs.check("T122 1000 all-reduces in flight: number i is 2 i + 1", all(out, function(wrong) return wrong == 0 end))

-- ---- works ----

out = dist.spawn(function(rank)
  local t, got = rs.full({ 3 }, rank + 0.5), {}
  local work = dist.all_reduce(t, { async_op = true })
  got.waits = work:wait() == true
  got.done = work:is_completed() and work:is_success() and work:exception() == nil
  got.same = #work:result() == 1 and work:result()[1] == t
  got.number = work:_get_sequence_number()
  got.future = work:get_future() == work:get_future() and work:get_future():value()[1] == t
  local list = {}
  work = dist.all_gather(list, t, { async_op = true })
  got.list = #work:get_future():wait() == dist.get_world_size() and work:result()[2] == list[2]
  work = dist.barrier { async_op = true }
  work:wait(5)
  got.barrier = #work:result() == 0
  got.source = refused("RuntimeError", "recv", work.source_rank, work)
  got.timeout = refused("ValueError", "seconds", work.wait, work, -1)
  work = rank == 0 and dist.isend(t, 1) or rank == 1 and dist.irecv(t, 0) or nil
  if work then work:wait() end
  got.sender = rank ~= 1 or work:source_rank() == 0
  return got
end, { world = 3 })
for _, row in ipairs {
  { "waits", "wait answers true" }, { "done", "then it is completed, a success, without an exception" },
  { "same", "its result is a list of the very tensor" }, { "future", "it has one future, whose value is that list" },
  { "list", "an all_gather's is the list" }, { "barrier", "a barrier's is empty" },
  { "source", "a collective has no source" }, { "timeout", "a negative timeout is refused" },
  { "sender", "an irecv's source is its sender" },
} do
  rs.check("work: " .. row[2], all(out, function(got) return got[row[1]] end))
end
rs.check("work: numbers begin at 0", all(out, function(got) return got.number == 0 end))

-- ---- futures ----

local log = {}
local first = futures.Future()
local tripled = first:then_(function(f) log[#log + 1] = "then" return f:wait() * 3 end)
local broken = tripled["then"](tripled, function() rs.error("ValueError", "boo") end)
local after = broken:then_(function(f) return f:wait() end)
first:add_done_callback(function(f) log[#log + 1] = "callback " .. f:value() end)
rs.check("future: it is not done before it has a result", not first:done() and not after:done())
rs.check("future: nor has it a value", refused("RuntimeError", "not done", first.value, first))
first:set_result(2)
rs.check("future: callbacks run in the order in which they came", table.concat(log, ", ") == "then, callback 2")
rs.check("future: then_ makes a future of what its callback answers", tripled:value() == 6)
rs.check("future: an error in a callback is its future's",
  refused("RuntimeError", "Got the following error when running the callback: ValueError: boo", broken.wait, broken))
rs.check("future: and that of those behind it", after:done() and refused("RuntimeError", "boo", after.wait, after))
rs.check("future: it is completed once", refused("RuntimeError", "only be marked completed once", first.set_result, first, 3))
rs.check("future: a callback of one that is done runs at once", first:then_(function(f) return -f:value() end):value() == -2)

local failed = futures.Future()
failed:set_exception("ValueError", "nothing there")
rs.check("future: an exception is raised as it is", refused("ValueError", "nothing there", failed.wait, failed))
rs.check("future: a text is no exception", refused("AssertionError", "no error", futures.Future().set_exception, futures.Future(), "x"))
local _, caught = pcall(rs.error, "KeyError", "k")
local raised = futures.Future()
raised:set_exception(caught)
local _, again = pcall(raised.wait, raised)
rs.check("future: what pcall caught comes back as the same object", rawequal(caught, again))

local a, b = futures.Future(), futures.Future()
local both = futures.collect_all { a, b }
a:set_result("a")
rs.check("collect_all: waits for all", not both:done())
b:set_result("b")
rs.check("collect_all: its value is the list of them", both:done() and #both:value() == 2 and both:value()[2] == b)
rs.check("collect_all: of nothing is done", #futures.collect_all({}):value() == 0)
local values = futures.wait_all { a, b, a }
rs.check("wait_all: the list of their values", #values == 3 and values[1] == "a" and values[2] == "b")
rs.check("wait_all: raises what one failed with", refused("ValueError", "nothing there", futures.wait_all, { a, failed }))
rs.check("collect_all: refuses what is no future", refused("TypeError", "element 1", futures.collect_all, { 1 }))
local chain = futures.Future()
local at = chain
for _ = 1, 3000 do at = at:then_(function(f) return f:value() + 1 end) end
chain:set_result(0)
rs.check("future: a chain of 3000 callbacks", at:value() == 3000)

-- Callbacks of works run on a task of their own, whether somebody waits or not, and may wait for later collectives.
out = dist.spawn(function(rank)
  local seen, t = {}, rs.full({ 2 }, rank + 1.0)
  dist.all_reduce(t, { async_op = true }):get_future():add_done_callback(function(f) seen[#seen + 1] = f:value()[1][{ 0 }]:item() end)
  local chained = dist.all_reduce(rs.ones { 1 }, { async_op = true }):get_future():then_(function(f)
    local sum = f:value()[1]
    dist.all_reduce(sum)
    local more = dist.all_reduce(sum, { async_op = true }):get_future()
    return more:then_(function(g) return g:value()[1]:item() end):wait()
  end)
  local value = chained:wait()
  return { seen[1], value }
end, { world = 2 })
rs.check("callback: runs though nobody waits for it", all(out, function(got) return got[1] == 3 end))
rs.check("callback: waits for collectives and futures behind its own", all(out, function(got) return got[2] == 8 end))

-- A work's error is its future's.
local ok, why = pcall(dist.spawn, function(rank)
  if rank == 0 then return end
  local work = dist.all_reduce(rs.ones { 2 }, { async_op = true })
  local told = work:get_future():then_(function(f) return f:wait() end)
  local fine, e = pcall(told.wait, told)
  if fine or e.kind ~= "RuntimeError" or not e.message:find("DeadlockError", 1, true) then error("told otherwise") end
  if work:is_success() or work:exception().kind ~= "DeadlockError" then error("no exception") end
  work:get_future():wait()
end, { world = 2 })
rs.check("future: of a work that fails it raises the work's error", not ok and why.kind == "DeadlockError")
