-- Which bytes travel together: the default caps, and an explicit one, which is the first bucket's too.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "buckets", devices = 0 }

local CASES = { { nil, false }, { 25, false }, { 2, false }, { 1, false }, { 0.5, false }, { 0, false }, { nil, true },
  { 2, true }, { 0.5, true } }

local function sizes(cap, find)
  local layers = {}
  for i = 1, 4 do layers[i] = nn.Linear(512, 512) end
  local ddp = nn.parallel.DistributedDataParallel(nn.Sequential(layers), { bucket_cap_mb = cap, find_unused_parameters = find })
  for _ = 1, 3 do ddp(rs.ones { 1, 512 }):sum():backward() end
  return ddp:_get_ddp_logging_data()
end

local ranks = dist.spawn(function(rank)
  local lines = {}
  for i, case in ipairs(CASES) do
    local data = sizes(case[1], case[2])
    local name = string.format("rank%d-cap-%s-%s", rank, case[1] and string.format("%g", case[1]) or "none",
      case[2] and "find" or "all")
    lines[i] = table.concat({ name, "first", data.bucket_sizes, "cap", data.bucket_cap_bytes, "rebuilt",
      data.rebuilt_bucket_sizes or "", "of", data.rebuilt_per_bucket_param_indices or "" }, " ")
  end
  return lines
end, { world = 2 })
for rank = 0, 1 do
  for _, line in ipairs(ranks[rank]) do print(line) end
end
