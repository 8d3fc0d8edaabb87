-- What a DistributedDataParallel says of itself when it is new, and what is new or another after each step. Of a time only
-- whether there is one. A line where the ranks agree, else two.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "logging data", devices = 0 }

local NOT_OURS = { backend_name = true, gloo_num_threads = true, error = true }

local Net = nn.Module("Net")
function Net:init(options)
  self.a = nn.Linear(2, 10, { bias = false, dtype = options and options.dtype })
  self.b = nn.Linear(10, 50, { bias = false })
  self.c = nn.Linear(50, 4, { bias = false })
end
function Net:forward(x)
  return self.c(rs.relu(self.b(rs.relu(self.a(x):to("float32")))))
end

local Branch = nn.Module("Branch")
function Branch:init()
  self.a = nn.Linear(2, 2)
  self.b = nn.Linear(2, 2)
end
function Branch:forward(x, names)
  local sum
  for name in names:gmatch(".") do sum = sum and sum + self[name](x) or self[name](x) end
  return sum
end

local function told(data, key)
  if key:find("overlap_time$") then return "time" end -- virtual time may stand still between the first bucket and the last gradient
  if key:find("^avg_") or key:find("_time$") or key:find("_time_start$") or key:find("_time_end$") then
    return data[key] == 0 and "none" or "time"
  end
  return tostring(data[key])
end

local function work(rank)
  local lines, before, x = {}, {}, rs.full({ 3, 2 }, rank + 1.0)

  local function show(name, step, ddp)
    local data, keys, last = ddp:_get_ddp_logging_data(), {}, before[name] or {}
    for key in pairs(data) do keys[#keys + 1] = key end
    table.sort(keys)
    for _, key in ipairs(keys) do
      if not NOT_OURS[key] and last[key] ~= told(data, key) then
        last[key] = told(data, key)
        lines[#lines + 1] = ("%s-%s-%s= %s"):format(name, step, key, last[key])
      end
    end
    before[name] = last
  end

  local function run(name, net, calls, options)
    local ddp = nn.parallel.DistributedDataParallel(net, options)
    show(name, "new", ddp)
    for i, call in ipairs(calls) do
      local ok, e = pcall(function()
        if call == "no_sync" then
          ddp:no_sync(function() ddp(x):sum():backward() end)
        elseif call == "no_grad" then
          rs.no_grad(function() ddp(x) end)
        else
          ddp(x, table.unpack(call)):sum():backward()
        end
      end)
      if not ok then
        assert(e.kind == "RuntimeError", e)
        lines[#lines + 1] = ("%s-%d fails"):format(name, i - 1)
      end
      show(name, i - 1, ddp)
    end
    return ddp
  end

  run("plain", Net(), { {}, {}, {}, "no_sync", {}, "no_grad", {}, {} })
  run("small", Net(), { {}, {}, {} }, { bucket_cap_mb = 0.0005 })
  run("list", Net(), { {}, {}, {} }, { bucket_cap_mb_list = { 0.0005, 0.001 } })
  run("static", Net(), { {}, {}, {}, {} }, { static_graph = true, gradient_as_bucket_view = true })
  run("same", Branch(), { { "a" }, { "a" }, { "a" } },
    { find_unused_parameters = true, bucket_cap_mb = 0.00001, forward_sync_buffers = false })
  run("all", Branch(), { { "ab" }, { "ab" } }, { find_unused_parameters = true })
  run("changes", Branch(), { { "a" }, { "a" }, { "b" }, { "ab" }, { "ab" } }, { find_unused_parameters = true })
  run("forgets", Branch(), { { "a" }, { "a" } })
  run("dtypes", Net { dtype = "float64" }, {}, { bucket_cap_mb = 25 })
  local later = run("later", Net(), {})
  later:_set_static_graph()
  show("later", "set", later)
  local sampled = run("sampled", Net(), {})
  for _, rate in ipairs { 0, -3 } do
    local ok, e = pcall(sampled._set_ddp_runtime_logging_sample_rate, sampled, rate)
    if not ok and e.kind == "ValueError" then lines[#lines + 1] = ("sampled-%d fails"):format(rate) end
  end
  show("sampled", "refused", sampled)
  sampled:_set_ddp_runtime_logging_sample_rate(3)
  local iterations = {}
  for _ = 1, 24 do
    sampled(x):sum():backward()
    iterations[#iterations + 1] = sampled:_get_ddp_logging_data().iteration
  end
  lines[#lines + 1] = "sampled-iterations= " .. table.concat(iterations, " ")
  return lines
end

local ranks = dist.spawn(work, { world = 2 })
for i, first in ipairs(ranks[0]) do
  print(first)
  if ranks[1][i] ~= first then print(ranks[1][i]) end
end
