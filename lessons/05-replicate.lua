-- Lesson 05: a copy that is not a leaf.
--
-- Before each forward DataParallel makes one replica of the module for each device, and after it lets them go. What a
-- forward writes into its module is written into a replica: this lesson shows what is left of it afterwards.
local rs = require "ringside"
local nn = rs.nn

rs.lesson {
  title = "A copy that is not a leaf",
  devices = 3,
  hardware = "classroom",
  seed = 5,
  minutes = 25,
  needs = "03, 04",
}

local text = {
  welcome = "A buffer `steps` and a field `count`: forward adds 1 to both.",
  count = {
    question = "Three forwards, three devices. What is count?",
    choices = { "0", "3", "9" },
    answer = "0",
    why = "The replicas add to counts of their own, and go with them.",
    wrong = {
      ["3"] = "Device 0's replica is a new module, too.",
      ["9"] = "No replica writes into your model's fields.",
    },
  },
  steps = {
    question = "And the buffer steps, changed in place?",
    choices = { "0", "3", "9" },
    answer = "3",
    why = "Replica 0's buffer is the model's own. Others are copies.",
    wrong = {
      ["0"] = "In place is the difference: replica 0 has no copy.",
      ["9"] = "Replicas 1 and 2 count in copies. Nobody adds them up.",
    },
  },
  inside = "A replica on %s: its count is %d now.",
  gone = "One forward is over. The three replicas are gone already.",
  cached = {
    question = "You change the weight now. Will replica 1 see it?",
    choices = { "yes", "no" },
    answer = "yes",
    why = "Every forward replicates anew.",
    wrong = {
      ["no"] = "Nothing is kept. A kept copy would have old weights.",
    },
    hides = "dp",
  },
  finish_key = "In the viewer: what runs as before n tells once; m goes into it, f to a stage's end.",
  edited = "Both forwards sent the parameters: 24 bytes to each other device.",
  leaves = {
    question = "In replica 1, how many parameters are listed?",
    choices = { "0", "2" },
    answer = "0",
    why = "Its weights come out of Broadcast. Parameters are leaves.",
    wrong = {
      ["2"] = "weight and bias are there, but each has a grad_fn.",
    },
  },
  broadcast = "So backward runs through Broadcast, back to your own parameters.",
  alone = {
    question = "Three forwards, one device. What is count?",
    choices = { "0", "3" },
    answer = "3",
    why = "One device needs no replicas. The model itself is called.",
    wrong = { ["0"] = "With one device nothing is replicated, nothing is lost." },
    hides = { "dp", "module" },
  },
  finish = "Replicas live for one forward. Only replica 0 shares your model's memory.",
  checks = {
    count = "three devices: count is still 0",
    steps = "three devices: steps is 3",
    replicate = "three forwards, three dp.replicate",
    broadcasts = "each has two broadcasts: 2 parameters, then 1 buffer",
    bytes = "each forward copies 2 times 24 bytes of parameters, 2 times 4 of the buffer",
    home = "device 0's are aliases, the others are copies",
    listed = "replica 1 lists no parameters",
    leaf = "its weight is no leaf",
    made = "its grad_fn is BroadcastBackward",
    shares = "replica 0 reads the model's own storage, replica 1 another",
    edit = "replica 1 computes with the weight that was changed between forwards",
    fresh = "each forward has a weight of its own there",
    single = "one device: count is 3, steps is 3",
    called = "one device: no dp.replicate, and the model lists its 2 parameters",
  },
  teacher = [[
Time: 5 minutes for the first two questions, 8 to step, 4 for the others, 8 for the exercise.
Draw the model and three replicas as four boxes; arrows from replica 0's weight and steps to the model's, none from the
others'. Then cross out the replicas, and read off what is left.
Expected wrong answers: "3" or "9" for count (forward is thought to run on the model), "9" for steps (somebody adds them
up), "2" parameters (the replica is taken for a second model). If fewer than 30 % have count right, step the first
forward together before you ask about steps; between 30 and 70 % let pairs argue and ask again; above 70 % go on.
In the viewer: m to dp.replicate, then m twice: the two dp.broadcast_coalesced, parameters and buffers.
/dp.replicate.copy and > walk through the copies: device 0's has the flag alias.
One new command: f (finish). It leaves a forward that you have seen; :break dp.replicate and c go to the next one.
Next question for the fast ones: self.steps = self.steps + 1 instead of add_. What is steps then? (0.)
Two-minute fallback: ringside run, and the questions about count and steps by show of hands.]],
}

