-- Small models under DistributedDataParallel with each of ddp_options.txt, three steps each, and what came of them: the
-- twin of ddp_matrix.py. Weights, inputs and targets follow from a formula; ranks begin with different ones. Answers
-- main(world).
local rs = require "ringside"
local nn, dist, F = rs.nn, rs.distributed, rs.nn.functional
local DDP = nn.parallel.DistributedDataParallel

local STEPS = 3

local function numbers(shape, seed, scale)
  local count, list = 1, {}
  for _, n in ipairs(shape) do count = count * n end
  for i = 0, count - 1 do list[i + 1] = ((i * 37 + seed * 101) % 97 - 48) / 48 * (scale or 1) end
  return rs.tensor(list):reshape(shape)
end

-- ---- models ----

-- A class of modules: init(self) makes the parts, one after the other (Lua assigns several at once from the right), and
-- the forward uses them.
local function class(name, init, forward)
  local Class = nn.Module(name)
  Class.init, Class.forward = init, forward
  return Class
end

local Shared = class("Shared", function(self)
  self.first = nn.Linear(4, 4)
  self.middle = nn.Linear(4, 3)
  self.last = nn.Linear(4, 4)
  self.last.weight = self.first.weight
end, function(self, x) return self.middle(rs.tanh(self.last(rs.tanh(self.first(x))))) end)

local Branches = class("Branches", function(self)
  self.a = nn.Linear(4, 3)
  self.b = nn.Linear(4, 3)
  self.c = nn.Linear(4, 3)
  self.nobody = nn.Linear(4, 3)
end, function(self, x) return self.a(x) * (dist.get_rank() % 2 == 0 and self.b or self.c)(x) end)

local Unused = class("Unused", function(self)
  self.first = nn.Linear(4, 3)
  self.nobody = nn.Linear(3, 3)
  self.last = nn.Linear(3, 2)
end, function(self, x) return self.last(rs.tanh(self.first(x))) end)

local Words = class("Words", function(self, sparse)
  self.embed = nn.Embedding(9, 3, { sparse = sparse })
  self.head = nn.Linear(3, 2)
end, function(self, ids) return self.head(self.embed(ids):mean(1)) end)

local Conv = class("Conv", function(self)
  self.conv = nn.Conv2d(1, 2, 3, { padding = 1 })
  self.norm = nn.BatchNorm2d(2)
  self.head = nn.Linear(18, 2)
end, function(self, x) return self.head(F.relu(self.norm(self.conv(x))):flatten(1)) end)

local Dtypes = class("Dtypes", function(self)
  self.first = nn.Linear(4, 3)
  self.second = nn.Linear(3, 3):double()
  self.last = nn.Linear(3, 2)
end, function(self, x) return self.last(self.second(rs.tanh(self.first(x)):double()):float()) end)

local Two = class("Two", function(self)
  self.left = nn.Linear(4, 3)
  self.right = nn.Linear(2, 3, { bias = false })
  self.head = nn.Linear(3, 2)
end, function(self, x, y) return self.head(rs.tanh(self.left(x) + self.right(y))) end)

local Nested = class("Nested", function(self)
  self.trunk = nn.Linear(4, 3)
  self.one = nn.Linear(3, 2)
  self.two = nn.Linear(3, 2)
  self.three = nn.Linear(3, 2)
end, function(self, x)
  local h = rs.tanh(self.trunk(x))
  return { one = self.one(h), more = { self.two(h), { three = self.three(h) } } }
end)

local Frozen = class("Frozen", function(self)
  self.first = nn.Linear(4, 3)
  self.frozen = nn.Linear(3, 3)
  self.last = nn.Linear(3, 2)
  self.frozen.weight:requires_grad_(false)
  self.frozen.bias:requires_grad_(false)
end, function(self, x) return self.last(rs.tanh(self.frozen(rs.tanh(self.first(x))))) end)

