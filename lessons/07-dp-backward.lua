-- Lesson 07: sum, then your loss decides.
--
-- Four replicas, four losses or one, four gradients of one weight. DataParallel only adds them up: the backward of
-- "copy the weight to every device" is "sum what comes back". Whether that is the gradient of the mean over the batch
-- is decided by where you take the mean: outside, over ten rows, or inside, over the rows of one chunk.
local rs = require "ringside"
local nn = rs.nn

rs.lesson {
  title = "Sum, then your loss decides",
  devices = 4,
  hardware = "classroom",
  seed = 7,
  minutes = 25,
  needs = "06",
}

local text = {
  welcome = "One weight, w = 2. Ten rows: 1 to 10. Four devices.",
  outside = "(a) DataParallel returns ten outputs. The mean of them is your loss.",
  back = "Forward is done, the loss is on device 0. Now back.",
  sum = {
    question = "Four copies of w get four gradients. What becomes of them?",
    choices = { "they are averaged", "they are added", "device 0's is kept" },
    answer = "they are added",
    why = "Forward copied w four times (Broadcast). The backward of copying is adding: reduce_add.",
    wrong = {
      ["they are averaged"] = "DataParallel divides nothing. If you see an average, your loss made it.",
      ["device 0's is kept"] = "Then seven of the ten rows would teach nothing.",
    },
    hides = "dp.reduce_add_coalesced",
  },
  ten_rows = {
    question = "The loss is the mean of ten outputs w x. What is w.grad?",
    choices = { "1.375", "5.5", "6.25" },
    answer = "5.5",
    why = "Your mean put 1/10 on every row: (1 + 2 + ... + 10) / 10. The parts only have to be added.",
    wrong = {
      ["1.375"] = "That is 5.5 divided by four devices. Nobody divides: the mean was in your loss.",
      ["6.25"] = "That is the mean of four chunks' means. This loss never saw the chunks.",
    },
  },
  parts = "The four parts: %.1f, %.1f, %.1f and %.1f. Their sum is %.1f.",
  homes = "The replicas are gone; only device 0's w keeps a gradient.",
  updates = {
    question = "Four replicas worked. How often does the optimizer step?",
    choices = { "1", "4" },
    answer = "1",
    why = "There is one w, on device 0. The next forward copies its new value to the others.",
    wrong = { ["4"] = "Replicas have no parameters and no optimizer: they end with the forward." },
    hides = "optim.step",
  },
  compare = "For comparison: the same rows, w = 2, on one device.",
  inside = "(b) Again from w = 2, but each replica returns its chunk's mean.",
  four_losses = {
    question = "Four losses come back, and you take their mean. What is w.grad?",
    choices = { "5.5", "6.25", "25" },
    answer = "6.25",
    why = "The chunks' means of x are 2, 5, 8 and 10: (2 + 5 + 8 + 10) / 4.",
    wrong = {
      ["5.5"] = "A mean of means is the mean only if all chunks are equally long.",
      ["25"] = "That is the sum of the four means; your loss was their mean.",
    },
  },
  blame = {
    question = "Same rows, same w. Why is it more than 5.5?",
    choices = { "the last chunk has one row", "the sum is rounded", "device 3 counts twice" },
    answer = "the last chunk has one row",
    why = "Row 10 is alone in its chunk, so it counts 1/4. The nine others share 3/4: 1/12 each.",
    wrong = {
      ["the sum is rounded"] = "Rounding shows in the seventh digit, not in the first.",
      ["device 3 counts twice"] = "Each replica's gradient is added once, as in (a).",
    },
  },
  closing = "DataParallel adds. Your loss decides what the sum means.",
  checks = {
    chunks = "the chunks have 3, 3, 3 and 1 rows",
    split = "the gradient of the output goes back in the same pieces",
    lanes = "four devices work in the backward",
    parts = "the parts are 0.6, 1.5, 2.4 and 1.0",
    sum = "(a) w.grad is 5.5, their sum",
    one = "one device alone gives 5.5, too",
    reduced = "one reduction, of four devices' gradients, on device 0",
    kept = "one gradient is kept, on device 0",
    bare = "device 1 holds no .grad",
    steps = "the optimizer steps once, for one parameter",
    moved = "and moves w by lr times 5.5",
    losses = "(b) four losses: 4, 10, 16 and 20",
    inside_parts = "the parts are a quarter of 2, 5, 8 and 10",
    means = "(b) w.grad is 6.25",
  },
  teacher = [[
Time: 8 minutes on paper, 7 in the viewer, 10 for the exercise.
On paper first: draw ten rows in chunks of 3, 3, 3, 1 and write beside each row what it counts, in (a) and in (b).
Expected wrong answers: "averaged" (from DDP, which does divide), "1.375" (the same, one step further), "5.5" in (b)
(mean of means), "4" steps (four processes are meant).
Below 30 % right on "averaged": play it. Four students each hold one number of (a), device 0 adds; nobody has a rule
for dividing. 30 to 70 %: let pairs agree on what each row counts, ask again. Above: go on to (b).
In the viewer: after the two questions of (a) press m: GatherBackward, dp.gather.backward with sizes 3 3 3 1, then one
MmBackward0 in each of four autograd lanes. One new command, u (until): u dp.reduce_add_coalesced Enter lands where the
four meet, on device 0. At the line with the four parts :print w.grad shows 5.5 (earlier the device is not through yet).
Next question for the fast ones: (b) with 12 rows? (6.5 both ways: the chunks are equal.)
And: the mean of the vector or its sum? (Its sum is 25: DataParallel adds, you forgot to divide.)
Two-minute fallback: ringside run, and only the question of (b) by show of hands.]],
}

