-- Every algorithm of all-reduce, over two nodes. Whoever runs this under a failing allocator must fail or be right.
local rs = require "ringside"
local dist = rs.distributed

rs.lesson { title = "Algorithms", topology = { ranks_per_node = 2, inter = { latency = 25, bandwidth = 100 } } }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local names = { "naive", "ring", "tree", "double_tree", "halving_doubling", "hierarchical", "direct", "auto" }
local right = dist.spawn(function(rank)
  local count = 0
  for _, name in ipairs(names) do
    local t = rs.full({ 600 }, rank + 1.0)
    dist.all_reduce(t, { algorithm = name })
    count = count + (t:min():item() == 10 and t:max():item() == 10 and 1 or 0)
  end
  return count
end, { world = 4 })
for rank = 0, 3 do rs.check("rank " .. rank, right[rank] == #names) end
