-- Steps of DDP with each of the library's communication hooks. Whoever runs this under a failing allocator must fail or be
-- right.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "Steps with communication hooks", seed = 1 }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local library = dist.algorithms.ddp_comm_hooks
local default, quantization = library.default_hooks, library.quantization_hooks
local overlap, local_sgd = library.optimizer_overlap_hooks, library.post_localSGD_hook

local function step(register, options)
  local ddp = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)), options)
  register(ddp)
  for _ = 1, 2 do
    ddp:zero_grad()
    ddp(rs.ones { 2, 3 }):sum():backward()
  end
  return ddp:parameters()[4].grad[0]:item()
end

local function work()
  local subgroup = dist.new_subgroups(1)
  return {
    step(function(ddp)
      ddp:register_comm_hook(nil, default.fp16_compress_wrapper(function(state, bucket)
        return default.bf16_compress_hook(state, bucket):then_(function(f) return f:value() end)
      end))
    end, { bucket_cap_mb = 40 / 2 ^ 20 }),
    step(function(ddp) ddp:register_comm_hook(nil, quantization.quantization_perchannel_hook) end,
      { gradient_as_bucket_view = true, bucket_cap_mb = 40 / 2 ^ 20 }),
    step(function(ddp) ddp:_register_fused_optim(rs.optim.AdamW, { lr = 0 }) end, { lazy_bucket_allocation = true }),
    step(function(ddp)
      ddp:register_comm_hook(local_sgd.PostLocalSGDState(nil, subgroup, 1), local_sgd.post_localSGD_hook)
    end),
    step(function(ddp)
      local state = overlap._OptimizerHookState({ step_param = function() end }, { ddp:parameters()[1] })
      ddp:register_comm_hook(nil, overlap.hook_then_optimizer(quantization.quantization_pertensor_hook, state))
    end),
  }
end

local ranks = dist.spawn(work, { world = 2 })
for rank = 0, 1 do
  for i, grad in ipairs(ranks[rank]) do
    rs.check(("rank %d, hook %d: the gradient of a bias is 2"):format(rank, i), math.abs(grad - 2) < 0.05)
  end
end