-- A layer without bias: out = w x. With `inside` a replica returns one number, the mean of its chunk.
local parts, replica_w = {}, {}
local Model = nn.Module("Model")
function Model:init()
  self.linear = nn.Linear(1, 1, { bias = false })
end
function Model:forward(x)
  local w = self.linear.weight
  if not w.is_leaf then                       -- a replica's copy: what comes back to it is one of the four parts
    w:register_hook(function(grad) parts[x.device] = grad end)
    replica_w[x.device] = w
  end
  local out = self.linear(x)
  return self.inside and out:mean() or out
end

local model = Model()
local w = model.linear.weight
w.data:fill_(2)
model:to("device:0")
local x = rs.arange(1, 11, { dtype = "float32", device = "device:0" }):view { 10, 1 }
local dp = nn.DataParallel(model)
local optimizer = rs.optim.SGD(model:parameters(), { lr = 0.1 })

local function four_parts()
  local list = {}
  for device = 0, 3 do list[device + 1] = parts["device:" .. device]:item() end
  return list
end

rs.say(text.welcome)
rs.say(text.outside)
local loss = dp(x):mean()
rs.say(text.back)
rs.ask(text.sum)
rs.ask(text.ten_rows)
loss:backward()
local chunks, lanes = {}, {}
for i, chunk in ipairs(rs.trace:events { kind = "dp.scatter.chunk" }) do chunks[i] = chunk.args.rows end
for _, node in ipairs(rs.trace:events { kind = "autograd.node" }) do
  if node.args.node == "MmBackward0" then lanes[node.device] = (lanes[node.device] or 0) + 1 end
end
local four = four_parts()
rs.say(text.parts:format(four[1], four[2], four[3], four[4], w.grad:item()))
rs.close(text.checks.chunks, chunks, { 3, 3, 3, 1 })
rs.check(text.checks.split, rs.trace:first { kind = "dp.gather.backward" }.args.sizes == "3 3 3 1")
rs.close(text.checks.lanes, lanes, { [0] = 1, [1] = 1, [2] = 1, [3] = 1 })
rs.close(text.checks.parts, four, { 0.6, 1.5, 2.4, 1.0 })
rs.close(text.checks.sum, w.grad:item(), 5.5)
local reduced = rs.trace:events { kind = "dp.reduce_add_coalesced" }
rs.check(text.checks.reduced, #reduced == 1 and reduced[1].args.devices == 4 and reduced[1].args.device == 0)
local kept = rs.trace:events { kind = "autograd.accumulate" }
rs.check(text.checks.kept, #kept == 1 and kept[1].device == 0 and w.grad.device == "device:0")
rs.check(text.checks.bare, not replica_w["device:1"].is_leaf and replica_w["device:1"].grad == nil)
replica_w = {}
rs.say(text.homes)

rs.ask(text.updates)
optimizer:step()
local steps = rs.trace:events { kind = "optim.step" }
rs.check(text.checks.steps, #steps == 1 and steps[1].args.params == 1)
rs.close(text.checks.moved, w:item(), 2 - 0.1 * 5.5)
rs.say(text.compare)
w.data:fill_(2)
optimizer:zero_grad()
model(x):mean():backward()
rs.close(text.checks.one, w.grad:item(), 5.5)
optimizer:zero_grad()

rs.say(text.inside)
rs.ask(text.four_losses)
model.inside = true
local losses = dp(x)
losses:mean():backward()
rs.close(text.checks.losses, losses:tolist(), { 4, 10, 16, 20 })
rs.close(text.checks.inside_parts, four_parts(), { 2 / 4, 5 / 4, 8 / 4, 10 / 4 })
rs.close(text.checks.means, w.grad:item(), 6.25)
rs.ask(text.blame)
rs.say(text.closing)
rs.teacher(text.teacher)
