-- Version counters of buffers, and what backward says of values that were changed since.
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "versions", devices = 0 }
rs.manual_seed(3)
local function outcome(name, f)
  local ok, err = pcall(f)
  print(name .. " " .. (ok and "runs" or "raises " .. (tostring(err.message):find("modified") and "True" or "False")))
end
local function changed(net, x, change)
  local out = net(x)
  change(net)
  out:sum():backward()
end
local function numbers(t)
  local words = {}
  for i, value in ipairs(t:tolist()) do words[i] = ("%.9g"):format(value) end
  return table.concat(words, " ")
end
for _, case in ipairs { { "BatchNorm1d", { 6, 3 } }, { "BatchNorm2d", { 2, 3, 4, 4 } } } do
  local name, shape = table.unpack(case)
  local net, x = nn[name](3), rs.randn(shape)
  local function versions(when)
    local words = { name .. "." .. when }
    for b in net:buffers() do words[#words + 1] = b._version end
    for p in net:parameters() do words[#words + 1] = p._version end
    print(table.concat(words, " "))
  end
  versions("new")
  net(x)
  versions("one")
  net(x)
  versions("two")
  net:eval()
  net(x)
  versions("eval")
  net:train()
  outcome(name .. ".twice", function() ((net(x) * x):sum() + (net(x) * x * x):sum()):backward() end)
  print(name .. ".mean " .. numbers(net.running_mean))
  print(name .. ".var " .. numbers(net.running_var))
  print(name .. ".weight.grad " .. numbers(net.weight.grad))
  print(name .. ".bias.grad " .. numbers(net.bias.grad))
  outcome(name .. ".copy_mean", function() changed(net, x, function(m) m.running_mean:copy_(rs.zeros { 3 }) end) end)
  outcome(name .. ".copy_var", function() changed(net, x, function(m) m.running_var:copy_(rs.ones { 3 }) end) end)
  outcome(name .. ".zero_mean", function() changed(net, x, function(m) m.running_mean:zero_() end) end)
  outcome(name .. ".add_batches", function() changed(net, x, function(m) m.num_batches_tracked:add_(1) end) end)
  outcome(name .. ".weight", function()
    changed(net, x, function(m) rs.no_grad(function() m.weight:add_(1) end) end)
  end)
  versions("changed")
  net:eval()
  outcome(name .. ".eval_copy_mean", function() changed(net, x, function(m) m.running_mean:copy_(rs.zeros { 3 }) end) end)
  outcome(name .. ".eval_twice", function() (net(x):sum() + net(x):sum()):backward() end)
end
