-- Lesson 10: before any gradient.
--
-- How ranks find each other, and how two of them pass a message. Three ranks, a token that goes round, three that all
-- wait for each other, a tensor that is changed too early, and a group that one rank forgot, which the next group shows.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson {
  title = "Rendezvous, send and recv",
  hardware = "classroom",
  costs = { host = 0, kernel = 0 },     -- only the wire costs: 10 us a message, and 10 000 bytes a microsecond
  seed = 10,
  minutes = 25,
  needs = "01",
  show = "stores", story = { "c10d.store.*", ["comm.hop"] = false },     -- steps stop at what is asked of the store, which elsewhere they pass over
}

local text = {
  welcome = "Three ranks: each is a program of its own, with tensors of its own. Rank 2 starts 500 us later.",
  meets = {
    question = "When does rank 0 leave init_process_group?",
    choices = { "at once", "not before 500 us", "when rank 1 is there" },
    answer = "not before 500 us",
    why = "Each rank says in the store that it is here and waits for a key that the last one sets.",
    wrong = {
      ["at once"] = "Then rank 0 would call collectives that nobody answers. It waits until the world is complete.",
      ["when rank 1 is there"] = "Three ranks were announced. Two are not enough for anybody to go on.",
    },
    hides = { "c10d" },
  },
  store = "The store is a table that all ranks see: set writes a text, get waits until somebody has written it.",
  token = {
    question = "A token goes round, each rank adds 1 before it sends. What does rank 0 receive after three messages?",
    choices = { "0", "2", "3" },
    answer = "3",
    why = "Rank 0 sends 1, rank 1 sends 2, rank 2 sends 3. Each recv waits for the send before it: 3 x 10 us.",
    wrong = {
      ["0"] = "Rank 0 adds before it sends, too.",
      ["2"] = "Ranks 1 and 2 add one each. So did rank 0 when it began.",
    },
    hides = { "c10d", "comm" },
  },
  first = {
    question = "Now all three send first and receive then. What happens?",
    choices = { "it works: 3", "nobody can go on", "the last one wins" },
    answer = "nobody can go on",
    why = "A send is not over before its message was received, and nobody comes to his recv.",
    wrong = {
      ["it works: 3"] = "It would if messages were kept somewhere. Nothing promises that, neither gloo nor NCCL nor MPI.",
      ["the last one wins"] = "There is no last one: each waits for its right neighbour, all round the ring.",
    },
    hides = { "c10d", "comm", "fault" },
  },
  told = "What was told: %s",
  reuse = {
    question = "isend returns at once. Rank 0 now writes 99 into the tensor, and waits then. What may rank 1 receive?",
    choices = { "always 7, as it was", "99", "nothing" },
    answer = "99",
    why = "The tensor is read when the message leaves, not when isend is called. Until wait it belongs to the message.",
    wrong = {
      ["always 7, as it was"] = "No copy was made. Who needs one makes it: t:clone().",
      ["nothing"] = "A message comes. The question is what is in it.",
    },
    hides = { "c10d", "comm", "fault" },
  },
  group = {
    question = "new_group({0, 2}) is called by ranks 0 and 2 alone. What does rank 0 do?",
    choices = { "it gets its group", "it waits for rank 1", "it raises an error" },
    answer = "it gets its group",
    why = "The members meet in the store, under a name. Rank 1 is no member, and nobody looks for it there.",
    wrong = {
      ["it waits for rank 1"] = "In PyTorch 1.13 it did, in a barrier of all ranks. TORCH_DIST_INIT_BARRIER=1 brings it back.",
      ["it raises an error"] = "It cannot know that rank 1 has not called it: it waits for the members alone.",
    },
    hides = { "c10d", "fault" },
  },
  following = {
    question = "Rank 1 has skipped that one. Now all three call new_group(), for a group of all. What happens?",
    choices = { "they get their group", "they do not find each other", "rank 1 gets {0, 2}" },
    answer = "they do not find each other",
    why = "Each rank counts its calls, and the number is the group's name. It is rank 1's first and the others' second.",
    wrong = {
      ["they get their group"] = "They look for each other under a name: the number of the call. Which number has it on rank 1?",
      ["rank 1 gets {0, 2}"] = "It looks under that name, but for two others, and it is no member of {0, 2}.",
    },
    hides = { "c10d", "fault" },
  },
  late = "PyTorch waits here, for half an hour, and names nobody. So: all ranks call new_group in the same order, members or not.",
  holds = "rank %d leaves init_process_group after %.0f us",
  finish = "Meet, then speak in the same order. A deadlock has no message of its own: look who waits for whom.",
  checks = {
    meets = "rank %d leaves init_process_group when rank 2 has come, not before 500 us",
    store = "rank %d reads what rank 2 has written",
    token = "the token is 3",
    hops = "three messages",
    lasts = "of 10.0004 us each, one after the other",
    arrows = "each send has an arrow to its recv",
    deadlock = "all send first: a deadlock",
    cycle = "rank %d waits for rank %d",
    changed = "rank 1 received 99",
    reuse = "the change was noted, once",
    group = "rank %d uses the group that rank 1 has not made: the sum is 2",
    barrier = "rank %d passes a barrier of all",
    following = "rank 1 has called the same number for other ranks, and that is told",
  },
  teacher = [[
Time: 5 minutes for the rendezvous, 10 for the deadlock, 10 for the exercise.
Let three students hold a ball each and throw only when the neighbour holds out empty hands: they see the deadlock at once.
Expected wrong answers: "it works" (they have used a buffered send), "always 7" (they think that isend copies).
In the viewer: break fault.deadlock, c, then info tasks. Read the three lines aloud: who waits for whom.
Next question: four ranks, two by two: which orders of send and recv work? (Any in which no circle is left.)
Two-minute fallback: ringside run, and read the line "What was told" aloud.]],
}
local checks = text.checks

