-- What DistributedDataParallel does to gradients and buffers, worked out in one process: every rank is a coroutine with
-- a module of its own, and where ranks meet (a reduction, buffers, new buckets) it waits for the others. Buckets do not
-- show in this. R.run(program) answers what every rank has, or the errors that its ranks may end in.
local rs, P = ...
local nn = rs.nn
local R = {}

local ROWS, WIDTH, WORDS = 3, 2, 5

-- ---- the model, the inputs and the loss: the ranks have the same ----

local MADE = {
  linear = function(block) return nn.Linear(WIDTH, WIDTH, { bias = block.bias }) end,
  scale = function() return nn.Parameter(rs.tensor(1.0)) end,
  norm = function() return nn.BatchNorm1d(WIDTH) end,
  embed = function(block) return nn.Embedding(WORDS, WIDTH, { sparse = block.sparse }) end,
}

local APPLIED = {
  linear = function(part, x, _, block)
    if not block.wide then return rs.tanh(part(x)) end
    return rs.tanh(part(x:double())):to(x.dtype)
  end,
  scale = function(part, x) return x * part end,
  norm = function(part, x) return part(x) end,
  embed = function(part, x, ids) return x + part(ids) * 0.5 end,
  buffer = function(part, x)
    part:copy_(part * 0.5 + x:detach():mean(0) * 0.5)
    return x - part * 0.25
  end,
}

local function add_block(net, program, i)
  local block, name = program.blocks[i], "b" .. i
  if block.kind == "buffer" then
    net:register_buffer(name, rs.zeros { WIDTH })
    return
  end
  net[name] = MADE[block.kind](block)
  if block.tie then net[name].weight = net["b" .. block.tie].weight end
  if block.frozen then
    for parameter in net[name]:parameters() do parameter:requires_grad_(false) end
  end
end

-- forward(x, ids, outs): a list of outputs.
local function class_of(program)
  local Net = nn.Module("Net")
  function Net:init()
    for i in ipairs(program.blocks) do add_block(self, program, i) end
    self:to(program.dtype)
    for i, block in ipairs(program.blocks) do
      if block.wide then self["b" .. i]:double() end
    end
  end
  function Net:forward(x, ids, outs)
    local results = {}
    for k, chain in ipairs(outs) do
      local y = x
      for _, i in ipairs(chain) do y = APPLIED[program.blocks[i].kind](self["b" .. i], y, ids, program.blocks[i]) end
      results[k] = y
    end
    return results
  end
  return Net
end

local function tensor_of(s, shape, dtype)
  local count, list = 1, {}
  for _, n in ipairs(shape) do count = count * n end
  for i = 1, count do list[i] = s.int(-31, 31) / 24 end
  return rs.tensor(list, { dtype = dtype }):reshape(shape)
end

-- Ranks begin with different numbers.
function R.new_net(program, rank)
  local net, s = class_of(program)(), P.stream(program.seed * 7 + rank + 1)
  rs.no_grad(function()
    for parameter in net:parameters() do parameter:copy_(tensor_of(s, parameter.shape, parameter.dtype)) end
    for _, buffer in net:named_buffers() do
      if buffer:is_floating_point() then buffer:add_(s.int(0, 8) / 8) end
    end
  end)
  return net
end

function R.inputs(program, rank, number)
  local s, ids = P.stream((program.seed * 53 + rank) * 31 + number), {}
  local x = tensor_of(s, { ROWS, WIDTH }, program.dtype)
  for i = 1, ROWS do ids[i] = s.int(0, WORDS - 1) end
  return x, rs.tensor(ids)
end

function R.loss(outputs, layout)
  local loss
  for k, used in ipairs(layout.used) do
    if used then
      local term = outputs[k]:mean() * k + (outputs[k] * outputs[k]):mean() * 0.5
      loss = loss and loss + term or term
    end
  end
  return loss
end

