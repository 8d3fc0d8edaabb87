-- The checks of exercise 09: what device 0 gathers when the student's forward runs, and a run of many ops on one device
-- and on several, with the student's kernel time.
local rs = require "ringside"
local nn = rs.nn

rs.lesson {
  title = "Exercise: less on device 0, and when four are worth it",
  devices = 8,
  hardware = "classroom",
  costs = { host = 0, kernel = 5 },     -- longer kernels are several of these, one after another
  seed = 9,
}

local text = {
  bytes = "device 0 gathers one number a replica",
  loss = "their mean is the loss of one device",
  grads = "and so is the gradient of the weight",
  formula = "the kernel time at which both are as fast",
  run = "a run with that kernel time takes as long on one device as on all",
  above = "with longer kernels more devices are faster",
  forward = {
    "gather puts what the replicas answer one behind the other. What is the shortest thing they can answer?",
    "The chunks are equally long here, so the mean of the replicas' means is the mean (lesson 07).",
    "Answer rs.nn.functional.mse_loss(linear(x), target).",
  },
  even = {
    "Write down both times. One device: one launch, then kernel after kernel. N: Lua's turns, then one last kernel.",
    "One device: lua_us + ops x K. N devices: N x ops x lua_us + K / N. Set them equal.",
    "K x (ops - 1 / N) = lua_us x (N x ops - 1). Multiply the bracket on the left by N and compare.",
  },
}

local student = rs.exercise()
local devices = rs.vary(4, { 2, 3, 5, 8 })
local width, rows = rs.vary(6, { 3, 5, 8 }), devices * rs.vary(25, { 4, 7, 10 })
local ops, lua_us = rs.vary(20, { 12, 16, 30 }), rs.vary(50, { 20, 30, 40 })
local ids = {}
for i = 1, devices do ids[i] = i - 1 end

-- ---- part 1 ----

local Model = nn.Module("Model")
function Model:init()
  self.linear = nn.Linear(width, width)
end
function Model:forward(x, target)
  return student.forward(self.linear, x, target)
end

local model = Model():to("device:0")
local x, target = rs.randn { rows, width }, rs.randn { rows, width }
local expected = nn.functional.mse_loss(model.linear(x:to("device:0")), target:to("device:0"))
local grad = rs.autograd.grad(expected, model:parameters())

-- Bytes that gather allocated on device 0; nil: nothing was gathered.
local function gathered()
  local from, to, bytes = rs.trace:last { kind = "dp.gather" }, rs.trace:last { kind = "dp.gather", phase = "end" }, 0
  for _, alloc in ipairs(rs.trace:events { kind = "memory.alloc", device = 0 }) do
    if from and from.seq < alloc.seq and alloc.seq < to.seq then bytes = bytes + alloc.args.bytes end
  end
  return from and bytes
end

local ok, answer = pcall(nn.DataParallel(model, { device_ids = ids }), x, target)
if not ok then rs.say(tostring(answer)) end
local scalars = ok and rs.is_tensor(answer) and answer:dim() == 1
if scalars then answer:mean():backward() end
rs.close(text.bytes, ok and gathered() or nil, 4 * devices, { hints = text.forward })
rs.close(text.loss, scalars and answer:mean():item() or nil, expected:item(), 1e-5, { hints = text.forward })
rs.close(text.grads, scalars and model.linear.weight.grad or nil, grad, 1e-5, { hints = text.forward })

-- ---- part 2 ----

-- The lesson's ops: Lua, then so many kernels of 5 us on each device.
local function lasts(used, kernels)
  local Busy = nn.Module("Busy")
  function Busy:forward(batch)
    for _ = 1, ops do
      rs.advance(lua_us, { lock = true })
      for _ = 1, kernels do batch:add_(1) end
    end
    rs.cuda.synchronize(batch.device)
    return batch
  end
  local batch = rs.zeros({ used, 1 }, { device = "device:0" })
  rs.cuda.synchronize()
  local own = {}
  for i = 1, used do own[i] = i - 1 end
  nn.DataParallel(Busy():to("device:0"), { device_ids = own })(batch)
  return rs.trace:duration(rs.trace:last { kind = "module.forward", module = "Busy" })
end

-- A time as kernels of 5 us: their number on one device, and on each of all. Nobody waits for an answer of hours.
local function kernels(us)
  local each = math.floor(math.min(us, 20 * devices * lua_us) / (5 * devices) + 0.5)
  return each * devices, each
end

local done, guess = pcall(student.break_even, devices, ops, lua_us)
if not done then rs.say(tostring(guess)) end
guess = done and math.type(guess) and guess >= 0 and guess or 0
local even = devices * lua_us
rs.close(text.formula, guess, even, { hints = text.even })
local whole, part = kernels(guess)
rs.close(text.run, lasts(1, whole), lasts(devices, part), 1e-6, { virtual = true, hints = text.even })
whole, part = kernels(1.5 * guess)
rs.check(text.above, lasts(1, whole) > lasts(devices, part), { virtual = true, hints = text.even })
