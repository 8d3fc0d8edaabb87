-- arg[3] training steps of DistributedDataParallel in a world of arg[2] ranks, of the kind arg[1]: a test counts what
-- more steps take from the system.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "Steady steps of ranks", devices = 1 }

local Branches = nn.Module("Branches")
function Branches:init()
  self.trunk, self.left, self.right = nn.Linear(10, 8), nn.Linear(8, 3), nn.Linear(8, 3)
end
function Branches:forward(x, left)
  local wide = self.trunk(x):relu()
  return left and self.left(wide) or self.right(wide)
end

local function mlp()
  return nn.Sequential { nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 3) }
end

-- model, options of DDP; cap 0.0005 MiB: three buckets of mlp's.
local kinds = {
  embed = { model = function() return nn.Sequential { nn.Embedding(20, 8), nn.Linear(8, 3) } end, rows = true },
  mlp = { model = mlp },
  buckets = { model = mlp, options = { bucket_cap_mb = 0.0005 } },
  views = { model = mlp, options = { bucket_cap_mb = 0.0005, gradient_as_bucket_view = true } },
  norm = {
    model = function() return nn.Sequential { nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3) } end,
  },
  unused = { model = Branches, options = { find_unused_parameters = true }, branches = true },
  skipped = {
    model = Branches, branches = true,
    options = { find_unused_parameters = true, gradient_as_bucket_view = true, skip_all_reduce_unused_params = true },
  },
  static = { model = mlp, options = { static_graph = true } },
  batched = { model = mlp, options = { batched_grad_copy = true, lazy_bucket_allocation = true } },
  accumulate = { model = mlp, accumulate = true },
}

local kind, world, steps = kinds[arg[1]], math.tointeger(arg[2]), math.tointeger(arg[3])

local function worker(rank)
  rs.manual_seed(rank)
  local ddp = nn.parallel.DistributedDataParallel(kind.model(), kind.options)
  local opt = rs.optim.SGD(ddp:parameters(), { lr = 0.01, momentum = 0.9 })
  local criterion = nn.CrossEntropyLoss()
  local x, y = kind.rows and rs.randint(0, 20, { 6 }) or rs.randn({ 6, 10 }), rs.randint(0, 3, { 6 })
  local left = false
  local function forward()
    if kind.branches then return ddp(x, left) end
    return ddp(x)
  end
  local function backward() criterion(forward(), y):backward() end
  local one = rs.zeros(1)
  for _ = 1, 2000 do dist.all_reduce(one) end -- fill the recorder of collectives, which is read at the end
  for step = 1, steps do
    opt:zero_grad(step % 3 ~= 0) -- gradients that are gone, and some that are zeros
    left = (step + rank) % 2 == 0
    if kind.accumulate then ddp:no_sync(backward) end
    backward()
    opt:step()
  end
end
dist.spawn(worker, { world = world })
