-- Golden tensors: read into ours, and compared with ours. What is not understood raises an error, which fails its case.
local rs = require "ringside"

-- ---- words ----

-- A table that raises where it has no entry.
local function strict(what, entries)
  return setmetatable(entries, { __index = function(_, key)
    error(string.format("the %s '%s' is not understood", what, tostring(key)), 2)
  end })
end

local DTYPES = strict("dtype", { f32 = "float32", f64 = "float64", f16 = "float16", bf16 = "bfloat16", i64 = "int64",
  i32 = "int32", i8 = "int8", u8 = "uint8", bool = "bool" })

-- Whether a table has other fields than these, which blanks separate.
local function known(what, given, fields)
  local set = {}
  for field in fields:gmatch("%S+") do set[field] = true end
  for field in pairs(given or {}) do
    if not set[field] then error(string.format("the field '%s' of %s is not understood", tostring(field), what), 0) end
  end
end

-- ---- reading ----

-- A number as JSON can write it: nan, inf and whole numbers from 2^53 on are texts.
local function number(value)
  if value == "nan" then return 0 / 0 end
  if value == "inf" then return math.huge end
  if value == "-inf" then return -math.huge end
  if type(value) == "boolean" then return value and 1 or 0 end
  local read = type(value) == "string" and tonumber(value) or value
  if type(read) ~= "number" then error("the number '" .. tostring(value) .. "' is not understood", 0) end
  return read
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

-- Listed rows of dimension 0; the others are 0.
local function spread(list, golden)
  local width, all = count_of(golden.shape) // golden.shape[1], {}
  if #list ~= #golden.rows * width then error("rows and data do not fit each other", 0) end
  for i = 1, count_of(golden.shape) do all[i] = 0.0 end
  for at, row in ipairs(golden.rows) do
    for i = 1, width do all[row * width + i] = list[(at - 1) * width + i] end
  end
  return all
end

-- Element i..k is storage[offset + sum(i * stride)].
local function strided(list, golden)
  local shape, out, at = golden.shape, {}, {}
  for dim = 1, #shape do at[dim] = 0 end
  for i = 1, count_of(shape) do
    local place = golden.offset
    for dim = 1, #shape do place = place + at[dim] * golden.stride[dim] end
    out[i] = list[place + 1]
    for dim = #shape, 1, -1 do
      at[dim] = at[dim] + 1
      if at[dim] < shape[dim] then break end
      at[dim] = 0
    end
  end
  return out
end

local FLOATS = { f32 = true, f16 = true, bf16 = true }

-- A golden tensor's elements, row-major, as the dtype holds them: those of 16 bits are printed as float32.
local function elements(golden)
  local list = numbers(golden.storage or golden.data)
  if golden.storage then list = strided(list, golden)
  elseif golden.rows then list = spread(list, golden) end
  if not FLOATS[golden.dtype] then return list end
  for i, value in ipairs(list) do list[i] = string.unpack("<f", string.pack("<f", value)) end
  return list
end

local DENSE, LAID_OUT = "name dtype shape data", "name dtype shape stride offset storage"
local ROWS, SPARSE = "name dtype shape data rows changed_rows note", "name dtype shape layout coalesced indices values"
local SUMMED = "name dtype shape crc32 first last"

local function check_form(golden)
  if type(golden) ~= "table" then error("'" .. tostring(golden) .. "' is no tensor", 0) end
  local form = golden.storage and LAID_OUT or (golden.rows or golden.changed_rows) and ROWS or golden.layout and SPARSE or
    golden.crc32 and SUMMED or DENSE
  known("a tensor", golden, form)
  if golden.layout and golden.layout ~= "sparse_coo" then error("the layout '" .. golden.layout .. "' is not understood", 0) end
  return form
end

