-- Random trainings under Join. A program is a table of plain values:
--   { seed, world, params, sizes, used, options, hook, zero, delayed, parts }
-- sizes: how many elements each parameter has; used: the lists of parameters that forwards use in turn; delayed: the
-- parameter that travels outside of the reducer. A part is an epoch: { join, counts = steps by rank, modes = sync/
-- no_sync/no_grad by step, initial = divide_by_initial_world_size, throw, counter = a joinable of its own comes first }.
local P = ...
local D = {}

local function modes(s, most, static)
  local out = {}
  local kinds = s.pick { { "sync" }, { "sync", "sync", "no_grad" }, { "no_sync", "sync" },
    { "sync", "no_sync", "no_grad", "sync", "sync" } }
  for i = 1, most do out[i] = s.pick(kinds) end
  if static then
    for i = 1, most do out[i] = out[i] == "no_grad" and i > 1 and "no_grad" or "sync" end
  end
  return out
end

local function draw_part(s, program, join)
  local part, most = { join = join, counts = {} }, s.pick { 1, 2, 3, 4, 6 }
  for r = 0, program.world - 1 do part.counts[r] = join and s.int(0, most) or most end
  if join and s.chance(6) then
    for r = 0, program.world - 1 do part.counts[r] = most end
  end
  part.modes = modes(s, most, program.options.static_graph)
  part.initial = not s.chance(2)
  part.throw = join and s.chance(8)
  part.counter = join and s.chance(5)
  return part
end

local function draw_used(s, program)
  local all, lists = {}, {}
  for i = 1, program.params do all[i] = i end
  if not program.options.find_unused_parameters then return { all } end
  for k = 1, s.int(1, 4) do
    lists[k] = {}
    for i = 1, program.params do
      if not s.chance(2) then table.insert(lists[k], i) end
    end
    if #lists[k] == 0 then lists[k][1] = s.int(1, program.params) end
  end
  return lists
end

function D.new(seed)
  local s = P.stream(seed)
  local program = { seed = seed, world = s.pick { 2, 2, 3, 3, 4, 5 }, params = s.int(1, 5), sizes = {}, parts = {} }
  for i = 1, program.params do program.sizes[i] = s.pick { 1, 1, 2, 5 } end
  local options = { bucket_cap_mb = s.pick { 0, 1, 20, 40, 100 } / (1 << 20) }
  if s.chance(4) then options.bucket_cap_mb = nil end
  if s.chance(3) then options.find_unused_parameters = true elseif s.chance(5) then options.static_graph = true end
  for name, one_in in pairs { gradient_as_bucket_view = 3, lazy_bucket_allocation = 6, batched_grad_copy = 6 } do
    options[name] = nil
    if P.stream(seed * 31 + #name).chance(one_in) then options[name] = true end
  end
  if s.chance(4) then options.forward_sync_buffers = false end
  program.options = options
  if s.chance(4) then program.hook = s.pick { "mean", "twice" } end
  program.zero = s.pick { "none", "zero", "keep" }
  if program.params > 2 and not options.find_unused_parameters and not options.static_graph and s.chance(6) then
    program.delayed = s.int(2, program.params)
  end
  program.used = draw_used(s, program)
  program.parts[1] = draw_part(s, program, true)
  if s.chance(2) then table.insert(program.parts, draw_part(s, program, true)) end
  -- Without Join delayed parameters travel when the hooked gradient comes, wherever the others are.
  if s.chance(3) and not program.delayed then table.insert(program.parts, draw_part(s, program, false)) end
  return program
end

local function shown(value)
  if type(value) ~= "table" then return tostring(value) end
  local keys, out = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do out[i] = (type(key) == "string" and key .. "=" or "") .. shown(value[key]) end
  return "{" .. table.concat(out, " ") .. "}"
end
function D.describe(program) return "#   " .. shown(program) end

return D