rs.say(text.welcome)
rs.ask(text.meets)

-- init = false: the ranks call init_process_group themselves.
local function meet(rank)
  if rank == 2 then rs.advance(500) end
  dist.init_process_group()
  if rank == 2 then dist.store:set("who was last", "rank 2") end
  return dist.store:get("who was last")
end
rs.say(text.store)
local read = dist.spawn(meet, { world = 3, init = false })
local left = rs.trace:events { kind = "c10d.rendezvous", phase = "end" }
for rank = 0, 2 do
  local us = left[rank + 1].t / 1000
  rs.say(text.holds:format(left[rank + 1].rank, us))
  rs.check(checks.meets:format(left[rank + 1].rank), us >= 500, { virtual = true })
  rs.check(checks.store:format(rank), read[rank] == "rank 2")
end

rs.ask(text.token)
local function pass(rank)
  local world = dist.get_world_size()
  local token = rs.zeros(1)
  if rank > 0 then dist.recv(token, rank - 1) end
  token:add_(1)
  dist.send(token, (rank + 1) % world)
  if rank == 0 then dist.recv(token, world - 1) end
  return token:item()
end
rs.close(checks.token, dist.spawn(pass, { world = 3 })[0], 3)
local sends = rs.trace:events { kind = "c10d.send" }
rs.check(checks.hops, #sends == 3 and rs.trace:count { kind = "comm.hop" } == 3)
rs.close(checks.lasts, rs.trace:duration { kind = "c10d.send", rank = 0 }, 10.0004, 1e-6, { virtual = true })
rs.check(checks.arrows, rs.trace:count { kind = "c10d.recv" } == 3)

rs.ask(text.first)
local function send_first(rank)
  dist.set_timeout(1)                   -- in free nobody sees the circle: the waits end by themselves
  local token, got = rs.ones(1), rs.zeros(1)
  dist.send(token, (rank + 1) % 3)
  dist.recv(got, (rank + 2) % 3)
end
local worked, why = pcall(dist.spawn, send_first, { world = 3 })
rs.check(checks.deadlock, not worked and why.kind == "DeadlockError", { virtual = true })
for rank = 0, 2 do
  local words = ("%d -> %d"):format(rank, (rank + 1) % 3)
  rs.check(checks.cycle:format(rank, (rank + 1) % 3), why.message:find(words, 1, true) ~= nil, { virtual = true })
end
rs.say(text.told:format(why.message))

rs.ask(text.reuse)
local function change_early(rank)
  local t = rs.full({ 1 }, 7.0 - 7 * rank)
  if rank == 1 then
    dist.store:wait({ "changed" })      -- the receiver comes late
    dist.recv(t, 0)
    return t:item()
  end
  local work = dist.isend(t, 1)
  t:fill_(99)                           -- too early: the message has not left
  dist.store:set("changed", "yes")
  work:wait()
end
rs.close(checks.changed, dist.spawn(change_early, { world = 2 })[1], 99)
rs.check(checks.reuse, rs.trace:count { kind = "fault.buffer_reuse" } == 1)

rs.ask(text.group)
local function forget(rank)
  local sum = rs.ones(1)
  if rank ~= 1 then
    local ends = dist.new_group({ 0, 2 })
    dist.all_reduce(sum, { group = ends })
  end
  dist.barrier()
  return sum:item()
end
local sums = dist.spawn(forget, { world = 3 })
for _, rank in ipairs { 0, 2 } do rs.close(checks.group:format(rank), sums[rank], 2) end
for rank = 0, 2 do rs.check(checks.barrier:format(rank), sums[rank] ~= nil) end

rs.ask(text.following)
local function forget_and_go_on(rank)
  if rank ~= 1 then dist.new_group({ 0, 2 }) end
  dist.barrier()
  dist.new_group()
end
worked, why = pcall(dist.spawn, forget_and_go_on, { world = 3 })
rs.check(checks.following, not worked and why.message:find("rank 1 calls it for ranks {0, 1, 2}", 1, true) ~= nil)
rs.say(text.told:format(why.message))
rs.say(text.late)

rs.say(text.finish)
rs.teacher(text.teacher)