-- The gradients of a net, dense; false: none.
function R.gradients(net)
  local out = {}
  for _, parameter in net:named_parameters() do
    local grad = parameter.grad
    out[#out + 1] = grad and (grad.is_sparse and grad:to_dense() or grad):detach():clone() or false
  end
  return out
end

-- What a training hands out: losses, and after each iteration gradients; in the end weights and buffers.
function R.record() return { losses = {}, gradients = {}, weights = {}, buffers = {} } end

function R.finish(record, net)
  for _, parameter in net:named_parameters() do table.insert(record.weights, parameter:detach():clone()) end
  for _, buffer in net:named_buffers() do table.insert(record.buffers, buffer:detach():clone()) end
  return record
end

-- ---- which parameters a path uses ----

-- Names of those that learn, block by block.
local function names_of_block(program, i)
  local block, out = program.blocks[i], {}
  if block.frozen or block.kind == "buffer" then return out end
  if block.kind == "scale" then return { "b" .. i } end
  out[1] = "b" .. (block.tie or i) .. ".weight"
  if block.bias or block.kind == "norm" then out[2] = "b" .. i .. ".bias" end
  return out
end

-- The set of the reducer's indices that lead to outputs `ks` (all of them: nil).
local function reached(replica, layout, needed_only)
  local set = {}
  for k, chain in ipairs(layout.outs) do
    for _, i in ipairs((not needed_only or layout.used[k]) and chain or {}) do
      for _, name in ipairs(names_of_block(replica.program, i)) do
        if replica.index[name] then set[replica.index[name]] = true end
      end
    end
  end
  return set
end

-- ---- a rank ----

local Replica = {}
Replica.__index = Replica

local function new_replica(program, rank)
  local self = setmetatable({ program = program, rank = rank, net = R.new_net(program, rank), params = {}, index = {},
    expect = false, unfinished = false, ready = {}, unused = {}, used_map = {}, counts = {}, left = {},
    sync_buffers = true, record = R.record(), slots = {} }, Replica)
  self.static = program.options.static_graph
  self.find = program.options.find_unused_parameters and not self.static
  self.ignored = {}
  for _, name in ipairs(program.ignored or {}) do self.ignored[name] = true end
  for name, parameter in self.net:named_parameters() do
    if parameter.requires_grad and not self.ignored[name] then
      self.params[#self.params + 1] = parameter
      self.index[name] = #self.params
    end
  end
  return self
end

-- The kinds of errors that may come, one or the other; those of unfinished reductions name indices from 0.
local function raise(...) error({ kinds = { ... } }, 0) end

function Replica:check_finished()
  if not self.unfinished then return end
  local indices = {}
  for i in ipairs(self.params) do
    if not self.ready[i] then indices[#indices + 1] = i - 1 end
  end
  raise("unfinished " .. table.concat(indices, " "))
end

function Replica:forward(op)
  local grad, sync, layout = op.mode ~= "no_grad", op.mode == "sync", op.layouts[self.rank]
  if grad then
    self:check_finished()
    if not self.find and self.recorded and not self.rebuilt then
      coroutine.yield "rebuild"
      self.rebuilt = true
    end
  end
  if self.sync_buffers and R.syncs_buffers(self.program) and #self:buffers() > 0 then
    coroutine.yield(self.unfinished and "buffers between buckets" or "buffers")
  end
  self.number = (self.number or 0) + 1
  local x, ids = R.inputs(self.program, self.rank, self.number)
  local function call() return R.loss(self.net(x, ids, layout.outs), layout) end
  local loss = grad and call() or rs.no_grad(call)
  table.insert(self.record.losses, loss:item())
  self.sync_buffers = grad and sync
  if grad and sync then self:prepare_for_backward(layout) end
  local sink = self.find or (self.static and not self.delayed)
  self.slots[op.forward] = { loss = loss, hooks = reached(self, layout, not sink) }
end

function Replica:prepare_for_backward(layout)
  self.expect, self.ready, self.marked, self.unused = true, {}, false, {}
  for i in ipairs(self.params) do self.left[i] = self.counts[i] or 0 end
  if not self.find then return end
  local all = reached(self, layout)
  for i in ipairs(self.params) do
    if not all[i] then self.unused[#self.unused + 1] = i end
  end
end

function Replica:mark(i)
  if self.ready[i] then raise "twice" end
  self.ready[i], self.unfinished = true, true
  local parameter = self.params[i]
  if parameter.grad then return end
  if self.sparse[i] then raise "sparse" end
  if self.find and self.used_map[i] then raise "undefined" end
end

-- Of one backward: which hooks fire, and which parameters had a gradient before it. Hooks come in some order.
function Replica:hooks(fired, had, map_before)
  local first = self.static and not self.delayed
  for i in pairs(fired) do
    if (self.find or first) and self.params[i].grad then self.used_map[i] = true end
    if first then self.counts[i] = (self.counts[i] or 0) + 1 end
  end
  if first then
    self.delayed = true
    for i in pairs(self.sparse) do
      if not self.params[i].grad then raise "sparse" end
    end
    coroutine.yield "reduce"
    return
  end
  if not self.expect or not next(fired) then return end
  self.recorded = self.recorded or not self.find
  self:mark_unused(fired, had, map_before)
  for i in pairs(fired) do
    if self.static then
      if self.left[i] == 0 then raise "changed" end
      self.left[i] = self.left[i] - 1
    end
    self:mark(i)
  end
  if #self.params == self:ready_count() then coroutine.yield "reduce" end
end

-- At the first hook. One that fires itself later comes twice then, if it has not failed at once.
function Replica:mark_unused(fired, had, map_before)
  if self.marked then return end
  self.marked = true
  local kinds = {}
  local unused = self.unused
  if self.static then
    unused = {}
    for i in ipairs(self.params) do
      if not self.counts[i] then unused[#unused + 1] = i end
    end
  end
  for _, i in ipairs(unused) do
    if fired[i] and self.find then kinds.twice = true end
    if not had[i] and self.sparse[i] then kinds.sparse = true end
    if not had[i] and not self.sparse[i] and self.find and map_before[i] then kinds.undefined = true end
    self.ready[i], self.unfinished = true, true
  end
  if self.static then
    for i in pairs(fired) do
      if not self.counts[i] then kinds.changed = true end
    end
  end
  local list = {}
  for kind in pairs(kinds) do list[#list + 1] = kind end
  if #list > 0 then raise(table.unpack(list)) end
end

function Replica:ready_count()
  local count = 0
  for _ in pairs(self.ready) do count = count + 1 end
  return count
end

function Replica:backward(op)
  local loss, fired, had, map_before = nil, {}, {}, {}
  for i, parameter in ipairs(self.params) do had[i], map_before[i] = parameter.grad ~= nil, self.used_map[i] end
  for _, slot in ipairs(op.backward) do
    loss = loss and loss + self.slots[slot].loss or self.slots[slot].loss
    for i in pairs(self.slots[slot].hooks) do fired[i] = true end
  end
  loss:backward()
  self:hooks(fired, had, map_before)
end

-- Those that are sent, in order.
function Replica:buffers()
  local out = {}
  for name, buffer in self.net:named_buffers() do
    if not self.ignored[name] then out[#out + 1] = buffer end
  end
  return out
end

function R.step(program, optimizer)
  optimizer:step()
  if program.zero ~= "keep" then optimizer:zero_grad { set_to_none = program.zero == "none" } end
end

function Replica:train()
  local optimizer = rs.optim.SGD(self.net:parameters(), { lr = 0.125 })
  for i, iteration in ipairs(self.program.iterations) do
    for _, op in ipairs(iteration) do
      if op.forward then self:forward(op) else self:backward(op) end
    end
    self.record.gradients[i] = R.gradients(self.net)
    R.step(self.program, optimizer)
  end
  R.finish(self.record, self.net)
end

-- ---- where ranks meet ----

function R.syncs_buffers(program)
  local o = program.options
  if o.forward_sync_buffers ~= nil then return o.forward_sync_buffers end
  return o.broadcast_buffers ~= false
end

-- Behind the back of the version counters: a graph may hold a buffer.
local function copy_from_first(replicas, pick)
  local first = pick(replicas[1])
  for r = 2, #replicas do
    for i, tensor in ipairs(pick(replicas[r])) do tensor.data:copy_(first[i].data) end
  end
end

local function construct(program, replicas)
  local o = program.options
  for _, replica in ipairs(replicas) do
    replica.sparse = {}
    for i, block in ipairs(program.blocks) do
      if block.sparse then replica.sparse[replica.index["b" .. i .. ".weight"]] = true end
    end
  end
  if o.init_sync == false then return end
  copy_from_first(replicas, function(replica)
    local out = {}
    for name, parameter in replica.net:named_parameters() do
      if not replica.ignored[name] then out[#out + 1] = parameter end
    end
    return out
  end)
  if o.forward_sync_buffers ~= nil or o.broadcast_buffers ~= false then
    copy_from_first(replicas, function(replica) return replica:buffers() end)
  end
end

local function dense(grad) return grad and (grad.is_sparse and grad:to_dense() or grad) end

-- The mean over ranks; who has no gradient gives zeros. One that nobody used stays as it is, but for what lies in a
-- bucket.
local function reduce(program, replicas)
  local view = program.options.gradient_as_bucket_view
  for i, parameter in ipairs(replicas[1].params) do
    local sum, used = rs.zeros_like(parameter:detach()), not (replicas[1].find or replicas[1].static)
    for _, replica in ipairs(replicas) do
      used = used or replica.used_map[i] or false
      local grad = dense(replica.params[i].grad)
      if grad then sum = sum + grad:detach() end
    end
    for _, replica in ipairs(replicas) do
      if used or (view and replica.params[i].grad) then replica.params[i].grad = sum / program.world end
    end
  end
  for _, replica in ipairs(replicas) do
    replica.expect, replica.unfinished = false, false
    if replica.find then replica.used_map = {} end
  end
end

local MEET = { reduce = reduce, rebuild = function() end,
  buffers = function(_, replicas) copy_from_first(replicas, function(replica) return replica:buffers() end) end }

-- Every rank goes on until it waits, ends or fails.
local function advance(replicas)
  local waiting, errors, count = {}, {}, 0
  for _, replica in ipairs(replicas) do
    local ok, token = true, nil
    if coroutine.status(replica.thread) ~= "dead" then ok, token = coroutine.resume(replica.thread) end
    if not ok then
      if type(token) ~= "table" or not token.kinds then error(token, 0) end
      errors[replica.rank] = token.kinds
    elseif token then
      waiting[token], count = true, count + 1
    end
  end
  return waiting, errors, count
end

-- { ranks = records by rank }, { errors = lists of kinds by rank }, or nil: ranks would wait for each other in
-- different places, which no program should do.
function R.run(program)
  local replicas = {}
  for rank = 0, program.world - 1 do replicas[rank + 1] = new_replica(program, rank) end
  construct(program, replicas)
  for _, replica in ipairs(replicas) do
    replica.thread = coroutine.create(function() replica:train() end)
  end
  while true do
    local waiting, errors, count = advance(replicas)
    local token = next(waiting)
    if token and (next(waiting, token) or not MEET[token]) then return nil end
    if next(errors) then return { errors = errors } end
    if not token then break end
    if count < #replicas then return nil end
    MEET[token](program, replicas)
  end
  local ranks = {}
  for _, replica in ipairs(replicas) do ranks[replica.rank] = replica.record end
  return { ranks = ranks }
end

return R
