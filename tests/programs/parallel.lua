-- Random modules through DataParallel on 1 to 8 devices. Arguments: first=SEED count=N, bits=1 (the run is exact: values are
-- the same to the bit), show=1 or announce=1 (each program as Lua, before it runs). Each is compared with DataParallel made by hand on the host (a module
-- for each chunk, gradients added in replica order) and, where mathematics says so, with the module on the whole batch.
-- A program that fails is shrunk and printed.
local rs = require "ringside"
rs.lesson { title = "Random DataParallel", devices = 8, prefix = "" }
local P = assert(loadfile "tests/programs/program.lua")()
local nets = assert(loadfile "tests/programs/nets.lua")(P)
local nn = rs.nn

io.stdout:setvbuf "line"
local options = { first = 1, count = 500 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  if not name then error("an argument is NAME=VALUE, not " .. word) end
  options[name] = math.tointeger(value) or value
end

-- ---- numbers ----

-- Whole and small if sums must not round.
local function numbers(s, program, count)
  local out = {}
  for i = 1, count do out[i] = program.exact and s.int(-2, 2) or s.int(-31, 31) / 24 end
  return out
end

local function tensor_of(s, program, shape)
  local count = 1
  for _, n in ipairs(shape) do count = count * n end
  return rs.tensor(numbers(s, program, count), { dtype = program.dtype }):reshape(shape)
end

local function leaves_of(program, seed)
  local out = {}
  for i, leaf in ipairs(program.leaves) do
    local s, shape, count = P.stream(seed * 31 + tonumber(leaf.name:sub(2))), {}, 1
    for k, n in ipairs(leaf.shape) do
      shape[k] = n == "N" and program.rows or n
      count = count * shape[k]
    end
    if leaf.ids then
      local ids = {}
      for k = 1, count do ids[k] = s.int(0, leaf.ids - 1) end
      out[i] = rs.tensor(ids):reshape(shape)
    else
      out[i] = tensor_of(s, program, shape)
    end
  end
  return out
end

-- Every module of a program begins with the same numbers.
local function fresh(Net, program, seed)
  local net, s = Net(), P.stream(seed + 5)
  net:to(program.dtype)
  rs.no_grad(function()
    for _, parameter in net:named_parameters() do parameter:copy_(tensor_of(s, program, parameter.shape)) end
  end)
  net:train(program.train)
  return net
end

-- Tensors of a nest in order; their places as one text.
local function flatten(nest, out, places)
  out, places = out or {}, places or {}
  if rs.is_tensor(nest) then
    out[#out + 1] = nest
    places[#places + 1] = "t"
  elseif type(nest) == "table" then
    local keys = {}
    for key in pairs(nest) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    places[#places + 1] = type(getmetatable(nest)) == "string" and getmetatable(nest) .. " (" or "{"
    for _, key in ipairs(keys) do
      places[#places + 1] = tostring(key)
      flatten(nest[key], out, places)
    end
    places[#places + 1] = "}"
  end
  return out, table.concat(places, " ")
end

-- No two elements weigh the same, and powers of two are exact.
local function loss_of(tensors)
  local loss
  for k, t in ipairs(tensors) do
    local weights = rs.arange(t:numel(), { dtype = t.dtype, device = t.device }):remainder(4):add(k):reshape(t.shape)
    local term = (t * weights):sum()
    loss = loss and loss + term or term
  end
  return loss
end

-- ---- three ways to one step: all are { outputs, places, gradients = { name -> tensor or false }, inputs, buffers } ----

local function host(t) return t and t:detach():to("cpu") end

local function gradients_of(module)
  local out = {}
  for name, parameter in module:named_parameters() do
    local grad = parameter.grad
    out[name] = grad and { sparse = grad.is_sparse, host((grad.is_sparse and grad:to_dense() or grad)) } or false
  end
  return out
end
local function buffers_of(module)
  local out = {}
  for name, buffer in module:named_buffers() do out[name] = host(buffer):clone() end
  return out
end

-- What scatter makes without recording is no leaf that wants a gradient, though what it was made of may be one.
local function wanting(program, tensors, scattered)
  if program.blind and not scattered then return tensors end
  for i, leaf in ipairs(program.leaves) do
    if leaf.grad then tensors[i]:requires_grad_() end
  end
  return tensors
end
local function input_gradients(program, tensors)
  local out = {}
  for i, leaf in ipairs(program.leaves) do out[i] = leaf.grad and host(tensors[i].grad) or false end
  return out
end

-- A call, without recording if the program is blind.
local function sighted(program, f, ...)
  if program.blind then return rs.no_grad(function(...) return f(...) end, ...) end
  return f(...)
end
local function call(program, module, given, tensors)
  local args, kwargs = given(table.unpack(tensors))
  if kwargs then args[#args + 1] = rs.kw(kwargs) end
  return { sighted(program, module, table.unpack(args)) }
end
-- The backward, and all that came of one round.
local function outcome(program, net, tensors, results)
  local flat, places = flatten(results)
  local loss = loss_of(flat)
  if loss.requires_grad then loss:backward() end
  local out = { outputs = {}, places = places, device = flat[1].device, gradients = gradients_of(net), graph = loss.requires_grad,
    inputs = input_gradients(program, tensors), buffers = buffers_of(net) }
  for i, t in ipairs(flat) do out.outputs[i] = host(t) end
  return out
end

local function learn(module)
  if #module:parameters() > 0 then rs.optim.SGD(module:parameters(), { lr = 0.0078125 }):step() end
end

local function through_devices(program, seed)
  local Net, given = nets.load(rs, program)
  local net = fresh(Net, program, seed):to(program.devices[1])
  local dp_options = { device_ids = program.devices, dim = program.dim,
    output_device = program.output ~= "default" and program.output or nil }
  local dp = nn.DataParallel(net, dp_options)
  local out
  for round = 1, program.iterations do
    net:zero_grad()
    local tensors, results = leaves_of(program, seed)
    for i, t in ipairs(tensors) do tensors[i] = t:to(program.where) end
    wanting(program, tensors, true)
    if program.functional then
      local args, kwargs = given(table.unpack(tensors))
      dp_options.module_kwargs = kwargs
      results = { sighted(program, nn.parallel.data_parallel, net, rs.tuple(args), dp_options) }
    else
      results = call(program, dp, given, tensors)
    end
    out = outcome(program, net, tensors, results)
    if round < program.iterations then learn(net) end
  end
  return out
end

local function whole_batch(program, seed)
  local Net, given = nets.load(rs, program)
  local net, out = fresh(Net, program, seed)
  for round = 1, program.iterations do
    net:zero_grad()
    local tensors = wanting(program, leaves_of(program, seed))
    out = outcome(program, net, tensors, call(program, net, given, tensors))
    if round < program.iterations then learn(net) end
  end
  return out
end

-- Rows start .. start + length of every leaf that has them, as leaves of their own.
local function chunk_of(program, tensors, start, length)
  local out = {}
  for i, leaf in ipairs(program.leaves) do
    local dim
    for k, n in ipairs(leaf.shape) do
      if n == "N" then dim = k - 1 end
    end
    out[i] = tensors[i]:detach():narrow(dim, start, length):clone()
  end
  return wanting(program, out)
end

-- Gradients of all chunks added in order; a parameter that nobody used has zeros, as has a missing part (unless no gradient
-- came to any of them: then all stay without). Answers the names of those that were sparse in every chunk; what is added
-- here is dense.
local function add_up(module, copies)
  local parts, sparse, any = {}, {}, false
  for _, copy in ipairs(copies) do
    for name, parameter in copy:named_parameters() do
      parts[name] = parts[name] or {}
      table.insert(parts[name], parameter.grad or false)
      any = any or parameter.grad ~= nil
    end
  end
  if not any then return sparse end
  for name, parameter in module:named_parameters() do
    local sum
    sparse[name] = parameter.requires_grad
    for _, grad in ipairs(parameter.requires_grad and parts[name] or {}) do
      sparse[name] = sparse[name] and grad and grad.is_sparse
      local part = not grad and rs.zeros_like(parameter:detach()) or grad.is_sparse and grad:to_dense() or grad
      sum = not sum and part or sum + part
    end
    parameter.grad = sum
  end
  return sparse
end

-- The same by hand, without DataParallel: needs more than one device.
local function by_hand(program, seed)
  local Net, given = nets.load(rs, program)
  local net, out = fresh(Net, program, seed)
  for round = 1, program.iterations do
    local tensors, copies, parts, pieces, places = leaves_of(program, seed), {}, {}, {}, nil
    local start = 0
    for r, length in ipairs(nets.chunks(program.rows, #program.devices)) do
      copies[r] = fresh(Net, program, seed)
      copies[r]:load_state_dict(net:state_dict())
      pieces[r] = chunk_of(program, tensors, start, length)
      parts[r], places = flatten(call(program, copies[r], given, pieces[r]))
      start = start + length
    end
    local flat = {}
    for i = 1, #parts[1] do
      local list = {}
      for r, part in ipairs(parts) do list[r] = part[i]:dim() == 0 and part[i]:reshape { 1 } or part[i] end
      flat[i] = rs.cat(list, { dim = parts[1][i]:dim() == 0 and 0 or program.dim })
    end
    local loss = loss_of(flat)
    if loss.requires_grad then loss:backward() end
    net:zero_grad()
    local sparse = loss.requires_grad and add_up(net, copies) or {}
    rs.no_grad(function()
      local kept = {}
      for name, buffer in copies[1]:named_buffers() do kept[name] = buffer end
      for name, buffer in net:named_buffers() do buffer:copy_(kept[name]) end
    end)
    out = { outputs = {}, places = places, gradients = gradients_of(net), inputs = {}, buffers = buffers_of(net),
      graph = loss.requires_grad }
    for name, grad in pairs(out.gradients) do
      if grad then grad.sparse = sparse[name] or false end
    end
    for i, t in ipairs(flat) do out.outputs[i] = host(t) end
    for i, leaf in ipairs(program.leaves) do
      local grads = {}
      for r, piece in ipairs(pieces) do grads[r] = leaf.grad and (piece[i].grad or rs.zeros_like(piece[i]:detach())) or nil end
      local any = false
      for _, piece in ipairs(pieces) do any = any or piece[i].grad ~= nil end
      out.inputs[i] = any and rs.cat(grads, { dim = program.dim }) or false
    end
    if round < program.iterations then learn(net) end
  end
  return out
end

-- ---- comparing ----

-- nil, or how two tensors differ.
local function different(a, b, bits, tolerance)
  if table.concat(a.shape, " ") ~= table.concat(b.shape, " ") then
    return ("shapes { %s } and { %s }"):format(table.concat(a.shape, ", "), table.concat(b.shape, ", "))
  end
  if a.dtype ~= b.dtype then return ("dtypes %s and %s"):format(a.dtype, b.dtype) end
  if a:numel() == 0 or rs.equal(a, b) then return nil end
  local gap = (a:double() - b:double()):abs():max():item()
  local size = math.max(1, b:double():abs():max():item())
  if bits or not (gap <= tolerance * size) then return ("%.3g apart, of %.3g"):format(gap, size) end
end

local function compare_all(what, got, want, bits, tolerance)
  for key, t in pairs(want) do
    local other = got[key]
    if (t == false) ~= (other == false or other == nil) then
      return ("%s %s: %s and %s"):format(what, key, other and "there" or "none", t and "there" or "none")
    end
    if t then
      local words = different(other, t, bits, tolerance)
      if words then return ("%s %s: %s"):format(what, key, words) end
    end
  end
end

-- `alike`: gradients that are none here and zeros there are the same, as those of unused parameters are.
local function compare_gradients(got, want, how)
  for name, mine in pairs(got) do
    local theirs = want[name]
    if mine and theirs then
      if mine.sparse ~= theirs.sparse then return ("gradient %s: sparse %s and %s"):format(name, mine.sparse, theirs.sparse) end
      local words = different(mine[1], theirs[1], how.bits and (how.exact or not mine.sparse), how.tolerance)
      if words then return ("gradient %s: %s"):format(name, words) end
    elseif (mine and true or false) ~= (theirs and true or false) then
      local there = mine or theirs
      if not how.alike or there[1]:ne(0):any():item() then
        return ("gradient %s: %s and %s"):format(name, mine and "there" or "none", theirs and "there" or "none")
      end
    end
  end
end

local function compare(program, got, want, how)
  if got.places ~= want.places then return ("the results are %s and %s"):format(got.places, want.places) end
  if got.graph ~= want.graph then return ("a graph: %s and %s"):format(got.graph, want.graph) end
  return compare_all("output", got.outputs, want.outputs, how.output_bits, how.tolerance)
    or compare_gradients(got.gradients, want.gradients, how)
    or compare_all("input gradient", got.inputs, want.inputs, how.input_bits, how.tolerance)
    or compare_all("buffer", got.buffers, want.buffers, how.output_bits, how.tolerance)
end

-- Mathematics says nothing of the whole batch where a chunk has statistics or a mean of its own; where each replica gives
-- one number the sums are compared through the gradients alone.
local function separable(program)
  return not program.inside and not (program.norm and program.train)
end

-- nil, or what is wrong with the program. Where several outputs lead back to one tensor, its gradient's parts are added in
-- the order in which they get there, which DataParallel's Gather nodes decide: three of them may round otherwise. So may
-- sparse gradients, whose entries are joined before they are added.
local function check(program, seed)
  local bits, tolerance = options.bits == 1, program.dtype == "float32" and 5e-4 or 1e-9
  local got = through_devices(program, seed)
  local output = program.output == "default" and program.devices[1] or program.output
  local one = #program.devices == 1
  local where = one and program.devices[1] or output
  if got.device ~= (where == "cpu" and "cpu" or "device:" .. where) then return "the output is on " .. got.device end
  if not one then
    local whole = program.exact and program.iterations == 1
    local order = whole or #got.outputs == 1 and not (program.sparse and program.iterations > 1)
    local words = compare(program, got, by_hand(program, seed), { bits = bits and order, exact = whole,
      input_bits = bits and order, output_bits = bits and (order or program.iterations == 1), tolerance = tolerance })
    if words then return "by hand: " .. words end
  end
  if separable(program) or one then
    local first = program.iterations == 1 or one
    local words = compare(program, got, whole_batch(program, seed), { alike = not one, tolerance = tolerance,
      bits = bits and (one or first and program.exact), exact = program.exact or one, output_bits = bits and first,
      input_bits = bits and first and (program.exact or #got.outputs == 1) })
    if words then return "whole batch: " .. words end
  end
end

-- ---- memory ----

local sweeper = nn.Linear(1, 1)
local function memory()
  for _ = 1, 2 do
    collectgarbage()
    sweeper:zero_grad()
  end
  local sum = rs.cuda.memory_allocated("cpu")
  for d = 0, 7 do sum = sum + rs.cuda.memory_allocated(d) end
  return sum
end

-- ---- all of them ----

local failures, leaks = 0, 0
local function kind_of(words) return (words:gsub("[-%d.e]+", "N"):gsub("gradient %S+", "gradient"):gsub("0x%x+", "")) end

local function tell(program, seed, words)
  local kind = kind_of(words)
  local small = P.shrink(program, function(p)
    local ok, other = pcall(check, p, seed)
    return other ~= nil and kind_of(tostring(other)) == kind and (ok or not words:find "attempt to")
  end)
  for _, rows in ipairs { 1, 2, 3, 4 } do
    local fewer = setmetatable({ rows = rows }, { __index = small })
    local ok, other = pcall(check, fewer, seed)
    if rows < small.rows and (not ok or other) and kind_of(tostring(other)) == kind then
      small.rows = rows
      break
    end
  end
  local _, now = pcall(check, small, seed)
  print(("# seed %d: %s\n%s"):format(seed, tostring(now or words), nets.describe(small)))
end

local function one(seed)
  local program = nets.new(seed)
  if options.show or options.announce then print("-- seed " .. seed .. "\n" .. nets.describe(program)) end
  local ok, words = pcall(check, program, seed)
  if ok and not words then return true end
  failures = failures + 1
  if failures <= (options.most or 20) then tell(program, seed, tostring(words)) end
end

for seed = options.first, options.first + options.count - 1 do
  local before = memory()
  local held = one(seed)
  local after = memory()
  if held and after > before then
    leaks = leaks + 1
    if leaks <= 20 then print(("# seed %d leaves %d bytes behind"):format(seed, after - before)) end
  end
end
print(("# %d programs"):format(options.count))
rs.check("DataParallel agrees with its parts by hand, and with one device", failures == 0)
rs.check("every program gives all its memory back", leaks == 0)
