-- Training under DistributedDataParallel stops after step 4 and goes on: with everything, and with a part left out. Then the
-- names with "module.", and what a file keeps of a tensor.
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed
rs.lesson { title = "resume", devices = 0 }
local lr = optim.lr_scheduler

-- As the samples and the first weights: numbers that any generator gives.
local function grid(...)
  local count = 1
  for _, size in ipairs { ... } do count = count * size end
  return (rs.arange(count + 0.0) * 7 % 11 / 11 - 0.4):reshape { ... }
end

local CASES = {
  { "sgd", function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9 }) end, function(o) return lr.StepLR(o, 3, 0.5) end },
  { "nesterov", function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.8, nesterov = true, weight_decay = 0.01 }) end,
    function(o) return lr.ExponentialLR(o, 0.9) end },
  { "adam", function(p) return optim.Adam(p, { lr = 0.05 }) end, function(o) return lr.CosineAnnealingLR(o, 6) end },
  { "adamw", function(p) return optim.AdamW(p, { lr = 0.05, amsgrad = true }) end,
    function(o) return lr.LinearLR(o, { total_iters = 5 }) end },
  { "adagrad", function(p) return optim.Adagrad(p, { lr = 0.1, lr_decay = 0.1 }) end,
    function(o) return lr.MultiStepLR(o, { 2, 5 }, 0.5) end },
}

local function train(rank, case, first, last, path, without)
  local net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
  rs.no_grad(function()
    for _, p in ipairs(net:parameters()) do p:copy_(grid(table.unpack(p.shape))) end
  end)
  local ddp = nn.parallel.DistributedDataParallel(net)
  local opt = case[2](ddp:parameters())
  local sched, losses = case[3](opt), {}
  rs.manual_seed(5 + rank)
  if first > 0 then
    local parts = rs.load(path)
    ddp:load_state_dict(parts.model)
    if without ~= "opt" then opt:load_state_dict(parts.opt) end
    if without ~= "sched" then sched:load_state_dict(parts.sched) end
    if without ~= "rng" then rs.set_rng_state(parts.rng) end
  end
  for step = first, last - 1 do
    local x = grid(4, 3) * (step + 1) + rank
    opt:zero_grad()
    local mask = rs.rand(4, 3):gt(0.3):float() -- a dropout that every build draws alike
    local loss = ((ddp(x * mask) - grid(4, 1)) ^ 2):mean()
    loss:backward()
    opt:step()
    sched:step()
    losses[#losses + 1] = loss:item()
  end
  if first == 0 then
    rs.save({ model = ddp:state_dict(), opt = opt:state_dict(), sched = sched:state_dict(), rng = rs.get_rng_state() }, path)
  end
  return losses
end

local folder = rs.args[1]
local ranks = dist.spawn(function(rank)
  local lines, path = {}, folder .. "/resume" .. rank
  local function line(...) lines[#lines + 1] = table.concat({ ... }, " ") end
  for _, case in ipairs(CASES) do
    local whole = train(rank, case, 0, 8, path)
    local early = train(rank, case, 0, 4, path)
    local late = train(rank, case, 4, 8, path)
    local words, same = {}, 1
    for i, loss in ipairs(whole) do
      words[i] = string.format("%.9g", loss)
      if loss ~= (early[i] or late[i - 4]) then same = 0 end
    end
    local name = "rank" .. rank .. "-" .. case[1]
    line(name, table.concat(words, " "))
    line(name .. "-same=", same)
    for _, without in ipairs { "opt", "sched", "rng" } do
      local rest, differs = train(rank, case, 4, 8, path, without), 0
      for i = 4, 1, -1 do
        if rest[i] ~= late[i] then differs = 4 + i end
      end
      line(name .. "-without-" .. without .. "-differs-first-in=", differs)
    end
  end
  return lines
end, { world = 2 })
for rank = 0, 1 do print(table.concat(ranks[rank], "\n")) end

local function told(f, ...)
  local ok, e = pcall(f, ...)
  return ok and "None" or e.message:gsub("[ \t]*\n[ \t]*", "|"):gsub("%s+$", "")
end
local function names(dict)
  local list = {}
  for name in pairs(dict) do list[#list + 1] = name end
  table.sort(list)
  for i, name in ipairs(list) do list[i] = type(dict[name]) == "number" and name .. ":" .. dict[name] or name end
  return table.concat(list, " ")
end
local function make() return nn.Sequential(nn.Linear(2, 1), nn.LayerNorm(1)) end
local consume = nn.modules.utils.consume_prefix_in_state_dict_if_present
local net, wrapped = make(), nn.DataParallel(make())
local state = wrapped:state_dict()
print("wrapped-into-plain= " .. told(net.load_state_dict, net, state))
print("plain-into-wrapped= " .. told(wrapped.load_state_dict, wrapped, net:state_dict()))
print("not-strict= " .. (told(net.load_state_dict, net, state, { strict = false }) == "None" and "True" or "raises"))
consume(state, "module.")
print("consumed= " .. names(state))
consume(state, "module.")
print("consumed-twice= " .. names(state))
net:load_state_dict(state)
local other = { ["module.a"] = 1, ["module.module.b"] = 2, ["c.module.d"] = 3, module = 4 }
consume(other, "module.")
print("others= " .. names(other))

local base = rs.arange(12.0):reshape { 3, 4 }
local path, places = folder .. "/kept", {}
rs.save({ a = base, row = base[1], turned = base:t(), gaps = rs.arange(8.0):reshape { 2, 4 }[{ "...", rs.slice(1, 3) }],
  wide = rs.arange(2.0):reshape { 2, 1 }:expand { 2, 3 }, parameter = nn.Parameter(rs.ones(2)),
  half = rs.tensor { 1.5, -2 }:to("bfloat16"), flags = rs.tensor { true, false },
  deep = { step = 7, rate = 0.1, on = true, none = rs.none, list = { 1, "two" } } }, path)
local back = rs.load(path, { map_location = function(t, place)
  places[#places + 1] = place
  return t
end })
print("places= " .. table.concat(places, " "))
for _, name in ipairs { "a", "flags", "gaps", "half", "parameter", "row", "turned", "wide" } do
  local t, words = back[name], { "kept-" .. name }
  for _, list in ipairs { t.shape, t:stride() } do
    for _, number in ipairs(list) do words[#words + 1] = number end
  end
  words[#words + 1] = t.requires_grad and 1 or 0
  words[#words + 1] = name == "parameter" and t.is_leaf and 1 or 0
  for _, number in ipairs(t:detach():float():reshape(-1):tolist()) do words[#words + 1] = string.format("%g", number) end
  print(table.concat(words, " "))
end
local deep = back.deep
print("deep= " .. table.concat({ deep.step, deep.rate, deep.on and 1 or 0, deep.none == rs.none and 1 or 0, deep.list[1], deep.list[2] }, " "))
back.a:fill_(5)
print(("shared= %d %d %d"):format(back.row[2]:item(), back.turned[{ 0, 1 }]:item(), back.gaps[{ 0, 0 }]:item()))
