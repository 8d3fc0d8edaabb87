-- Checks of exercise 30. A small training on one device, whose kernels take longer than their launches; its record says
-- who asked the device, when, and how long it stood still.
local rs = require "ringside"

local steps, each = rs.vary(12, { 8, 16, 20 }), rs.vary(4, { 2 })
local kernel_us, width = rs.vary(40, { 30, 60, 90 }), rs.vary(8, { 4, 12 })
rs.lesson {
  title = "Exercise: no bubble",
  devices = 1,
  hardware = "dgx-h200",
  costs = { host = 8, kernel = kernel_us },
  seed = 30,
}

local text = {
  checks = {
    losses = "losses: the %d numbers, in their order",
    unasked = "losses: nobody asks the device before the last step is launched",
    no_bubble = "losses: the device never stands still between two steps",
    curve = "curve: the means of %d losses each, in their order",
    asked = "curve: the device is asked %d times",
    still = "bubble: how long the device stood still when it was asked each step",
    beside = "bubble: kernels of two streams, in no order",
    none = "bubble: one kernel alone is no bubble",
  },
  hints = {
    losses = { "Each element is a number: what :item() answers.", "As many as there are steps, the first one first." },
    unasked = {
      "What step() answers can be kept in a list: it is a tensor, whose number comes later.",
      "Two loops: one launches all steps, one asks for all numbers.",
    },
    curve = { "A mean is a sum by a number: sum:item() / each, or (sum / each):item().", "After each mean begin a new sum." },
    asked = { "Tensors can be added where they are, on the device: sum + loss asks for nothing.", "One :item() for each show." },
    bubble = {
      "Put them in the order of their begin first: table.sort with a function of your own, on a copy of the list.",
      "Go through them and remember until when the device is busy: a kernel that begins later ends a bubble.",
      "Busy until the largest end so far, which need not be the last kernel's.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- A training anew, and what one step of it is.
local function training()
  rs.manual_seed(30)
  local net = rs.nn.Linear(width, width, { bias = false }):to("device:0")
  local x = rs.randn(4, width):to("device:0")
  local optimizer = rs.optim.SGD(net:parameters(), { lr = 0.1 })
  return function()
    optimizer:zero_grad()
    local loss = net(x):pow(2):mean()
    loss:backward()
    optimizer:step()
    return loss:detach()
  end
end

-- Now, and whether an event is from before it. In free the numbers of events are not final: devices tell late.
local wall = rs.trace:clock() == "wall"
local function now() return { seq = rs.trace:seq(), t = rs.trace:last().t } end
local function is_before(event, moment)
  if wall then return event.t <= moment.t end
  return event.seq < moment.seq
end

local function events(filter, from, till)
  local list = {}
  for _, event in ipairs(rs.trace:events(filter)) do
    if not is_before(event, from) and is_before(event, till) then list[#list + 1] = event end
  end
  return list
end

local function run(use)
  local step, launched = training(), nil
  rs.cuda.synchronize()
  local from = now()
  local worked, told = pcall(use, function()
    local loss = step()
    launched = now()
    return loss
  end)
  if not worked then rs.say(tostring(told)) end
  rs.cuda.synchronize()
  local till, answer = now(), worked and told or nil
  return { worked = worked and launched, told = answer, from = from, launched = launched or from, till = till }
end

local function kernels_of(record)
  local list = {}
  for i, kernel in ipairs(events("kernel and device 0", record.from, record.till)) do
    list[i] = { kernel.t / 1000, kernel.t / 1000 + rs.trace:duration(kernel) }
  end
  return list
end

-- The device does one kernel after the other here.
local function stood_still(list)
  local still = 0
  for i = 2, #list do still = still + math.max(0, list[i][1] - list[i - 1][2]) end
  return still
end

-- What the host fetched from the device.
local function asked(record, till) return #events("memory.copy and from = 0 and to = -1", record.from, till) end

local right = {}
local with_bubbles = run(function(step)
  for i = 1, steps do right[i] = step():item() end
end)

local got = run(function(step) return student.losses(step, steps) end)
rs.close(checks.losses:format(steps), type(got.told) == "table" and got.told or {}, right, { atol = 1e-6, hints = hints.losses })
rs.check(checks.unasked, got.worked and asked(got, got.launched) == 0, { hints = hints.unasked })
rs.check(checks.no_bubble, got.worked and stood_still(kernels_of(got)) < kernel_us, { virtual = true, hints = hints.unasked })

local means, shown = {}, {}
for i = 1, steps, each do
  local sum = 0
  for k = i, i + each - 1 do sum = sum + right[k] end
  means[#means + 1] = sum / each
end
got = run(function(step) student.curve(step, steps, each, function(mean) shown[#shown + 1] = mean end) end)
rs.close(checks.curve:format(each), shown, means, { atol = 1e-6, hints = hints.curve })
local many = got.worked and asked(got, got.till)
rs.check(checks.asked:format(steps // each), many == steps // each, { hints = hints.asked })

local list = kernels_of(with_bubbles)
rs.close(checks.still, student.bubble(list), stood_still(list), 1e-3, { virtual = true, hints = hints.bubble })
local a, b, c = rs.vary(10, { 20 }), rs.vary(45, { 50, 55 }), rs.vary(70, { 80 })
rs.close(checks.beside, student.bubble { { c, c + 5 }, { 0, b }, { a, a + 5 }, { c + 1, c + 2 }, { c + 9, c + 10 } }, c - b + 4,
  1e-6, { hints = hints.bubble })
rs.close(checks.none, student.bubble { { a, c } }, 0, 1e-6, { hints = hints.bubble })
