local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local library = dist.algorithms.ddp_comm_hooks
local default, debugging, quantization = library.default_hooks, library.debugging_hooks, library.quantization_hooks
local local_sgd = library.post_localSGD_hook
rs.lesson { title = "Twin: comm hooks", seed = 1 }

local SIZES = { 600, 130, 5 }
local Vectors = nn.Module("Vectors")
function Vectors:init()
  local list = {}
  for i, size in ipairs(SIZES) do list[i] = nn.Parameter(rs.zeros(size)) end
  self.list = nn.ParameterList(list)
end
function Vectors:forward(parts)
  local sum = 0
  for i, p in ipairs(self:parameters()) do sum = sum + (p * parts[i]):sum() end
  return sum
end

local function inputs(rank, step)
  local numbers = (rs.arange(735) * 37 + 11 * rank + step) % 101 - 50
  return (numbers:float() / 64 * (rank + 1)):split(SIZES)
end

local function own(state, bucket)
  return default.fp16_compress_hook(state, bucket):then_(function(f) return f:value() * 2 end)
end

local WAYS = { {}, { gradient_as_bucket_view = true }, { bucket_cap_mb = 1000 / 2 ^ 20 }, { static_graph = true },
  { find_unused_parameters = true, bucket_cap_mb = 600 / 2 ^ 20 } }

local function hook_of(hook, state) return function(ddp) ddp:register_comm_hook(state, hook) end end
local function builtin(kind) return function(ddp) ddp:_register_builtin_comm_hook(kind) end end

local function told(net)
  local flat, out = {}, {}
  for i, p in ipairs(net:parameters()) do flat[i] = p.grad:flatten() end
  flat = rs.cat(flat)
  for k, i in ipairs { 0, 1, 17, 599, 600, 729, 730, 734 } do out[k] = ("%.9g"):format(flat[i]:item()) end
  out[9] = ("%.9g"):format(flat:double():sum():item())
  out[10] = ("%.9g"):format(flat:double():abs():sum():item())
  return table.concat(out, " ")
end

local function average(rank, ways, register)
  local net, lines = Vectors(), {}
  local ddp = nn.parallel.DistributedDataParallel(net, ways)
  register(ddp)
  for step = 0, 2 do
    ddp:zero_grad()
    ddp(inputs(rank, step)):backward()
    lines[#lines + 1] = told(net)
  end
  return ddp, lines
end

local function work(rank)
  local lines = {}
  local function add(name, found)
    for step, line in ipairs(found) do lines[#lines + 1] = ("%s-%d %s"):format(name, step - 1, line) end
  end
  local HOOKS = {
    { "none", function() end },
    { "allreduce", hook_of(default.allreduce_hook) },
    { "group", hook_of(default.allreduce_hook, dist.group.WORLD) },
    { "fp16", hook_of(default.fp16_compress_hook) },
    { "bf16", hook_of(default.bf16_compress_hook) },
    { "fp16_wrapper", hook_of(default.fp16_compress_wrapper(default.allreduce_hook)) },
    { "bf16_wrapper", hook_of(default.bf16_compress_wrapper(debugging.noop_hook)) },
    { "noop", hook_of(debugging.noop_hook) },
    { "builtin", builtin(dist.BuiltinCommHookType.ALLREDUCE) },
    { "builtin_fp16", builtin(dist.BuiltinCommHookType.FP16_COMPRESS) },
    { "type", function(ddp) library.register_ddp_comm_hook(library.DDPCommHookType.FP16_COMPRESS, ddp) end },
    { "own", hook_of(own) },
  }
  for _, entry in ipairs(HOOKS) do
    local name, register, ddp, found = entry[1], entry[2], nil, nil
    for i, ways in ipairs(WAYS) do
      ddp, found = average(rank, ways, register)
      add(name .. "-" .. i - 1, found)
    end
    lines[#lines + 1] = name .. "-name= " .. (name ~= "own" and ddp:_get_ddp_logging_data().comm_hook or name)
  end
  for _, entry in ipairs { { "pertensor", quantization.quantization_pertensor_hook },
    { "perchannel", quantization.quantization_perchannel_hook } } do
    for i = 1, 2 do
      local _, found = average(rank, WAYS[i], hook_of(entry[2]))
      add(entry[1] .. "-" .. i - 1, found)
    end
  end
  local halves, count = { dist.new_group { 0, 1 }, dist.new_group { 2 } }, 0
  for _, case in ipairs { { halves[rank // 2 + 1], true }, { dist.group.WORLD, true }, { nil, false } } do
    for i = 1, 2 do
      local state = local_sgd.PostLocalSGDState(nil, case[1], 2, case[2])
      local _, found = average(rank, WAYS[i], hook_of(local_sgd.post_localSGD_hook, state))
      for _, line in ipairs(found) do
        lines[#lines + 1] = ("local-%d %s %d"):format(count, line, state.iter)
        count = count + 1
      end
    end
  end
  return lines
end

local ranks = dist.spawn(work, { world = 3 })
for rank = 0, 2 do
  for _, line in ipairs(ranks[rank]) do print("rank" .. rank .. "-" .. line) end
end
