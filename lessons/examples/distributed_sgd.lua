-- Training on parts of a data set, gradients averaged by hand: what DistributedDataParallel does for you, in its
-- simplest form. PyTorch's tutorial "Writing Distributed Applications with PyTorch", distributed training;
-- handwritten digits of 8 x 8 pixels stand in MNIST's place, and so the convolutions are smaller.
--     ringside run distributed_sgd
local rs = require "ringside"
local nn, optim, dist, data = rs.nn, rs.optim, rs.distributed, rs.utils.data
local F = nn.functional

rs.lesson { title = "Distributed SGD", hardware = "classroom", devices = 0 }

local WORLD, EPOCHS, BATCH = 2, 6, 128

-- ---- the data: every rank shuffles with the same seed, and takes its own part ----

local Partition = data.Dataset("Partition")
function Partition:init(set, index) self.set, self.index = set, index end
function Partition:len() return #self.index end
function Partition:getitem(i) return self.set[self.index[i + 1]] end

local DataPartitioner = {}
function DataPartitioner.new(set, sizes, seed)
  local order = rs.randperm(#set, { generator = rs.Generator():manual_seed(seed or 1234) }):tolist()
  local parts, from = {}, 0
  for i, share in ipairs(sizes) do
    local count = math.floor(share * #set)
    parts[i] = table.move(order, from + 1, from + count, 1, {})
    from = from + count
  end
  return { use = function(i) return Partition(set, parts[i + 1]) end }
end

local function my_batches(rank, size)
  local images, labels = rs.data.digits { split = "train" }
  local shares = {}
  for i = 1, size do shares[i] = 1 / size end
  local set = data.TensorDataset(images:reshape { -1, 1, 8, 8 }, labels)
  local part = DataPartitioner.new(set, shares).use(rank)
  return data.DataLoader(part, { batch_size = BATCH // size, shuffle = true })
end

-- ---- the model ----

local Net = nn.Module("Net")
function Net:init()
  self.conv1 = nn.Conv2d(1, 10, 3)
  self.conv2 = nn.Conv2d(10, 20, 2)
  self.drop  = nn.Dropout2d()
  self.fc1   = nn.Linear(80, 50)
  self.fc2   = nn.Linear(50, 10)
end
function Net:forward(x)
  x = F.relu(F.max_pool2d(self.conv1(x), 2))
  x = F.relu(self.drop(self.conv2(x)))
  x = F.relu(self.fc1(x:reshape { -1, 80 }))
  return F.log_softmax(self.fc2(F.dropout(x, 0.5, self.training)), 1)
end

-- ---- the training ----

local function average_gradients(model)
  local size = dist.get_world_size()
  for _, p in ipairs(model:parameters()) do
    dist.all_reduce(p.grad, { op = dist.ReduceOp.SUM })
    p.grad:div_(size)
  end
end

dist.spawn(function(rank)
  rs.manual_seed(1234)                               -- the same first weights everywhere
  local batches, model = my_batches(rank, WORLD), Net()
  local opt = optim.SGD(model:parameters(), { lr = 0.2, momentum = 0.5 })
  for epoch = 0, EPOCHS - 1 do
    local sum = 0
    for images, labels in batches do
      opt:zero_grad()
      local loss = F.nll_loss(model(images), labels)
      sum = sum + loss:item()
      loss:backward()
      average_gradients(model)
      opt:step()
    end
    print(("Rank %d, epoch %d: %.6f"):format(rank, epoch, sum / #batches))
  end
  print(("Rank %d ends with a last layer of length %.6f"):format(rank, model.fc2.weight:norm():item()))
end, { world = WORLD })
