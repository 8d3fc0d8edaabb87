-- Numbers that PyTorch made, against ours: every case of the files named on the command line, one check each.
-- A file is {header, sections ...}; its header says how it is read. What is not understood here is a failure.
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed

rs.lesson { title = "Golden numbers", devices = 16, prefix = "" }

-- ---- reading ----

local DTYPES = { f32 = "float32", f64 = "float64", f16 = "float16", bf16 = "bfloat16", i64 = "int64", i32 = "int32",
  u8 = "uint8", bool = "bool" }

-- A number as JSON can write it: nan, inf and whole numbers from 2^53 on are texts.
local function number(value)
  if value == "nan" then return 0 / 0 end
  if value == "inf" then return math.huge end
  if value == "-inf" then return -math.huge end
  if type(value) == "boolean" then return value and 1 or 0 end
  return type(value) == "string" and tonumber(value) or value
end

local function numbers(list)
  local out = {}
  for i = 1, #list do out[i] = number(list[i]) end
  return out
end

local function count_of(shape)
  local count = 1
  for i = 1, #shape do count = count * shape[i] end
  return count
end

local function flat(t)
  local count = t:numel()
  if count == 0 then return {} end
  local list = t:detach():to("cpu"):reshape { count }:tolist()
  for i = 1, count do list[i] = number(list[i]) end
  return list
end

-- A golden tensor's elements, row-major, as the dtype holds them. With `rows`, the others are 0.
local function elements(golden)
  local list = numbers(golden.data)
  if golden.rows then
    local width, all = count_of(golden.shape) // golden.shape[1], {}
    for i = 1, count_of(golden.shape) do all[i] = 0.0 end
    for at, row in ipairs(golden.rows) do
      for i = 1, width do all[row * width + i] = list[(at - 1) * width + i] end
    end
    list = all
  end
  if not ({ f32 = true, f16 = true, bf16 = true })[golden.dtype] then return list end
  for i, value in ipairs(list) do list[i] = string.unpack("<f", string.pack("<f", value)) end
  return list
end

local function tensor(golden)
  local list = elements(golden)
  if #golden.shape == 0 then return rs.tensor(list[1], { dtype = DTYPES[golden.dtype] }) end
  if #list == 0 then return rs.zeros(golden.shape, { dtype = DTYPES[golden.dtype] }) end
  return rs.tensor(list, { dtype = DTYPES[golden.dtype] }):reshape(golden.shape)
end

-- ---- comparing: nil, or what is wrong ----

