-- Random trainings under DistributedDataParallel on worlds of 2 to 5 ranks (ddp_draw.lua): models with shared and
-- unused parameters, branches by rank, no_sync, several forwards and backwards in every order, caps, views, static
-- graphs, buffers. Each must end with what ddp_rules.lua works out in one process, or in the error that its rules give.
-- Arguments: first=SEED count=N, show=1 or announce=1 (each program, before it runs). Prints a checksum for each seed,
-- so that executors can be compared. A program that fails is made shorter and printed.
local rs = require "ringside"
rs.lesson { title = "Random trainings under DistributedDataParallel", devices = 0, prefix = "" }
local P = assert(loadfile "tests/programs/program.lua")()
local D = assert(loadfile "tests/programs/ddp_draw.lua")(P)
local R = assert(loadfile "tests/programs/ddp_rules.lua")(rs, P)
local dist, DDP = rs.distributed, rs.nn.parallel.DistributedDataParallel

io.stdout:setvbuf "line"
local options = { first = 1, count = 20 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  if not name then error("an argument is NAME=VALUE, not " .. word) end
  options[name] = math.tointeger(value) or value
end

-- ---- one rank ----

local function mean_hook(_, bucket)
  local work = dist.all_reduce(bucket:buffer():div_(dist.get_world_size()), { async_op = true })
  return work:get_future():then_(function(future) return future:value()[1] end)
end

local function wrapped(program, net)
  if program.ignored then DDP._set_params_and_buffers_to_ignore_for_model(net, program.ignored) end
  local ddp = DDP(net, program.options)
  if program.hook then ddp:register_comm_hook(nil, mean_hook) end
  return ddp
end

local function forward(program, ddp, rank, op, number)
  local x, ids = R.inputs(program, rank, number)
  local layout = op.layouts[rank]
  local function call() return R.loss(ddp(x, ids, layout.outs), layout) end
  if op.mode == "no_grad" then return rs.no_grad(call) end
  if op.mode == "sync" then return call() end
  local loss
  ddp:no_sync(function() loss = call() end)
  return loss
end

local function backward(ddp, op, losses)
  local loss
  for _, slot in ipairs(op.backward) do loss = loss and loss + losses[slot] or losses[slot] end
  if op.inside then ddp:no_sync(function() loss:backward() end) else loss:backward() end
end

local function train(program, rank)
  local net, record, losses = R.new_net(program, rank), R.record(), {}
  local ddp, number = wrapped(program, net), 0
  local optimizer = rs.optim.SGD(net:parameters(), { lr = 0.125 })
  for i, iteration in ipairs(program.iterations) do
    for _, op in ipairs(iteration) do
      if op.forward then
        number = number + 1
        losses[op.forward] = forward(program, ddp, rank, op, number)
        table.insert(record.losses, losses[op.forward]:item())
      else
        backward(ddp, op, losses)
      end
    end
    record.gradients[i] = R.gradients(net)
    R.step(program, optimizer)
  end
  return R.finish(record, net)
end

-- As plain numbers: a rank cannot hand out tensors that it still holds.
local function plain(value)
  if rs.is_tensor(value) then
    return { shape = table.concat(value.shape, " "), dtype = value.dtype, value:reshape { -1 }:tolist() }
  end
  if type(value) ~= "table" then return value end
  local out = {}
  for key, item in pairs(value) do out[key] = plain(item) end
  return out
end

-- ---- comparing ----

local function close(a, b, tolerance)
  return a == b or math.type(b) ~= nil and math.abs(a - b) <= tolerance * math.max(1, math.abs(b))
end

-- nil, or where two trees of numbers differ, and how.
local function different(got, want, tolerance, path)
  if type(got) ~= type(want) then return ("%s: %s, expected %s"):format(path, type(got), type(want)) end
  if type(want) ~= "table" then
    if type(want) == "number" and close(got, want, tolerance) or got == want then return nil end
    return ("%s: %s, expected %s"):format(path, tostring(got), tostring(want))
  end
  if #got ~= #want then return ("%s: %d entries, expected %d"):format(path, #got, #want) end
  local keys = {}
  for key in pairs(want) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local words = different(got[key], want[key], tolerance, path .. " " .. tostring(key))
    if words then return words end
  end
end

local SAYS = {
  unfinished = "finished reduction in the prior iteration",
  twice = "marked ready twice",
  changed = "training graph has changed",
  undefined = "Encountered gradient which is undefined",
  sparse = "sparse gradient",
}

local function says(message, kind)
  local name, indices = kind:match "^(%a+) ?(.*)$"
  return message:find(SAYS[name], 1, true) and (indices == "" or message:find(": " .. indices .. ".", 1, true))
end

local function lies_in_buckets(program)
  for _, block in ipairs(program.blocks) do
    if block.sparse then return true end
  end
  return program.options.gradient_as_bucket_view
end

-- nil: rank's error is one that the rules give. Which of several ranks is first is nobody's rule. Where gradients lie
-- in buckets (views, sparse ones) and some bucket has started, whoever touches them again before the error is told of
-- that.
local function wrong_error(program, err, errors)
  local message = type(err) == "table" and err.message or tostring(err)
  local rank, expected = tonumber(message:match "rank (%d+):"), {}
  if lies_in_buckets(program) and next(errors) and message:find("may still be changing it", 1, true) then return nil end
  for r, kinds in pairs(errors) do
    for _, kind in ipairs(kinds) do
      if r == rank and says(message, kind) then return nil end
      expected[#expected + 1] = ("%s on rank %d"):format(kind, r)
    end
  end
  table.sort(expected)
  local words = #expected > 0 and table.concat(expected, " or ") or "none"
  return ("error %s, expected %s"):format(message:match "^[^\n]*", words)
end

local function bits_of(record, h)
  local function number(x)
    local bits = math.type(x) == "float" and string.unpack("<i8", string.pack("<d", x)) or math.tointeger(x) or 7
    h = ((h ~ bits) * 0x100000001B3) & 0xffffffffffffffff
    h = h ~ h >> 29
  end
  local function walk(value)
    if type(value) == "number" then number(value) elseif value == false then number(3) end
    for _, item in ipairs(type(value) == "table" and value or {}) do walk(item) end
  end
  for _, part in ipairs { "losses", "gradients", "weights", "buffers" } do walk(record[part]) end
  return h
end

-- Seed by seed; another one where ranks would wait for each other in different places.
local function drawn(seed)
  while true do
    local program = D.new(seed)
    if R.run(program) then return program end
    seed = seed + 1000003
  end
end

-- nil or what is wrong, and what the program ends with: a checksum or the kinds of its error.
local function check(program)
  local expected = R.run(program)
  if not expected then return nil, "" end
  local ok, ranks = pcall(dist.spawn, function(rank) return plain(train(program, rank)) end, { world = program.world })
  if not ok or expected.errors then
    if ok then return wrong_error(program, "none", expected.errors or {}), "" end
    local wrong = wrong_error(program, ranks, expected.errors or {})
    local kinds = {}
    for _, list in pairs(expected.errors or {}) do kinds[list[1]:match "%a+"] = true end
    local list = {}
    for kind in pairs(kinds) do list[#list + 1] = kind end
    table.sort(list)
    return wrong, table.concat(list, ", ")
  end
  local h = 0x1234567
  for rank = 0, program.world - 1 do
    local tolerance = program.dtype == "float32" and 2e-4 or 1e-9
    local words = different(ranks[rank], plain(expected.ranks[rank]), tolerance, "rank " .. rank)
    if words then return words, "" end
    h = bits_of(ranks[rank], h)
  end
  return nil, ("%016x"):format(h)
end

-- ---- all of them ----

local function same_failure(words, other)
  local function kind(text) return (text:gsub("%S*[%d.]%S*", "N")) end
  return kind(words) == kind(other)
end

-- Without iterations and steps that it fails without.
local function shorter(program, words)
  local function fails(p)
    local ok, other = pcall(check, p)
    return other ~= nil and same_failure(words, tostring(other))
  end
  for i = #program.iterations, 1, -1 do
    local fewer = P.without(program, "iterations", i)
    if #fewer.iterations > 0 and fails(fewer) then program = fewer end
  end
  for name in pairs(program.options) do
    local fewer = setmetatable({ options = {} }, { __index = program })
    for other, value in pairs(program.options) do fewer.options[other] = other ~= name and value or nil end
    if fails(fewer) then program = fewer end
  end
  return program
end

local failures, ended = 0, { checksum = 0 }
for seed = options.first, options.first + options.count - 1 do
  local program = drawn(seed)
  if options.show or options.announce then print("-- seed " .. seed .. "\n" .. D.describe(program)) end
  local ok, words, result = pcall(check, program)
  if not ok then words, result = tostring(words), "" end
  if words then
    failures = failures + 1
    if failures <= (options.most or 10) then
      print(("# seed %d: %s\n%s"):format(seed, words, D.describe(shorter(program, words))))
    end
  end
  local kind = result:find "^%x+$" and #result == 16 and "checksum" or result
  ended[kind] = (ended[kind] or 0) + 1
  print(("seed %d world %d: %s"):format(seed, program.world, result))
end
for kind, count in pairs(ended) do print(("# %d ended with %s"):format(count, kind)) end
print(("# %d programs"):format(options.count))
if failures > 0 then error(failures .. " programs went wrong", 0) end