-- What each forward saw of the module that it ran on, by device; the first one tells.
local seen, narrate = { ["device:0"] = {}, ["device:1"] = {}, ["device:2"] = {} }, true

local Counter = nn.Module("Counter")
function Counter:init()
  self.fc = nn.Linear(2, 2)
  rs.no_grad(function() self.fc.weight:fill_(1) self.fc.bias:zero_() end)
  self:register_buffer("steps", rs.zeros { 1 })
  self.count = 0
end
function Counter:forward(x)
  self.count = self.count + 1
  self.steps:add_(1)
  local weight = self.fc.weight
  table.insert(seen[x.device], { listed = #self:parameters(), leaf = weight.is_leaf, grad_fn = tostring(weight.grad_fn),
    storage = weight:storage_id() })
  if narrate then rs.say(text.inside:format(x.device, self.count)) end
  return self.fc(x)
end

rs.say(text.welcome)
local model = Counter():to("device:0")
local dp = nn.DataParallel(model)
local x = rs.ones({ 6, 2 }, { device = "device:0" })
local before = rs.trace:seq()

rs.ask(text.count)
rs.ask(text.steps)
local outputs = { dp(x) }
narrate = false
rs.say(text.gone)

rs.ask(text.cached)
rs.no_grad(function() model.fc.weight:fill_(7) end)
rs.say(text.finish_key)
outputs[2] = dp(x)
rs.say(text.edited)

rs.ask(text.leaves)
outputs[3] = dp(x)
rs.say(text.broadcast)

rs.ask(text.alone)
local between = rs.trace:seq()
local single = Counter():to("device:0")
local one = nn.DataParallel(single, { device_ids = { 0 } })
for _ = 1, 3 do one(x) end

-- What the timeline shows, as numbers: one argument of all events of a kind in a stretch of it.
local function seen_events(kind, argument, from, to)
  local list = {}
  for _, event in ipairs(rs.trace:events { kind = kind }) do
    if event.seq >= from and event.seq < to then list[#list + 1] = event.args[argument] end
  end
  return list
end

local checks = text.checks
rs.check(checks.count, model.count == 0)
rs.close(checks.steps, model.steps:item(), 3)
rs.check(checks.replicate, #seen_events("dp.replicate", "devices", before, between) == 3)
rs.close(checks.broadcasts, seen_events("dp.broadcast_coalesced", "tensors", before, between), { 2, 1, 2, 1, 2, 1 })
rs.close(checks.bytes, seen_events("dp.replicate.copy", "bytes", before, between),
  { 0, 24, 24, 0, 4, 4, 0, 24, 24, 0, 4, 4, 0, 24, 24, 0, 4, 4 })
local alias = seen_events("dp.replicate.copy", "alias", before, between)
rs.check(checks.home, alias[1] and not alias[2] and not alias[3])

local zero, first = seen["device:0"], seen["device:1"]
rs.check(checks.listed, first[1].listed == 0 and first[2].listed == 0 and first[3].listed == 0)
rs.check(checks.leaf, not first[1].leaf)
rs.check(checks.made, first[1].grad_fn == "<BroadcastBackward>")
rs.check(checks.shares, zero[1].storage == model.fc.weight:storage_id() and first[1].storage ~= zero[1].storage)
local rows_of_one = {}
for i, out in ipairs(outputs) do rows_of_one[i] = out[{ 2, 0 }]:item() end
rs.close(checks.edit, rows_of_one, { 2 * 1, 2 * 7, 2 * 7 })
rs.check(checks.fresh, first[1].storage ~= first[2].storage and first[2].storage ~= first[3].storage)

rs.close(checks.single, { single.count, single.steps:item() }, { 3, 3 })
rs.check(checks.called, #seen_events("dp.replicate", "devices", between, math.huge) == 0
  and zero[6].listed == 2)

rs.say(text.finish)

rs.teacher(text.teacher)
