-- Each collective in its smallest form, on four ranks: before it rank r has the number r + 1. PyTorch's tutorial
-- "Writing Distributed Applications with PyTorch", collective communication.
--     ringside run collectives
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "One of each collective", hardware = "classroom", devices = 0 }

local function zeros(count)
  local list = {}
  for i = 1, count do list[i] = rs.zeros(1) end
  return list
end

local function told(list)
  local numbers = {}
  for i, t in ipairs(list) do numbers[i] = ("%g"):format(t:item()) end
  return table.concat(numbers, " ")
end

dist.spawn(function(rank)
  local size, root = dist.get_world_size(), 0
  local function mine() return rs.tensor { rank + 1.0 } end
  local function say(call, ...) print(("Rank %d after %s: %s"):format(rank, call, told { ... })) end
  local t

  t = mine()
  dist.broadcast(t, root)                            -- the root's number goes to all
  say("broadcast", t)

  for _, op in ipairs { "SUM", "PRODUCT", "MAX", "MIN" } do
    t = mine()
    dist.reduce(t, root, { op = dist.ReduceOp[op] }) -- one number of all, on the root; elsewhere t is nobody's promise
    if rank == root then say("reduce " .. op, t) end
    t = mine()
    dist.all_reduce(t, { op = dist.ReduceOp[op] })   -- the same, on all
    say("all_reduce " .. op, t)
  end

  local pieces = nil
  if rank == root then
    pieces = {}
    for i = 1, size do pieces[i] = rs.tensor { 10.0 * i } end
  end
  t = rs.zeros(1)
  dist.scatter(t, { scatter_list = pieces, src = root })
  say("scatter", t)                                  -- the i-th piece of the root went to rank i

  local all = rank == root and zeros(size) or nil
  dist.gather(mine(), { gather_list = all, dst = root })
  if rank == root then say("gather", table.unpack(all)) end

  all = zeros(size)
  dist.all_gather(all, mine())
  say("all_gather", table.unpack(all))

  dist.barrier()                                     -- nobody leaves before all have come
  print(("Rank %d is past the barrier"):format(rank))
end, { world = 4 })
