-- Random nets with SyncBatchNorm under DistributedDataParallel on worlds of 1 to 4 ranks, whose batches differ in length and
-- may be empty, against the same net with BatchNorm in one process on all rows: losses, gradients, weights, buffers. All
-- ranks must have issued the same collectives in the same order: those of the norms lie between those of the buckets.
-- Arguments: first=SEED count=N, show=1 (each program, before it runs). Prints a checksum for each seed, so that executors
-- can be compared.
local rs = require "ringside"
rs.lesson { title = "Random nets with SyncBatchNorm", devices = 4, prefix = "" }
local P = assert(loadfile "tests/programs/program.lua")()
local nn, dist, DDP = rs.nn, rs.distributed, rs.nn.parallel.DistributedDataParallel

io.stdout:setvbuf "line"
local options = { first = 1, count = 20 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  if not name then error("an argument is NAME=VALUE, not " .. word) end
  options[name] = math.tointeger(value) or value
end

-- ---- drawing: { seed, world, dtype, channels, length, blocks, steps, options, converted, shared, group } ----

local BYTES = { 0, 1, 20, 40, 100, 200 }

local function draw_norm(s)
  return { kind = "norm", momentum = s.pick { 0.1, 0.1, 0.37, 1, 0, "none" }, affine = not s.chance(5),
    track_running_stats = not s.chance(6), eps = s.pick { 1e-5, 1e-3, 0.1 } }
end

local function draw_block(s, blocks, i)
  local kind = s.pick { "mix", "mix", "norm", "norm", "norm", "tanh", "branch", "again", "residual" }
  if kind == "norm" then return draw_norm(s) end
  if kind == "mix" then return { kind = "mix", bias = not s.chance(3), frozen = s.chance(8) } end
  if kind == "again" or kind == "residual" then
    for at = i - 1, 1, -1 do
      if blocks[at].kind == "norm" then return { kind = kind, of = at } end
    end
    return draw_norm(s)
  end
  return { kind = kind }
end

local function draw_options(s)
  local o = {}
  if not s.chance(3) then o.bucket_cap_mb = s.pick(BYTES) / 1048576 end
  o.gradient_as_bucket_view = s.chance(3) or nil
  o.find_unused_parameters = s.chance(4) or nil
  o.static_graph = not o.find_unused_parameters and s.chance(4) or nil
  if s.chance(4) then o.forward_sync_buffers = false end
  return o
end

local function draw_rows(s, world)
  local rows, total = {}, 0
  while total < 3 do
    total = 0
    for r = 1, world do
      rows[r] = s.chance(4) and 0 or s.int(1, 5)
      total = total + rows[r]
    end
  end
  return rows
end

local function drawn(seed)
  local s = P.stream(seed)
  local program = { seed = seed, world = s.int(1, 4), dtype = s.chance(4) and "float32" or "float64", channels = s.int(1, 4),
    length = s.chance(2) and 0 or s.int(1, 3), blocks = { { kind = "mix", bias = true } }, steps = {},
    options = draw_options(s), converted = not s.chance(3), shared = s.chance(3), group = s.chance(4) }
  for i = 2, s.int(3, 7) do program.blocks[i] = draw_block(s, program.blocks, i) end
  table.insert(program.blocks, draw_norm(s))
  for i = 1, s.int(2, 4) do program.steps[i] = { rows = draw_rows(s, program.world), accumulate = i > 1 and s.chance(4) } end
  return program
end

local function text(value)
  if type(value) ~= "table" then return tostring(value) end
  local parts, names = {}, {}
  for name in pairs(value) do names[#names + 1] = name end
  table.sort(names, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(names) do parts[#parts + 1] = name .. " = " .. text(value[name]) end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

-- ---- the net ----

local function momentum_of(block) return block.momentum == "none" and rs.none or block.momentum end

-- norm(channels, options) makes the layer.
local function new_net(program, norm)
  local Net = nn.Module "Net"
  local function mix(bias)
    if program.length == 0 then return nn.Linear(program.channels, program.channels, { bias = bias }) end
    return nn.Conv1d(program.channels, program.channels, 1, { bias = bias })
  end
  function Net:init()
    for i, block in ipairs(program.blocks) do
      if block.kind == "mix" or block.kind == "branch" then self["b" .. i] = mix(block.bias) end
      if block.kind == "norm" then
        self["b" .. i] = norm(program.channels, { momentum = momentum_of(block), affine = block.affine, eps = block.eps,
          track_running_stats = block.track_running_stats })
      end
    end
  end
  function Net:forward(x)
    for i, block in ipairs(program.blocks) do
      local part = self["b" .. i] or block.of and self["b" .. block.of]
      if block.kind == "tanh" then x = rs.tanh(x)
      elseif block.kind == "branch" then x = rs.tanh(x) + part(x)
      elseif block.kind == "residual" then x = x + part(x * 0.5)
      else x = part(x) end
    end
    return x
  end
  rs.manual_seed(program.seed)
  local net = Net():to(program.dtype)
  for i, block in ipairs(program.blocks) do
    if block.frozen then net["b" .. i]:requires_grad_(false) end
  end
  return net
end

local function batch(program, i)
  local total, shape = 0, { 0, program.channels }
  for _, count in ipairs(program.steps[i].rows) do total = total + count end
  shape[1] = total
  if program.length > 0 then shape[3] = program.length end
  rs.manual_seed(program.seed + 1000 * i)
  return rs.randn(shape, { dtype = program.dtype }), rs.randn(shape, { dtype = program.dtype })
end

local function flat(t) return t and t:numel() > 0 and t:detach():to("cpu"):reshape { -1 }:tolist() or {} end

local function noted(net)
  local out = {}
  for _, name in ipairs { "parameters", "buffers" } do
    for t in net[name](net) do
      out[#out + 1] = flat(t)
      out[#out + 1] = flat(t.grad)
    end
  end
  return out
end

-- cut(t, step): a rank's rows of it. no_sync(f): f with gradients that stay. `factor` undoes the division by the ranks.
local function train(program, net, forward, cut, no_sync, factor)
  local record, optimizer = {}, rs.optim.SGD(net:parameters(), { lr = 0.05 })
  for i in ipairs(program.steps) do
    local x, weight = batch(program, i)
    x, weight = cut(x, i):requires_grad_(), cut(weight, i)
    if program.steps[i].accumulate then
      no_sync(function() ((forward(x) * weight):sum() * factor):backward() end)
    end
    local loss = ((forward(x) * weight):pow(2) + forward(x) * weight):sum()
    ;(loss * factor):backward()
    record[i] = { loss = loss:item(), grads = noted(net), input = flat(x.grad) }
    optimizer:step()
    optimizer:zero_grad()
  end
  record.ends = noted(net)
  return record
end

-- ---- one process, and ranks ----

local function alone(program)
  local net = new_net(program, nn.BatchNorm1d)
  return train(program, net, net, function(t) return t end, function(f) f() end, 1)
end

local function on_rank(rank, program)
  local device = "device:" .. (program.shared and 0 or rank)
  local net = new_net(program, program.converted and nn.BatchNorm1d or nn.SyncBatchNorm)
  local group
  if program.group then
    group = {}
    for r = 1, program.world do group[r] = r - 1 end
    group = dist.new_group(group)
  end
  if program.converted then nn.SyncBatchNorm.convert_sync_batchnorm(net, group) end
  local ddp = DDP(net:to(device), program.options)
  return train(program, net, ddp, function(t, i)
    local first, rows = 0, program.steps[i].rows
    for r = 1, rank do first = first + rows[r] end
    return t[rs.slice(first, first + rows[rank + 1])]:to(device):detach()
  end, function(f) ddp:no_sync(f) end, program.world)
end

-- ---- comparing ----

local function close(a, b, tolerance) return math.abs(a - b) <= tolerance * math.max(1, math.abs(b)) end

local function different(what, got, want, tolerance)
  if #got ~= #want then return ("%s: %d numbers, expected %d"):format(what, #got, #want) end
  for i = 1, #want do
    local a, b = got[i], want[i]
    local words = type(b) == "table" and different(what .. " " .. i, a, b, tolerance)
    if type(b) ~= "table" and not close(a, b, tolerance) then words = ("%s: %.17g, expected %.17g"):format(what, a, b) end
    if words then return words end
  end
end

-- The operations of each rank, as it has issued them.
local function issued(program, seq)
  local by_rank = {}
  for rank = 0, program.world - 1 do
    local list = {}
    for _, event in ipairs(rs.trace:events(("c10d.issue and rank %d and seq >= %d"):format(rank, seq))) do
      list[#list + 1] = event.args.operation .. " " .. event.args.bytes
    end
    by_rank[rank] = table.concat(list, ", ")
  end
  return by_rank
end

local function wrong_order(program, seq)
  local by_rank = issued(program, seq)
  for rank = 1, program.world - 1 do
    if by_rank[rank] ~= by_rank[0] then
      return ("rank %d issued %s, rank 0 %s"):format(rank, by_rank[rank], by_rank[0])
    end
  end
  if program.world > 1 and not by_rank[0]:find "gather" then return "nobody gathered anything" end
end

local function wrong_step(program, i, ranks, want, tolerance)
  local loss, input = 0, {}
  for rank = 0, program.world - 1 do
    local got = ranks[rank][i]
    loss = loss + got.loss
    table.move(got.input, 1, #got.input, #input + 1, input)
    local words = different(("step %d, rank %d"):format(i, rank), got.grads, want.grads, tolerance)
    if words then return words end
  end
  -- A rank without rows has no gradient of its input, and none is missed. That of its rows is not averaged.
  for k, value in ipairs(input) do input[k] = value / program.world end
  return different(("step %d, inputs"):format(i), input, want.input, tolerance)
    or different(("step %d, losses"):format(i), { loss }, { want.loss }, tolerance)
end

local function check(program)
  local want, seq = alone(program), rs.trace:seq()
  local ranks = dist.spawn(on_rank, { world = program.world, args = { program } })
  local tolerance = program.dtype == "float32" and 2e-3 or 1e-7
  local words = wrong_order(program, seq)
  for i in ipairs(program.steps) do words = words or wrong_step(program, i, ranks, want[i], tolerance) end
  local h = 0x1234567
  for rank = 0, program.world - 1 do
    words = words or different("at the end, rank " .. rank, ranks[rank].ends, want.ends, tolerance)
    for _, list in ipairs(ranks[rank].ends) do
      for _, x in ipairs(list) do
        h = ((h ~ string.unpack("<i8", string.pack("<d", x))) * 0x100000001B3) & 0xffffffffffffffff
        h = h ~ h >> 29
      end
    end
  end
  return words, ("%016x"):format(h)
end

-- ---- all of them ----

local failures, worlds, empty = 0, {}, 0
for seed = options.first, options.first + options.count - 1 do
  local program = drawn(seed)
  if options.show then print("-- seed " .. seed .. "\n" .. text(program)) end
  local ok, words, result = pcall(check, program)
  if not ok then words, result = tostring(words), "" end
  if words then
    failures = failures + 1
    if failures <= 10 then print(("# seed %d: %s\n%s"):format(seed, words, text(program))) end
  end
  worlds[program.world] = (worlds[program.world] or 0) + 1
  for _, step in ipairs(program.steps) do
    for _, count in ipairs(step.rows) do empty = empty + (count == 0 and 1 or 0) end
  end
  print(("seed %d world %d: %s"):format(seed, program.world, result))
end
for world, count in pairs(worlds) do print(("# %d of world %d"):format(count, world)) end
print(("# %d batches without rows"):format(empty))
if failures > 0 then error(failures .. " programs went wrong", 0) end
