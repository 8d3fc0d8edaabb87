-- Optimizers: how they print, what they remember, where they go, and what zero_grad leaves.
local rs = require "ringside"
local nn, O = rs.nn, rs.optim
rs.lesson { title = "optimizers", devices = 0 }
local function params()
  rs.manual_seed(4)
  return { nn.Parameter(rs.randn { 2, 3 }), nn.Parameter(rs.randn { 3 }), nn.Parameter(rs.randn { 1 }) }
end
local function groups()
  local p = params()
  return { { params = { p[1] } }, { params = { p[2], p[3] }, lr = 0.5, weight_decay = 0.25 } }
end
local cases = {
  { "sgd", "SGD" },
  { "momentum", "SGD", { lr = 0.1, momentum = 0.9, dampening = 0.5 } },
  { "nesterov", "SGD", { lr = 0.1, momentum = 0.9, weight_decay = 1e-4, nesterov = true } },
  { "maximize", "SGD", { lr = 1, maximize = true, foreach = true } },
  { "adam", "Adam" },
  { "amsgrad", "Adam", { lr = 0.01, betas = { 0.8, 0.95 }, eps = 1e-6, weight_decay = 0.1, amsgrad = true } },
  { "far", "Adam", { lr = 0.01, betas = { 0.25, 0.5 }, maximize = true } },
  { "decoupled", "Adam", { lr = 0.01, weight_decay = 0.1, decoupled_weight_decay = true, fused = false } },
  { "adamw", "AdamW" },
  { "adamw_options", "AdamW", { lr = 0.02, weight_decay = 0, amsgrad = true, capturable = false } },
}
local function python(flag) return flag and "True" or "False" end
local function line(text) return (tostring(text):gsub(" ", "_"):gsub("\n", "|")) end
local function show(name, t)
  local words = { name }
  for _, value in ipairs(t:detach():reshape(-1):tolist()) do words[#words + 1] = ("%.9g"):format(value) end
  print(table.concat(words, " "))
end
local function each(label, list, ask)
  local words = { label }
  for _, p in ipairs(list) do words[#words + 1] = python(ask(p)) end
  print(table.concat(words, " "))
end
local function run(label, opt)
  local every = {}
  print(label .. "= " .. line(opt))
  for _, g in ipairs(opt.param_groups) do
    for _, p in ipairs(g.params) do every[#every + 1] = p end
  end
  for step = 0, 5 do
    opt:zero_grad()
    each(label .. ".none", every, function(p) return p.grad == nil end)
    local loss = 0
    for i = 1, step < 3 and 2 or 3 do loss = (every[i] * every[i] * every[i]):sum() + loss end
    loss:backward()
    opt:step()
  end
  for i, p in ipairs(every) do show(label .. "." .. i - 1, p) end
  local state, keys = opt:state_dict().state, { label .. ".state" }
  for i = 0, 2 do keys[#keys + 1] = state[i] and i end
  print(table.concat(keys, " "))
  for i = 0, 2 do
    for _, key in ipairs { "step", "momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq" } do
      if state[i] and state[i][key] then show(("%s.%d.%s"):format(label, i, key), state[i][key]) end
    end
  end
  opt:zero_grad { set_to_none = false }
  each(label .. ".zeros", every, function(p) return p.grad:abs():sum():item() == 0 end)
end
for _, case in ipairs(cases) do
  run(case[1] .. ".plain", O[case[2]](params(), case[3]))
  run(case[1] .. ".groups", O[case[2]](groups(), case[3]))
end
local net = nn.Linear(2, 1)
net(rs.ones { 2 }):sum():backward()
net:zero_grad { set_to_none = false }
print("module.zeros " .. python(net.weight.grad:sum():item() == 0))
net:zero_grad()
print("module.none " .. python(net.weight.grad == nil) .. " " .. python(net.bias.grad == nil))
local opt = O.AdamW(params())
O.lr_scheduler.StepLR(opt, 1)
print("scheduled= " .. line(opt))
