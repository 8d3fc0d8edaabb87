-- Lesson 16: the branch not taken.
--
-- A bucket leaves when all of its gradients are there. A parameter that the loss never reached gets none: the bucket waits, the
-- backward ends without an all-reduce, and nobody says a word until the next forward. find_unused_parameters walks the graph
-- before each backward and marks what it did not reach as ready.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "The branch not taken",
  devices = 2,
  hardware = "classroom",
  seed = 16,
  minutes = 30,
  needs = "15",
}

local text = {
  welcome = "Three layers a, b, c, each Linear(2, 2): six parameters, one bucket. A forward uses one of the layers.",
  fails = {
    question = "(i) Both ranks use a alone, so b and c get no gradient. Where does DDP stop?",
    choices = { "in the first backward", "in the second forward", "nowhere" },
    answer = "in the second forward",
    why = "Only there DDP is sure that the missing gradients will not come: the iteration is over, its bucket never left.",
    wrong = {
      ["in the first backward"] = "A backward ends when its graph is through. It knows of no bucket.",
      nowhere = "Then the ranks would train on, each with its own gradients. Exactly that happens for one step.",
    },
    hides = { "ddp", "c10d", "fault" },
  },
  sent = {
    question = "How many all-reduces does the first iteration make?",
    choices = { "0", "1", "2" },
    answer = "0",
    why = "The one bucket has two of six gradients. A bucket leaves when it is full.",
    wrong = {
      ["1"] = "There is one bucket, and it is not full: b and c lack four gradients.",
      ["2"] = "Not gradients are sent, but buckets.",
    },
    hides = { "ddp", "c10d" },
  },
  walk = "Watch ddp.mark_variable_ready in rank 0's backward: how many gradients does bucket 0 still lack?",
  quiet = "Backward ended without a word. My a.weight.grad is %.1f",
  told = "And now: %s ... %s",
  again = "(ii) Now find_unused_parameters, and rank 0 uses a with x = 1, rank 1 uses b with x = 2.",
  half = {
    question = "What is a.weight.grad after backward?",
    choices = { "0.5 on both", "1 on both", "1 on rank 0, none on rank 1" },
    answer = "0.5 on both",
    why = "Rank 0's gradient is 1, rank 1 adds 0: 1 / 2. DDP divides by the ranks, not by those that used a.",
    wrong = {
      ["1 on both"] = "It divides by 2, whoever used it. Rank 1's zeros count.",
      ["1 on rank 0, none on rank 1"] = "Then the models would part. Who has used nothing gets the others' mean, too.",
    },
    hides = { "ddp", "c10d", "autograd" },
  },
  nobody = {
    question = "And c.weight.grad, which no rank used?",
    choices = { "0", "none (nil)" },
    answer = "none (nil)",
    why = "The ranks sum a map of who used what. Where the sum is 0 the gradient stays as it was: none.",
    wrong = { ["0"] = "A gradient of zeros would still move c, by momentum or weight decay. DDP leaves it alone." },
    hides = { "ddp", "c10d", "autograd" },
  },
  cost = {
    question = "That map has one int32 for each parameter. What else does the flag cost?",
    choices = { "nothing else", "a walk through the graph", "a second backward" },
    answer = "a walk through the graph",
    why = "Each iteration, before backward. And buckets are never cut anew, so set it only where you need it.",
    wrong = {
      ["nothing else"] = "Who is unused has to be found out first, from the outputs back, in each iteration.",
      ["a second backward"] = "It only follows the edges. Nothing is computed.",
    },
    hides = { "ddp", "c10d" },
  },
  marked = "Watch ddp.mark_unused at the first hook, and behind the bucket ddp.used_map: who used what.",
  grads = "a.weight.grad is %s, b.weight.grad is %s, c.weight.grad is %s",
  none = "none",
  finish = "An unused parameter holds its bucket back, silently. The flag finds it: a walk and a small all-reduce each time.",
  checks = {
    ready = "(i) rank %d: 2 of 6 parameters are ready, 4 are missing",
    unsent = "(i) rank %d: iteration 0 makes no all-reduce",
    second = "(i) rank %d: the second forward began, the second backward did not",
    named = "(i) what is told names the parameters 2 3 4 5: b's and c's",
    a = "(ii) rank %d: a.weight.grad is 0.5",
    b = "(ii) rank %d: b.weight.grad is 1.0",
    c = "(ii) rank %d: c has no gradient",
    bucket = "(ii) rank %d: one bucket of 72 bytes is reduced in each iteration",
    map = "(ii) rank %d: so is the map of 6 int32, 24 bytes",
    marks = "(ii) rank %d: each backward marks 4 parameters as unused",
    first = "(ii) rank %d: they are ready before the first that was used",
    never = "(ii) rank %d: the buckets are never rebuilt",
  },
  teacher = [[
Time: 8 minutes to predict, 12 in the viewer, 10 for the exercise.
Expected wrong answers: "in the first backward" (most), "1" all-reduce, "1 on both" (they divide by the users), "0" for c.
In the viewer: break fault.error, c: info buckets shows 2/6 ready. break ddp.finalize_backward: reached in (ii) alone.
Say what happens to who takes one step more with (i): the ranks' models differ from there on, and the loss looks fine.
Common in practice: a frozen head, a branch by chance, an output that the loss leaves out. First ask why it is unused.
Next question: with the flag, does it matter that rank 0 and rank 1 use different layers? (No: the map is summed.)
Two-minute fallback: ringside run, and read aloud what is told in (i).]],
}
local checks = text.checks

