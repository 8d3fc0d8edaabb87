-- Random programs of collectives on worlds of 1 to 8 ranks: groups, orders, sizes, dtypes, operations, tensors with gaps, on the
-- host or on devices, waited for at once or later. Arguments: first=SEED count=N, announce=1 (each seed before it runs).
-- All ranks draw the same calls and everybody's numbers; each works out alone, in plain Lua, what it must get: to the bit,
-- in Gloo's order of additions. Prints a checksum for each seed, so that executors can be compared.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Random collectives", devices = 8, prefix = "" }

io.stdout:setvbuf "line"
local options = { first = 1, count = 20 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  if not name then error("an argument is NAME=VALUE, not " .. word) end
  options[name] = math.tointeger(value) or value
end

-- ---- dtypes in Lua's numbers ----

-- Significant bits, the least exponent, the greatest number.
local FLOATS = { float16 = { 11, -14, 65504.0 }, bfloat16 = { 8, -126, 3.3895313892515355e38 }, float32 = { 24, -126,
  3.4028234663852886e38 } }
local BITS = { int8 = 8, uint8 = 8, int32 = 32, int64 = 64 }
local DTYPES = { "float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool" }

local function is_float(dtype) return dtype:find "float" ~= nil end

-- To the nearest that the dtype has, ties to even.
local function rounded(dtype, x)
  local form = FLOATS[dtype]
  if not form or x ~= x or x == 0 or math.abs(x) == math.huge then return x end
  local exponent = (string.unpack("<i8", string.pack("<d", x)) >> 52 & 2047) - 1023
  local step = 2.0 ^ (math.max(exponent, form[2]) - form[1] + 1)
  local down = math.floor(x / step)
  local rest = x / step - down
  if rest > 0.5 or (rest == 0.5 and down % 2 ~= 0) then down = down + 1 end
  local near = down * step
  return math.abs(near) > form[3] and (x > 0 and math.huge or -math.huge) or near
end

local function wrapped(dtype, x)
  local bits = BITS[dtype]
  if bits == 64 then return x end
  x = x & (1 << bits) - 1
  return dtype ~= "uint8" and x >> bits - 1 == 1 and x - (1 << bits) or x
end

local TRUTH = { SUM = "BOR", MAX = "BOR", PRODUCT = "BAND", MIN = "BAND" }

-- `mine` with what came, as the rank that holds `mine` reduces them.
local function reduced(dtype, op, mine, came)
  if dtype == "bool" then op = TRUTH[op] or op end
  if op == "MIN" then return came < mine and came or mine end
  if op == "MAX" then return came > mine and came or mine end
  if op == "BAND" then return mine & came end
  if op == "BOR" then return mine | came end
  if op == "BXOR" then return mine ~ came end
  local value = op == "PRODUCT" and mine * came or op ~= "PRODUCT" and mine + came
  return is_float(dtype) and rounded(dtype, value) or (dtype == "bool" and value or wrapped(dtype, value))
end

local SIZES = { float32 = 4, float64 = 8, float16 = 2, bfloat16 = 2, int64 = 8, int32 = 4, int8 = 1, uint8 = 1, bool = 1 }

-- Elements of a chunk of a tensor of so many, as Gloo cuts it for `ranks`: two segments a rank.
local function chunk_of(dtype, count, ranks)
  local size = SIZES[dtype]
  local segment = (count * size + 2 * ranks - 1) // (2 * ranks)
  return 2 * ((segment + size - 1) // size)
end

-- Element by element of the lists, one a rank of the group.
local function reduction(dtype, op, lists, factor)
  local ranks, count, out = #lists, #lists[1], {}
  local chunk = chunk_of(dtype, count, ranks)
  local function x(rank, i)
    local value = lists[rank % ranks + 1][i]
    return factor and rounded(dtype, value * factor) or value
  end
  for i = 1, count do
    local k = (i - 1) // chunk
    local sum = x(k - 1, i)
    for step = 2, ranks do sum = reduced(dtype, op, x(k - step, i), sum) end
    out[i] = op == "AVG" and rounded(dtype, sum / ranks) or sum
  end
  return out
end

-- ---- tensors ----

local function count_of(shape)
  local count = 1
  for _, n in ipairs(shape) do count = count * n end
  return count
end

-- With these numbers; with gaps between them if asked for.
local function tensor_of(how, shape, numbers)
  local t
  local o = { dtype = how.dtype, device = how.device }
  if how.gaps then
    local wide = { table.unpack(shape) }
    wide[#wide + 1] = 2
    t = rs.zeros(wide, o):select(#shape, 1)
  else
    t = rs.zeros(shape, o)
  end
  if #numbers > 0 then
    t:copy_(rs.tensor(numbers, { dtype = is_float(how.dtype) and "float64" or "int64" }):to(how.dtype):reshape(shape))
  end
  return t
end

local function blank(how, shape)
  local numbers = {}
  for i = 1, count_of(shape) do numbers[i] = 0 end
  return tensor_of(how, shape, numbers)
end

local function numbers_of(t)
  local count = t:numel()
  if count == 0 then return {} end
  local list = t:cpu():reshape { count }:to(t.dtype:find "float" and "float64" or "int64"):tolist()
  return list
end

local function joined(lists)
  local out = {}
  for _, list in ipairs(lists) do table.move(list, 1, #list, #out + 1, out) end
  return out
end

local function slice(list, from, count) return table.move(list, from + 1, from + count, 1, {}) end

-- ---- one program ----

local function one_program(rank, seed)
  local state = seed * 2654435761 % 4294967296
  local function draw(low, high)
    state = (state * 1103515245 + 12345) % 4294967296
    return low + (state >> 8) % (high - low + 1)
  end
  local function pick(list) return list[draw(1, #list)] end
  local world, wrong, sum = dist.get_world_size(), nil, 0

  local groups = { { ranks = {} } }
  for r = 0, world - 1 do groups[1].ranks[r + 1] = r end
  for g = 2, draw(1, 3) do
    local ranks = {}
    for r = 0, world - 1 do
      if draw(0, 2) > 0 then ranks[#ranks + 1] = r end
    end
    if #ranks == 0 then ranks[1] = draw(0, world - 1) end
    groups[g] = { ranks = ranks, group = dist.new_group(ranks) }
  end
  local on_devices = draw(0, 3) == 0

  local function number(dtype)
    if dtype == "bool" then return draw(0, 1) end
    if dtype == "uint8" then return draw(0, 255) end
    if not is_float(dtype) then return draw(-128, 127) end
    return rounded(dtype, (draw(-4095, 4095) + draw(1, 97) / 97) * 2.0 ^ draw(-9, -3))
  end
  local function numbers(dtype, count)
    local list = {}
    for i = 1, count do list[i] = number(dtype) end
    return list
  end
  local function shape() return draw(0, 2) == 0 and { draw(1, 4), draw(1, 5) } or { draw(0, 9) == 0 and 0 or draw(1, 23) } end

  -- What a call must leave in tensors: checked once it has ended.
  local later = {}
  local function check(what, t, expected)
    local got = numbers_of(t)
    if #got ~= #expected then wrong = wrong or ("%s: %d elements, not %d"):format(what, #got, #expected) end
    for i, value in ipairs(expected) do
      if got[i] ~= value and not (got[i] ~= got[i] and value ~= value) then
        wrong = wrong or ("%s: element %d is %s, not %s"):format(what, i - 1, tostring(got[i]), tostring(value))
      end
      local bits = string.unpack("<i8", string.pack("<d", got[i] == 0 and 0.0 or got[i]))
      sum = (sum * 31 + (bits ~ bits >> 29)) & 0xffffffffffff
    end
  end
  local function settle(entry)
    if entry.work then entry.work:wait() end
    for _, pair in ipairs(entry.pairs) do check(entry.what, pair[1], pair[2]) end
  end

  -- c: the call as all ranks drew it: dtype, op, everybody's numbers; me: my place in the group, from 1.
  local CALLS = {}

  local function each(c, f)
    local out = {}
    for r = 1, c.ranks do out[r] = f(r) end
    return out
  end

  function CALLS.all_reduce(c, me)
    local size = shape()
    local lists = each(c, function() return numbers(c.dtype, count_of(size)) end)
    if not me then return end
    local t = tensor_of(c, size, lists[me])
    return dist.all_reduce(t, c.operation, c.group, c.async), { { t, reduction(c.dtype, c.op, lists, c.factor) } }
  end

  function CALLS.all_reduce_coalesced(c, me)
    local sizes, lists = {}, {}
    for k = 1, draw(1, 3) do sizes[k] = shape() end
    for r = 1, c.ranks do
      lists[r] = {}
      for k, size in ipairs(sizes) do lists[r][k] = numbers(c.dtype, count_of(size)) end
    end
    if not me then return end
    local all, at, pairs_, tensors = reduction(c.dtype, c.op, each(c, function(r) return joined(lists[r]) end), c.factor), 0, {}, {}
    for k, size in ipairs(sizes) do
      tensors[k] = tensor_of(c, size, lists[me][k])
      pairs_[k] = { tensors[k], slice(all, at, count_of(size)) }
      at = at + count_of(size)
    end
    if draw(0, 1) == 0 then return dist.all_reduce_coalesced(tensors, c.operation, c.group, c.async), pairs_ end
    return dist._coalescing_manager(function()
      for _, t in ipairs(tensors) do dist.all_reduce(t, c.operation, c.group) end
    end, { group = c.group, async_ops = c.async }), pairs_
  end

  function CALLS.broadcast(c, me)
    local size = shape()
    local lists = each(c, function() return numbers(c.dtype, count_of(size)) end)
    if not me then return end
    local t = tensor_of(c, size, lists[me])
    local work = dist.broadcast(t, { [c.root_name .. "src"] = c.root_value, group = c.group, async_op = c.async })
    return work, { { t, lists[c.root] } }
  end

  function CALLS.reduce(c, me)
    local size = shape()
    local lists = each(c, function() return numbers(c.dtype, count_of(size)) end)
    if not me then return end
    local t = tensor_of(c, size, lists[me])
    local work = dist.reduce(t, { [c.root_name .. "dst"] = c.root_value, op = c.operation, group = c.group, async_op = c.async })
    return work, { { t, me == c.root and reduction(c.dtype, c.op, lists, c.factor) or lists[me] } }
  end

  function CALLS.all_gather(c, me)
    local uneven, size = draw(0, 1) == 0, shape()
    local sizes = each(c, function() return uneven and shape() or size end)
    local lists = each(c, function(r) return numbers(c.dtype, count_of(sizes[r])) end)
    if not me then return end
    local outputs = each(c, function(r) return blank(c, sizes[r]) end)
    local work = dist.all_gather(outputs, tensor_of(c, sizes[me], lists[me]), c.group, c.async)
    return c.async and work, each(c, function(r) return { outputs[r], lists[r] } end)
  end

  function CALLS.all_gather_into_tensor(c, me)
    local count, stacked = draw(1, 9), draw(0, 1) == 0
    local lists = each(c, function() return numbers(c.dtype, count) end)
    if not me then return end
    local out = blank(c, stacked and { c.ranks, count } or { c.ranks * count })
    local work = dist.all_gather_into_tensor(out, tensor_of(c, { count }, lists[me]), c.group, c.async)
    return work, { { out, joined(lists) } }
  end

  function CALLS.gather(c, me)
    local size, single = shape(), draw(0, 2) == 0
    local lists = each(c, function() return numbers(c.dtype, count_of(size)) end)
    if not me then return end
    local o = { [c.root_name .. "dst"] = c.root_value, group = c.group, async_op = c.async }
    local mine = tensor_of(c, size, lists[me])
    if single then
      local out = me == c.root and blank(c, { c.ranks, count_of(size) }) or nil
      o.gather_tensor = out
      return dist.gather_into_tensor(mine, o), out and { { out, joined(lists) } } or {}
    end
    local outputs = me == c.root and each(c, function() return blank(c, size) end) or nil
    o.gather_list = outputs
    return dist.gather(mine, o), outputs and each(c, function(r) return { outputs[r], lists[r] } end) or {}
  end

  function CALLS.scatter(c, me)
    local size = shape()
    local lists = each(c, function() return numbers(c.dtype, count_of(size)) end)
    if not me then return end
    local out = blank(c, size)
    local inputs = me == c.root and each(c, function(r) return tensor_of(c, size, lists[r]) end) or nil
    local work = dist.scatter(out, { scatter_list = inputs, [c.root_name .. "src"] = c.root_value, group = c.group,
      async_op = c.async })
    return work, { { out, lists[me] } }
  end

  function CALLS.reduce_scatter(c, me)
    local uneven, size = draw(0, 1) == 0, shape()
    local sizes = each(c, function() return uneven and shape() or size end)
    local lists = each(c, function() return each(c, function(r) return numbers(c.dtype, count_of(sizes[r])) end) end)
    if not me then return end
    local out, inputs = blank(c, sizes[me]), each(c, function(r) return tensor_of(c, sizes[r], lists[me][r]) end)
    local pairs_ = each(c, function(r) return { inputs[r], lists[me][r] } end)   -- they stay as they are
    pairs_[#pairs_ + 1] = { out, reduction(c.dtype, c.op, each(c, function(r) return lists[r][me] end), c.factor) }
    return dist.reduce_scatter(out, inputs, c.operation, c.group, c.async), pairs_
  end

  function CALLS.reduce_scatter_tensor(c, me)
    local count = draw(1, 9)
    local lists = each(c, function() return numbers(c.dtype, count * c.ranks) end)
    if not me then return end
    local out, t = blank(c, { count }), tensor_of(c, { c.ranks, count }, lists[me])
    local all = reduction(c.dtype, c.op, lists, c.factor)
    return dist.reduce_scatter_tensor(out, t, c.operation, c.group, c.async),
      { { out, slice(all, (me - 1) * count, count) }, { t, lists[me] } }
  end

  -- lists[i][j]: what i has for j.
  function CALLS.all_to_all(c, me)
    local width = draw(1, 3)
    local rows = each(c, function() return each(c, function() return draw(0, 4) end) end)
    local lists = each(c, function(i) return each(c, function(j) return numbers(c.dtype, rows[i][j] * width) end) end)
    if not me then return end
    local expected = each(c, function(i) return lists[i][me] end)
    local here = each(c, function(i) return rows[i][me] end)
    if draw(0, 1) == 0 then
      local outputs = each(c, function(i) return blank(c, { here[i], width }) end)
      local inputs = each(c, function(j) return tensor_of(c, { rows[me][j], width }, lists[me][j]) end)
      return dist.all_to_all(outputs, inputs, c.group, c.async), each(c, function(i) return { outputs[i], expected[i] } end)
    end
    local from, to = 0, 0
    for r = 1, c.ranks do from, to = from + here[r], to + rows[me][r] end
    local out = blank(c, { from, width })
    local t = tensor_of(c, { to, width }, joined(lists[me])):contiguous() -- as PyTorch demands
    return dist.all_to_all_single(out, t, here, rows[me], c.group, c.async), { { out, joined(expected) } }
  end

  function CALLS.barrier(c, me)
    if not me then return end
    if c.async then return dist.barrier(c.group, true), {} end
    if draw(0, 1) == 0 then dist.monitored_barrier(c.group) else dist.barrier(c.group) end
    return nil, {}
  end

  function CALLS.sparse(c, me)
    local height, dense = draw(1, 6), {}
    local entries = each(c, function()
      local rows, count = {}, draw(0, 4)
      for i = 1, count do rows[i] = draw(0, height - 1) end
      return { rows = rows, values = numbers("int64", 2 * count) }
    end)
    if not me then return end
    for i = 1, 2 * height do dense[i] = 0 end
    for _, entry in ipairs(entries) do
      for i, row in ipairs(entry.rows) do
        for column = 1, 2 do
          local at = 2 * row + column
          dense[at] = dense[at] + entry.values[2 * i - 2 + column]
        end
      end
    end
    local count = #entries[me].rows
    local values = tensor_of({ dtype = "int64", device = c.device }, { count, 2 }, entries[me].values)
    local rows = count > 0 and rs.tensor { entries[me].rows } or rs.zeros({ 1, 0 }, { dtype = "int64" })
    local t = rs.sparse_coo_tensor(rows, values, { height, 2 }, { device = c.device })
    local work = dist.all_reduce(t, { group = c.group, async_op = c.async })
    return work, { { { numel = function() return 2 * height end, dtype = "int64",
      cpu = function() return t:to_dense():cpu() end }, dense } }
  end

  local kinds = {}
  for name in pairs(CALLS) do kinds[#kinds + 1] = name end
  table.sort(kinds)
  local OPS = { "SUM", "SUM", "PRODUCT", "MIN", "MAX" }

  for step = 1, draw(6, 14) do
    local kind, own = pick(kinds), pick(groups)
    local c = { dtype = pick(DTYPES), ranks = #own.ranks, group = own.group, async = draw(0, 2) == 0, gaps = draw(0, 3) == 0 }
    c.op = is_float(c.dtype) and pick { "SUM", "SUM", "AVG", "PRODUCT", "MIN", "MAX", "PREMUL_SUM" } or
      c.dtype == "bool" and pick { "SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR" } or
      pick { "SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR" }
    if c.op == "PREMUL_SUM" then c.factor = draw(-8, 8) / 4 end
    c.operation = c.factor and dist._make_nccl_premul_sum(c.factor) or c.op
    c.root = draw(1, c.ranks)
    local by_group = draw(0, 1) == 0
    c.root_name, c.root_value = by_group and "group_" or "", by_group and c.root - 1 or own.ranks[c.root]
    if on_devices then c.device = "device:" .. rank end
    local me
    for i, r in ipairs(own.ranks) do me = r == rank and i or me end
    local before = state
    local work, pairs_ = CALLS[kind](c, me)
    -- Whatever a call drew, all go on with the same numbers.
    state = (before * 69069 + step) % 4294967296
    if me then
      local entry = { what = ("step %d %s %s %s of %d"):format(step, kind, c.dtype, c.op, c.ranks), work = work or nil, pairs = pairs_ }
      if c.async then later[#later + 1] = entry else settle(entry) end
    end
    if #later > 0 and step % 3 == 0 then settle(table.remove(later, 1)) end
  end
  for _, entry in ipairs(later) do settle(entry) end
  return { wrong = wrong, sum = sum }
end

local failed = 0
for seed = options.first, options.first + options.count - 1 do
  local world = 1 + seed * 7 % 8
  if options.announce then print("-- seed " .. seed) end
  local ok, results = pcall(dist.spawn, function(rank) return one_program(rank, seed) end, { world = world })
  local sum, wrong = 0, not ok and tostring(results) or nil
  for rank = 0, ok and world - 1 or -1 do
    wrong = wrong or (results[rank].wrong and ("rank %d of %d: %s"):format(rank, world, results[rank].wrong))
    sum = (sum * 33 + results[rank].sum) & 0xffffffffffff
  end
  if wrong then
    print(("not ok: seed %d: %s"):format(seed, wrong))
    failed = failed + 1
  end
  print(("seed %d world %d: %012x"):format(seed, world, sum))
end
print(("# %d programs"):format(options.count))
if failed > 0 then error(failed .. " programs went wrong", 0) end