local Recurrent = class("Recurrent", function(self)
  self.lstm = nn.LSTM(3, 4, { num_layers = 2, batch_first = true })
  self.head = nn.Linear(4, 2)
end, function(self, x)
  local out = self.lstm(x)
  return self.head(out:mean(1))
end)

local Buffer = class("Buffer", function(self)
  self.linear = nn.Linear(4, 3)
  self:register_buffer("mean", rs.zeros { 3 })
  self:register_buffer("calls", rs.tensor(0))
end, function(self, x)
  local y = self.linear(x)
  self.calls:add_(1)
  self.mean:copy_(self.mean * 0.5 + y:detach():mean(0) * 0.5)
  return y - self.mean * 0.25
end)

local Attention = class("Attention", function(self)
  self.norm = nn.LayerNorm(4)
  self.q = nn.Linear(4, 4)
  self.k = nn.Linear(4, 4)
  self.v = nn.Linear(4, 4)
  self.out = nn.Linear(4, 2)
end, function(self, x)
  local h = self.norm(x)
  local weights = rs.softmax(rs.matmul(self.q(h), self.k(h):transpose(1, 2)) * 0.5, -1)
  return self.out(x + rs.matmul(weights, self.v(h))):mean(1)
end)

local Twice = class("Twice", function(self)
  self.first = nn.Linear(4, 3)
  self.again = nn.Linear(3, 3)
  self.last = nn.Linear(3, 2)
end, function(self, x)
  local h = rs.tanh(self.first(x))
  return self.last(rs.tanh(self.again(rs.tanh(self.again(h)))))
end)

local Scalar = class("Scalar", function(self)
  self.scale = nn.Parameter(rs.tensor(1.0))
  self.linear = nn.Linear(4, 3)
  self.shift = nn.Parameter(rs.tensor(0.0))
end, function(self, x) return self.linear(x) * self.scale + self.shift end)

local function mlp()
  return nn.Sequential { nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3) }
end

local function deep()
  local parts = {}
  for i = 1, 16, 2 do parts[i], parts[i + 1] = nn.Linear(2, 2), nn.Tanh() end
  return nn.Sequential(parts)
end

local function vectors(...)
  local shape = { ... }
  return function(seed) return numbers(shape, seed) end
end

local function ids(seed)
  local rows = {}
  for row = 0, 3 do
    rows[row + 1] = {}
    for i = 0, 2 do rows[row + 1][i + 1] = (seed * 5 + row * 3 + i * i) % 9 end
  end
  return rs.tensor(rows)
end

local MODELS = {
  { "mlp", mlp, vectors(5, 6) },
  { "shared", Shared, vectors(5, 4) },
  { "branches", Branches, vectors(5, 4) },
  { "unused", Unused, vectors(5, 4) },
  { "embedding", function() return Words(false) end, ids },
  { "sparse", function() return Words(true) end, ids },
  { "conv", Conv, vectors(3, 1, 3, 3) },
  { "dtypes", Dtypes, vectors(5, 4) },
  { "two", Two, function(seed) return numbers({ 5, 4 }, seed), numbers({ 5, 2 }, seed + 1) end },
  { "nested", Nested, vectors(5, 4) },
  { "frozen", Frozen, vectors(5, 4) },
  { "lstm", Recurrent, vectors(2, 3, 3) },
  { "buffer", Buffer, vectors(5, 4) },
  { "attention", Attention, vectors(2, 3, 4) },
  { "deep", deep, vectors(5, 2) },
  { "twice", Twice, vectors(5, 4) },
  { "scalar", Scalar, vectors(5, 4) },
}

-- ---- ddp_options.txt ----

local EXTRAS = { accumulate = true, late = true, hook = true, ignore = true, delay = true, zeroed = true, only = true,
  ["not"] = true }

