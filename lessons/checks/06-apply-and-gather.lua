-- Checks of exercise 06. All that is expected is worked out from the sizes: with --variant they are others.
local rs = require "ringside"
local nn = rs.nn

rs.lesson {
  title = "Exercise: threads, errors, a vector of losses",
  devices = 4,
  hardware = "classroom",
  seed = 6,
}

local text = {
  checks = {
    sums = "part 1: the vector has each chunk's sum",
    mean = "part 1: the mean is that of all rows",
    number = "part 1: it is one number, on device 0",
    grad = "part 1: the weight's gradient is that of all rows",
    early = "part 2: the lower replica fails later",
    late = "part 2: the lower replica fails first",
    all = "part 2: all replicas fail",
  },
  hints = {
    sums = {
      "A chunk of 1 row counts as much as one of 3 if each gives its mean.",
      "Sums carry their weight with them.",
      "forward: fc(x):sum()",
    },
    mean = {
      "The vector has sums now. Add them up. What do you divide by?",
      "By all rows, not by the number of replicas.",
      "out:sum() / rows",
    },
    whose = {
      "Does anybody look at a result before all threads were joined?",
      "Results are read in the order of the replicas. after plays no part.",
      "The lowest replica in the list.",
    },
  },
  failed = "replica %d fails",
}

local rows, devices = rs.vary(10, { 7, 11, 13, 17 }), rs.vary(4, { 2, 3, 4 })
local weight, late = rs.vary(2, { 3, 4, 5 }), rs.vary(100, { 20, 50, 200 })
local ids = {}
for r = 1, devices do ids[r] = r - 1 end

local student = rs.exercise()

-- What `f` answers, nothing if it fails. Why is said once for each function of the student's.
local function quiet(f, ...)
  local ok, result = pcall(f, ...)
  return ok and result or nil, not ok and tostring(result)
end
local function attempt(f, ...)
  local result, why = quiet(f, ...)
  if why then rs.say(why) end
  return result
end

-- Part 1. x is 1, 2, ... rows: chunk r's sum and the mean of all are known.
local Loss = nn.Module("Loss")
function Loss:init()
  self.fc = nn.Linear(1, 1)
  rs.no_grad(function() self.fc.weight:fill_(weight) self.fc.bias:zero_() end)
end
function Loss:forward(x)
  return student.forward(self.fc, x)
end

local model = Loss():to("device:0")
local x = rs.arange(1, rows + 1, { dtype = "float32" }):view { rows, 1 }
local out = attempt(nn.DataParallel(model, { device_ids = ids }), x)
local sums, length = {}, math.ceil(rows / devices)
for first = 1, rows, length do
  local last = math.min(first + length - 1, rows)
  sums[#sums + 1] = weight * (first + last) * (last - first + 1) / 2
end
local mean = attempt(student.mean, out, rows)
rs.close(text.checks.sums, quiet(function() return out:tolist() end), sums, { hints = text.hints.sums })
rs.close(text.checks.mean, quiet(function() return mean:item() end), weight * (rows + 1) / 2,
  { hints = text.hints.mean })
rs.check(text.checks.number, quiet(function() return mean:dim() == 0 and mean.device == "device:0" end),
  { hints = text.hints.mean })
local grad = quiet(function()
  mean:backward()
  return model.fc.weight.grad:item()
end)
rs.close(text.checks.grad, grad, (rows + 1) / 2, { hints = text.hints.mean })

-- Part 2: the replica that the caller hears of, and what the student said.
local after = {}
local Failing = nn.Module("Failing")
function Failing:forward(part)
  local replica = tonumber(part.device:match("%d+"))
  if after[replica] then
    rs.advance(after[replica])
    rs.error("ValueError", text.failed:format(replica))
  end
  return part
end
local failing_dp = nn.DataParallel(Failing(), { device_ids = ids })
local function heard(failing)
  after = {}
  for _, each in ipairs(failing) do after[each.replica] = each.after end
  local _, err = pcall(failing_dp, x)
  return tonumber(err.message:match("replica (%d+)"))
end

local last = #sums - 1
local everybody = {}
for r = last, 0, -1 do table.insert(everybody, { replica = r, after = late * r }) end
local cases = {
  early = { { replica = last, after = 0 }, { replica = last - 1, after = late } },
  late = { { replica = last - 1, after = 0 }, { replica = last, after = late } },
  all = everybody,
}
for _, name in ipairs { "early", "late", "all" } do
  local lowest = heard(cases[name]) -- before the student's function has the list
  rs.close(text.checks[name], attempt(student.whose, cases[name]), lowest, { hints = text.hints.whose })
end
