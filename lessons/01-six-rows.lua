-- Lesson 01: where do six indices go?
--
-- One DataParallel training step, whole: scatter, replicate, parallel_apply, gather, backward. The model is the one
-- of a question that is asked again and again: an embedding, a linear layer, four devices, a batch of six.
-- In Ringside, as in PyTorch, dimensions, indices and devices count from 0.
local rs = require "ringside"
local nn = rs.nn

rs.lesson {
  title = "Where do six indices go?",
  devices = 4,
  hardware = "classroom",
  seed = 1,
  minutes = 20,
  needs = "nothing",
}

-- What a whole step is made of: lanes that are there would tell how many devices work.
local step = { "dp", "module", "op", "kernel", "memory", "stream", "task", "lock", "autograd" }

local text = {
  welcome = "Four devices, a table of 1000 embeddings, and a batch of six indices. Follow them.",
  fault = "One fault of the original, made again first: the module is still on the CPU.",
  refused = "DataParallel refuses: %s",
  repair = "Repair it: model:to('device:0'). The input may stay where it is, scatter takes it along.",
  devices = {
    question = "How many of the four devices will work?",
    choices = { "2", "3", "4" },
    answer = "3",
    why = "chunk takes pieces of ceil(6 / 4) = 2 rows, and after three of them nothing is left.",
    wrong = {
      ["4"] = "The batch need not fill them all: the length of a piece comes first.",
      ["2"] = "Three rows each would be for two devices. The pieces are cut for four: ceil(6 / 4) rows.",
    },
    hides = step,
  },
  table = {
    question = "How many rows of the embedding table does device 1 receive?",
    choices = { "2", "250", "1000" },
    answer = "1000",
    why = "The indices are split, the table is not: every replica gets all parameters, in every forward.",
    wrong = {
      ["2"] = "Which rows are needed is known only when the indices are looked up: on the device.",
      ["250"] = "Splitting the table is another technique. DataParallel splits the batch alone.",
    },
    hides = step,
  },
  forward = "Forward is done: scatter, replicate, parallel_apply, gather. Now one number, and back.",
  output = {
    question = "Where is the output?",
    choices = { "on every device", "on device 0", "on the CPU" },
    answer = "on device 0",
    why = "gather joins the pieces on output_device, which is device_ids[0] unless you say otherwise.",
    wrong = {
      ["on every device"] = "Each device made its rows only. Somebody has to put them together.",
      ["on the CPU"] = "The input came from there. Nobody sends the output back.",
    },
  },
  finish = "Three devices worked, the fourth slept. The table travelled whole, twice; the indices in 16 bytes each.",
  checks = {
    refused = "a module that is not on device 0 is refused",
    chunks = "three chunks leave",
    rows = "the chunks have 2, 2 and 2 rows",
    bytes = "each chunk moves 16 bytes",
    idle = "nothing happens on device 3",
    parameters = "the model has 10110 parameters",
    parameter_bytes = "they are 40440 bytes",
    copied = "replicate copies 80880 bytes to devices 1 and 2",
    kept = "and none to device 0, which keeps its own",
    gathered = "gather brings 160 bytes to device 0",
    shape = "the output is 6 rows of 10",
    place = "the output is on device 0",
    same = "one device alone computes the same",
    bias = "each element of rnn.bias.grad is 6",
    touched = "exactly rows 1 to 6 of the embedding have a gradient",
    weights = "the first weights are PyTorch's",
  },
  teacher = [[
Time: 5 minutes to run, 10 to step (n and N at dp.forward), 5 for the exercise.
Expected wrong answers: "4 devices work" (the batch must fill them all), "250 rows" (the table is split).
If fewer than 30 % say "3", draw ceil(6 / 4) on the board; between 30 and 70 % let pairs discuss and ask again.
In the viewer: /dp.scatter.chunk finds the first of three, > the next; the lane d0, d1 or d2 whose copy follows got
the two rows. Then /dp.replicate.copy, and compare 40440 with 16 bytes.
Next question for the fast ones: who pays for device 0's gradient sum? (dp.reduce_add_coalesced, on device 0.)
Two-minute fallback: ringside view --print of the recorded trace, and the three asks by show of hands.]],
}
local checks = text.checks

rs.say(text.welcome)

