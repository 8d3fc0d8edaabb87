-- Ranks meet and add up; arguments: a way to go on. "wait": rank 0 first waits for the file go in the folder that all have.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "They meet", prefix = "" }

local way, path = ...
local function hold()
  os.execute(("n=0; until test -f %s/go || test $n -gt 600; do sleep 0.05; n=$((n+1)); done"):format(path))
end
if way == "file" then
  dist.init_process_group { init_method = "file://" .. path, rank = tonumber(os.getenv("RANK")), world_size = 2 }
else
  dist.init_process_group()
end
if dist.get_rank() == 0 and (way == "wait" or way == "forever") then
  io.stderr:write("has met\n")
  if way == "wait" then hold() end
end
local sum = rs.ones(3)
repeat dist.all_reduce(sum) sum = sum / dist.get_world_size() until way ~= "forever"
io.stderr:write(("rank %d has %g\n"):format(dist.get_rank(), sum:sum():item()))
