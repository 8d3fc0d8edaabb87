-- Groups of ranks: made, divided, used, ended, made again. Whoever runs this under a failing allocator must fail or be right.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "Groups" }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local answers = dist.spawn(function(rank)
  local sums = {}
  local function sum(group)
    local t = rs.tensor { rank + 1 }
    if dist.get_rank(group) >= 0 then dist.all_reduce(t, { group = group }) end
    sums[#sums + 1] = t:item()
  end
  local mine, all = dist.new_subgroups_by_enumeration({ { 0, 1 }, { 2 } }, { group_desc = "pairs" })
  sum(mine)
  local ends = dist.new_group({ 2, 0 }, { sort_ranks = false, timeout = 60 })
  sum(ends)
  if rank > 0 then sum(dist.new_group({ 1, 2 }, { use_local_synchronization = true })) end
  sum(dist.split_group(nil, { { 2, 1 }, { 0 } }))
  dist.destroy_process_group(ends)
  dist.destroy_process_group()
  dist.init_process_group()
  local ended = 0
  dist.group.WORLD:_register_on_completion_hook(function(info) ended = ended + info.seq end)
  sum()
  dist.barrier()
  dist.group.WORLD:_wait_for_pending_works()
  sums[#sums + 1] = ended
  return table.concat(sums, " ")
end, { world = 3 })
rs.check("rank 0: " .. answers[0], answers[0] == "3 4 1 6 3")
rs.check("rank 1: " .. answers[1], answers[1] == "3 2 5 5 6 3")
rs.check("rank 2: " .. answers[2], answers[2] == "3 4 5 5 6 3")
dist.init_process_group("local", { rank = 0, world_size = 1 })
local alone = dist.new_group { 0 }
local t = rs.ones(1)
dist.all_reduce(t, { group = alone })
rs.check("a world of one", t:item() == 1)