-- The original, in Python, had three faults:
--
--   class Model(nn.Module):
--       def __init__(self, **kwargs):
--           super().__init__(**kwargs)            # 1
--           self.embedding = nn.Embedding(1000, 10)
--           self.rnn = nn.Linear(10, 10)
--   data = Variable.from_numpy(np.array([1, 2, 3, 4, 5, 6]))    # 2
--   net = nn.DataParallel(Model())                # 3
--   out = net(data)
--
-- 1 nn.Module.__init__ takes no options: whatever arrived in kwargs would be a TypeError. Lua has no super() to pass
--   them to, so this fault cannot be repeated here. The cure: keep your options, call super().__init__() bare.
-- 2 Variable has no from_numpy (and has been another name for Tensor since 0.4): torch.from_numpy(array) is meant.
--   Here a table of integers becomes an int64 tensor: rs.tensor { 1, 2, 3 }.
-- 3 The module never went to device 0, where DataParallel wants it. This one we can make, see and repair.
local Model = nn.Module("Model")
function Model:init()
  self.embedding = nn.Embedding(1000, 10)
  self.rnn = nn.Linear(10, 10)
end
function Model:forward(x)
  return self.rnn(self.embedding(x))
end

local model = Model()
local x = rs.tensor { 1, 2, 3, 4, 5, 6 }

rs.say(text.fault)
local ok, err = pcall(nn.DataParallel(model), x)
rs.say(text.refused:format(tostring(err)))
rs.check(checks.refused, not ok and tostring(err):find("cpu", 1, true) ~= nil)

rs.say(text.repair)
model:to("device:0")
local dp = nn.DataParallel(model, { device_ids = { 0, 1, 2, 3 } })

rs.ask(text.devices)
rs.ask(text.table)

local before = rs.trace:seq()
local out = dp(x)

rs.say(text.forward)
rs.ask(text.output)

out:sum():backward()

-- What the timeline shows, as numbers.
local function since(query)
  local list = {}
  for _, event in ipairs(rs.trace:events(query)) do
    if event.seq >= before then list[#list + 1] = event end
  end
  return list
end
local function total(query, argument)
  local sum = 0
  for _, event in ipairs(since(query)) do sum = sum + event.args[argument] end
  return sum
end

local chunks = since { kind = "dp.scatter.chunk" }
rs.check(checks.chunks, #chunks == 3)
local rows, bytes = {}, {}
for i, chunk in ipairs(chunks) do rows[i], bytes[i] = chunk.args.rows, chunk.args.bytes end
rs.close(checks.rows, rows, { 2, 2, 2 })
rs.close(checks.bytes, bytes, { 16, 16, 16 })

local on_three = 0
for _, event in ipairs(rs.trace:events { device = 3 }) do
  if event.seq >= before then on_three = on_three + 1 end
end
rs.check(checks.idle, on_three == 0)

local parameters, parameter_bytes = 0, 0
for _, p in ipairs(model:parameters()) do
  parameters = parameters + p:numel()
  parameter_bytes = parameter_bytes + p:numel() * p:element_size()
end
rs.close(checks.parameters, parameters, 10110)
rs.close(checks.parameter_bytes, parameter_bytes, 40440)
rs.close(checks.copied, total({ kind = "dp.replicate.copy" }, "bytes"), 80880)
rs.close(checks.kept, total({ kind = "dp.replicate.copy", device = 0 }, "bytes"), 0)
rs.close(checks.gathered, total({ kind = "dp.gather" }, "bytes"), 160)

rs.close(checks.shape, out:size(), { 6, 10 })
rs.check(checks.place, out.device == "device:0")
rs.check(checks.same, (out - model(x:to("device:0"))):abs():max():item() < 1e-5)

rs.close(checks.bias, model.rnn.bias.grad:tolist(), { 6, 6, 6, 6, 6, 6, 6, 6, 6, 6 })
local touched = {}
for row, values in ipairs(model.embedding.weight.grad:tolist()) do
  for _, value in ipairs(values) do
    if value ~= 0 then
      touched[#touched + 1] = row - 1
      break
    end
  end
end
rs.close(checks.touched, touched, { 1, 2, 3, 4, 5, 6 })

-- The same numbers as PyTorch: torch.manual_seed(1), then these two layers in this order.
rs.close(checks.weights, model.embedding.weight[0]:narrow(0, 0, 4):tolist(),
  { -1.5255959, -0.7502318, -0.6539809, -1.6094848 }, 1e-7)

rs.say(text.finish)

rs.teacher(text.teacher)
