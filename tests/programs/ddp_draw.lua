-- Random trainings under DistributedDataParallel. A program is a table of plain values:
--   { seed, world, dtype, blocks, options, hook, ignored, zero, iterations }
-- blocks: what the model is made of: { kind = linear/scale/buffer/norm/embed, bias, tie = the block whose weight it
-- shares, frozen, wide = float64 in a float32 model, sparse }. An iteration is a list of { forward = slot, mode =
-- sync/no_sync/no_grad, layouts } and { backward = slots, inside = in a no_sync }; after it the optimizer steps. A
-- layout says for one rank which blocks lead to each output, and which outputs the loss needs: { outs = { { 1, 3 }, { 2
-- } }, used = { true, false } }.
local P = ...
local D = {}

local BYTES = { 0, 1, 20, 40, 100 }

local function shuffled(s, list)
  local out = table.move(list, 1, #list, 1, {})
  for i = #out, 2, -1 do
    local k = s.int(1, i)
    out[i], out[k] = out[k], out[i]
  end
  return out
end

local function indices(count)
  local out = {}
  for i = 1, count do out[i] = i end
  return out
end

-- ---- models ----

local function linear(s, blocks)
  local block = { kind = "linear", bias = not s.chance(4), wide = s.chance(8) }
  local other = s.chance(4) and s.int(1, #blocks + 1)
  if other and blocks[other] and blocks[other].kind == "linear" and not blocks[other].frozen then
    block.tie = blocks[other].tie or other
    block.wide = blocks[other].wide
  else
    block.frozen = #blocks > 0 and s.chance(8)
  end
  return block
end

local function draw_blocks(s)
  local blocks = { linear(s, {}) }
  for i = 2, s.int(3, 6) do
    local kind = s.pick { "linear", "linear", "linear", "linear", "scale", "buffer", "norm", "embed" }
    blocks[i] = kind == "linear" and linear(s, blocks) or { kind = kind, sparse = kind == "embed" and s.chance(3) }
  end
  return blocks
end

-- A loss has a gradient if a block of this kind leads to it.
local function learns(block) return block.kind ~= "buffer" and not block.frozen end

-- These blocks, in this order, as one output or several; some come twice. Each output learns.
local function draw_layout(s, blocks, chosen)
  local outs, used, learners = { {} }, {}, 0
  for _, i in ipairs(chosen) do
    if learners > 0 and #outs < 3 and s.chance(4) then
      outs[#outs + 1] = {}
      learners = 0
    end
    table.insert(outs[#outs], i)
    if s.chance(6) then table.insert(outs[#outs], i) end
    learners = learners + (learns(blocks[i]) and 1 or 0)
  end
  if learners == 0 and #outs > 1 then
    local last = table.remove(outs)
    table.move(last, 1, #last, #outs[#outs] + 1, outs[#outs])
  end
  for k = 1, #outs do used[k] = true end
  return { outs = outs, used = used }
end

local function draw_subset(s, blocks)
  while true do
    local out, learners = {}, 0
    for _, i in ipairs(shuffled(s, indices(#blocks))) do
      if not s.chance(3) then
        out[#out + 1] = i
        learners = learners + (learns(blocks[i]) and 1 or 0)
      end
    end
    if learners > 0 then return out end
  end
end

-- The loss does not need them all.
local function forget_outputs(s, layout)
  for k = 2, #layout.outs do layout.used[k] = not s.chance(3) end
  return layout
end

-- layouts(rank) for one forward. How paths go: all = every block in one order; order = every block, in another order
-- each time; subset, rank = some blocks, always the same ones, rank by rank others; free = others each time.
local function path_drawer(s, program)
  local blocks, how, fixed = program.blocks, program.paths, {}
  local forgetful = s.chance(5) or program.options.find_unused_parameters and s.chance(2)
  local function one()
    local chosen = (how == "all" or how == "order") and shuffled(s, indices(#blocks)) or draw_subset(s, blocks)
    local layout = draw_layout(s, blocks, chosen)
    return forgetful and forget_outputs(s, layout) or layout
  end
  return function()
    local layouts = {}
    for rank = 0, program.world - 1 do
      local key = (how == "rank") and rank or 0
      if how == "all" or how == "subset" or how == "rank" then
        fixed[key] = fixed[key] or one()
        layouts[rank] = fixed[key]
      else
        layouts[rank] = one()
      end
    end
    return layouts
  end
end

-- ---- what is done ----

-- f(mode, slot), b(slots, inside): appended to the iteration.
local PATTERNS = {
  plain = function(_, f, b) f("sync", 1) b { 1 } end,
  accumulate = function(s, f, b)
    for _ = 1, s.int(1, 2) do f("no_sync", 1) b { 1 } end
    f("sync", 1) b { 1 }
  end,
  only_local = function(_, f, b) f("no_sync", 1) b { 1 } end,
  inside = function(_, f, b) f("sync", 1) b({ 1 }, true) end,
  sum = function(_, f, b) f("sync", 1) f("sync", 2) b { 1, 2 } end,
  each = function(_, f, b) f("sync", 1) f("sync", 2) b { 1 } b { 2 } end,
  backwards = function(_, f, b) f("sync", 1) f("sync", 2) b { 2 } b { 1 } end,
  mixed = function(_, f, b) f("no_sync", 1) f("sync", 2) b { 1, 2 } end,
  abandoned = function(_, f, b) f("sync", 1) f("sync", 1) b { 1 } end,
  look_first = function(_, f, b) f("no_grad", 2) f("sync", 1) b { 1 } end,
  look_between = function(_, f, b) f("sync", 1) f("no_grad", 2) b { 1 } end,
}
local LIKELY = { "plain", "plain", "plain", "plain", "accumulate", "accumulate", "only_local", "inside", "sum", "each",
  "backwards", "mixed", "abandoned", "look_first", "look_between" }

local function draw_iteration(s, pattern, layouts)
  local out = {}
  PATTERNS[pattern](s, function(mode, slot) out[#out + 1] = { forward = slot, mode = mode, layouts = layouts() } end,
    function(slots, inside) out[#out + 1] = { backward = slots, inside = inside } end)
  return out
end

-- ---- options ----

-- One in so many programs finds unused parameters or trusts the graph to stay, by how paths go: find, static.
local MODES = { all = { 4, 4 }, order = { 4, 5 }, subset = { 2, 2 }, rank = { 2, 2 }, free = { 1, 8 } }

local function draw_options(s, program)
  local o, odds = {}, MODES[program.paths]
  o.find_unused_parameters = s.chance(odds[1]) and not s.chance(8) or nil
  o.static_graph = s.chance(odds[2]) or nil
  if s.chance(5) then
    o.bucket_cap_mb_list = {}
    for i = 1, s.int(1, 3) do o.bucket_cap_mb_list[i] = s.pick(BYTES) / 1048576 end
  elseif not s.chance(3) then
    o.bucket_cap_mb = s.pick(BYTES) / 1048576
  end
  o.gradient_as_bucket_view = s.chance(3) or nil
  o.batched_grad_copy = s.chance(4) or nil
  o.lazy_bucket_allocation = s.chance(6) or nil
  if s.chance(5) then o.forward_sync_buffers = s.chance(4) end
  if s.chance(8) then o.broadcast_buffers = s.chance(4) end
  if s.chance(8) then o.init_sync = false end
  o.skip_all_reduce_unused_params = o.find_unused_parameters and program.paths == "subset" and s.chance(2) or nil
  return o
end

local function draw_ignored(s, blocks)
  local out = {}
  for i, block in ipairs(blocks) do
    local learns_bias = block.kind == "linear" and block.bias and not block.frozen
    if learns_bias and s.chance(3) then out[#out + 1] = "b" .. i .. ".bias" end
    if block.kind == "buffer" and s.chance(3) then out[#out + 1] = "b" .. i end
  end
  return #out > 0 and out or nil
end

function D.new(seed)
  local s = P.stream(seed)
  local program = { seed = seed, world = s.int(2, 5), dtype = s.pick { "float32", "float64" }, blocks = draw_blocks(s),
    paths = s.pick { "all", "all", "order", "subset", "rank", "free" },
    zero = s.pick { "none", "none", "zeros", "keep" }, iterations = {} }
  program.options = draw_options(s, program)
  program.hook = s.chance(6)
  program.ignored = s.chance(6) and draw_ignored(s, program.blocks) or nil
  local layouts = path_drawer(s, program)
  for i = 1, s.int(2, 4) do
    local pattern = i == 1 and program.options.static_graph and "plain" or s.pick(LIKELY)
    program.iterations[i] = draw_iteration(s, pattern, layouts)
  end
  table.insert(program.iterations, draw_iteration(s, "plain", layouts))
  return program
end

-- ---- as text ----

local function text(value)
  if type(value) ~= "table" then return type(value) == "string" and ("%q"):format(value) or tostring(value) end
  local parts, names = {}, {}
  for _, item in ipairs(value) do parts[#parts + 1] = text(item) end
  for name in pairs(value) do
    if not (math.type(name) == "integer" and name >= 1 and name <= #value) then names[#names + 1] = name end
  end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do
    parts[#parts + 1] = (type(name) == "string" and name or "[" .. name .. "]") .. " = " .. text(value[name])
  end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

function D.describe(program)
  local out = {}
  for _, name in ipairs { "world", "dtype", "paths", "zero", "hook", "ignored", "options" } do
    if program[name] then out[#out + 1] = name .. " = " .. text(program[name]) end
  end
  for i, block in ipairs(program.blocks) do out[#out + 1] = ("block %d = %s"):format(i, text(block)) end
  for i, iteration in ipairs(program.iterations) do
    for _, op in ipairs(iteration) do out[#out + 1] = ("iteration %d: %s"):format(i, text(op)) end
  end
  return table.concat(out, "\n")
end

return D
