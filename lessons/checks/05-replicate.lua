-- Checks of exercise 05. All that is expected is worked out from the sizes: with --variant they are others.
local rs = require "ringside"
local nn = rs.nn

rs.lesson { title = "Exercise: a count that survives", devices = 5, hardware = "classroom", seed = 5 }

local text = {
  checks = {
    many = "part 1: count is the number of forwards, on several devices",
    more = "part 1: it goes on counting",
    single = "part 1: on one device, too",
    begins = "part 1: a new module begins with 0",
    output = "part 1: forward still computes what fc computes",
    parameters = "part 1: fc's weight and bias are the only parameters",
    replaced = "part 2: self.a = self.a + 1, on several devices",
    replaced_one = "part 2: self.a = self.a + 1, on one device",
    in_place = "part 2: self.a:add_(1), on several devices",
    in_place_one = "part 2: self.a:add_(1), on one device",
    listed = "part 2: table.insert(self.c, 1), on several devices",
    listed_one = "part 2: table.insert(self.c, 1), on one device",
  },
  hints = {
    count = {
      "Which of the two in lesson 05 survived, `count` or `steps`? What was different?",
      "A buffer of replica 0 is the wrapped module's own tensor, as long as you change it in place.",
      "init: self:register_buffer('count', rs.zeros { 1 }); forward: self.count:add_(1); read it with :item().",
    },
    replaced = {
      "The sum is a new tensor. In whose field does it land?",
      "In a replica's, which is thrown away. With one device there is no replica.",
      "devices == 1 and forwards or 0",
    },
    in_place = {
      "Replica 0's buffer is the module's own. How often does replica 0 run?",
      "Once a forward, whatever the others do.",
      "forwards",
    },
    listed = {
      "A replica is a shallow copy: its fields are new, what they name is not.",
      "So all replicas insert into one list.",
      "forwards * devices",
    },
  },
}

local devices, forwards, more = rs.vary(3, { 2, 4, 5 }), rs.vary(3, { 2, 4, 5 }), rs.vary(2, { 1, 3 })
local batch = rs.ones { 2 * devices, 2 }

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

local function wrap(module, count)
  local ids = {}
  for r = 1, count do ids[r] = r - 1 end
  local model = module():to("device:0")
  return model, nn.DataParallel(model, { device_ids = ids })
end

-- Part 1.
local model, dp
attempt(function() model, dp = wrap(student.module, devices) end)
local function run(times)
  for _ = 1, times do dp(batch) end
  return student.count(model)
end
local hints = { hints = text.hints.count }
rs.close(text.checks.begins, model and attempt(run, 0), 0, hints)
rs.close(text.checks.many, dp and attempt(run, forwards), forwards, hints)
rs.close(text.checks.more, quiet(run, more), forwards + more, hints)
rs.check(text.checks.output, quiet(function()
  return rs.equal(dp(batch), model.fc(batch:to("device:0")))
end), hints)
rs.check(text.checks.parameters, quiet(function()
  return #model:parameters() == 2 and model:parameters()[1]:numel() == 4 and model:parameters()[2]:numel() == 2
end), hints)
quiet(function() model, dp = wrap(student.module, 1) end)
rs.close(text.checks.single, quiet(run, forwards), forwards, hints)

-- Part 2: what is left, and what the student said.
local ways = {
  replaced = function(self) self.a = self.a + 1 end,
  in_place = function(self) self.a:add_(1) end,
  listed = function(self) table.insert(self.c, 1) end,
}
for _, way in ipairs { "replaced", "in_place", "listed" } do
  local Module = nn.Module("Module")
  function Module:init()
    self:register_buffer("a", rs.zeros { 1 })
    self.c = {}
  end
  function Module:forward(x)
    ways[way](self)
    return x
  end
  for _, count in ipairs { devices, 1 } do
    local inner, wrapper = wrap(Module, count)
    for _ = 1, forwards do wrapper(batch) end
    local left = way == "listed" and #inner.c or inner.a:item()
    local name = text.checks[count == 1 and way .. "_one" or way]
    rs.close(name, attempt(student[way], forwards, count), left, { hints = text.hints[way] })
  end
end
