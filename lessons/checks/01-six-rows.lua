-- Checks of exercise 01. The batches that keep all devices busy are worked out from the chunk rule.
local rs = require "ringside"
local nn = rs.nn

local devices, most = rs.vary(4, { 2, 3, 5, 6, 8 }), rs.vary(12, { 9, 14, 17, 20 })
rs.lesson { title = "Exercise: where do six indices go?", devices = devices, hardware = "classroom", seed = 1 }

local text = {
  checks = {
    super_call = "part 1: the call of super()",
    from_numpy = "part 1: from an array to a tensor",
    placement = "part 1: what DataParallel is given",
    runs = "part 2: DataParallel runs the model",
    same = "part 2: it computes what one device alone computes",
    busy = "part 3: these batches use all %d devices",
  },
  hints = {
    super_call = { "nn.Module.__init__ takes no options.", "Whatever arrived in kwargs would be a TypeError there." },
    from_numpy = { "Variable has been another name for Tensor since 0.4.", "It never had a from_numpy: torch has." },
    placement = { "The module has to be where device_ids[0] says.", "Replicas are copied from device 0." },
    runs = { "Read what DataParallel says: where is the model, and where should it be?", "model:to('device:0')" },
    busy = {
      "Work it out for one batch on paper: how long is a chunk, and how many chunks are there?",
      "A chunk has ceil(n / devices) rows. Lua's // rounds down.",
      "There are ceil(n / rows) chunks: all devices work if that is the number of devices.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()
local right = { super_call = "super().__init__()", from_numpy = "torch.from_numpy(array)",
  placement = "Model().to('cuda:0')" }

rs.check(checks.super_call, student.super_call == right.super_call, { hints = hints.super_call })
rs.check(checks.from_numpy, student.from_numpy == right.from_numpy, { hints = hints.from_numpy })
rs.check(checks.placement, student.placement == right.placement, { hints = hints.placement })

local batch = {}
for row = 1, devices + 2 do batch[row] = row end
batch = rs.tensor(batch)
local runs, out, alone = pcall(function()
  local model = student.model()
  return nn.DataParallel(model)(batch), model(batch:to("device:0"))
end)
if not runs and student.placement == right.placement then rs.say(tostring(out)) end -- part 2 has come
rs.check(checks.runs, runs, { hints = hints.runs })
rs.close(checks.same, runs and out or nil, runs and alone or 0, { atol = 1e-5, hints = hints.runs })

local busy = {}
for n = 1, most do
  local rows = math.ceil(n / devices)
  if math.ceil(n / rows) == devices then busy[#busy + 1] = n end
end
rs.close(checks.busy:format(devices), student.busy(devices, most), busy, { hints = hints.busy })