-- "x", "x=1", "x=true", "x_list=1,2": the name and its value.
local function option(word)
  local name, text = word:match "^([%w_]+)=?(.*)$"
  if text == "" then return name, true end
  if name == "only" or name == "not" then
    local set = {}
    for part in text:gmatch "[^,]+" do set[part] = true end
    return name, set
  end
  if text == "true" or text == "false" then return name, text == "true" end
  if not name:find "_list$" then return name, tonumber(text) end
  local list = {}
  for part in text:gmatch "[^,]+" do list[#list + 1] = tonumber(part) end
  return name, list
end

local function ways()
  local out = {}
  for line in io.lines "tests/parity/ddp_options.txt" do
    if line:find "^%a" then
      local way = { ddp = {}, extras = {} }
      for word in line:gmatch "%S+" do
        if not way.name then
          way.name = word
        else
          local name, value = option(word)
          way[EXTRAS[name] and "extras" or "ddp"][name] = value
        end
      end
      out[#out + 1] = way
    end
  end
  return out
end

local function cases()
  local out, all = {}, ways()
  for _, model in ipairs(MODELS) do
    for _, way in ipairs(all) do
      local only, never = way.extras.only, way.extras["not"]
      local wanted = (not only or only[model[1]]) and not (never and never[model[1]])
      if wanted then out[#out + 1] = { model = model, way = way } end
    end
  end
  return out
end

-- ---- one run ----

local function fill(net, rank)
  rs.no_grad(function()
    local k = 0
    for p in net:parameters() do
      p:copy_(numbers(p.shape, k + 3 * rank, 0.5))
      k = k + 1
    end
    for b in net:buffers() do
      if b:is_floating_point() then b:add_(rank) end
    end
  end)
end

-- A number: outputs named three are left out, as nobody needs them.
local function loss_of(out)
  if rs.is_tensor(out) then return (out * numbers(out.shape, 7)):square():mean() + out:mean() end
  if out.one then return loss_of(out.more) + loss_of(out.one) end
  return loss_of(out[1])
end

local function six(x) return ("%.6g"):format(x) end

-- Numbers of `count` tensors, some of them nil.
local function checksum(tensors, count)
  local total = 0.0
  for k = 1, count do
    local t = tensors[k]
    if t then
      t = t:detach()
      local list = (t.is_sparse and t:to_dense() or t):reshape { -1 }:tolist()
      for i, x in ipairs(list) do total = total + (((i - 1) * 7 + (k - 1) * 13) % 11 - 4) / 4 * x end
    end
  end
  return six(total)
end

-- A text that is the one before it is "=" instead.
local function shortened(texts)
  local out = {}
  for i, text in ipairs(texts) do out[i] = i > 1 and text == texts[i - 1] and "=" or text end
  return table.concat(out, " ")
end

local Run = {}
Run.__index = Run

local function new_run(case, rank, world)
  local run = setmetatable({ extras = case.way.extras, inputs = case.model[3], rank = rank, world = world, order = {},
    calls = {}, params = {} }, Run)
  local names, options = {}, {}
  run.net = case.model[2]()
  fill(run.net, rank)
  for name, p in run.net:named_parameters() do names[#names + 1], run.params[#run.params + 1] = name, p end
  for name, value in pairs(case.way.ddp) do options[name] = value end
  if run.extras.ignore then
    DDP._set_params_and_buffers_to_ignore_for_model(run.net, { names[#names] })
  end
  if run.extras.delay then
    options.delay_all_reduce_named_params = {}
    for i = 1, 2 do
      local k = #names - 2 + i
      options.delay_all_reduce_named_params[i] = { names[k], run.params[k] }
    end
    options.param_to_hook_all_reduce = run.params[1]
  end
  for k, p in ipairs(run.params) do
    if p.requires_grad then p:register_post_accumulate_grad_hook(function() table.insert(run.order, k - 1) end) end
  end
  run.ddp = DDP(run.net, options)
  if run.extras.hook then run.ddp:register_comm_hook(nil, function(_, bucket) return run:hook(bucket) end) end
  run.sgd = rs.optim.SGD(run.ddp:parameters(), { lr = 0.1 })
  return run
end

function Run:hook(bucket)
  table.insert(self.calls, ("%d:%d:%d%s"):format(bucket:index(), #bucket:parameters(), bucket:buffer():numel(),
    bucket:is_last() and ":last" or ""))
  local work = dist.all_reduce(bucket:buffer():div_(self.world), { async_op = true })
  return work:get_future():then_(function(future) return future:value()[1] end)
end

function Run:loss(seed) return loss_of(self.ddp(self.inputs(seed * 5 + self.rank))) end

function Run:step(number)
  self.sgd:zero_grad { set_to_none = not self.extras.zeroed }
  if self.extras.accumulate and not (number == 0 and self.extras.late) then
    self.ddp:no_sync(function() (self:loss(number + 50) / 2):backward() end)
  end
  local loss = self:loss(number)
  self.order = {}
  self.calls = {}
  loss:backward()
  return six(loss:item())
end

function Run:gradients()
  local grads, kinds = {}, {}
  for k, p in ipairs(self.params) do
    grads[k] = p.grad
    kinds[k] = not p.grad and "-" or p.grad.is_sparse and "s" or "d"
  end
  return checksum(grads, #self.params), table.concat(kinds)
end

-- What was raised on purpose has a kind.
local function kind_of(err)
  if type(err) ~= "table" then error(err, 0) end
  return err.kind
end

local function facts_of(run)
  local losses, gradients, found, orders, calls = {}, {}, {}, {}, {}
  local ok, err = pcall(function()
    for number = 0, STEPS - 1 do
      table.insert(losses, run:step(number))
      gradients[number + 1], found[number + 1] = run:gradients()
      orders[number + 1], calls[number + 1] = table.concat(run.order, ","), table.concat(run.calls, ",")
      run.sgd:step()
    end
    table.insert(losses, six(run:loss(STEPS):item()))
  end)
  if not ok then table.insert(losses, "raises " .. kind_of(err)) end
  local data, buffers = run.ddp:_get_ddp_logging_data(), {}
  table.insert(gradients, shortened(found))
  local facts = { { "losses", table.concat(losses, " ") }, { "gradients", table.concat(gradients, " ") },
    { "weights", checksum(run.params, #run.params) }, { "order=", shortened(orders) },
    { "buckets=", ("%s; cap %d; rebuilt %s of %s"):format(data.bucket_sizes, data.bucket_cap_bytes,
      data.rebuilt_bucket_sizes or "", data.rebuilt_per_bucket_param_indices or "") } }
  for b in run.net:buffers() do buffers[#buffers + 1] = b end
  if #buffers > 0 then table.insert(facts, { "buffers", checksum(buffers, #buffers) }) end
  if run.extras.hook then table.insert(facts, { "hook=", shortened(calls) }) end
  return facts
end

-- ---- all of them ----

-- What all ranks say, once if they say the same.
local function text_of(ranks, world, at, k)
  local texts, alike = {}, true
  for rank = 0, world - 1 do
    texts[rank + 1] = ranks[rank][at][k][2]
    alike = alike and texts[rank + 1] == texts[1]
  end
  return alike and texts[1] or table.concat(texts, " | ")
end

local function main(world)
  local all = cases()
  local ranks = dist.spawn(function(rank)
    local out = {}
    for at, case in ipairs(all) do
      local made, run = pcall(new_run, case, rank, world)
      out[at] = made and facts_of(run) or { { "construction", "raises " .. kind_of(run) } }
    end
    return out
  end, { world = world })
  local default = {}   -- of this model: what it says word for word is not said again
  for at, case in ipairs(all) do
    local name = case.way.name
    if name == "default" then default = {} end
    for k, fact in ipairs(ranks[0][at]) do
      local text = text_of(ranks, world, at, k)
      if not fact[1]:find "=$" or default[fact[1]] ~= text then
        print(("%s/%s/%s %s"):format(case.model[1], name, fact[1], text))
      end
      default[fact[1]] = default[fact[1]] or text
    end
  end
end

return main
