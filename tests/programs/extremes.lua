-- Extreme numbers in every numeric place of everything that a lesson can call: each call answers or raises an error of the
-- known kinds. The signatures come as the argument rows=, a line each, "FORM NAME(...) ..."; the others: first=N and
-- last=N of the calls, part=K and parts=N: every N-th of them, pairs=N random pairs of numbers a function from seed=S,
-- Each call is told before it is made, with announce=1 with its arguments: what ends the run (an account that is used up)
-- ends it there, and another run begins behind it.
local rs = require "ringside"
rs.lesson { title = "Extremes", devices = 2, prefix = "" }
local nn, F, dist = rs.nn, rs.nn.functional, rs.distributed
local options = { first = 1, last = math.maxinteger, part = 0, parts = 1, pairs = 3, seed = 1 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(.*)$")
  options[name] = math.tointeger(tonumber(value)) or value
end

local extremes = { math.mininteger, math.mininteger + 1, -(1 << 53), -(1 << 31) - 1, -(1 << 31), -1, 0, 1, (1 << 31) - 1, 1 << 31,
                   1 << 32, 1 << 53, math.maxinteger, 1e308, -1e308, math.huge, -math.huge, 0 / 0, 2.0 ^ 63, 0.5 }
local known = {}
for kind in ("RuntimeError IndexError ValueError TypeError AttributeError KeyError NotImplementedError AssertionError MemoryError TimeoutError " ..
             "DeadlockError DistStoreError DistNetworkError QueueEmptyError MismatchError DivergenceError RaceError BudgetError"):gmatch "%a+" do known[kind] = true end

-- ---- making calls ----

local count, made, refused, wrong = 0, 0, 0, 0
local function shown(value)
  if type(value) == "table" and not rs.is_tensor(value) then
    local parts = {}
    for i, v in ipairs(value) do parts[i] = shown(v) end
    for name, v in pairs(value) do
      if type(name) == "string" then parts[#parts + 1] = name .. "=" .. shown(v) end
    end
    table.sort(parts)
    return "{" .. table.concat(parts, ",") .. "}"
  end
  if rs.is_tensor(value) then return "tensor" .. shown(value.shape) .. ":" .. value.dtype end
  return tostring(value)
end

local function try(label, f, ...)
  count = count + 1
  if count < options.first or count > options.last or count % options.parts ~= options.part then return end
  if options.announce then
    local words = table.pack(...)
    for i = 1, words.n do words[i] = shown(words[i]) end
    print(("%d %s(%s)"):format(count, label, table.concat(words, ", ")))
  else print(("%d %s"):format(count, label)) end
  local ok, fault = pcall(f, ...)
  if ok then
    made = made + 1
    return
  end
  refused = refused + 1
  local kind = type(fault) == "table" and fault.kind
  if not known[kind] then
    wrong = wrong + 1
    print(("wrong: %d %s: %s"):format(count, label, tostring(fault)))
  end
end

-- Lists with the number in each place of a list of usual ones.
local function lists(number, usual)
  local all = { number, { number }, { number, number } }
  for i = 1, #usual do
    local list = table.move(usual, 1, #usual, 1, {})
    list[i] = number
    all[#all + 1] = list
  end
  return all
end

-- What a parameter of a type is given for one extreme number.
local function forms(kind, number, usual)
  if kind:find "%]%[2%]" then return { number, { { number }, { 0 } }, { { 0 }, { number } }, { { number }, { number } } } end
  if kind:find "int%??%[" then return lists(number, type(usual) == "table" and usual or { 1, 1 }) end
  if kind:find "Tensor" then
    local like = rs.is_tensor(usual) and usual or rs.zeros {}
    local dtype = math.type(number) == "integer" and "int64" or "float64"
    local full = rs.full(like.shape, number, { dtype = dtype })
    return { full, full:to(like.dtype), kind:find "|" and number or nil }
  end
  return { number }
end

-- ---- usual arguments ----

local usual = {
  dim0 = 0, dim1 = 1, dim2 = 1, source = 0, destination = 1, size = { 2, 3 }, k = 1, n = 2, q = 0.5, p = 0.5, steps = 3, dims = { 1, 0 },
  start = 0, ["end"] = 3, length = 1, shape = { -1 }, sizes = { 3, -1 }, repeats = 2, stride = { 1, 1 }, step = 1, chunks = 2,
  row = 3, col = 3, index = 0, start_dim = 0, end_dim = -1, dim = 0, high = 5, low = 0, num_classes = 3, num_samples = 2, dimension = 0,
  fill_value = 2, value = 2, kernel_size = { 2, 2 }, output_size = { 2, 2 }, normalized_shape = { 4 }, num_groups = 2, shifts = 1,
  split_size_or_sections = 2, indices_or_sections = 2, min = 0, max = 2, alpha = 1, beta = 1, mean = 0, std = 1, param = 0.5, val = 2,
  equation = "ij,ij->i", mode = "fan_in", nonlinearity = "tanh", type1 = "int64", type2 = "float32", from_ = "int64", to = "float32",
  d = "float32", threshold = 0.5, dtype = "float64", condition = "mask", mask = "mask", exponent = 2, other = "input", padding = { 1, 1 },
  in_features = 4, out_features = 3, num_embeddings = 5, embedding_dim = 3, in1_features = 4, in2_features = 4, in_channels = 2,
  out_channels = 2, num_features = 2, num_channels = 2, input_size = 4, hidden_size = 3, embed_dim = 4, num_heads = 2, d_model = 4,
  nhead = 2, upscale_factor = 1, downscale_factor = 1, unflattened_size = { 1, -1 }, num_parameters = 1, weights = "none", dim_feedforward = 4,
  num_encoder_layers = 1, num_decoder_layers = 1, total_iters = 3, step_size = 2, gamma = 0.5, T_max = 3, milestones = { 1, 2 },
}
local function special(text)
  for name, value in pairs(text) do usual[name] = value end
end
special {
  ["view.size"] = { -1 }, ["expand.size"] = { 2, 3, 4 }, ["broadcast_to.size"] = { 2, 3, 4 }, ["view_as.other"] = "input",
  ["as_strided.size"] = { 2, 2 }, ["unfold.size"] = 2, ["movedim.source"] = 0, ["squeeze.dim"] = 0, ["repeat.repeats"] = { 2, 2 },
  ["tile.repeats"] = { 2, 2 }, ["adaptive_avg_pool2d.output_size"] = { 2, 2 }, ["flip.dims"] = { 0, 1 }, ["roll.dims"] = { 0 },
  ["rot90.dims"] = { 0, 1 }, ["tensordot.dims"] = 1, ["roll.shifts"] = { 1 }, ["split_with_sizes.split_size_or_sections"] = { 1, 2 },
  ["randint.high"] = 5, ["unflatten.sizes"] = { 3, -1 }, ["AdaptiveAvgPool1d.output_size"] = 2, ["MaxPool1d.kernel_size"] = 2,
  ["AvgPool1d.kernel_size"] = 2, ["GroupNorm.num_groups"] = 1, ["Flatten.start_dim"] = 1, ["Unflatten.dim"] = 1, ["arange.end"] = 5,
  ["RNN.nonlinearity"] = "tanh", ["linspace.end"] = 2, ["LSTM.proj_size"] = 2, ["LayerNorm.normalized_shape"] = { 4 }, ["clamp.min"] = 0,
  ["normal.size"] = { 3 }, ["where.input"] = "input", ["einsum.operands"] = "input", ["dim.p"] = 1, ["take.index"] = "index",
  ["logspace.steps"] = 2, ["histc.bins"] = 3, ["diff.n"] = 1,
}

for _, name in ipairs { "ConstantPad", "ReflectionPad", "ReplicationPad", "ZeroPad" } do
  special { [name .. "2d.padding"] = { 1, 1, 1, 1 }, [name .. "3d.padding"] = { 1, 1, 1, 1, 1, 1 } }
end
special { ["Conv1d.kernel_size"] = 2 }

-- What is given by name in every call, unless it is its turn.
local always = {
  clamp = { min = 0 }, clamp_ = { min = 0 }, randint = { high = 5, size = { 3 } }, batch_norm = { training = true },
  Transformer = { d_model = 4, nhead = 2, num_encoder_layers = 1, num_decoder_layers = 1, dim_feedforward = 4 },
}

-- What tensors there are; the first that a function takes are used, floats first, then integers.
local function float(...) return (rs.arange(rs.zeros { ... }:numel(), { dtype = "float32" }):reshape { ... } + 1) / 8 end
local function whole(...) return rs.arange(rs.zeros { ... }:numel()):reshape { ... } % 3 end
local function scene(input, more)
  local names = { input = input, mask = input:gt(0), index = rs.zeros(input.shape, { dtype = "int64" }) }
  for name, value in pairs(more or {}) do names[name] = value end
  return names
end
local square, cube, sparse = float(3, 3), float(2, 3, 3), rs.ones(5, 4, { requires_grad = true })
F.embedding(whole(3), sparse, { sparse = true }):sum():backward()
local scenes = {
  scene(float(3, 4)), scene(whole(3, 4)), scene(float(4)), scene(whole(5)), scene(float(1, 2, 4, 4)), scene(cube),
  scene(square, { vec2 = float(3), vec = float(3), vec1 = float(3), batch1 = cube, batch2 = cube, source = square, mat2 = square }),
  scene(float(3), { mat = square, vec = float(3) }),
  scene(float(3, 4), { index = whole(3), value = rs.tensor(2.0) }), scene(float(4), { index = whole(4) }), scene(float(3, 4), { index = whole(3, 4) }),
  scene(float(1, 2, 4, 4), { weight = float(2, 2, 2, 2) }), scene(float(1, 2, 6), { weight = float(2, 2, 3) }),
  scene(whole(2, 3), { weight = float(5, 4) }), scene(float(3, 4), { weight = float(2, 4), bias = float(2) }),
  scene(float(3, 4), { target = whole(3) }), scene(float(3, 4) / 2, { target = float(3, 4) / 2 }),
  scene(float(2, 4, 3)), { input = sparse.grad, mask = whole(3), index = whole(3) }, { input = sparse.grad:coalesce() }, scene(rs.full({ 2, 2 }, true)), scene(rs.tensor(3)),
  scene(float(3, 4), { source = float(3, 4), src = float(3, 4), index = whole(3, 4) }),
}
for _, extreme in ipairs { "float32", "float64", "int64", "int32", "int8", "uint8", "float16", "bfloat16", "bool" } do
  scenes[#scenes + 1] = { everything = true, input = rs.tensor(extremes, { dtype = "float64" }):to(extreme) }
end

-- ---- reading signatures ----

local function read(row)
  local form, name, inside = row:match "^(%S+) ([%w_]+)(%b())"
  local parameters, by_name = {}, false
  for word in (inside:sub(2, -2) .. ","):gmatch "%s*(.-)," do
    local kind, parameter, default = word:match "^(%S+) ([%w_]+)=?(.*)$"
    if word == "*" then by_name = true
    elseif kind then
      parameters[#parameters + 1] = { kind = kind, name = parameter, needed = default == "", by_name = by_name, optional = kind:find "%?$" ~= nil }
    end
  end
  return { form = form, name = name, parameters = parameters }
end

local function numeric(parameter)
  local kind = parameter.kind
  return kind:find "int" or kind:find "float" or kind:find "Scalar" or kind:find "^device"
end

-- The arguments that are needed, all of them usual.
local function arguments(row, names)
  local places = {}
  for i, parameter in ipairs(row.parameters) do
    local value = usual[row.name .. "." .. parameter.name]
    if value == nil then value = usual[parameter.name] end
    if parameter.kind:find "^Tensor" then
      value = names[parameter.name] or parameter.name == "condition" and names.mask or names.input
      if parameter.kind:find "%[%]" then value = { value, value } end
    elseif value == nil then value = parameter.kind:find "float" and 0.5 or 1 end
    if parameter.needed then places[i] = value end
  end
  return places
end

local function callable(form, name)
  if form == "rs" then return rs[name] end
  if form == "functional" then return F[name] end
  if form == "init" then return nn.init[name] end
  if form == "nn" then return nn[name] end
  if form == "scheduler" then return rs.optim.lr_scheduler[name] end
  return function(t, ...) return rs.zeros_like(t)[name](t, ...) end
end

-- Everything that comes of a call: backward of what has a gradient, unless it is a huge view.
local function backwards(...)
  for _, out in ipairs { ... } do
    if rs.is_tensor(out) and out.requires_grad and out.grad_fn and out:numel() < 1e6 then out:sum():backward() end
  end
end

-- ---- one function ----

-- By place what is needed, by name what is chosen of the others.
local function given_of(row, places, chosen)
  local given, named, at = {}, {}, 0
  for name, value in pairs(row.always or always[row.name] or {}) do named[name] = value end
  for k, parameter in ipairs(row.parameters) do
    if parameter.needed then
      at = at + 1
      given[at] = chosen[k] == nil and places[k] or chosen[k]
    elseif chosen[k] ~= nil then named[parameter.name] = chosen[k] end
  end
  if next(named) then given[at + 1] = named end
  return given
end

local function invoke(row, f, given, changes)
  if changes and rs.is_tensor(given[1]) then given[1] = given[1]:detach():clone() end
  backwards(f(table.unpack(given)))
end

-- The calls of a row whose other arguments are usual ones.
local function walk_places(row, f, places, changes)
  local label = row.form .. " " .. row.name
  local function call(chosen)
    try(label, function(...) return invoke(row, f, { ... }, changes) end, table.unpack(given_of(row, places, chosen)))
  end
  local slots = {}
  for k, parameter in ipairs(row.parameters) do
    if numeric(parameter) or (parameter.kind:find "^Tensor" and not parameter.kind:find "%[%]" and places[k] and row.small) then
      slots[#slots + 1] = k
      for _, number in ipairs(extremes) do
        for _, value in pairs(forms(parameter.kind, number, places[k] or usual[row.name .. "." .. parameter.name] or usual[parameter.name])) do
          call { [k] = value }
        end
      end
    end
  end
  for _ = 1, #slots > 1 and options.pairs or 0 do
    local chosen = {}
    for _ = 1, 2 do
      local k = slots[math.random(#slots)]
      local choices = forms(row.parameters[k].kind, extremes[math.random(#extremes)], places[k])
      chosen[k] = choices[math.random(#choices)]
    end
    call(chosen)
  end
end

local none_made = {}
local function walk(row)
  local f = callable(row.form, row.name)
  local changes = row.name:find "_$" ~= nil or row.form == "init"
  local found = 0
  for _, names in ipairs(row.scenes or scenes) do
    local places = arguments(row, names)
    local given = given_of(row, places, {})
    if names.everything then
      try(row.form .. " " .. row.name, function() invoke(row, f, given, changes) end)
    elseif found < 3 and pcall(invoke, row, f, given, changes) then
      found = found + 1
      row.small = found == 1 or names.input.dtype == "int64"
      walk_places(row, f, places, changes)
      if not rs.is_tensor(places[1]) then break end
      if found == 1 and places[1]:is_floating_point() and not (changes or places[1].is_sparse) then
        local tracked = table.move(places, 1, #row.parameters, 1, {})
        tracked[1] = places[1]:detach():clone():requires_grad_(true)
        row.small = false
        walk_places(row, f, tracked, changes)
      end
    end
  end
  if found == 0 then none_made[#none_made + 1] = row.form .. " " .. row.name end
end


-- ---- layers ----

local inputs = { { float(3, 4) }, { float(3, 2) }, { float(2, 2, 4) }, { float(2, 4, 4) }, { float(1, 2, 4, 4) }, { float(1, 2, 4, 4, 4) }, { whole(3, 4) },
                 { float(3, 4), float(3, 4) }, { cube }, { float(3, 2, 4), float(3, 2, 4) }, { float(3, 4), whole(3) },
                 { float(3, 2, 4), float(3, 2, 4), float(3, 2, 4) }, { float(2, 4), float(2, 3) }, { float(3, 4) / 2, float(3, 4) / 2 } }
local function walk_layer(row)
  local maker, forward = nn[row.name], nil
  local places = arguments(row, scenes[1])
  local layer = maker(table.unpack(given_of(row, places, {})))
  for _, input in ipairs(inputs) do
    if not forward and pcall(layer, table.unpack(input)) then forward = input end
  end
  if not forward then none_made[#none_made + 1] = "forward of " .. row.name end
  forward = forward or {}
  local function use(...) backwards(maker(...)(table.unpack(forward))) end
  row.small = true
  walk_places(row, use, places, false)
end

-- ---- what no catalogue has ----

local hand = {}
local t, model = rs.arange(12):view(3, 4), nn.Linear(4, 2)
local function each(name, f) hand[#hand + 1] = { name, f } end
local function both(v) return { v, v } end
each("t[i]", function(v) return t[v], t[{ v }], t[{ v, 0 }], t[{ 0, v }] end)
each("t[{i}]", function(v) return t[{ v }] end)
each("t[{0, i}]", function(v) return t[{ 0, v }] end)
each("t[{..., i}]", function(v) return t[{ "...", v }] end)
each("slice from", function(v) return t[{ rs.slice(v, nil) }] end)
each("slice to", function(v) return t[{ rs.slice(nil, v) }] end)
each("slice step", function(v) return t[{ rs.slice(nil, nil, v) }] end)
each("slice all", function(v) return t[{ rs.slice(v, v, v) }] end)
each("t[tensor]", function(v) return t[rs.tensor(both(v))] end)
each("t[int64]", function(v) return t[rs.tensor(both(v)):long()] end)
each("t[{tensor, tensor}]", function(v) return t[{ rs.tensor(both(v)):long(), rs.tensor { 0, 1 } }] end)
each("write t[i]", function(v) t:clone()[v] = 1 end)
each("write t[{i}]", function(v) t:clone()[{ v }] = 1 end)
each("write value", function(v) t:clone()[{ 0 }] = v end)
each("write slice", function(v) t:clone()[{ rs.slice(v, nil) }] = v end)
each("write slice step", function(v) t:clone()[{ rs.slice(nil, nil, v) }] = v end)
each("write tensor", function(v) t:clone()[rs.tensor(both(v)):long()] = v end)
each("size", function(v) return t:size(v) end)
each("stride", function(v) return t:stride(v) end)
each("tensor", function(v) return rs.tensor { v, { v } } end)
for _, dtype in ipairs { "float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool" } do
  each("tensor " .. dtype, function(v) return tostring(rs.tensor(both(v), { dtype = dtype })) end)
  each("cast " .. dtype, function(v) return rs.tensor(both(v)):to(dtype):tolist() end)
  each("cast 32 " .. dtype, function(v) return rs.tensor(both(v), { dtype = "float32" }):to(dtype):sum() end)
  each("operators " .. dtype, function(v)
    local x = rs.tensor({ 1, -1, 0, v }, { dtype = dtype })
    for _, f in ipairs { function() return x + v, v + x, x - v, v - x end, function() return x * v, v * x end, function() return x // v end,
        function() return v // x end, function() return x % v end, function() return v % x end, function() return x / v, v / x end,
        function() return x ^ v, v ^ x end, function() return -x, x:abs(), x:sum(), x:prod(), x:cumsum(0), x:cumprod(0), x:mean() end } do pcall(f) end
  end)
end
each("to device", function(v) return t:to(v) end)
each("item", function(v) return rs.tensor(v):item(), tostring(rs.tensor(v)) end)
each("manual_seed", function(v) rs.manual_seed(v) end)
each("generator", function(v) rs.Generator():manual_seed(v) end)
each("advance", function(v) if v < 1e6 then rs.advance(v) end end)
each("iinfo", function(v) return rs.iinfo(v), rs.finfo(v) end)
each("close", function(v) return rs.close("x", v, v, v) end)
each("clip_grad_norm_", function(v) model(float(3, 4)):sum():backward() return nn.utils.clip_grad_norm_(model:parameters(), v) end)
each("clip_grad_norm_ type", function(v) return nn.utils.clip_grad_norm_(model:parameters(), 1, { norm_type = v }) end)
each("clip_grad_value_", function(v) return nn.utils.clip_grad_value_(model:parameters(), v) end)
each("pack lengths", function(v) return nn.utils.rnn.pack_padded_sequence(cube, { v, 1, 1 }) end)
each("pack lengths 2", function(v) return nn.utils.rnn.pack_padded_sequence(cube, { 2, 2, v }, { enforce_sorted = false }) end)
each("gradcheck", function(v) return rs.autograd.gradcheck(function(x) return x:sum() end, { rs.ones(2, { dtype = "float64", requires_grad = true }) }, { eps = v }) end)
for _, option in ipairs { "lr", "momentum", "dampening", "weight_decay", "eps" } do
  for _, name in ipairs { "SGD", "Adam", "AdamW" } do
    each(name .. " " .. option, function(v)
      local net = nn.Linear(4, 2)
      local opt = rs.optim[name](net:parameters(), { [option] = v, lr = option == "lr" and v or 0.1 })
      for _ = 1, 2 do net(float(3, 4)):sum():backward() opt:step() end
    end)
  end
end
each("Adam betas", function(v)
  for _, betas in ipairs { { v, 0.9 }, { 0.9, v }, { v } } do
    local opt = rs.optim.Adam(model:parameters(), { betas = betas })
    opt:step()
  end
end)
each("group's lr", function(v)
  local opt = rs.optim.SGD(model:parameters(), { lr = 0.1 })
  opt.param_groups[1].lr = v
  opt:step()
end)
local function schedule(make)
  return function(v)
    local opt = rs.optim.SGD(model:parameters(), { lr = 0.1 })
    local scheduler = make(rs.optim.lr_scheduler, opt, v)
    for _ = 1, 3 do scheduler:step() end
    local state = scheduler:state_dict()
    for name in pairs(state) do
      if type(state[name]) == "number" then
        local changed = scheduler:state_dict()
        changed[name] = v
        pcall(function() scheduler:load_state_dict(changed) scheduler:step() end)
      end
    end
  end
end
each("StepLR", schedule(function(s, opt, v) return s.StepLR(opt, v) end))
each("StepLR gamma", schedule(function(s, opt, v) return s.StepLR(opt, 1, v) end))
each("MultiStepLR", schedule(function(s, opt, v) return s.MultiStepLR(opt, { 1, v }) end))
each("ExponentialLR", schedule(function(s, opt, v) return s.ExponentialLR(opt, v) end))
each("CosineAnnealingLR", schedule(function(s, opt, v) return s.CosineAnnealingLR(opt, v, v) end))
each("LinearLR", schedule(function(s, opt, v) return s.LinearLR(opt, { start_factor = v, total_iters = v }) end))
each("LinearLR iters", schedule(function(s, opt, v) return s.LinearLR(opt, { total_iters = v }) end))
each("LinearLR end", schedule(function(s, opt, v) return s.LinearLR(opt, { end_factor = v }) end))
each("LambdaLR", schedule(function(s, opt, v) return s.LambdaLR(opt, function() return v end) end))
each("SequentialLR", schedule(function(s, opt, v)
  return s.SequentialLR(opt, { s.StepLR(opt, 1), s.StepLR(opt, 2) }, { v })
end))
local U = rs.utils.data
local set = U.TensorDataset(float(7, 2), whole(7))
local function pass(loader) local n = 0 for _ in loader do n = n + 1 if n > 20 then break end end return #loader end
each("set[i]", function(v) return set[v] end)
each("digits[i]", function(v) return U.Subset(set, { v })[0] end)
each("subset[i]", function(v) return U.Subset(set, { 1, 2 })[v] end)
each("random_split", function(v) return U.random_split(set, { v, 3 }), U.random_split(set, { v }) end)
each("random_split sum", function(v) return U.random_split(set, { v, -v, 7 }) end)
each("DataLoader", function(v) return pass(U.DataLoader(set, { batch_size = v })) end)
each("DataLoader last", function(v) return pass(U.DataLoader(set, { batch_size = v, drop_last = true })) end)
each("DataLoader workers", function(v) return pass(U.DataLoader(set, { num_workers = v })) end)
each("DataLoader sampler", function(v) return pass(U.DataLoader(set, { sampler = { v, 0 }, batch_size = 2 })) end)
each("RandomSampler", function(v) return pass(U.DataLoader(set, { sampler = U.RandomSampler(set, { replacement = true, num_samples = v }) })) end)
for _, option in ipairs { "num_replicas", "rank", "seed" } do
  for _, last in ipairs { false, true } do
    each("DistributedSampler " .. option, function(v)
      local settings = { num_replicas = 3, rank = 1, drop_last = last }
      settings[option] = v
      local sampler = U.DistributedSampler(set, settings)
      pcall(sampler.set_epoch, sampler, v)
      return #sampler, pass(U.DataLoader(set, { sampler = sampler }))
    end)
  end
end
each("DistributedSampler both", function(v) return #U.DistributedSampler(set, { num_replicas = v, rank = 0 }) end)
each("Stream", function(v) return rs.cuda.Stream(v), rs.cuda.current_stream(v) end)
each("current_stream", function(v) return rs.cuda.current_stream(v) end)
each("synchronize", function(v) return rs.cuda.synchronize(v) end)
each("memory_allocated", function(v) return rs.cuda.memory_allocated(v), rs.cuda.max_memory_allocated(v) end)
each("max_memory_allocated", function(v) return rs.cuda.max_memory_allocated(v) end)
each("parallel.scatter", function(v) return nn.parallel.scatter(t, { 0, 1 }, v) end)
each("parallel.scatter to", function(v) return nn.parallel.scatter(t, { v, 1 }) end)
each("parallel.gather", function(v) return nn.parallel.gather({ t, t }, 0, v) end)
each("parallel.gather to", function(v) return nn.parallel.gather({ t, t }, v) end)
each("replicate", function(v) return nn.parallel.replicate(model, { v }) end)
each("DataParallel", function(v) return nn.DataParallel(model, { v, 0 }) end)
each("DataParallel output", function(v) return nn.DataParallel(model, { device_ids = { 0, 1 }, output_device = v, dim = 0 }) end)
each("DataParallel dim", function(v)
  local net = nn.Linear(4, 2):to "device:0"
  return nn.DataParallel(net, { device_ids = { 0, 1 }, dim = v })(float(4, 4))
end)
each("data_parallel", function(v) return nn.parallel.data_parallel(nn.Linear(4, 2):to "device:0", float(4, 4), { device_ids = { 0, 1 }, output_device = v }) end)
each("buckets", function(v) return dist._compute_bucket_assignment_by_size({ t, t }, { v }) end)
each("trace", function(v) return rs.trace:seq(v), rs.trace:count { seq = v, rank = v, tid = v } end)
each("trace events", function(v) return rs.trace:first { rank = v } end)
each("spawn world", function(v) return dist.spawn(function() end, { world = v }) end)
each("add_scalar", function(v) return t:add(t, { alpha = v }), t:float():add(t, { alpha = v }) end)
each("backward of slices", function(v)
  local x = rs.ones(3, 4, { requires_grad = true })
  x[{ rs.slice(v, nil), rs.slice(nil, v) }]:sum():backward()
end)
each("softmax of extremes", function(v) return F.softmax(rs.tensor { v, 0.5 }, 0), F.cross_entropy(rs.tensor { { v, 0.5 } }, rs.tensor { 0 }) end)

-- In a world of two: options of the collectives.
local ranks = {
  { "broadcast", function(d, x, v) d.broadcast(x, v) end }, { "send", function(d, x, v) d.send(x, v) end },
  { "recv", function(d, x, v) d.recv(x, v) end },
  { "isend tag", function(d, x, v) local r = d.get_rank() local work = r == 0 and d.isend(x, 1, { tag = v }) or d.irecv(x, 0, { tag = v }) work:wait() end },
  { "store add", function(d, _, v) d.store:add("key", v) d.store:add("key", v) end },
  { "ddp", function(d, _, v)
      local r = require "ringside"
      local net = r.nn.parallel.DistributedDataParallel(r.nn.Linear(2, 2), { bucket_cap_mb = v })
      net(r.ones(2, 2)):sum():backward()
    end },
  { "ddp devices", function(d, _, v)
      local r = require "ringside"
      r.nn.parallel.DistributedDataParallel(r.nn.Linear(2, 2), { device_ids = { v } })
    end },
  { "all_reduce", function(d, x, v) x:fill_(v) for _, op in ipairs { "SUM", "AVG", "PRODUCT", "MIN", "MAX" } do d.all_reduce(x, { op = d.ReduceOp[op] }) end end },
}
for _, row in ipairs(ranks) do
  for _, dtype in ipairs { "float32", "int64" } do
    each("rank's " .. row[1], function(v)
      local body = row[2]
      dist.spawn(function()
        local r = require "ringside"
        body(r.distributed, r.ones(2, { dtype = dtype }), v)
      end, { world = 2 })
    end)
  end
end

-- ---- all of them ----

math.randomseed(options.seed)
print("seed " .. options.seed)
for line in options.rows:gmatch "[^\n]+" do
  local row = read(line)
  for _, mode in ipairs(row.name:find "^Conv%dd" and { "zeros", "reflect", "replicate", "circular" } or { false }) do
    row.always = mode and { padding_mode = mode } or nil
    if row.form == "layer" then walk_layer(row) else walk(row) end
  end
end
for _, row in ipairs(hand) do
  for _, number in ipairs(extremes) do try(row[1] .. " of " .. number, row[2], number) end
end
print(("calls: %d, answered %d, refused %d"):format(count, made, refused))
print("without a call: " .. table.concat(none_made, ", "))
rs.check("no call ends otherwise", wrong == 0)
rs.check("everything is called", #none_made == 0)
