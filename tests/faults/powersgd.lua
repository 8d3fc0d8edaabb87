-- Backwards under PowerSGD and a hierarchy of model averagers, on numbers that need no generator: whoever runs this under a
-- failing allocator must fail or be right. Of full rank PowerSGD is the plain mean.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local power = dist.algorithms.ddp_comm_hooks.powerSGD_hook
local averaging = dist.algorithms.model_averaging

rs.lesson { title = "PowerSGD and averaging" }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local function gradient(shape, seed)
  local count = 1
  for _, size in ipairs(shape) do count = count * size end
  return rs.arange(count, { dtype = "float32" }):mul(0.7):add(seed):sin():view(shape)
end

local Given = nn.Module "Given"
function Given:init()
  self.a, self.b, self.c = nn.Parameter(rs.zeros { 3, 4 }), nn.Parameter(rs.zeros { 5 }), nn.Parameter(rs.zeros { 3, 4 })
end
function Given:forward(seed)
  return (self.a * gradient({ 3, 4 }, seed)):sum() + (self.b * gradient({ 5 }, seed + 1)):sum() +
    (self.c * gradient({ 3, 4 }, seed + 2)):sum()
end

local function near(a, b) return rs.allclose(a, b, { atol = 1e-4, rtol = 1e-4 }) end

local function mean(shape, seed) return (gradient(shape, seed) + gradient(shape, seed + 10)) / 2 end

dist.spawn(function(rank)
  for _, options in ipairs { { batch_tensors_with_same_shape = true }, { warm_start = false }, { whole = true } } do
    local net, hook = Given(), options.whole and power.batched_powerSGD_hook or power.powerSGD_hook
    local state = power.PowerSGDState(nil, { matrix_approximation_rank = options.whole and 6 or 3, start_powerSGD_iter = 2,
      min_compression_rate = 0.1, warm_start = options.warm_start,
      batch_tensors_with_same_shape = options.batch_tensors_with_same_shape })
    local ddp = nn.parallel.DistributedDataParallel(net)
    ddp:register_comm_hook(state, hook)
    for step = 1, 3 do
      ddp:zero_grad()
      ddp(step + 10 * rank):backward()
    end
    rs.check("the mean", near(net.a.grad, mean({ 3, 4 }, 3)) and near(net.b.grad, mean({ 5 }, 4)) and
      near(net.c.grad, mean({ 3, 4 }, 5)))
    rs.check("it was counted", state.iter == 3)
  end
  local net = Given()
  rs.no_grad(function() net.a:fill_(rank) end)
  net(1):backward()
  local averager = averaging.hierarchical_model_averager.HierarchicalModelAverager {
    period_group_size_dict = { [1] = 1, [2] = 2 } }
  local opt = dist.optim.PostLocalSGDOptimizer(rs.optim.SGD({ net.a }, { lr = 0.0 }), averager)
  opt:step()
  rs.check("the parameters' mean", rs.equal(net.a, rs.full({ 3, 4 }, 0.5)))
  opt:load_state_dict(opt:state_dict())
  rs.check("the averager's step", averager.step == 1)
end, { world = 2 })
