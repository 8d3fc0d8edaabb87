-- One program for ranks of any kind: `local` starts them, or they are processes. Prints what each rank has after each
-- collective and after some steps with DDP, to the last bit.
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed

rs.lesson { title = "What ranks compute", devices = 0 }

local function bits(t)
  local words = {}
  for i, x in ipairs(t:reshape(-1):tolist()) do words[i] = ("%a"):format(x) end
  return table.concat(words, " ")
end

local function zeros(count, n)
  local list = {}
  for i = 1, count do list[i] = rs.zeros(n or 3) end
  return list
end

local function pieces(rank, count)
  local list = {}
  for i = 1, count do list[i] = rs.randn(3) + rank end
  return list
end

local function collectives(rank, size, tell)
  rs.manual_seed(10 + rank)
  local function mine() return rs.randn(7, 5) end
  for _, op in ipairs { "SUM", "AVG", "PRODUCT", "MIN", "MAX" } do
    local t = mine()
    dist.all_reduce(t, { op = dist.ReduceOp[op] })
    tell("all_reduce " .. op, t)
  end
  for _, algorithm in ipairs { "naive", "ring", "tree", "direct" } do
    local t = mine()
    dist.all_reduce(t, { algorithm = algorithm })
    tell("all_reduce by " .. algorithm, t)
  end
  local t = mine()
  dist.broadcast(t, size - 1)
  tell("broadcast", t)
  t = mine()
  dist.reduce(t, 0)
  if rank == 0 then tell("reduce", t) end
  local all = zeros(size)
  dist.all_gather(all, rs.randn(3))
  tell("all_gather", rs.cat(all))
  all = rank == 0 and zeros(size) or nil
  dist.gather(rs.randn(3), { gather_list = all, dst = 0 })
  if rank == 0 then tell("gather", rs.cat(all)) end
  t = rs.zeros(3)
  dist.scatter(t, { scatter_list = rank == 0 and pieces(rank, size) or nil, src = 0 })
  tell("scatter", t)
  t = rs.zeros(3)
  dist.reduce_scatter(t, pieces(rank, size))
  tell("reduce_scatter", t)
  all = zeros(size)
  dist.all_to_all(all, pieces(rank, size))
  tell("all_to_all", rs.cat(all))
  dist.barrier()
  local objects = {}
  for i = 1, size do objects[i] = false end
  dist.all_gather_object(objects, { rank = rank, name = "r" .. rank })
  tell("all_gather_object", rs.tensor { objects[size].rank + 0.0 })
  t = rs.zeros(3)
  local right, left = (rank + 1) % size, (rank - 1) % size
  local sent = dist.isend(rs.randn(3), right)
  dist.recv(t, left)
  sent:wait()
  tell("recv", t)
  local pair = dist.new_group { 0, 1 }
  t = mine()
  if rank < 2 then
    dist.all_reduce(t, { group = pair })
    tell("all_reduce of two", t)
  end
end

local function train(rank, size, tell)
  rs.manual_seed(0)
  local net = nn.Sequential { nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 5) }
  local ddp = nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = 0.001 })
  local opt = optim.SGD(ddp:parameters(), { lr = 0.1, momentum = 0.9 })
  rs.manual_seed(100 + rank)
  for step = 1, 4 do
    opt:zero_grad()
    local loss = nn.functional.mse_loss(ddp(rs.randn(8, 20)), rs.randn(8, 5))
    loss:backward()
    opt:step()
    tell("loss", loss)
  end
  for name, p in net:named_parameters() do tell(name, p) end
end

local function work(rank, size)
  local lines = {}
  local function tell(what, t) lines[#lines + 1] = ("<%d> %s: %s"):format(rank, what, bits(t)) end
  collectives(rank, size, tell)
  train(rank, size, tell)
  return lines
end

local how, count = rs.args[1], tonumber(rs.args[2])
if how == "spawn" then
  local told = dist.spawn(function(rank) return work(rank, dist.get_world_size()) end, { world = count })
  for rank = 0, count - 1 do print(table.concat(told[rank], "\n")) end
else
  dist.init_process_group()
  local rank, size = dist.get_rank(), dist.get_world_size()
  local all = {}
  for i = 1, size do all[i] = false end
  dist.gather_object(work(rank, size), { object_gather_list = rank == 0 and all or nil, dst = 0 })
  if rank == 0 then
    for i = 1, size do print(table.concat(all[i], "\n")) end
  end
end
