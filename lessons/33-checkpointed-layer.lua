-- Lesson 33: a checkpointed layer.
--
-- A checkpoint keeps nothing of a layer's forward; the backward runs it again. Re-entrant, it does so in a backward inside
-- of the backward, once for each use of the layer. DDP counts one gradient a parameter: the second comes too late.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "A checkpointed layer",
  hardware = "classroom",
  seed = 33,
  minutes = 30,
  needs = "03, 15", story = { "autograd.checkpoint", ["c10d.rendezvous"] = false, ["ddp.verify_params"] = false },
}

local text = {
  welcome = "Two ranks, one layer of weight 2, used twice: y = a(a(x)). Rank 0 has x = 1, rank 1 has x = 4.",
  paper = "On paper dy/da is 2x + 2x: 4 on rank 0, 16 on rank 1. DDP should leave the mean, 10, on both.",
  bare = "Without checkpoints: %g and %g.",
  alone = {
    question = "Both uses are checkpointed, re-entrant. What is a's gradient on rank 0?",
    choices = { "10", "7", "4", "an error" },
    answer = "7",
    why = "The first use gives 2 and 8: averaged, 5. Then DDP is through. The second adds rank 0's own 2, and nobody sends it.",
    wrong = {
      ["10"] = "So it is with one backward: both uses meet before the parameter. Here each use has a backward of its own.",
      ["4"] = "That is without DDP: both uses, none averaged.",
      ["an error"] = "If only. The bucket was sent and forgotten when the second gradient came.",
    },
    hides = { "ddp", "autograd", "c10d" },
  },
  silent = "Re-entrant: %g on rank 0, %g on rank 1. No error, no warning, and replicas that drift apart.",
  stem = {
    question = "Now a bare layer stands in front: y = a(a(stem(x))). What happens?",
    choices = { "10 and 20, all is well", "wrong and silent again", "an error" },
    answer = "an error",
    why = "stem's gradient comes last, so the bucket is still open when a is ready for the second time. DDP sees it.",
    wrong = {
      ["10 and 20, all is well"] = "a still gets two gradients, in two backwards.",
      ["wrong and silent again"] = "Silent was the bucket that was gone already. This one waits for stem.",
    },
    hides = { "ddp", "autograd", "c10d", "fault" },
  },
  told = "What was told: %s",
  cure = {
    question = "Which option cures it?",
    choices = { "find_unused_parameters", "use_reentrant = false", "broadcast_buffers" },
    answer = "use_reentrant = false",
    why = "Then the graph is recorded as ever, and only what it saved is recomputed: one backward, one gradient.",
    wrong = {
      find_unused_parameters = "It walks the graph, finds no a behind the checkpoint, marks it ready: now even one use fails.",
      broadcast_buffers = "There are no buffers here.",
    },
    hides = { "ddp", "autograd", "c10d", "fault" },
  },
  cured = "use_reentrant = false: %g and %g. With static_graph = true re-entrant works, too: %g and %g.",
  price = "Either way the layer ran %d times in its forward, and %d times again in the backward.",
  finish = "A checkpoint under DDP: use_reentrant = false. One backward, one gradient a parameter.",
  checks = {
    bare = "without checkpoints both ranks have 10",
    silent = "re-entrant: 7 and 13, without an error",
    early = "rank %d: DDP was through before the second use was recomputed",
    twice = "rank %d: a backward ran inside of the backward, twice",
    raised = "below a bare layer it is an error: marked ready twice",
    unused = "with find_unused_parameters it is an error, too",
    plain = "not re-entrant: 10 on both ranks",
    static = "re-entrant with static_graph: 10 on both ranks",
    again = "rank %d: each use was recomputed once",
  },
  teacher = [[
Time: 10 minutes for the first question, 10 in the viewer, 10 for the exercise.
Expected wrong answers: 10 (most: they trust DDP), 4 (they think that DDP does nothing).
Let them write both uses' gradients of both ranks on paper before anything runs: 2, 2 and 8, 8.
In the viewer: break autograd.recompute, c: the second stop of a rank comes after its ddp.finalize_backward.
One new debugger command: F goes back to where the stage began that one stands in: out of the inner backward, to its node.
Next question: why is one checkpointed use right? (One gradient. It comes from an inner backward, and that is no harm.)
Two-minute fallback: ringside run, and read "Re-entrant: 7 on rank 0" aloud; ask who would have noticed.]],
}
local checks = text.checks

local Twice = nn.Module("Twice")
function Twice:init(reentrant, stem)
  self.reentrant = reentrant
  if stem then self.stem = nn.Linear(1, 1, { bias = false }) end
  self.a = nn.Linear(1, 1, { bias = false })
  for p in self:parameters() do nn.init.constant_(p, 2) end
end
function Twice:forward(x)
  if self.stem then x = self.stem(x) end
  if self.reentrant == nil then return self.a(self.a(x)) end
  local how = { use_reentrant = self.reentrant }
  return rs.utils.checkpoint(self.a, rs.utils.checkpoint(self.a, x, how), how)
end

-- Answers a's gradient on each rank.
local function train(reentrant, stem, options)
  return dist.spawn(function(rank)
    local net = Twice(reentrant, stem)
    local ddp = nn.parallel.DistributedDataParallel(net, options)
    ddp(rs.full({ 1, 1 }, 3.0 * rank + 1, { requires_grad = true })):sum():backward()
    return net.a.weight.grad:item()
  end, { world = 2 })
end
local seq = 0
local function seen(kind, rank, phase)
  local found = {}
  for _, event in ipairs(rs.trace:events { kind = kind, rank = rank, phase = phase }) do
    if event.seq > seq then found[#found + 1] = event end
  end
  return found
end

rs.say(text.welcome)
rs.say(text.paper)
local grads = train()
rs.say(text.bare:format(grads[0], grads[1]))
rs.close(checks.bare, { grads[0], grads[1] }, { 10, 10 })

rs.ask(text.alone)
seq = rs.trace:seq()
grads = train(true)
rs.say(text.silent:format(grads[0], grads[1]))
rs.close(checks.silent, { grads[0], grads[1] }, { 7, 13 })
for rank = 0, 1 do
  local through = seen("ddp.finalize_backward", rank, "end")
  local again = seen("autograd.recompute", rank)
  rs.check(checks.early:format(rank), #again == 2 and through[1].seq < again[2].seq)
  rs.check(checks.twice:format(rank), #seen("autograd.backward", rank) == 3)
end

rs.ask(text.stem)
local worked, why = pcall(train, true, true)
rs.say(text.told:format(why.message:match("[^,\n]*")))
rs.check(checks.raised, not worked and why.message:find("ready twice", 1, true) ~= nil)

rs.ask(text.cure)
worked = pcall(train, true, false, { find_unused_parameters = true })
rs.check(checks.unused, not worked)
seq = rs.trace:seq()
local plain = train(false)
rs.close(checks.plain, { plain[0], plain[1] }, { 10, 10 })
for rank = 0, 1 do rs.check(checks.again:format(rank), #seen("autograd.recompute", rank) == 2) end
rs.say(text.price:format(#seen("autograd.checkpoint", 0), #seen("autograd.recompute", 0)))
local static = train(true, false, { static_graph = true })
rs.close(checks.static, { static[0], static[1] }, { 10, 10 })
rs.say(text.cured:format(plain[0], plain[1], static[0], static[1]))

rs.say(text.finish)
rs.teacher(text.teacher)
