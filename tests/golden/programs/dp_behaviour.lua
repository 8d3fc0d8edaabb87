-- The behaviours of dp_behaviour-programs.json in Lua, found by name: a number or a word in a name that may be another one
-- (which replica fails, how many devices) is read from it.
local rs = require "ringside"
local nn = rs.nn

local twins = {}
-- `given`: the fields of the case that the twin reads. The name's captures are given behind `o`.
local function twin(pattern, given, run) twins[#twins + 1] = { "^" .. pattern .. "$", given, run } end

local function devices_to(count)
  local devices = {}
  for i = 1, count do devices[i] = i - 1 end
  return devices
end

-- As Python prints it.
local function shown(value)
  if value == nil then return "None" end
  if value == true then return "True" end
  if value == false then return "False" end
  if type(value) == "userdata" then value = value:tolist() end
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i, item in ipairs(value) do parts[i] = shown(item) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

local function logger(o) return function(what, value) o.log(what .. ": " .. shown(value)) end end

local function count_of(iterator)
  local count = 0
  for _ in iterator do count = count + 1 end
  return count
end

local function with_grad(enabled, f)
  if enabled then return f() end
  return rs.no_grad(f)
end

-- ---- replicas ----

-- Six parameters: one unused, one frozen, one tied; three buffers; a number and a list as attributes.
local Rich = nn.Module("Rich")
function Rich:init(unused)
  self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2, { bias = false })
  self.second.weight = self.first.weight
  self.norm = nn.BatchNorm1d(2)
  self.unused = nn.Parameter(rs.ones { unused or 3 })
  self.frozen = nn.Parameter(rs.ones { 2 }, { requires_grad = false })
  self.count, self.rows = 0, {}
end
function Rich:forward(x)
  self.count = self.count + 1
  table.insert(self.rows, x:size(0))
  return self.norm(self.second(self.first(x))) * self.frozen, rs.ones({ 1 }, { device = x.device }) * self.count
end

local function describe_replicas(say, model, replicas)
  local zero, one = replicas[1], replicas[2]
  local function shares(replica, read) return read(replica):storage_id() == read(model):storage_id() end
  local function weight(m) return m.first.weight end
  local function mean(m) return m.norm.running_mean end
  say("replica 0 frozen parameter shares storage with the module", shares(zero, function(m) return m.frozen end))
  say("replica 0 buffer is the very same tensor", mean(zero) == mean(model))
  say("replica 0 weight shares storage with the module", shares(zero, weight))
  say("replica 1 weight shares storage with the module", shares(one, weight))
  say("replica 0 weight is the very same tensor", weight(zero) == weight(model))
  say("replica weight is a leaf", weight(one).is_leaf)
  say("replica weight grad_fn", weight(one).grad_fn:name())
  local together = true
  for _, replica in ipairs(replicas) do
    for _, t in ipairs { replica.first.weight, replica.first.bias, replica.norm.weight } do
      together = together and t.grad_fn == weight(zero).grad_fn
    end
  end
  say("all weights of all replicas have one grad_fn", together)
  say("frozen parameter on a replica requires grad", one.frozen.requires_grad)
  say("tied weights stay tied on a replica", one.first.weight == one.second.weight)
  say("parameters() of a replica", count_of(one:parameters()))
  say("buffers() of a replica", count_of(one:buffers()))
  say("replica 0 running_mean shares storage with the module", shares(zero, mean))
  say("replica 1 running_mean shares storage with the module", shares(one, mean))
end

