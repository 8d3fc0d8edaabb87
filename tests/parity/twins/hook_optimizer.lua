local rs = require "ringside"
local nn, dist, optim = rs.nn, rs.distributed, rs.optim
local library = dist.algorithms.ddp_comm_hooks
local overlap = library.optimizer_overlap_hooks
rs.lesson { title = "Twin: optimizers in comm hooks", seed = 1 }

local SIZES = { { 3, 4 }, { 4 }, { 2, 5 }, { 7 } }
local Vectors = nn.Module("Vectors")
function Vectors:init()
  local list = {}
  for i, size in ipairs(SIZES) do
    local count = size[1] * (size[2] or 1)
    list[i] = nn.Parameter(rs.arange(count):float():reshape(size) / 8 - 1)
  end
  self.list = nn.ParameterList(list)
end
function Vectors:forward(k)
  local sum = 0
  for i, p in ipairs(self:parameters()) do
    local factors = ((rs.arange(p:numel()) * 7 + k) % 5 - 2):float():reshape(SIZES[i]) / 4
    sum = sum + (p * p * factors):sum()
  end
  return sum
end

local OPTIMIZERS = {
  { "SGD", { lr = 0.125 } }, { "SGD", { lr = 0.125, momentum = 0.5 } },
  { "SGD", { lr = 0.125, momentum = 0.5, nesterov = true, weight_decay = 0.125 } },
  { "SGD", { lr = 0.125, momentum = 0.5, dampening = 0.25 } },
  { "Adam", { lr = 0.0625 } }, { "Adam", { lr = 0.0625, amsgrad = true, weight_decay = 0.125 } },
  { "AdamW", { lr = 0.0625 } }, { "AdamW", { lr = 0.0625, betas = { 0.5, 0.75 }, eps = 0.001, weight_decay = 0.25 } },
}
local WAYS = { {}, { gradient_as_bucket_view = true, bucket_cap_mb = 50 / 2 ^ 20 }, { static_graph = true } }

local function told(net)
  local out, list = {}, net:parameters()
  for _, p in ipairs(list) do
    local flat = p:detach():flatten()
    out[#out + 1], out[#out + 2] = ("%.9g"):format(flat[0]:item()), ("%.9g"):format(flat[-1]:item())
  end
  for _, p in ipairs(list) do out[#out + 1] = ("%.9g"):format(p.grad:sum():item()) end
  return table.concat(out, " ")
end

local function register(ddp, class, options, only, fused)
  if fused then
    local all = { optim_params = only }
    for name, value in pairs(options) do all[name] = value end
    ddp:_register_fused_optim(class, all)
    return
  end
  local state = overlap._OptimizerHookState(dist.optim.as_functional_optim(class, options), only)
  ddp:register_comm_hook(nil, overlap._hook_then_optimizer(library.default_hooks.fp16_compress_hook, state))
end

local ranks = dist.spawn(function(rank)
  local lines = {}
  for _, entry in ipairs(OPTIMIZERS) do
    for _, ways in ipairs(WAYS) do
      for _, some in ipairs { false, true } do
        for _, fused in ipairs { false, true } do
          local net = Vectors()
          local ddp, list = nn.parallel.DistributedDataParallel(net, ways), net:parameters()
          register(ddp, optim[entry[1]], entry[2], some and { list[1], list[4] } or nil, fused)
          for step = 0, 2 do
            ddp:zero_grad()
            ddp(step + rank):backward()
          end
          lines[#lines + 1] = told(net)
        end
      end
    end
  end
  return lines
end, { world = 2 })
for rank = 0, 1 do
  for i, line in ipairs(ranks[rank]) do print("rank" .. rank .. "-" .. i - 1 .. " " .. line) end
end
