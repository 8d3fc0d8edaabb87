-- Hooks and replicas. A replica's tables of hooks are the module's own (a shallow copy): whoever registers or removes one,
-- does so for all of them. Which hooks a forward calls was seen on PyTorch with Module._replicate_for_data_parallel.
local rs = require "ringside"
local nn = rs.nn

rs.lesson { title = "PyTorch cases: hooks of replicas", devices = 4, seed = 5, prefix = "" }

local function row(id, f)
  local ok, e = pcall(f)
  if not ok then rs.check(id .. " runs to its end: " .. tostring(e), false) end
end
local function replicas(module, n)
  local ids = {}
  for i = 1, n do ids[i] = i - 1 end
  return nn.parallel.replicate(module:to(0), ids)
end
local function on(device, rows) return rs.ones(rows or 1, 2):to(device) end

-- ---- inside of a forward, by DataParallel ----

local kinds = {
  { "forward", function(m, f) return m:register_forward_hook(f) end },
  { "pre", function(m, f) return m:register_forward_pre_hook(f) end },
  { "backward", function(m, f) return m:register_full_backward_hook(f) end },
}
for _, kind in ipairs(kinds) do
  row("dp-ddp-16 " .. kind[1], function()
    local seen, Net = {}, nn.Module "Net"
    function Net:init() self.deep = nn.Sequential { nn.Linear(2, 2), nn.ReLU() } end
    function Net:forward(x)
      local h = kind[2](self.deep[1], function(_, tensors) seen[tensors[1].device] = true end)
      local y = self.deep(x)
      h:remove()
      return y
    end
    local net, x = Net():to(0), on(0, 8)
    x.requires_grad = true
    local dp = nn.DataParallel(net)
    dp(x):sum():backward()
    local devices = 0
    for _ in pairs(seen) do devices = devices + 1 end
    rs.check("a " .. kind[1] .. " hook that a replica registers on a submodule and removes again is called on every device",
      devices == 4)
    seen = {}
    net.deep(x):sum():backward()
    rs.check("and nothing of it is left (" .. kind[1] .. ")", next(seen) == nil)
  end)
end

row("itself", function()
  local calls, Net, counting = 0, nn.Module "Net", true
  function Net:forward(x)
    if counting and x.device == "device:1" then self:register_forward_hook(function() calls = calls + 1 end) end
    return x * 2
  end
  local net = Net()
  net.w = nn.Parameter(rs.ones(1))
  local dp = nn.DataParallel(net:to(0))
  dp(on(0, 4))
  counting, calls = false, 0
  dp(on(0, 4))
  rs.check("what a replica registers on itself stays: the next forward calls it once a replica", calls == 4)
  net(on(0))
  rs.check("and so does the module's own", calls == 5)
end)

-- ---- nn.parallel.replicate ----

row("shared", function()
  local linear, calls = nn.Linear(2, 1), {}
  local copies = replicas(linear, 3)
  local h = copies[3]:register_forward_hook(function(module) calls[#calls + 1] = module end)
  linear(on(0))
  for i, copy in ipairs(copies) do copy(on(i - 1)) end
  rs.check("a hook registered on one replica is called for the module and all its replicas, with who was called",
    #calls == 4 and calls[1] == linear and calls[2] == copies[1] and calls[4] == copies[3])
  local later = replicas(linear, 2)
  later[2](on(1))
  rs.check("and for replicas made later", #calls == 5 and calls[5] == later[2])
  linear:register_forward_pre_hook(function(_, args) return args[1] * 0 end)
  rs.check("one of the module is called for replicas that were there before",
    rs.equal(copies[2](on(1)):detach():to("cpu"), copies[2].bias:detach():to("cpu"):view(1, 1)))
  h:remove()
  copies[3](on(2))
  linear(on(0))
  rs.check("removed, it is called for nobody", #calls == 6)
end)

row("a replica of a replica", function()
  local linear, calls = nn.Linear(2, 1), 0
  local copy = replicas(replicas(linear, 2)[1], 2)[2]
  local h = copy:register_forward_hook(function() calls = calls + 1 end)
  linear(on(0))
  h:remove()
  linear(on(0))
  rs.check("a replica's replica has the first one's hooks, too", calls == 1)
end)

row("handle", function()
  local linear, calls = nn.Linear(2, 1), 0
  local handle = replicas(linear, 2)[2]:register_forward_hook(function() calls = calls + 1 end)
  collectgarbage()
  collectgarbage()
  linear(on(0))
  handle:remove()
  handle:remove()
  linear(on(0))
  rs.check("a hook outlives the replica that it was registered on, and its handle still removes it", calls == 1)
end)

-- ---- when the lists are read ----

row("backward", function()
  local linear, calls = nn.Linear(2, 1), {}
  local copy = replicas(linear, 2)[2]
  local x = on(1)
  x.requires_grad = true
  local h = copy:register_full_backward_hook(function() calls[#calls + 1] = "first" end)
  local y = copy(x)
  h:remove()
  linear:register_full_backward_hook(function() calls[#calls + 1] = "late" end)
  y:sum():backward()
  rs.check("the backward hooks of a forward are those that were registered when it began", table.concat(calls, " ") == "first")
  calls = {}
  copy(x):sum():backward()
  rs.check("and the next one's", table.concat(calls, " ") == "late")
end)

row("in its own forward", function()
  local calls, Net = {}, nn.Module "Net"
  function Net:forward(x)
    self:register_forward_hook(function() calls[#calls + 1] = "own" end)
    return x
  end
  local net = Net()
  net(on("cpu"))
  rs.check("a forward that begins without hooks looks for none at its end", #calls == 0)
  net(on("cpu"))
  rs.check("one that has hooks calls those that it registers itself", table.concat(calls, " ") == "own own")
end)

row("removed meanwhile", function()
  local linear, calls, second = nn.Linear(2, 1), {}, nil
  linear:register_forward_hook(function()
    calls[#calls + 1] = "first"
    second:remove()
    linear:register_forward_hook(function() calls[#calls + 1] = "new" end)
  end)
  second = linear:register_forward_hook(function() calls[#calls + 1] = "second" end)
  linear(on("cpu"))
  rs.check("whoever is called is settled before the first: one removed meanwhile is called, a new one not",
    table.concat(calls, " ") == "first second")
  calls = {}
  linear(on("cpu"))
  rs.check("the next time it is the other way round", table.concat(calls, " ") == "first new")
end)