-- The numbers of a list that an event tells: how many replicas there were, and of how many rows.
local function numbers_told(o, what)
  local list = {}
  for _, event in ipairs(o.case.events) do
    local told = event:match("^" .. what .. ": %[(.*)%]$")
    for number in (told or ""):gmatch("[%d.]+") do list[#list + 1] = math.tointeger(tonumber(number)) end
  end
  if #list == 0 then error("an aliasing that does not tell the " .. what .. " is not understood", 0) end
  return list
end

twin("replicate: aliasing", "", function(o)
  local devices, rows = devices_to(#numbers_told(o, "replica counts")), 0
  for _, count in ipairs(numbers_told(o, "a list attribute is shared by all")) do rows = rows + count end
  local say, model = logger(o), Rich(#numbers_told(o, "unused parameter grad")):to("device:0")
  describe_replicas(say, model, nn.parallel.replicate(model, devices))
  local out, counts = nn.DataParallel(model, { device_ids = devices })(rs.randn { rows, 2 })
  say("module count after forward", model.count)
  say("replica counts", counts:to("int64"))
  -- The workers append side by side; chunks do not grow.
  table.sort(model.rows, function(a, b) return a > b end)
  say("a list attribute is shared by all", model.rows)
  say("module num_batches_tracked", model.norm.num_batches_tracked:item())
  say("replica training flag", nn.parallel.replicate(model, devices)[2].training)
  out:sum():backward()
  say("unused parameter grad", model.unused.grad)
  say("frozen parameter grad", model.frozen.grad)
end)

twin("unused parameter without DataParallel", "", function(o)
  local model = Rich()
  model(rs.randn { 8, 2 }):sum():backward()
  logger(o)("unused parameter grad", model.unused.grad)
end)

twin("no_grad replicate", "", function(o)
  local say, model, devices = logger(o), Rich():to("device:0"), devices_to(2)
  rs.no_grad(function()
    local replicas = nn.parallel.replicate(model, devices)
    say("output requires grad", nn.DataParallel(model, { device_ids = devices })(rs.randn { 4, 2 }).requires_grad)
    say("replica 1 weight requires grad", replicas[2].first.weight.requires_grad)
    say("replica 1 weight is a leaf", replicas[2].first.weight.is_leaf)
    say("replica 0 weight is the very same tensor", replicas[1].first.weight == model.first.weight)
    say("parameters() of the replicas", { count_of(replicas[1]:parameters()), count_of(replicas[2]:parameters()) })
  end)
end)

twin("sparse embedding under DataParallel", "devices params inputs", function(o)
  local rows, width = table.unpack(o.case.params.shape)
  local model = nn.Embedding(rows, width, { sparse = true })
  rs.no_grad(function() model.weight:copy_(o.tools.tensor(o.case.params)) end)
  model:to("device:0")
  nn.DataParallel(model, { device_ids = devices_to(o.case.devices) })(o.tools.tensor(o.case.inputs)):sum():backward()
  return { grad = model.weight.grad, grad_dense = model.weight.grad:to_dense() }
end)

-- ---- what a forward writes ----

local Writer = nn.Module("Writer")
function Writer:init(write)
  self.w, self.write = nn.Parameter(rs.ones { 2 }), write
  self:register_buffer("s", rs.zeros { 2 })
end
function Writer:forward(x)
  self.write(self, x)
  return x * self.w + self.s
end

local WRITES = {
  ["param"] = function(self) self.w:add_(1) end,
  ["input"] = function(_, x) x:add_(1) end,
  ["input that requires grad"] = function(_, x) x:add_(1) end,
  ["buffer"] = function(self) self.s:add_(1) end,
  ["assign buffer"] = function(self) self.s = self.s + 1 end,
  ["no_grad param"] = function(self) rs.no_grad(function() self.w:add_(1) end) end,
}

for what, write in pairs(WRITES) do
  twin("forward writes in place: " .. what, "", function(o)
    local say, model = logger(o), Writer(write):to("device:0")
    local x = rs.zeros({ 4, 2 }, { device = "device:0", requires_grad = what == "input that requires grad" })
    local ok, err = pcall(nn.DataParallel(model, { device_ids = { 0, 1 } }), x)
    say("module buffer s", model.s)
    say("module w", model.w:detach())
    o.log("caller input row 0: " .. shown(x:detach()[0]) .. ", last row: " .. shown(x:detach()[-1]))
    return { raised = not ok and err or nil }
  end)
end

-- ---- hooks ----

twin("hooks run once per replica", "devices batch", function(o)
  local model, sums = nn.Linear(2, 1):to("device:0"), 0
  local forwards, backwards = {}, {}
  -- The events of each replica by themselves: those of different ones have no order.
  local function note(list, t, text)
    list[t.device] = list[t.device] or {}
    table.insert(list[t.device], text .. " rows " .. t:size(0))
  end
  model:register_forward_pre_hook(function(_, args) note(forwards, args[1], "pre") end)
  model:register_forward_hook(function(_, _, out) note(forwards, out, "post") end)
  model:register_full_backward_hook(function(_, _, grads) note(backwards, grads[1], "backward hook") end)
  -- On the sum, which does not wait for the last module's hook: on another device that may still run.
  model.weight:register_hook(function() sums = sums + 1 end)
  local x = rs.randn({ o.case.batch, 2 }, { requires_grad = true })
  nn.DataParallel(model, { device_ids = devices_to(o.case.devices) })(x):sum():backward()
  for device = 0, o.case.devices - 1 do
    for _, text in ipairs(forwards["device:" .. device] or {}) do o.log(text) end
  end
  for device = o.case.devices - 1, 0, -1 do
    for _, text in ipairs(backwards["device:" .. device] or {}) do o.log(text) end
  end
  for _ = 1, sums do o.log "weight hook" end
end)

-- ---- parallel_apply ----

-- Says that it ran, and fails if it is told to, at the earliest once another one has failed.
local Answer = nn.Module("Answer")
function Answer:init(number, ran) self.number, self.ran = number, ran end
function Answer:forward(x)
  local wait = 10000
  while self.after and not self.ran["failed " .. self.after] and wait > 0 do
    wait = wait - 1
    x:sum()
  end
  self.ran[self.number] = true
  if self.fails then
    self.ran["failed " .. self.number] = true
    rs.error(self.fails, "it was told to fail")
  end
  return x * 0 + self.number
end

-- As many as the case says that ran; fails: the kind of error by number; first: the number that fails before the others.
local function apply(o, fails, first)
  local ran, modules, inputs, outputs, that_ran, last = {}, {}, {}, nil, {}, 0
  for _, number in ipairs(o.case.replicas_that_ran) do last = math.max(last, number) end
  for number in pairs(fails) do last = math.max(last, number) end
  for i = 0, last do
    local module = Answer(i, ran)
    module.fails, module.after = fails[i], fails[i] and first ~= i and first or nil
    modules[i + 1], inputs[i + 1] = module, rs.ones({ 1 }, { device = "device:" .. i })
  end
  local ok, result = pcall(nn.parallel.parallel_apply, modules, inputs, { devices = devices_to(#modules) })
  for i = 0, last do that_ran[#that_ran + 1] = ran[i] and i or nil end
  if ok then
    outputs = {}
    for i, out in ipairs(result) do outputs[i] = out:tolist() end
  end
  return { raised = not ok and result or nil, outputs = outputs, replicas_that_ran = that_ran }
end

local function value_errors(...)
  local fails = {}
  for _, which in ipairs { ... } do fails[math.tointeger(tonumber(which))] = "ValueError" end
  return fails
end

twin("parallel_apply: none fails", "", function(o) return apply(o, {}) end)
twin("parallel_apply: (%u%w*Error)", "", function(o, kind) return apply(o, { [0] = kind }) end)
twin("parallel_apply: replica (%d+) fails", "", function(o, which) return apply(o, value_errors(which)) end)
twin("parallel_apply: replicas (%d+) and (%d+) fail, (%d+) first in time", "", function(o, one, other, first)
  if first ~= one and first ~= other then error("the first to fail must be one of both", 0) end
  return apply(o, value_errors(one, other), math.tointeger(tonumber(first)))
end)

local Mode = nn.Module("Mode")
function Mode:init(note, number) self.note, self.number = note, number end
function Mode:forward(x)
  self.note[self.number] = rs.is_grad_enabled()
  return x
end

twin("parallel_apply grad mode, caller grad (%u%l+), (%d+) module%(s%)", "", function(o, caller, count)
  local modules, inputs, modes = {}, {}, {}
  for i = 1, tonumber(count) do
    modules[i], inputs[i] = Mode(modes, i), rs.ones({ 1 }, { device = "device:" .. i - 1 })
  end
  local from = rs.trace:seq()
  with_grad(caller == "True", function() nn.parallel.parallel_apply(modules, inputs) end)
  local here = rs.trace:first("seq >= " .. from .. " and kind = dp.parallel_apply").lane
  local lanes = {}
  for _, event in ipairs(rs.trace:events("seq >= " .. from .. " and kind = dp.worker")) do
    if event.phase ~= "end" then lanes[event.args.replica + 1] = event.lane end
  end
  for i = 1, #modules do
    o.log("grad enabled: " .. shown(modes[i]) .. ", main thread: " .. shown(lanes[i] == here))
  end
end)

-- ---- graphs ----

twin("gradient penalty %(double backward%)", "module devices params inputs", function(o)
  local model, x = o.tools.printed(o.case.module), o.tools.tensor(o.case.inputs.x):requires_grad_(true)
  o.tools.known("the inputs", o.case.inputs, "x")
  rs.no_grad(function()
    for name, p in model:named_parameters() do p:copy_(o.tools.like(name, o.case.params[name], p)) end
  end)
  model:to("device:0")
  local out = nn.DataParallel(model, { device_ids = devices_to(o.case.devices) })(x)
  local gradient = rs.autograd.grad(out:sum(), x, { create_graph = true })
  if type(gradient) == "table" then gradient = gradient[1] end
  local penalty, grads = ((gradient:norm(2, 1) - 1) ^ 2):mean(), {}
  penalty:backward()
  for name, p in model:named_parameters() do grads[name] = p.grad end
  return { penalty = penalty, input_gradient = gradient, param_grads = grads }
end)

-- [node, name, next edges as [node, input number]], breadth first from the root.
local function graph_of(root)
  local nodes, graph = { root }, {}
  local function number_of(node)
    for i, other in ipairs(nodes) do
      if other == node then return i - 1 end
    end
    nodes[#nodes + 1] = node
    return #nodes - 1
  end
  local at = 1
  while nodes[at] do
    local edges = {}
    for _, edge in ipairs(nodes[at].next_functions) do
      if edge[1] ~= rs.none then edges[#edges + 1] = { number_of(edge[1]), edge[2] } end
    end
    graph[at] = { at - 1, nodes[at]:name(), edges }
    at = at + 1
  end
  return graph
end

local function linear_graph(ins, outs, devices, batch, requires_grad)
  local model = nn.Linear(tonumber(ins), tonumber(outs)):to("device:0")
  local x = rs.randn({ tonumber(batch), tonumber(ins) }, { requires_grad = requires_grad })
  local out = nn.DataParallel(model, { device_ids = devices_to(tonumber(devices)) })(x)
  return { graph = graph_of(out:sum().grad_fn) }
end
local LINEAR = "recorded graph of Linear%((%d+), ?(%d+)%) on (%d+) devices, batch (%d+)"
twin(LINEAR, "", function(_, ins, outs, devices, batch) return linear_graph(ins, outs, devices, batch, false) end)
twin(LINEAR .. ", input requires grad", "", function(_, ins, outs, devices, batch)
  return linear_graph(ins, outs, devices, batch, true)
end)

return function(name, text)
  if text ~= nil then return nil end
  for _, entry in ipairs(twins) do
    local captures = table.pack(name:match(entry[1]))
    if captures[1] then
      return function(o) return entry[3](o, table.unpack(captures)) end, entry[2]
    end
  end
end
