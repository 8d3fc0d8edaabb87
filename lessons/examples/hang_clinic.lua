-- The hang clinic: programs that hang, or would mix numbers up in silence. Each is one mistake that real jobs make. Look
-- at the report before you look at the code: it names rank, call, number and line. The last comment of each is the cure.
--     ringside run hang_clinic                    lists them
--     ringside run hang_clinic -- 7               runs one, by number or by name: skipped-call
--     ringside step hang_clinic -- 7              the same on the screen: break fault, c, info tasks
--     ringside run --executor free --timeout 1 hang_clinic -- 7      as on a real machine, where nobody sees a circle
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson { title = "The hang clinic", hardware = "classroom", costs = { host = 0, kernel = 0 }, seed = 24, devices = 4 }

local plants = {}
local function plant(name, world, question, run)
  plants[#plants + 1] = { name = name, world = world, question = question, run = run }
end

-- ---- calls that differ ----

plant("skipped-call", 2, "Three steps, two calls each. In the third, which call did only one rank make?", function(rank)
  local weights = rs.zeros(4)
  for step = 1, 3 do
    local loss = rs.tensor { rank == 1 and step == 3 and 0 / 0 or 1.0 }
    if not loss:isnan():any():item() then
      dist.all_reduce(loss)
    end
    dist.broadcast(weights, 0)
  end
end)
-- Cure: dist.all_reduce(loss) on all ranks, whatever it is; the if comes behind it.

plant("other-order", 2, "Both ranks make the same two calls. Why do they not meet?", function(rank)
  local function sum_losses() dist.all_reduce(rs.ones(1)) end
  local function share_weights() dist.broadcast(rs.ones(4), 0) end
  local calls = rank == 0 and { sum_losses, share_weights } or { share_weights, sum_losses }   -- in Python: a set's order
  for _, call in ipairs(calls) do call() end
end)
-- Cure: { sum_losses, share_weights } on both: a list, or sorted names.

plant("shape", 2, "One batch was smaller than the others. Who cares?", function(rank)
  local samples = rank == 0 and 4 or 3              -- 7 samples on 2 ranks
  local losses, all = rs.ones(samples), {}
  dist.all_reduce(losses)
  dist.all_gather(all, losses)
end)
-- Cure: dist.all_reduce(losses:sum()), or drop_last in the loader; lesson 39 gathers what has no common length.

plant("dtype", 2, "Rank 1 counts in other numbers than rank 0. What would the wire make of it?", function(rank)
  local right = rank == 0 and rs.tensor { 3.0 } or rs.tensor { 4 }
  dist.all_reduce(right)
end)
-- Cure: rs.tensor({ 4 }, { dtype = "float32" }): a literal without a point is an int64.

plant("root", 3, "Whose weights does everybody get?", function(rank)
  local best = rank == 2 and 2 or 0                 -- rank 2 thinks that its own model was the best
  dist.broadcast(rs.full({ 4 }, rank + 0.0), best)
end)
-- Cure: agree on `best` first, by an all_reduce with "max", say.

plant("operation", 2, "One wants the sum on all ranks, the other on rank 0 alone. Is one of them content?", function(rank)
  local loss = rs.ones(1)
  if rank == 0 then dist.all_reduce(loss) else dist.reduce(loss, 0) end
end)
-- Cure: the same call on both: dist.all_reduce(loss).

plant("wrong-group", 2, "Both ranks are in both groups, and both call all_reduce. So?", function(rank)
  local pair = dist.new_group { 0, 1 }
  local loss = rs.ones(1)
  dist.all_reduce(loss, { group = rank == 1 and pair or nil })
end)
-- Cure: { group = pair } on both: a call meets calls of its own group only.

plant("parameters-order", 2, "Two layers of one shape, made in another order. Where does whose gradient go?", function(rank)
  local Net = nn.Module "Net"
  function Net:init()
    local names = rank == 0 and { "encoder", "decoder" } or { "decoder", "encoder" }   -- in Python: for name in a_set
    for _, name in ipairs(names) do self[name] = nn.Linear(2, 2) end
  end
  function Net:forward(x) return self.decoder(self.encoder(x)) end
  local ddp = nn.parallel.DistributedDataParallel(Net())
  ddp(rs.ones(1, 2)):sum():backward()
end)
-- Cure: the same order everywhere, by sorting the names: table.sort(names).

-- ---- somebody does not come ----

plant("batches-differ", 2, "Rank 0 has five batches, rank 1 has three. Where does training stand?", function(rank)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
  for _ = 1, rank == 0 and 5 or 3 do
    ddp(rs.ones(1, 2)):sum():backward()
  end
end)
-- Cure: rs.utils.data.DistributedSampler with drop_last, or ddp:join(), so that all ranks have as many batches.

plant("returns", 3, "The loss of one rank is not a number, and it stops quietly. Who notices?", function(rank)
  local loss = rs.tensor { rank == 2 and 0 / 0 or 1.0 }
  if loss:isnan():any():item() then return end
  dist.all_reduce(loss)
end)
-- Cure: reduce the flag first, so that all ranks return together.

plant("throws", 3, "One rank finds a broken file. Which of the ranks tells you?", function(rank)
  local batch = rs.ones(2)
  dist.barrier()
  if rank == 1 then error("cannot decode shard-0001.tar") end
  dist.all_reduce(batch)
end)
-- Cure: mend the file. And read the error of the rank that failed first, not those of the ranks that waited for it.

plant("sleeps", 3, "One rank waits for a licence server, an hour if need be. How long do the others?", function(rank)
  dist.set_timeout(1)                   -- in seconds; who sets none waits for half an hour
  if rank == 2 then rs.sleep(3600e6) end
  dist.all_reduce(rs.ones(1))
end)
-- Cure: ask before init_process_group, with a limit of its own.

plant("loops", 3, "All is quiet, one CPU is busy. What does that rank do now?", function(rank)
  if rank == 1 then
    local tries = 0
    while tries ~= 0.5 do
      tries = tries + 1                 -- until a file is there that nobody will write
    end
  end
  dist.all_reduce(rs.ones(1))
end)
-- Cure: for tries = 1, 100: no loop without an end.

plant("stuck-outside", 3, "Rank 0 is in no collective at all. What does it wait for?", function(rank)
  if rank == 0 then
    dist.store:get("vocabulary")        -- which rank 1 was to write
  end
  dist.barrier()
end)
-- Cure: if rank == 1 then dist.store:set("vocabulary", "...") end before the barrier.

plant("killed", 3, "The system ran out of memory and killed rank 1. Nobody said a word. What is left to see?", function(rank)
  for step = 1, 4 do
    if rank == 1 and step == 3 then rs.faults.kill(1) end      -- as the system would
    dist.all_reduce(rs.ones(1))
  end
end)
-- Cure: less memory on that rank. Nothing in this program can help the other two.

plant("inside-no-sync", 2, "Both ranks run the same backward. Why does only one of them send?", function(rank)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
  local function step() ddp(rs.ones(1, 2)):sum():backward() end
  if rank == 0 then
    ddp:no_sync(step)                   -- rank 0 counts its micro-batches from another number
  else
    step()
  end
  dist.barrier()
end)
-- Cure: the same condition on all ranks: if micro % 4 ~= 0 then ddp:no_sync(step) else step() end.

-- ---- circles ----

plant("all-send-first", 3, "Everybody has something for his neighbour. Who takes it?", function(rank)
  local mine, theirs = rs.ones(1), rs.zeros(1)
  dist.send(mine, (rank + 1) % 3)
  dist.recv(theirs, (rank + 2) % 3)
end)
-- Cure: local work = dist.isend(mine, (rank + 1) % 3), and work:wait() after the recv. Lesson 10 has another one.

plant("wrong-tag", 2, "A send and a receive, one to the other. What keeps them apart?", function(rank)
  local t = rs.ones(1)
  if rank == 0 then dist.send(t, 1, { tag = 1 }) else dist.recv(t, 0, { tag = 2 }) end
end)
-- Cure: the same tag on both ends.

plant("no-new-group", 3, "The first group works without rank 1. Why does the second one not?", function(rank)
  if rank ~= 1 then
    local ends = dist.new_group { 0, 2 }
    dist.all_reduce(rs.ones(1), { group = ends })
  end
  dist.barrier()                        -- so far nobody misses rank 1
  local all = dist.new_group()
  dist.all_reduce(rs.ones(1), { group = all })
end)
-- Cure: all ranks call new_group, members or not: the number of the call is the group's name.

plant("groups-crossed", 4, "Two groups overlap in ranks 1 and 2. Each is called once by each member. So?", function(rank)
  local front, back = dist.new_group { 0, 1, 2 }, dist.new_group { 1, 2, 3 }
  local t = rs.ones(1)
  if rank == 2 then
    dist.all_reduce(t, { group = back })
    dist.all_reduce(t, { group = front })
  else
    dist.all_reduce(t, { group = front })           -- rank 3 is no member: a warning, and on it goes
    dist.all_reduce(t, { group = back })
  end
end)
-- Cure: one order of groups on all ranks: front, then back.

plant("locks-crossed", 2, "Two locks, kept in the store. Each rank holds one of them. What does it wait for?", function(rank)
  local store = dist.store
  local first, second = "disk", "log"
  if rank == 0 then
    store:queue_push(first, "free")
    store:queue_push(second, "free")
  else
    first, second = second, first
  end
  dist.barrier()
  store:queue_pop(first)                -- who has the text has the lock
  dist.barrier()
  store:queue_pop(second)
  store:queue_push(second, "free")
  store:queue_push(first, "free")
end)
-- Cure: all ranks take the disk first, then the log.

-- ---- nothing hangs, and the number is wrong ----

plant("missing-wait", 2, "The sum is not there yet when it is read. What is printed?", function(rank)
  local loss = rs.tensor { rank + 1.0 }
  local work = dist.all_reduce(loss, { async_op = true })
  local seen = loss:item()
  work:wait()
  rs.say(("rank %d saw %g"):format(rank, seen))
end)
-- Cure: work:wait() before loss:item().

-- ---- the menu ----

local function chosen(word)
  for number, one in ipairs(plants) do
    if word == one.name or tonumber(word) == number then return one end
  end
  error(("no such program: '%s'; without a name you see all %d"):format(word, #plants), 0)
end

local word = ...
if word == nil then
  for number, one in ipairs(plants) do rs.say(("%2d  %-17s %s"):format(number, one.name, one.question)) end
  return
end
local one = chosen(word)
rs.say(one.question)
dist.spawn(one.run, { world = one.world })
