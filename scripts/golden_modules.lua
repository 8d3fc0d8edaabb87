-- Cases of modules (forward, gradients, buffers), losses, and the sections of rng.json that draw: constructors, models,
-- nn.init, dropout, multinomial, the generator's state.
local rs = require "ringside"
local nn = rs.nn

return function(tools)
  local match, same, rand_after, DTYPES = tools.match, tools.same, tools.rand_after, tools.DTYPES
  local tensor, crc32, known = tools.tensor, tools.crc32, tools.known

  local function present(value) return value ~= nil and value ~= rs.none end

  -- ---- modules ----

  -- What is said about a case is no argument of the constructor.
  local function arguments(attrs, leave_out)
    local out = {}
    for name, value in pairs(attrs) do
      if not (leave_out and leave_out[name]) then out[name] = value end
    end
    return out
  end

  local function make(case, leave_out)
    local kind = case.module
    if case.packed then kind = kind:match("^(%S+) packed$") or kind end
    if not nn[kind] then error("the module '" .. kind .. "' is not understood") end
    local module = nn[kind](arguments(case.attrs, leave_out))
    module:train(case.training ~= false)
    return module
  end

  -- The parameters, or the buffers, of a module, and their names for `known`.
  local function by_name(module, list)
    local found, names = {}, {}
    for name, t in module[list](module) do
      found[name] = t
      names[#names + 1] = name
    end
    return found, table.concat(names, " ")
  end

  local function fill(module, params, buffers)
    local own, names = by_name(module, "named_parameters")
    local kept, buffer_names = by_name(module, "named_buffers")
    known("the parameters", params, names)
    known("the buffers", buffers, buffer_names)
    rs.no_grad(function()
      for name, t in pairs(own) do
        if not params[name] then error("no numbers for the parameter " .. name) end
        t:copy_(tools.like(name, params[name], t))
      end
      for name, t in pairs(kept) do
        if buffers and buffers[name] then t:copy_(tools.like(name, buffers[name], t)) end
      end
    end)
  end

  local function input(case, name, differentiable)
    local golden = case.inputs[name]
    if not present(golden) then return nil end
    if type(golden) ~= "table" then return golden end
    local t = tensor(golden)
    if differentiable and (golden.dtype == "f32" or golden.dtype == "f64") then t:requires_grad_(true) end
    return t
  end

  local function grads_match(case, module, inputs, tol)
    local wrong
    local own, names = by_name(module, "named_parameters")
    known("the parameters' gradients", case.param_grads, names)
    for name, golden in pairs(case.param_grads or {}) do
      wrong = wrong or match(name .. ".grad", own[name].grad, golden, not golden.layout and tol or nil)
    end
    for name, golden in pairs(case.input_grads or {}) do
      if not inputs[name] then return "the input " .. name .. " is not understood" end
      wrong = wrong or match(name .. ".grad", inputs[name].grad, golden, tol)
    end
    return wrong
  end

  local function state_match(module, case, tol)
    local wrong
    local own, names = by_name(module, "named_parameters")
    local kept, buffer_names = by_name(module, "named_buffers")
    known("the buffers afterwards", case.buffers_after, buffer_names)
    known("the parameters afterwards", case.params_after, names)
    for name, golden in pairs(case.buffers_after or {}) do
      wrong = wrong or match(name, kept[name], golden, golden.dtype ~= "i64" and tol or nil)
    end
    for name, golden in pairs(case.params_after or {}) do wrong = wrong or match(name, own[name], golden, tol) end
    return wrong
  end

  -- The results of a forward, one after the other: the pair (h, c) counts as two.
  local function flattened(...)
    local out = {}
    for i = 1, select("#", ...) do
      local value = select(i, ...)
      if type(value) == "table" then
        for at = 1, #value do out[#out + 1] = value[at] end
      elseif value ~= nil then
        out[#out + 1] = value
      end
    end
    return out
  end

  local CALLS = {}
  function CALLS.MultiheadAttention(module, inputs)
    known("the inputs", inputs, "x q k v key_padding_mask need_weights attn_mask average_attn_weights")
    local q, k, v = inputs.q or inputs.x, inputs.k or inputs.x, inputs.v or inputs.x
    return module(q, k, v, inputs.key_padding_mask, inputs.need_weights ~= false, inputs.attn_mask,
      inputs.average_attn_weights ~= false)
  end
  -- The first ones by place, the others by name.
  local function named(...)
    local first = { ... }
    return function(module, inputs)
      local args, others = {}, {}
      for name, value in pairs(inputs) do others[name] = value end
      for i, names in ipairs(first) do
        for name in names:gmatch("%S+") do
          args[i], others[name] = args[i] or inputs[name], nil
        end
      end
      if next(others) then args[#args + 1] = rs.kw(others) end
      return module(table.unpack(args))
    end
  end
  CALLS.TransformerEncoderLayer, CALLS.TransformerEncoder = named("x src"), named("x src")
  CALLS.TransformerDecoderLayer, CALLS.TransformerDecoder = named("x tgt", "memory"), named("x tgt", "memory")
  CALLS.Transformer = named("x src", "tgt")
  CALLS.Bilinear = named("x1 input1", "x2 input2")
  local function recurrent(module, inputs)
    known("the inputs", inputs, "x h0 c0")
    if inputs.c0 then return module(inputs.x, rs.tuple(inputs.h0, inputs.c0)) end
    return module(inputs.x, inputs.h0)
  end
  CALLS.LSTM, CALLS.GRU, CALLS.RNN = recurrent, recurrent, recurrent
  CALLS.LSTMCell, CALLS.GRUCell, CALLS.RNNCell = recurrent, recurrent, recurrent
  -- Draws a mask of its own; where that leaves nothing to choose it is the given one, else the numbers are those of the
  -- given one once ours has been seen to do the same with its own.
  function CALLS.Dropout(module, inputs, case)
    known("the inputs", inputs, "x mask")
    local out, p = module(inputs.x), case.training ~= false and case.attrs.p or 0
    local kept, scale = out:ne(0), p < 1 and 1 / (1 - p) or 0
    if not inputs.mask then return out end
    local wrong = tools.compare("its own mask", tools.flat(out), tools.flat(inputs.x * kept * scale), { 1e-6, 1e-6 }) or
      (inputs.mask.dtype ~= "bool" and "the mask is not bool") or
      ((p == 0 or p == 1) and tools.compare("mask", tools.flat(kept), tools.flat(inputs.mask)) or nil)
    if wrong then error(wrong, 0) end
    return p > 0 and p < 1 and inputs.x * inputs.mask * scale or out
  end
  local function plain(module, inputs)
    known("the inputs", inputs, "x idx")
    return module(inputs.x or inputs.idx)
  end

  local function backward(outputs, grad_out)
    local total
    if #grad_out ~= #outputs then error("there are not as many grad_out as outputs", 0) end
    for i, golden in ipairs(grad_out) do
      local part = (outputs[i] * tools.like("grad_out", golden, outputs[i])):sum()
      total = total and total + part or part
    end
    total:backward()
  end

  local function inputs_of(case)
    local inputs = {}
    for name in pairs(case.inputs) do inputs[name] = input(case, name, case.grad_out ~= nil) end
    return inputs
  end

  local function outputs_match(outputs, goldens, tol)
    local wrong = same("outputs", #outputs, #goldens)
    for i, golden in ipairs(goldens) do wrong = wrong or match("output " .. i, outputs[i], golden, tol) end
    return wrong
  end

  local function forward_case(case)
    local tol = case.tol or { 1e-5, 1e-4 }
    local module, inputs = make(case), inputs_of(case)
    if case.params or case.buffers then fill(module, case.params or {}, case.buffers) end
    local outputs = flattened((CALLS[case.module] or plain)(module, inputs, case))
    local wrong = outputs_match(outputs, case.outputs, tol)
    if case.grad_out and not wrong then backward(outputs, case.grad_out) end
    return wrong or grads_match(case, module, inputs, tol) or state_match(module, case, tol)
  end

  local function raises_case(case)
    local module = make(case)
    if case.params or case.buffers then fill(module, case.params or {}, case.buffers) end
    local ok, err = pcall(plain, module, inputs_of(case))
    if ok then return "nothing was raised" end
    return same("kind", err.kind, case.raises[1]) or same("message", err.message, case.raises[2])
  end

  local function steps_case(case)
    local module, wrong = make(case), nil
    if case.params or case.buffers then fill(module, case.params or {}, case.buffers) end
    for i, step in ipairs(case.steps) do
      known("step " .. i, step, "x running_mean running_var num_batches_tracked")
      module(tensor(step.x))
      for _, name in ipairs { "running_mean", "running_var" } do
        wrong = wrong or match("step " .. i .. " " .. name, module[name], step[name], case.tol or { 1e-5, 1e-4 })
      end
      wrong = wrong or same("batches", module.num_batches_tracked:item(), step.num_batches_tracked)
    end
    return wrong
  end

  local function list_match(what, got, golden)
    if not present(golden) then
      if present(got) then return what .. " is there" end
      return nil
    end
    return same(what, got:tolist(), golden)
  end

  local function packed_case(case)
    local attrs, tol, rnn = case.attrs, case.tol or { 1e-5, 1e-4 }, nn.utils.rnn
    known("packed", case.packed, "data batch_sizes sorted_indices unsorted_indices")
    known("the inputs", case.inputs, "x")
    local module = make(case, { lengths = true, enforce_sorted = true, total_length = true })
    fill(module, case.params)
    local x = input(case, "x", true)
    local packed = rnn.pack_padded_sequence(x, attrs.lengths,
      { batch_first = attrs.batch_first, enforce_sorted = attrs.enforce_sorted })
    local golden = case.packed
    local wrong = match("data", packed.data, golden.data, tol) or
      list_match("batch_sizes", packed.batch_sizes, golden.batch_sizes) or
      list_match("sorted_indices", packed.sorted_indices, golden.sorted_indices) or
      list_match("unsorted_indices", packed.unsorted_indices, golden.unsorted_indices)
    if wrong then return wrong end
    local result, state = module(packed)
    local output, lengths = rnn.pad_packed_sequence(result,
      { batch_first = attrs.batch_first, total_length = present(attrs.total_length) and attrs.total_length or nil })
    local outputs = flattened(output, state)
    wrong = outputs_match(outputs, case.outputs, tol) or same("lengths", lengths:tolist(), case.out_lengths)
    if not wrong then backward(outputs, case.grad_out) end
    return wrong or grads_match(case, module, { x = x }, tol)
  end

  -- A note says in words what the numbers show.
  local SHARED = "name module attrs training params buffers note "
  local GIVEN = SHARED .. "inputs grad_out outputs param_grads input_grads tol "
  local MODULE_FORMS = {
    { "raises", raises_case, SHARED .. "raises inputs" },
    { "steps", steps_case, SHARED .. "steps tol" },
    { "packed", packed_case, GIVEN .. "packed out_lengths" },
    { "outputs", forward_case, GIVEN .. "buffers_after params_after" },
  }
  local function module_form(case)
    for _, form in ipairs(MODULE_FORMS) do
      if case[form[1]] ~= nil then return form[2], form[3] end
    end
  end

  -- ---- losses ----

  local function loss_case(case)
    local attrs, tol = {}, case.tol or { 1e-5, 1e-4 }
    known("the inputs", case.inputs, "input target weight pos_weight")
    known("the gradients", case.grads, "input target")
    for name, value in pairs(case.attrs or {}) do
      if name ~= "target" then attrs[name] = value end
    end
    local kinds = case.attrs.target and { probabilities = true } or {}
    if case.attrs.target and not (kinds[case.attrs.target] and case.inputs.target.dtype:find("^f")) then
      return "the target '" .. tostring(case.attrs.target) .. "' is not understood"
    end
    for _, name in ipairs { "weight", "pos_weight" } do
      if present(case.inputs[name]) then attrs[name] = tensor(case.inputs[name]) end
    end
    if not nn[case.loss] then return "the loss '" .. tostring(case.loss) .. "' is not understood" end
    local x, target = tensor(case.inputs.input):requires_grad_(true), tensor(case.inputs.target)
    if case.grads.target then target:requires_grad_(true) end
    local out = nn[case.loss](attrs)(x, target)
    local wrong = match("output", out, case.output, tol)
    out:backward(tools.like("grad_out", case.grad_out, out))
    return wrong or match("input.grad", x.grad, case.grads.input, tol) or
      (case.grads.target and match("target.grad", target.grad, case.grads.target, tol)) or nil
  end

  -- ---- constructors ----

  local MODELS = {}
  function MODELS.Mlp(a)
    local layers = {}
    for i = 1, #a - 1 do
      layers[#layers + 1] = nn.Linear(a[i], a[i + 1])
      if i < #a - 1 then layers[#layers + 1] = nn.ReLU() end
    end
    return nn.Sequential(layers)
  end
  function MODELS.Cnn(a)
    return nn.Sequential { nn.Conv2d(a[1], a[2], 3, { padding = 1 }), nn.BatchNorm2d(a[2]), nn.ReLU(), nn.MaxPool2d(2),
      nn.Conv2d(a[2], a[3], 3, { bias = false }), nn.Flatten(), nn.Linear(4 * a[3], a[4]) }
  end
  local Gpt = nn.Module("Gpt")
  function Gpt:init(v, t, d, h, n)
    self.tok = nn.Embedding(v, d)
    self.pos = nn.Embedding(t, d)
    self.blocks = nn.ModuleList()
    for _ = 1, n do self.blocks:append(nn.TransformerEncoderLayer(d, h, { dim_feedforward = 2 * d })) end
    self.norm = nn.LayerNorm(d)
    self.head = nn.Linear(d, v, { bias = false })
  end
  function MODELS.Gpt(a) return Gpt(table.unpack(a)) end
  local LateOrder = nn.Module("LateOrder")
  function LateOrder:init()
    self:add_module("first", nil)
    local b = nn.Linear(3, 4)
    self.first = nn.Linear(4, 2)
    self.second = b
  end
  function MODELS.LateOrder(a)
    if #a > 0 then error("the arguments of LateOrder are not understood") end
    return LateOrder()
  end

  local function build(case)
    if MODELS[case.module] and next(case.kwargs or {}) then error("the options of " .. case.module .. " are not understood") end
    if MODELS[case.module] then return MODELS[case.module](case.args) end
    if not nn[case.module] then error("the module '" .. tostring(case.module) .. "' is not understood") end
    local args = {}
    for i = 1, #case.args do args[i] = case.args[i] end
    if next(case.kwargs or {}) then args[#args + 1] = case.kwargs end
    return nn[case.module](table.unpack(args))
  end

  local function constructor_case(case)
    rs.manual_seed(case.seed)
    local module, wrong, count = build(case), nil, 0
    local after = rand_after(case)
    for name, parameter in module:named_parameters() do
      count = count + 1
      local golden = case.params[count]
      wrong = wrong or same("name", name, golden and golden.name) or match(name, parameter, golden)
    end
    local buffers = 0
    for name, buffer in module:named_buffers() do
      buffers = buffers + 1
      local golden = case.buffers[buffers]
      wrong = wrong or same("buffer", name, golden and golden.name) or match(name, buffer, golden)
    end
    return wrong or same("parameters", count, #case.params) or same("buffers", buffers, #case.buffers) or after
  end

  -- ---- other draws ----

  local function init_case(case)
    if not nn.init[case.fn] then return "nn.init." .. tostring(case.fn) .. " is not understood" end
    rs.manual_seed(case.seed)
    local t = tools.laid_out(case.layout, case.shape, { dtype = DTYPES[case.dtype or "f32"] })
    if next(case.kwargs or {}) then nn.init[case.fn](t, case.kwargs) else nn.init[case.fn](t) end
    return match("out", t, case.out, case.tol) or rand_after(case)
  end

  -- x[i] = (i - floor(n/2) + 0.25)/8; a mask says what was kept, and scale what that was multiplied with.
  local function dropout_case(case)
    local n = 1
    for _, size in ipairs(case.shape) do n = n * size end
    local x = ((rs.arange(n):to("float32") - n // 2 + 0.25) / 8):reshape(case.shape)
    local options, run = { dtype = DTYPES[case.dtype or "f32"] }, nn.functional[case.kind]
    if not run then return "this kind of dropout is not understood" end
    x = tools.laid_out(case.layout, case.shape, options):copy_(x)
    rs.manual_seed(case.seed)
    local out = run(x, { p = case.p, training = true })
    local wrong, after = match("out", out, case.out), rand_after(case)
    if present(case.scale) then
      wrong = wrong or tools.compare("out / x", tools.flat(out), tools.flat(x * out:ne(0) * case.scale), { 1e-6, 1e-6 })
    end
    if not present(case.mask) then return wrong or after end
    local kept = {}
    for i, value in ipairs(tools.flat(out)) do kept[i] = value == 0 and "0" or "1" end
    return wrong or same("mask", table.concat(kept), case.mask) or after
  end

  local function multinomial_case(case)
    rs.manual_seed(case.seed)
    local out = rs.multinomial(tensor(case.weights), case.num_samples, case.replacement)
    return same("out", out:tolist(), case.out) or rand_after(case)
  end

  local function state_case(case)
    local op, n = case.after:match("^(%a+)%((%d+)%)$")
    if not op or not rs[op] then return "'" .. tostring(case.after) .. "' is not understood" end
    rs.manual_seed(case.seed)
    rs[op] { tonumber(n) }
    local state, bytes = rs.get_rng_state(), {}
    local left, _, following = string.unpack("<i4i4I8", state, 9)
    for i = 1, #state do bytes[i] = state:byte(i) end
    local at = 25 + 624 * 8
    local cached = string.unpack("<d", state, at + 8)
    return same("bytes", #state, case.bytes) or same("left", left, case.left) or same("next", following, case.next) or
      same("cached", string.unpack("<i4", state, at + 24) == 1, case.cached) or
      same("cached normal", cached, case.cached_f64 + 0.0) or same("crc32", crc32(bytes, "bool"), case.crc32)
  end

  local function draw_case(case)
    local args, op = case.args or {}, case.op
    local dtype = DTYPES[case.dtype or "f32"]
    rs.manual_seed(case.seed)
    if op == "bernoulli" then
      if #args > 0 then error("the arguments of bernoulli are not understood", 0) end
      local p = (rs.arange(case.n) % 65):to(dtype) / 64
      return match("out", rs.bernoulli(p), case.out) or rand_after(case)
    end
    local t = rs.empty({ case.n }, { dtype = dtype })
    return match("out", t[op](t, table.unpack(args)), case.out) or rand_after(case)
  end

  local SECTIONS = {
    init = { init_case, "fn shape kwargs seed dtype layout out rand_after tol" },
    dropout = { dropout_case, "kind shape p layout seed dtype out mask scale rand_after" },
    multinomial = { multinomial_case, "weights num_samples replacement seed out rand_after" },
    state = { state_case, "seed after bytes left next cached cached_f64 crc32" },
  }
  local LOSS_FIELDS = "name loss attrs inputs grad_out output grads note tol"

  return function(section, case, _, name)
    if section == "cases" and case.module and case.attrs then return module_form(case) end
    if section == "cases" and case.loss and case.inputs and case.grads and type(case.loss) == "string" then
      return loss_case, LOSS_FIELDS
    end
    if (section == "modules" or section == "models") and case.params and case.args then
      return constructor_case, "module args kwargs seed params buffers rand_after"
    end
    if section == "draws" and (case.op == "bernoulli" or case.op == "exponential_") then
      return draw_case, "seed op n dtype args out rand_after"
    end
    local form = name:match("^rng") and SECTIONS[section]
    if form then return form[1], form[2] end
  end
end
