-- All-reduces of ranks whose devices may be one GPU: the bits are those of the same call on the host's memory.
-- Arguments: world=N; what=all|mixed|absent|failing
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "all-reduces on one GPU", prefix = "", devices = 8, seed = 3 }

local options = { what = "all", world = "4" }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  options[name] = value
end
local world = math.tointeger(options.world)

-- ---- what is added ----

local fractions = { "float32", "float64", "float16", "bfloat16" }
local wholes = { "int64", "int32", "int8", "uint8", "bool" }
local lengths = { 0, 1, 2, 7, 33, 1000, 70001 }

-- Different on each rank; the host draws, since a generator is given.
local function made(dtype, length, generator)
  local x = rs.randn({ length }, { generator = generator })
  if dtype == "bool" then return (x:gt(0)):to(dtype) end
  return (dtype:match "int" and (x * 20):abs() or x * 3):to(dtype)
end

local function same(a, b) return rs.equal(a:cpu():double(), b:double()) end

local function ops_of(dtype)
  local ops = { "sum", "product", "min", "max" }
  if dtype:match "float" then
    ops[#ops + 1] = "avg"
    ops[#ops + 1] = { premul_sum = 0.3 }
  elseif dtype ~= "bool" then
    ops[#ops + 1] = "band"
    ops[#ops + 1] = "bor"
    ops[#ops + 1] = "bxor"
  end
  return ops
end

local function reduced(x, op)
  if type(op) == "table" then op = dist._make_nccl_premul_sum(op.premul_sum) end
  dist.all_reduce(x, { op = op })
  return x
end

-- ---- parts ----

local function every_op(rank, device)
  local generator, wrong, count = rs.Generator(), {}, 0
  generator:manual_seed(100 + rank)
  for _, dtypes in ipairs { fractions, wholes } do
    for _, dtype in ipairs(dtypes) do
      for _, op in ipairs(ops_of(dtype)) do
        for _, length in ipairs(lengths) do
          local host = made(dtype, length, generator)
          local far = reduced(host:to(device), op)
          count = count + 1
          if not same(far, reduced(host, op)) then
            wrong[#wrong + 1] = dtype .. " " .. (type(op) == "table" and "premul_sum" or op) .. " of " .. length
          end
        end
      end
    end
  end
  rs.check(("rank %d: sums on the GPU have the host's bits"):format(rank), #wrong == 0 and count > 0)
  if #wrong > 0 then print(table.concat(wrong, ", ")) end
end

-- A view that begins at an odd place, and one with gaps.
local function views(rank, device)
  local generator = rs.Generator()
  generator:manual_seed(7 + rank)
  local base = rs.randn({ 60, 11 }, { generator = generator })
  local far, right = base:to(device), true
  reduced(far:narrow(0, 1, 58), "sum")
  reduced(base:narrow(0, 1, 58), "sum")
  right = same(far, base)
  reduced(far:narrow(1, 3, 5), "max")
  reduced(base:narrow(1, 3, 5), "max")
  rs.check(("rank %d: a view is reduced, and nothing beside it"):format(rank), right and same(far, base))
end

-- One after the other, asynchronously, and what the device does with the outcome at once.
local function in_order(rank, device)
  local x, works = rs.full({ 500 }, rank + 1.0, { device = device }), {}
  for i = 1, 5 do
    dist.all_reduce(x)
    x = x / world
  end
  local a, b = rs.ones({ 300 }, { device = device }), rs.full({ 20 }, 2.0, { device = device })
  works[1] = dist.all_reduce(a, { async_op = true })
  works[2] = dist.all_reduce(b, { async_op = true })
  for _, work in ipairs(works) do work:wait() end
  local mean = (world + 1) / 2
  rs.check(("rank %d: calls follow each other"):format(rank), x:sub(mean):abs():max():item() == 0 and
           a:sub(world):abs():max():item() == 0 and b:sub(2 * world):abs():max():item() == 0)
end

local function mixed(rank, device)
  local where, right = rank % 2 == 0 and device or "cpu", true
  for _, op in ipairs { "sum", "avg", { premul_sum = 0.5 } } do
    local x = reduced(rs.full({ 100 }, rank + 1.0, { device = where }), op)
    local sum = world * (world + 1) / 2
    local wanted = op == "sum" and sum or op == "avg" and sum / world or sum / 2
    right = right and x:cpu():sub(wanted):abs():max():item() == 0
  end
  local x = rs.full({ 10 }, 1.0, { device = device })
  dist.all_reduce(x)
  rs.check(("rank %d: where some tensors lie in the host's memory the host adds"):format(rank),
           right and x:sub(world):abs():max():item() == 0)
end

local function worker(rank)
  local device = "device:" .. rank
  if options.what == "absent" and rank == 1 then return end
  if options.what == "failing" and rank == 1 then error "rank 1 has had enough" end
  if options.what == "absent" or options.what == "failing" then
    dist.all_reduce(rs.ones({ 100 }, { device = device }))
  elseif options.what == "mixed" then
    mixed(rank, device)
  else
    every_op(rank, device)
    views(rank, device)
    in_order(rank, device)
  end
end
dist.spawn(worker, { world = world })