local Net = nn.Module("Net")
function Net:init()
  self.a = nn.Linear(2, 2)
  self.b = nn.Linear(2, 2)
  self.c = nn.Linear(2, 2)
end
function Net:forward(x, layer) return self[layer](x) end

-- Two iterations, x filled with rank + 1; `layers[rank]` is used.
local function train(rank, layers, find_unused, said)
  local net = Net()
  local ddp = nn.parallel.DistributedDataParallel(net, { find_unused_parameters = find_unused })
  local function grad(layer) return net[layer].weight.grad and net[layer].weight.grad[{ 0, 0 }]:item() end
  for iteration = 0, 1 do
    net:zero_grad()
    local loss = ddp(rs.full({ 1, 2 }, rank + 1.0), layers[rank]):sum()
    if rank == 0 and iteration == 0 then rs.say(said) end
    loss:backward()
    if not find_unused then rs.say(text.quiet:format(grad "a")) end
    dist.barrier()
  end
  local grads = { a = grad "a", b = grad "b", c = grad "c" }
  rs.say(text.grads:format(grads.a or text.none, grads.b or text.none, grads.c or text.none))
  return grads
end

rs.say(text.welcome)
rs.ask(text.fails)
rs.ask(text.sent)
local worked, why = pcall(dist.spawn, train, { world = 2, args = { { [0] = "a", "a" }, false, text.walk } })
local expected, indices = why.message:match("^rank %d: Expected[%w ]*"), why.message:match("Parameter indices[%w :]*")
rs.say(text.told:format(expected or why.message, indices or ""))
rs.check(checks.named, not worked and why.kind == "RuntimeError" and why.message:find(": 2 3 4 5", 1, true) ~= nil)
for rank = 0, 1 do
  local ready = rs.trace:events { kind = "ddp.mark_variable_ready", rank = rank }
  rs.check(checks.ready:format(rank), #ready == 2 and ready[2].args.pending == 4)
  rs.check(checks.unsent:format(rank), rs.trace:count { kind = "c10d.allreduce", rank = rank } == 0)
  rs.check(checks.second:format(rank), rs.trace:count { kind = "ddp.forward", rank = rank } == 2
    and rs.trace:count { kind = "autograd.backward", rank = rank } == 1)
end

rs.say(text.again)
rs.ask(text.half)
rs.ask(text.nobody)
rs.ask(text.cost)
local seq = rs.trace:seq()
local grads = dist.spawn(train, { world = 2, args = { { [0] = "a", "b" }, true, text.marked } })
local function since(kind, rank)
  local list = {}
  for _, event in ipairs(rs.trace:events { kind = kind, rank = rank }) do
    if event.seq > seq then list[#list + 1] = event.args end
  end
  return list
end
for rank = 0, 1 do
  rs.close(checks.a:format(rank), grads[rank].a, 0.5)
  rs.close(checks.b:format(rank), grads[rank].b, 1)
  rs.check(checks.c:format(rank), grads[rank].c == nil)
  local sums, maps, marks = since("c10d.allreduce", rank), since("ddp.used_map", rank), since("ddp.mark_unused", rank)
  local buckets = since("ddp.all_reduce_bucket", rank)
  rs.close(checks.bucket:format(rank), { #buckets, #sums, sums[1].bytes, sums[3].bytes }, { 2, 4, 72, 72 })
  rs.close(checks.map:format(rank), { #maps, maps[1].params, maps[1].bytes, sums[2].bytes, sums[4].bytes }, { 2, 6, 24, 24, 24 })
  rs.close(checks.marks:format(rank), { #marks, marks[1].params, marks[2].params }, { 2, 4, 4 })
  local ready, used, late = since("ddp.mark_variable_ready", rank), rank == 0 and "^a%." or "^b%.", true
  for i = 1, 6 do late = late and (ready[i].name:find(used) ~= nil) == (i > 4) end
  rs.check(checks.first:format(rank), late)
  rs.check(checks.never:format(rank), #since("ddp.rebuild_buckets", rank) == 0)
end
rs.say(text.finish)
rs.teacher(text.teacher)
