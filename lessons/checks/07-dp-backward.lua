-- The checks of exercise 07: the student's weighting, on batches that split evenly, unevenly, and over fewer devices
-- than there are. What has to come out is always what one device gets: the mean over the rows.
local rs = require "ringside"
local nn = rs.nn

rs.lesson { title = "Exercise: four means that make one", devices = 8, hardware = "classroom", seed = 7 }

local text = {
  one = "each replica returns one number",
  grad = "w.grad is what one device gets",
  loss = "and so is the loss",
  equal = "it still is with chunks of equal length",
  fewer = "and with one row more than there are devices",
  alone = "and on one device, where nothing is gathered",
  shape = {
    "DataParallel gathers one number a replica to a vector. What shape does your loss have?",
    "A mean or a sum over all of out has no dimensions; out itself has two.",
    "Answer out:sum() or out:mean(), times a number.",
  },
  weight = {
    "What does a row of the shortest chunk count in the mean of the numbers, and a row of the longest?",
    "With out:mean() a row counts 1 / (rows of its chunk x losses). It should count 1 / batch.",
    "Multiply the mean by (rows of its chunk) x losses / batch; out:size(0) is the rows of its chunk.",
  },
  losses = {
    "Not every device gets a chunk: losses is what the mean divides by, not the number of devices.",
    "If all chunks are equally long your factor has to come to 1.",
    "One replica alone: its chunk is the batch, losses is 1.",
  },
}

local student = rs.exercise()
local devices = rs.vary(4, { 2, 3, 5, 8 })
local rows = rs.vary(10, { 11, 13, 17, 19 })
local value = rs.vary(2, { 3, -1, 0.5 })

-- One step on the rows 1 to `batch`: the vector of losses (or what went wrong), their mean, and w.grad.
local function step(batch, used)
  local chunk = (batch + used - 1) // used
  local losses = (batch + chunk - 1) // chunk
  local Model = nn.Module("Model")
  function Model:init()
    self.linear = nn.Linear(1, 1, { bias = false })
  end
  function Model:forward(x)
    return student.loss(self.linear(x), batch, losses)
  end
  local model, ids = Model():to("device:0"), {}
  model.linear.weight.data:fill_(value)
  for i = 1, used do ids[i] = i - 1 end
  local x = rs.arange(1, batch + 1, { dtype = "float32", device = "device:0" }):view { batch, 1 }
  local ok, vector = pcall(nn.DataParallel(model, { device_ids = ids }), x)
  local done, why = pcall(function() vector:mean():backward() end)
  if not (ok and done) then
    rs.say(tostring(ok and why or vector))
    return {}
  end
  return { size = vector:size(), expected = used > 1 and { losses } or {}, loss = vector:mean():item(),
    grad = model.linear.weight.grad:item() }
end
local function mean(batch) return (batch + 1) / 2 end

local function same_gradient(name, batch, used, hints)
  rs.close(name, step(batch, used).grad, mean(batch), 1e-5, { hints = hints })
end

local sheet = step(rows, devices)
rs.close(text.one, sheet.size, sheet.expected or {}, { hints = text.shape })
rs.close(text.grad, sheet.grad, mean(rows), 1e-5, { hints = text.weight })
rs.close(text.loss, sheet.loss, value * mean(rows), 1e-4, { hints = text.weight })
same_gradient(text.equal, 3 * devices, devices, text.losses)
same_gradient(text.fewer, devices + 1, devices, text.losses)
same_gradient(text.alone, rows, 1, text.losses)