-- Laid out as it was.
local function tensor(golden)
  local form = check_form(golden)
  local options = { dtype = DTYPES[golden.dtype] }
  if form == LAID_OUT then
    local storage = tensor { dtype = golden.dtype, shape = { #golden.storage }, data = golden.storage }
    return storage:as_strided(golden.shape, golden.stride, golden.offset):detach()
  end
  if form ~= DENSE and form ~= ROWS then error("no tensor can be made of a summary or of a sparse one", 0) end
  local list = elements(golden)
  if #list ~= count_of(golden.shape) then error("shape and data do not fit each other", 0) end
  if #golden.shape == 0 then return rs.tensor(list[1], options) end
  if #list == 0 then return rs.zeros(golden.shape, options) end
  return rs.tensor(list, options):reshape(golden.shape)
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
  if type(a) ~= "table" or type(b) ~= "table" then return type(a) == type(b) and show(a) == show(b) end
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
  if tol and #tol ~= 2 then error("the tolerance is not understood", 0) end
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
local BYTES = strict("dtype", { f32 = "<f", f64 = "<d", f16 = "<f", bf16 = "<f", i64 = "<i8", i32 = "<i4", i8 = "b",
  u8 = "B", bool = "B" })

local function crc32(list, dtype)
  local format, crc = BYTES[dtype], 0xFFFFFFFF
  for i = 1, #list do
    local bytes = string.pack(format, list[i])
    for at = 1, #bytes do crc = crc >> 8 ~ crc_table[(crc ~ bytes:byte(at)) & 255] end
  end
  return string.format("%08x", crc ~ 0xFFFFFFFF)
end

local function match_summary(what, got, golden)
  local first, last = {}, {}
  for i = 1, #golden.first do first[i] = got[i] end
  for i = 1, #golden.last do last[i] = got[#got - #golden.last + i] end
  return compare(what .. " first", first, elements { dtype = golden.dtype, data = golden.first }) or
    compare(what .. " last", last, elements { dtype = golden.dtype, data = golden.last }) or
    same(what .. " crc32", crc32(got, golden.dtype), golden.crc32)
end

-- Against a golden tensor, or against its checksum; strides are not compared.
local function match(what, t, golden, tol)
  local form = check_form(golden)
  if t == nil then return what .. ": there is none" end
  local wrong = same(what .. " dtype", t.dtype, DTYPES[golden.dtype]) or same(what .. " shape", shape_of(t), golden.shape)
  if wrong then return wrong end
  if form == SPARSE then
    return match(what .. " indices", t:_indices(), golden.indices) or match(what .. " values", t:_values(), golden.values, tol)
      or same(what .. " coalesced", t:is_coalesced(), golden.coalesced)
  end
  if form == SUMMED then return match_summary(what, flat(t), golden) end
  return compare(what, flat(t), elements(golden), tol)
end

-- ---- as ranks get and answer them: {t = dtype, s = shape, d = data} ----

local function make(golden)
  known("a tensor", golden, "t s d")
  local options, list = { dtype = DTYPES[golden.t] }, elements { dtype = golden.t, data = golden.d }
  if #list ~= count_of(golden.s) then error("shape and data do not fit each other", 0) end
  if #golden.s == 0 then return rs.tensor(list[1], options) end
  if #list == 0 then return rs.zeros(golden.s, options) end
  return rs.tensor(list, options):reshape(golden.s)
end

-- Plain numbers, which travel between Lua states.
local function plain(t)
  return { t = t.dtype, s = shape_of(t), d = flat(t) }
end

-- What `plain` has answered, against a golden tensor; `tol` nil: bit for bit.
local function match_plain(what, got, golden, tol)
  known("a tensor", golden, "t s d")
  if got == nil then return what .. ": there is none" end
  return same(what .. " dtype", got.t, DTYPES[golden.t]) or same(what .. " shape", got.s, golden.s) or
    compare(what, got.d, elements { dtype = golden.t, data = golden.d }, tol)
end

-- An error against {kind, message}: the kind, and the numbers that the message has; the sentence is ours.
local function raised(err, golden)
  if #golden ~= 2 then error("raises is not understood", 0) end
  local wrong = same("kind", err.kind, golden[1])
  for count in tostring(golden[2]):gmatch("%-?%d+") do
    local found = (" " .. err.message .. " "):find("[^%d%-]" .. count:gsub("%-", "%%-") .. "[^%d]") ~= nil
    wrong = wrong or same("a message with " .. count, found and count or err.message, count)
  end
  return wrong
end

-- What is put into the backward of `output`, or into a parameter: of the same dtype and shape.
local function like(what, golden, output)
  local given = tensor(golden)
  local wrong = same(what .. " dtype", given.dtype, output.dtype) or same(what .. " shape", shape_of(given), shape_of(output))
  if wrong then error(wrong, 0) end
  return given
end

local function rand_after(case)
  if case.rand_after == nil then return nil end
  local count = #case.rand_after
  return match("rand after", rs.rand { count }, { dtype = "f32", shape = { count }, data = case.rand_after })
end

return { DTYPES = DTYPES, known = known, number = number, numbers = numbers, count_of = count_of, flat = flat,
  elements = elements, tensor = tensor, show = show, same = same, shape_of = shape_of, compare = compare, match = match,
  crc32 = crc32, make = make, plain = plain, match_plain = match_plain, raised = raised, like = like,
  rand_after = rand_after }
