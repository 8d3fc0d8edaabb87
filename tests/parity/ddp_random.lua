-- Random trainings under DistributedDataParallel (tests/programs/ddp_draw.lua) and what its rules make of them, written
-- for ddp_random_twin.py: a line of JSON each. Arguments: first=SEED count=N.
local rs = require "ringside"
rs.lesson { title = "Parity of random trainings", devices = 0, prefix = "" }
local P = assert(loadfile "tests/programs/program.lua")()
local D = assert(loadfile "tests/programs/ddp_draw.lua")(P)
local R = assert(loadfile "tests/programs/ddp_rules.lua")(rs, P)

local options = { first = 1, count = 50 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  options[name] = math.tointeger(value) or value
end

local function json(value)
  if rs.is_tensor(value) then return json(value:double():reshape { -1 }:tolist()) end
  if type(value) == "string" then return '"' .. value .. '"' end
  if type(value) ~= "table" then return math.type(value) == "float" and ("%.17g"):format(value) or tostring(value) end
  local parts = {}
  if next(value) == nil or value[1] ~= nil then
    for i, item in ipairs(value) do parts[i] = json(item) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for name, item in pairs(value) do parts[#parts + 1] = ('"%s":%s'):format(name, json(item)) end
  return "{" .. table.concat(parts, ",") .. "}"
end

-- What has an entry for each rank, from 0, as a list from 1.
local function by_rank(list, world) return table.move(list, 0, world - 1, 1, {}) end

-- "2:twice": rank 2 may end so.
local function endings(errors)
  local out = {}
  for rank, kinds in pairs(errors) do
    for _, kind in ipairs(kinds) do out[#out + 1] = rank .. ":" .. kind end
  end
  return out
end

for seed = options.first, options.first + options.count - 1 do
  local program = D.new(seed)
  local result = R.run(program)
  if result then
    for _, iteration in ipairs(program.iterations) do
      for _, op in ipairs(iteration) do op.layouts = op.layouts and by_rank(op.layouts, program.world) end
    end
    print(json { program = program, ranks = result.ranks and by_rank(result.ranks, program.world) or false,
      errors = result.errors and endings(result.errors) or false })
  end
end