local function show(value)
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i = 1, math.min(#value, 20) do parts[i] = show(value[i]) end
  return "[" .. table.concat(parts, ", ") .. (#value > 20 and ", ..." or "") .. "]"
end

local equal
function equal(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return show(a) == show(b) end
  for i = 1, math.max(#a, #b) do
    if not equal(a[i], b[i]) then return false end
  end
  return true
end

local function same(what, got, expected)
  if equal(got, expected) then return nil end
  return string.format("%s: got %s, expected %s", what, show(got), show(expected))
end

local function shape_of(t)
  local shape = {}
  for i = 1, t:dim() do shape[i] = t:size(i - 1) end
  return shape
end

-- `tol` nil: bit for bit.
local function compare(what, got, list, tol)
  if #got ~= #list then return string.format("%s: got %d elements, expected %d", what, #got, #list) end
  for i = 1, #list do
    local a, b = got[i], list[i]
    local near = a == b or (a ~= a and b ~= b) or (tol and math.abs(a - b) <= tol[1] + tol[2] * math.abs(b))
    if not near then
      return string.format("%s: element %d: got %.9g, expected %.9g", what, i - 1, a, b)
    end
  end
end

local crc_table = {}
for byte = 0, 255 do
  local crc = byte
  for _ = 1, 8 do crc = crc & 1 == 1 and crc >> 1 ~ 0xEDB88320 or crc >> 1 end
  crc_table[byte] = crc
end

-- 16-bit floats count as the float32 of the same value.
local CRC_FORMATS = { f32 = "<f", f64 = "<d", f16 = "<f", bf16 = "<f", i64 = "<i8", i32 = "<i4", u8 = "B", bool = "B" }

local function crc32(list, dtype)
  local format, crc = CRC_FORMATS[dtype], 0xFFFFFFFF
  for i = 1, #list do
    local bytes = string.pack(format, list[i])
    for at = 1, #bytes do crc = crc >> 8 ~ crc_table[(crc ~ bytes:byte(at)) & 255] end
  end
  return string.format("%08x", crc ~ 0xFFFFFFFF)
end

-- Against a golden tensor, or against its checksum.
local function match(what, t, golden, tol)
  local wrong = same(what .. " dtype", t.dtype, DTYPES[golden.dtype]) or same(what .. " shape", shape_of(t), golden.shape)
  if wrong then return wrong end
  local got = flat(t)
  if golden.crc32 == nil then return compare(what, got, elements(golden), tol) end
  local first, last = {}, {}
  for i = 1, #golden.first do first[i] = got[i] end
  for i = 1, #golden.last do last[i] = got[#got - #golden.last + i] end
  return compare(what .. " first", first, elements { dtype = golden.dtype, shape = {}, data = golden.first }) or
    compare(what .. " last", last, elements { dtype = golden.dtype, shape = {}, data = golden.last }) or
    same(what .. " crc32", crc32(got, golden.dtype), golden.crc32)
end

local function rand_after(case)
  if case.rand_after == nil then return nil end
  return match("rand after", rs.rand { #case.rand_after }, { dtype = "f32", shape = { #case.rand_after }, data = case.rand_after })
end

-- ---- chunk ----

local function chunk_row(case)
  local sizes = {}
  for i, piece in ipairs(rs.zeros { case[1] }:chunk(case[2], 0)) do sizes[i] = piece:size(0) end
  return same("sizes", sizes, case[3])
end

local function chunk_case(case)
  local t = rs.zeros(case.shape)
  if case.raises then
    local ok, err = pcall(t.chunk, t, case.chunks, case.dim)
    return ok and "nothing was raised" or same("kind", err.kind, case.raises[1])
  end
  local pieces = t:chunk(case.chunks, case.dim)
  local wrong = same("pieces", #pieces, #case.pieces)
  for i, golden in ipairs(case.pieces) do
    local piece = pieces[i]
    wrong = wrong or same("shape", shape_of(piece), golden.shape) or same("offset", piece:storage_offset(), golden.offset)
    for dim, stride in ipairs(golden.stride) do wrong = wrong or same("stride", piece:stride(dim - 1), stride) end
    wrong = wrong or same("shares storage", piece:storage_id() == t:storage_id(), golden.shares_storage)
  end
  return wrong
end

-- ---- random numbers ----

-- Made empty in the layout that the case names.
local LAYOUTS = {
  transposed = function(s, o) return rs.empty({ s[2], s[1] }, o):t() end,
  contiguous = function(s, o) return rs.empty(s, o) end,
  every_second_column = function(s, o) return rs.empty({ s[1], s[2], 2 }, o):select(2, 0) end,
  every_second_row_transposed = function(s, o) return rs.empty({ s[2], 2, s[1] }, o):select(1, 0):t() end,
  reversed = function(s, o)
    local sizes, order = {}, {}
    for i = 1, #s do sizes[i], order[i] = s[#s + 1 - i], #s - i end
    return rs.empty(sizes, o):permute(order)
  end,
  channels_last = function(s, o) return rs.empty({ s[1], s[3], s[4], s[2] }, o):transpose(1, 3):transpose(2, 3) end,
}

local function laid_out(layout, shape, options)
  if not LAYOUTS[layout or "contiguous"] then error("the layout '" .. tostring(layout) .. "' is not understood") end
  return LAYOUTS[layout or "contiguous"](shape, options)
end

local function draw(step, shape)
  local args, op = step.args or {}, step.op
  local options = { dtype = DTYPES[step.dtype or (step.out and step.out.dtype) or "f32"] }
  if op == "rand" or op == "randn" then return rs[op](shape, options) end
  if op == "randint" then return rs.randint(args[1], args[2], shape, options) end
  if op == "randperm" then return rs.randperm(shape[1]) end
  local t = laid_out(step.layout, shape, options)
  if op == "rand_like" or op == "randn_like" then return rs[op](t) end
  if type(op) ~= "string" or not op:find("_$") or not pcall(function() return t[op] end) then
    error("the op '" .. tostring(op) .. "' is not understood")
  end
  return t[op](t, table.unpack(args))
end

local function draw_case(case)
  rs.manual_seed(case.seed)
  return match("out", draw(case, case.shape or { case.n }), case.out) or rand_after(case)
end

local function sequence_case(case)
  local wrong
  rs.manual_seed(case.seed)
  for i, step in ipairs(case.steps) do
    if step.op == "manual_seed" then
      rs.manual_seed(step.args[1])
    else
      local out = draw(step, step.shape)
      wrong = wrong or match("step " .. i .. " " .. step.op, out, step.out)
    end
  end
  return wrong or rand_after(case)
end

local function randperm_case(case)
  rs.manual_seed(case.seed)
  return match("out", rs.randperm(case.n), case.out) or rand_after(case)
end

local MODULES = {}
function MODULES.Linear(args, kwargs) return nn.Linear(args[1], args[2], { bias = kwargs.bias ~= false }) end
function MODULES.Embedding(args, kwargs) return nn.Embedding(args[1], args[2], { padding_idx = kwargs.padding_idx }) end
function MODULES.Mlp(widths)
  local layers = {}
  for i = 1, #widths - 1 do
    layers[#layers + 1] = nn.Linear(widths[i], widths[i + 1])
    if i < #widths - 1 then layers[#layers + 1] = nn.ReLU() end
  end
  return nn.Sequential(table.unpack(layers))
end

local function module_case(case)
  local make = MODULES[case.module]
  if not make then return "the module '" .. tostring(case.module) .. "' is not understood" end
  rs.manual_seed(case.seed)
  local module, wrong, count = make(case.args, case.kwargs or {}), nil, 0
  local after = rand_after(case)
  for name, parameter in module:named_parameters() do
    count = count + 1
    local golden = case.params[count]
    wrong = wrong or same("name", name, golden and golden.name) or match(name, parameter, golden)
  end
  return wrong or same("parameters", count, #case.params) or same("buffers", #module:buffers(), #case.buffers) or after
end

-- ---- buckets ----

local function assignment_case(case)
  local tensors = {}
  for i, count in ipairs(case.numel) do tensors[i] = rs.empty({ count }, { dtype = DTYPES[case.dtype[i]] }) end
  local buckets, limits = dist._compute_bucket_assignment_by_size(tensors, case.limits, case.sparse, case.indices)
  local wrong = same("buckets", #buckets, #case.buckets) or same("limits", limits, case.bucket_limits)
  for i, golden in ipairs(case.buckets) do wrong = wrong or same("bucket " .. i - 1, buckets[i], golden) end
  return wrong
end

local function logging_case(case)
  local widths, cap, find = case.widths, case.bucket_cap_mb, case.find_unused_parameters
  if not widths then return "a model without widths is not understood" end
  local data = dist.spawn(function()
    local ddp = nn.parallel.DistributedDataParallel(MODULES.Mlp(widths), { bucket_cap_mb = cap, find_unused_parameters = find })
    for _ = 1, 3 do ddp(rs.randn { 2, widths[1] }):sum():backward() end
    return ddp:_get_ddp_logging_data()
  end, { world = 2 })
  local wrong
  for rank = 0, 1 do
    for _, key in ipairs { "bucket_sizes", "bucket_cap_bytes", "has_rebuilt_buckets", "rebuilt_bucket_sizes",
      "rebuilt_per_bucket_param_indices" } do
      if case[key] ~= nil then wrong = wrong or same("rank " .. rank .. " " .. key, data[rank][key], case[key]) end
    end
    if case.ready_order ~= nil then
      wrong = wrong or same("ready order", data[rank].prev_iteration_grad_ready_order_indices, case.ready_order)
    end
  end
  return wrong
end

-- ---- DataParallel ----

local SeedModel = nn.Module("SeedModel")
function SeedModel:init(rows, width, padding_idx, out_features)
  self.embedding = nn.Embedding(rows, width, { padding_idx = padding_idx })
  self.linear = nn.Linear(width, out_features)
  self.seen = {}
end
function SeedModel:forward(x)
  local out = self.linear(self.embedding(x))
  local seen = { rows = out:size(0), grads = {} }
  self.seen[x.device] = seen
  for _, parameter in ipairs { { "embedding.weight", self.embedding.weight }, { "linear.weight", self.linear.weight },
    { "linear.bias", self.linear.bias } } do
    parameter[2]:register_hook(function(grad) seen.grads[parameter[1]] = grad:clone() end)
  end
  return out
end

-- Built with the arguments printed in `module`, holding the given weights, on device 0.
local function build(golden)
  local text = golden.module:gsub("%s+", " ")
  local rows, width, rest = text:match("^SeedModel%( %(embedding%): Embedding%((%d+), (%d+)(.-)%)")
  local outs = text:match("%(linear%): Linear%(in_features=%d+, out_features=(%d+), bias=True%)")
  if not rows or not outs then error("the model '" .. text .. "' is not understood") end
  local model = SeedModel(tonumber(rows), tonumber(width), tonumber(rest:match("padding_idx=(%d+)")), tonumber(outs))
  rs.no_grad(function()
    for name, parameter in model:named_parameters() do parameter:copy_(tensor(golden.params[name])) end
  end)
  return model:to("device:0")
end

local function device_list(count)
  local devices = {}
  for i = 1, count do devices[i] = i - 1 end
  return devices
end

local function sizes_text(sizes)
  return "[" .. table.concat(sizes, ", ") .. "]"
end

-- The copies since `from`, in the words of the golden logs. Replicas' forwards are set apart: they have no order.
local function call_log(from, gathered)
  local log, forwards, sizes = {}, {}, nil
  local kinds = { ["dp.scatter"] = true, ["dp.gather.backward"] = true, ["dp.scatter.chunk"] = true, ["dp.gather"] = true,
    ["dp.broadcast_coalesced"] = true, ["dp.reduce_add_coalesced"] = true, ["dp.worker"] = true }
  for _, event in ipairs(rs.trace:events("seq >= " .. from .. " and dp")) do
    local args = event.args
    if not kinds[event.kind] or event.phase == "end" then
      goto next
    elseif event.kind == "dp.scatter" or event.kind == "dp.gather.backward" then
      sizes = {}
      for size in (args.sizes or ""):gmatch("%d+") do sizes[#sizes + 1] = tonumber(size) end
      log[#log + 1] = { "scatter", sizes, args.dim }
      if event.kind == "dp.gather.backward" then sizes = nil end
    elseif event.kind == "dp.scatter.chunk" and sizes then
      sizes[#sizes + 1] = args.rows
    elseif event.kind == "dp.worker" then
      forwards[#forwards + 1] = "replica " .. args.replica .. " forward"
    elseif event.kind == "dp.gather" then
      log[#log + 1] = { "gather", gathered, args.dim }
    elseif event.kind == "dp.broadcast_coalesced" or event.kind == "dp.reduce_add_coalesced" then
      log[#log + 1] = string.format("%s tensors %d devices %d", event.kind:sub(4), args.tensors, args.devices)
    end
    ::next::
  end
  for i, entry in ipairs(log) do
    if type(entry) == "table" then log[i] = string.format("%s sizes %s dim %d", entry[1], sizes_text(entry[2]), entry[3]) end
  end
  table.sort(forwards)
  return log, forwards
end

local function split_forwards(calls)
  local log, forwards = {}, {}
  for _, call in ipairs(calls) do
    if call:find("^replica") then forwards[#forwards + 1] = call
    elseif call ~= "module forward" then log[#log + 1] = call end
  end
  table.sort(forwards)
  return log, forwards
end

local function check_backward_calls(case, log)
  local expected = case.calls_backward
  if expected.first == nil then return same("calls backward", log, expected) end
  local rest, others = {}, {}
  for i = 2, #log do rest[i - 1] = log[i] end
  for i, call in ipairs(expected.then_in_any_order) do others[i] = call end
  table.sort(rest)
  table.sort(others)
  return same("first call of the backward", log[1], expected.first) or same("calls backward", rest, others)
end

local function check_replica_grads(case, model, devices)
  local wrong
  for name, replicas in pairs(case.param_grads_per_replica or {}) do
    for i, golden in ipairs(replicas) do
      local seen = model.seen["device:" .. devices[i]]
      wrong = wrong or match(string.format("replica %d %s", i - 1, name), seen.grads[name], golden, case.tol or { 1e-5, 1e-4 })
    end
  end
  return wrong
end

local function loss_of(case, out, target)
  if case.loss_kind ~= "mse" then error("the loss '" .. tostring(case.loss_kind) .. "' is not understood") end
  return nn.functional.mse_loss(out, target:to("device:0"))
end

local function step_case(case, model, inputs)
  local devices, tol = device_list(case.devices), case.tol or { 1e-5, 1e-4 }
  local dp, from = nn.DataParallel(model, { device_ids = devices }), rs.trace:seq()
  local out = dp(tensor(inputs.x))
  local gathered = {}
  for i, device in ipairs(devices) do
    local seen = model.seen["device:" .. device]
    gathered[i] = seen and seen.rows
  end
  local log, forwards = call_log(from, gathered)
  local expected_log, expected_forwards = split_forwards(case.calls_forward)
  local loss, middle = loss_of(case, out, tensor(inputs.target)), rs.trace:seq()
  loss:backward()
  local wrong = same("replicas", #gathered, case.replicas_used) or same("chunks", gathered, case.chunk_sizes) or
    same("calls forward", log, expected_log) or same("forwards", forwards, expected_forwards) or
    match("output", out, case.output, tol) or match("loss", loss, case.loss, tol) or
    check_backward_calls(case, (call_log(middle, gathered)))
  for name, parameter in model:named_parameters() do
    wrong = wrong or match(name .. ".grad", parameter.grad, case.param_grads[name], tol)
  end
  return wrong or check_replica_grads(case, model, devices)
end

-- Where a golden tensor names changed_rows, the others keep their initial values.
local function after(golden, initial)
  if not golden.changed_rows then return golden end
  local list, width = elements(initial), count_of(golden.shape) // golden.shape[1]
  local changed = elements { dtype = golden.dtype, data = golden.data, shape = golden.shape }
  for at, row in ipairs(golden.changed_rows) do
    for i = 1, width do list[row * width + i] = changed[(at - 1) * width + i] end
  end
  return { dtype = golden.dtype, shape = golden.shape, data = list }
end

local function trajectory_case(case, model, golden)
  local attrs, tol, wrong = case.optimizer_attrs, case.tol or { 1e-5, 1e-4 }, nil
  if case.optimizer ~= "SGD" then return "the optimizer '" .. tostring(case.optimizer) .. "' is not understood" end
  local dp = nn.DataParallel(model, { device_ids = device_list(case.devices) })
  local optimizer = optim.SGD(model:parameters(), { lr = attrs.lr, momentum = attrs.momentum, dampening = attrs.dampening,
    weight_decay = attrs.weight_decay, nesterov = attrs.nesterov })
  for i, step in ipairs(case.steps) do
    optimizer:zero_grad()
    local loss = loss_of(case, dp(tensor(step.x)), tensor(step.target))
    loss:backward()
    optimizer:step()
    wrong = wrong or match("loss " .. i, loss, step.loss, tol)
  end
  for name, parameter in model:named_parameters() do
    wrong = wrong or match(name, parameter, after(case.params_after[name], golden.params[name]), tol)
  end
  return wrong
end

local function model_case(case, file)
  local golden = file.models[case.model]
  if not golden then return "the model '" .. tostring(case.model) .. "' is not understood" end
  local model = build(golden)
  if case.steps then return trajectory_case(case, model, golden) end
  local inputs = case.inputs
  if type(inputs) == "string" then
    local name = inputs:match('^as in "(.*)"$')
    for _, other in ipairs(file.cases) do
      if other.name == name then inputs = other.inputs end
    end
  end
  return step_case(case, model, inputs)
end

-- ---- parts ----

-- Each golden_PART.lua beside this file answers a function that takes these tools and answers pick(section, case, file, file name):
-- the function that runs such a case (it answers nil, or what is wrong), nil if the case is not this part's.
local tools = { DTYPES = DTYPES, number = number, numbers = numbers, count_of = count_of, flat = flat, elements = elements,
  tensor = tensor, show = show, same = same, shape_of = shape_of, compare = compare, match = match, crc32 = crc32,
  rand_after = rand_after, laid_out = laid_out }
local PARTS = { "modules", "optim", "train", "ops", "autograd" }
local picks = {}
for _, part in ipairs(PARTS) do
  picks[#picks + 1] = dofile(os.getenv("GOLDEN_PARTS") .. "/golden_" .. part .. ".lua")(tools)
end

-- ---- files ----

-- What runs a case of this section; nil: not understood.
local function runner(section, case, file, name)
  for _, pick in ipairs(picks) do
    local run = pick(section, case, file, name)
    if run then return run end
  end
  if section == "table" and #case == 3 then return chunk_row end
  if section == "cases" and case.chunks and case.shape then return chunk_case end
  if section == "cases" and case.model and case.devices then return model_case end
  return ({ draws = draw_case, sequences = sequence_case, randperm = randperm_case, modules = module_case,
    models = module_case, assignment = assignment_case, logging = logging_case })[section]
end

local function run_section(name, file, section)
  local seen = {}
  for i, case in ipairs(file[section]) do
    local label = type(case) == "table" and case.name or string.format("%s[%d]", section, i - 1)
    seen[label] = (seen[label] or 0) + 1
    if seen[label] > 1 then label = label .. "#" .. seen[label] end
    local run = type(case) == "table" and runner(section, case, file, name)
    local ok, wrong = false, "not understood"
    if run then ok, wrong = pcall(run, case, file) end
    if run and not ok then wrong = tostring(wrong) end
    if wrong then print("# " .. wrong) end
    rs.check(name .. ": " .. label, wrong == nil)
  end
end

for _, path in ipairs(rs.args) do
  local name = path:match("[^/]*$")
  local ok, file = pcall(rs.json_load, path)
  if not ok or type(file) ~= "table" or type(file.header) ~= "table" then
    print("# " .. (ok and "no golden file" or tostring(file)))
    rs.check(name .. ": the file can be read", false)
  else
    for section, content in pairs(file) do
      local context = section == "header" or section:find("_note$") or (section == "models" and #content == 0)
      if not context and type(content) == "table" and #content > 0 then
        run_section(name, file, section)
      elseif section == "cuda" and content.status and content.cases then
        print(string.format("# SKIP %s: cuda, %d cases need a GPU", name, #content.cases))
      elseif not context then
        rs.check(name .. ": " .. section .. " is understood", false)
      end
    end
  end
end
