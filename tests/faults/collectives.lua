-- Every collective: on lists, on one tensor, on many; with gaps, on a device, sparse, waited for later. Whoever runs this
-- under a failing allocator must fail or be right.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Collectives without memory", devices = 2, prefix = "" }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local function three(f)
  local out = {}
  for i = 1, 3 do out[i] = f(i - 1) end
  return out
end

local function worker(rank)
  local sums = {}
  local function note(t) sums[#sums + 1] = t:sum():item() end
  local t = rs.full({ 5 }, rank + 1.0)
  dist.all_reduce(t)
  note(t)
  local gaps = rs.full({ 3, 4 }, rank + 1.0):t()
  local work = dist.all_reduce(gaps, { async_op = true })
  dist.broadcast(t, 1)
  dist.reduce(t, 2, "max")
  work:wait()
  note(gaps)
  local list = three(function() return rs.zeros { 2, 2 }:t() end)
  dist.all_gather(list, rs.full({ 2, 2 }, rank + 0.0))
  note(list[3])
  local one = rs.zeros { 3, 2 }
  dist.all_gather_into_tensor(one, rs.full({ 2 }, rank + 0.0))
  note(one)
  dist.gather(t, rank == 1 and three(function() return rs.zeros { 5 } end) or nil, 1)
  dist.scatter(t, rank == 1 and three(function(i) return rs.full({ 5 }, i + 0.0) end) or nil, 1)
  note(t)
  local out = rs.zeros { rank + 1 }
  dist.reduce_scatter(out, three(function(i) return rs.ones { i + 1 } end))
  note(out)
  dist.reduce_scatter_tensor(one[{ 0 }], rs.ones { 6 })
  note(one[{ 0 }])
  dist.all_to_all(list, three(function(i) return rs.full({ 2, 2 }, i + 0.0) end))
  note(list[1])
  dist.all_to_all_single(t, rs.arange(5.0), three(function(i) return i == rank and 5 or 0 end),
    three(function(i) return i == rank and 5 or 0 end))
  note(t)
  dist.all_reduce_coalesced { t, gaps }
  local lists = three(function() return { rs.zeros { 2 }, rs.zeros { 1 } } end)
  dist.all_gather_coalesced(lists, { rs.ones { 2 }, rs.ones { 1 } })
  note(lists[2][1])
  dist._coalescing_manager(function()
    dist.all_reduce(t)
    dist.all_reduce(gaps)
  end)
  local sparse = rs.sparse_coo_tensor({ { 0, rank } }, { 1.0, 2.0 }, { 3 })
  dist.all_reduce(sparse)
  note(sparse:to_dense())
  local there = rs.ones({ 4, 2 }, { device = "device:" .. rank % 2 }):t()
  dist.all_reduce(there, dist._make_nccl_premul_sum(0.5))
  note(there:cpu())
  dist.monitored_barrier()
  dist.barrier()
  return sums
end

local sums = dist.spawn(worker, { world = 3 })
for rank = 0, 2 do
  rs.close("rank " .. rank, sums[rank], { 30, 72, 8, 6, 5.0 * rank, 3.0 * (rank + 1), 6, 4.0 * rank, 10, 2, 9, 12 })
end
