-- What PyTorch's own tests ask of parameters that a backward does not reach. T: rows of the common list; D: further
-- tests of the same files, other worlds and options.
--
-- Left out, with the reason: an undefined gradient made by a C function of PyTorch's own (an operator here answers
-- nil for it).
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local F, DDP = nn.functional, nn.parallel.DistributedDataParallel

rs.lesson { title = "PyTorch cases: unused parameters", seed = 1, prefix = "" }

-- ---- words for checks ----

-- f(rank, check) on each rank; what ranks check under one name is one check here. An error fails the row, not the
-- file.
local function row(id, world, f)
  local ok, by_rank = pcall(dist.spawn, function(rank)
    local checks = {}
    f(rank, function(name, held) checks[#checks + 1] = { name, held and true or false } end)
    return checks
  end, { world = world })
  if not ok then
    rs.check(id .. " runs to its end: " .. tostring(by_rank):match("[^\n]*"), false)
    return
  end
  local names, held = {}, {}
  for rank = 0, world - 1 do
    for _, check in ipairs(by_rank[rank]) do
      if held[check[1]] == nil then names[#names + 1] = check[1] end
      held[check[1]] = held[check[1]] ~= false and check[2]
    end
  end
  for _, name in ipairs(names) do rs.check(name, held[name]) end
end

local function near(a, b) return rs.allclose(a:detach(), b:detach(), { atol = 1e-5, rtol = 1e-5 }) end
local function seeded(seed, make, ...)
  rs.manual_seed(seed)
  return make(...)
end
local function rows(t, from, count) return t[rs.slice(from, from + count)] end
local function same_grads(a, b)
  local list, ok = b:parameters(), true
  for i, p in ipairs(a:parameters()) do
    local grad = list[i].grad
    ok = ok and (p.grad == nil) == (grad == nil) and (grad == nil or near(p.grad, grad))
  end
  return ok
end
local function same_on_all(t)
  local list = dist.all_gather({}, t:detach():contiguous())
  for i = 2, #list do
    if not rs.equal(list[1], list[i]) then return false end
  end
  return true
end

-- What f raised, in small letters and without the marks for code; nil if nothing, or another kind.
local function raised(kind, f, ...)
  local ok, e = pcall(f, ...)
  if ok or type(e) ~= "table" or e.kind ~= kind then return nil end
  return (e.message:lower():gsub("`", ""))
end
local function has(message, ...)
  if not message then return false end
  for _, word in ipairs { ... } do
    if not message:find(word, 1, true) then return false end
  end
  return true
end

-- The error that says that a gradient did not come: indices, and hints for who does not search.
local function unfinished(message, rank, indices)
  return has(message, "finished reduction in the prior iteration", "find_unused_parameters=true", "loss",
    ("did not receive grad for rank %d: %s"):format(rank, indices)) and not has(message, "is enabled")
      and not has(message, "is on")
end
local function logged(ddp, word)
  local data = ddp:_get_ddp_logging_data()
  return data.has_error == 1 and data.error:lower():find(word, 1, true) ~= nil and data.iteration ~= nil
end

local BOTH = { false, true }
local LEVELS = { "OFF", "INFO", "DETAIL" }

-- f at each level of debugging; the level goes back.
local function at_each_level(f)
  local before = dist.get_debug_level()
  for _, level in ipairs(LEVELS) do
    dist.set_debug_level(dist.DebugLevel[level])
    f(level)
  end
  dist.set_debug_level(before)
end

-- ---- used by some, by none ----

local function bare_parameter()
  local class = nn.Module "Task"
  function class:init() self.p = nn.Parameter(rs.ones(2, 2)) end
  function class:forward(x) return self.p + x end
  return class()
end
local Tasks = nn.Module "Tasks"
function Tasks:init()
  self.t0 = bare_parameter()
  self.t1 = bare_parameter()
  self.unused = bare_parameter()
end
function Tasks:forward(x, which) return (which == 0 and self.t0 or self.t1)(x) end

local function is_all(t, value) return t ~= nil and rs.equal(t, rs.full({ 2, 2 }, value)) end

for _, world in ipairs { 2, 3, 4 } do
  row("T236", world, function(rank, check)
    for _, view in ipairs(BOTH) do
      for _, static in ipairs(BOTH) do
        local ddp = DDP(Tasks(),
          { find_unused_parameters = true, gradient_as_bucket_view = view, static_graph = static })
        local net = ddp.module
        local function held(used) -- one rank uses t0, the others t1
          ddp:zero_grad()
          local out = ddp(8, used)
          local before = net.t0.p.grad == nil and net.t1.p.grad == nil and net.unused.p.grad == nil
          out:mean():backward()
          return before and is_all(net.t0.p.grad, 0.25 / world) and net.unused.p.grad == nil
            and near(net.t1.p.grad, rs.full({ 2, 2 }, 0.25 * (world - 1) / world))
        end
        local id = world > 2 and "D236" or view and (static and "D238" or "D236") or static and "T238" or "T236"
        check(("%s rank 0 of %d uses t0, others t1, nobody the third: shares of .25, nil%s%s"):format(id, world,
          static and ", with a static graph" or "", view and ", with views" or ""), held(rank))
        check("D236 so it is in the next iteration" .. (static and "" or ", where others use them"), held(static
          and rank or 1 - rank))
      end
    end
  end)
end

row("D237", 2, function(rank, check)
  local class = nn.Module "Chain"
  function class:init()
    self.t0 = bare_parameter()
    self.t1 = bare_parameter()
  end
  function class:forward(x, which) return which == 0 and self.t1(self.t0(x)) or self.t1(x) end
  for _, view in ipairs(BOTH) do
    local ddp = DDP(class(), { find_unused_parameters = true, gradient_as_bucket_view = view })
    for _ = 1, 3 do
      ddp:zero_grad()
      ddp(8, rank):mean():backward()
      check("D237 a rank that found none unused reduces with one that found some", is_all(ddp.module.t0.p.grad, 0.125)
        and is_all(ddp.module.t1.p.grad, 0.25))
    end
  end
end)

local Three = nn.Module "Three"
function Three:init()
  self.fc1 = nn.Linear(2, 10, { bias = false })
  self.fc2 = nn.Linear(10, 4, { bias = false })
  self.fc3 = nn.Linear(4, 4, { bias = false })
end
function Three:forward(x, use_fc3)
  x = F.relu(self.fc2(F.relu(self.fc1(x))))
  return F.softmax(use_fc3 and self.fc3(x) or x, 1)
end

for _, world in ipairs { 1, 2 } do
  row("T241", world, function(rank, check)
    local x, y = seeded(3, rs.rand, 10 * world, 2), rs.randint(0, 4, { 10 * world })
    local ok, alike = true, true
    for unused = 1, 3 do
      for _, view in ipairs(BOTH) do
        local plain, ddp = seeded(1, Three),
          DDP(seeded(1, Three), { find_unused_parameters = true, gradient_as_bucket_view = view })
        local one, two = rs.optim.Adam(plain:parameters()), rs.optim.Adam(ddp:parameters())
        for i = 1, 3 do
          one:zero_grad()
          two:zero_grad()
          F.cross_entropy(plain(x, i ~= unused), y):backward()
          ok = pcall(function()
            F.cross_entropy(ddp(rows(x, 10 * rank, 10), i ~= unused), rows(y, 10 * rank, 10)):backward()
          end) and ok
          alike = alike and same_grads(plain, ddp)
          one:step()
          two:step()
        end
      end
    end
    check(("T241 Adam, a layer unused in one step of three, %d ranks: no error"):format(world), ok)
    check("D241 and the gradients of one process, nil where unused", alike)
  end)
end

-- ---- control flow ----

local Flow = nn.Module "Flow"
function Flow:init(rank)
  self.lin1 = nn.Linear(10, 10, { bias = false })
  self.lin2 = nn.Linear(10, 10, { bias = false })
  self.rank = rank
end
function Flow:forward(x)
  local second = rs.equal(x, rs.ones(20, 10)) and (self.rank == nil or self.rank == 1)
  x = F.relu(self.lin1(x))
  return second and self.lin2(x) or x
end

local function used_map(ddp) return table.concat(ddp.reducer:_get_local_used_map():tolist(), " ") end

for _, world in ipairs { 3, 2, 4 } do
  row("T243", world, function(rank, check)
    local random = seeded(50 + rank, rs.randn, 20, 10)
    for _, view in ipairs(BOTH) do
      for _, across in ipairs { "different", "same" } do
        local ddp = DDP(seeded(1, Flow, across == "different" and rank or nil), { find_unused_parameters = true,
          gradient_as_bucket_view = view })
        local maps, grads = true, true
        for i = 0, 5 do
          ddp:zero_grad()
          ddp(i % 2 == 0 and random or rs.ones(20, 10)):sum():backward()
          local second = ddp.module.lin2.weight.grad
          maps = maps and used_map(ddp) == ("%d %d"):format(world, i % 2 == 0 and 0 or across == "same" and world or 1)
          grads = (second ~= nil) == (i % 2 == 1) and (second == nil or same_on_all(second))
            and same_on_all(ddp.module.lin1.weight.grad) and grads
        end
        local id = across == "different" and "T243" or "D243"
        check(("%s lin2 used on odd iterations by %s of %d ranks: the map has its number"):format(id,
          across == "same" and "all" or "one", world), maps)
        check(("%s lin2 has a gradient where a rank used it, and the same on all"):format(id), grads)
      end
    end
  end)
end

row("T246", 2, function(_, check)
  local class = nn.Module "TwoNames"
  function class:init()
    self.net1 = nn.Linear(10, 5, { bias = false })
    self.bias = nn.Parameter(rs.zeros(5))
    self.net1.bias = self.bias
    self.net2 = nn.Linear(10, 5)
  end
  function class:forward(x) return self.net2(x):sum() end
  for _, static in ipairs(BOTH) do
    for _, view in ipairs(BOTH) do
      local ddp,
        ok = DDP(seeded(1, class),
          { find_unused_parameters = true, static_graph = static, gradient_as_bucket_view = view }), true
      for _ = 1, 6 do
        (ddp(rs.randn(20, 10)) / 10):backward()
        ok = ok and ddp.module.bias.grad == nil and ddp.module.net1.weight.grad == nil
          and same_on_all(ddp.module.net2.weight.grad)
      end
      check("T246 an unused bias of two names is marked once in each of six iterations" .. (static and ", static graph"
        or ""), ok)
    end
  end
end)

for _, world in ipairs { 2, 3 } do
  row("T248", world, function(rank, check)
    local random = seeded(50 + rank, rs.randn, 20, 10)
    for _, across in ipairs { "different", "same" } do
      at_each_level(function(level)
        local ddp = DDP(seeded(1, Flow, across == "different" and rank or nil), { find_unused_parameters = false })
        ddp(random):sum():backward()
        local message = raised("RuntimeError", function() ddp(random):sum():backward() end)
        check(("T248 flow %s across %d ranks: the second call names index 1, with both hints"):format(across, world),
          unfinished(message, rank, "1"))
        check("T248 the error is in the logging data", logged(ddp, "finished reduction in the prior iteration"))
        if level == "OFF" then
          check("T248 without debugging it says how to see names, and has none", has(message, "torch_distributed_debug")
            and not has(message, "lin2"))
        else
          check(("T248 at %s it names lin2.weight and not lin1's"):format(level), has(message, "lin2.weight")
            and not has(message, "lin1"))
        end
      end)
    end
  end)
end

row("D249", 2, function(rank, check)
  local class = nn.Module "Toy"
  function class:init()
    self.net1 = nn.Linear(10, 10, { bias = false })
    self.net2 = nn.Linear(10, 10, { bias = false })
  end
  function class:forward(x) return self.net1(x) end
  local ddp = DDP(seeded(1, class))
  ddp(rs.rand(1, 10)):sum():backward()
  local message = raised("RuntimeError", function() ddp(rs.rand(1, 10)):sum():backward() end)
  check("D249 the prior reduction is what fails, not the buckets that would be rebuilt", unfinished(message, rank, "1")
    and logged(ddp, "finished reduction"))
  check("D249 _check_reducer_finalized raises the same", has(raised("RuntimeError", ddp._check_reducer_finalized, ddp),
    "finished reduction in the prior iteration"))
  local finished = DDP(nn.Linear(2, 2))
  finished(rs.rand(1, 2)):sum():backward()
  check("D249 of a finished one it raises nothing", pcall(finished._check_reducer_finalized, finished))
end)

row("D250", 2, function(rank, check)
  local Inner = nn.Module "Inner"
  function Inner:init()
    self.embedding_net = nn.Sequential { nn.Linear(4, 2, { bias = false }), nn.Linear(2, 1) }
    self.lin = nn.ModuleDict { { "a", nn.Linear(10, 10, { bias = false }) },
      { "b", nn.Linear(10, 10, { bias = false }) } }
    self.bn = nn.BatchNorm1d(2)
    self.lin_layer = nn.Linear(2, 10, { bias = false })
  end
  function Inner:forward(x) return self.lin.a(self.lin_layer(self.bn(x))) end
  local Outer = nn.Module "Outer"
  function Outer:init() self.sub_module = Inner() end
  function Outer:forward(x) return self.sub_module(x) end
  for _, ignore in ipairs(BOTH) do
    at_each_level(function(level)
      local net = seeded(1, Outer)
      if ignore then DDP._set_params_and_buffers_to_ignore_for_model(net, { "sub_module.embedding_net.0.weight" }) end
      local wanted, unwanted, indices, index = {}, {}, {}, 0
      for name in net:named_parameters() do
        local ignored = ignore and name == "sub_module.embedding_net.0.weight"
        if not ignored and (name:find("embedding_net", 1, true) or name:find("lin.b.", 1, true)) then
          wanted[#wanted + 1], indices[#indices + 1] = name, index
        else
          unwanted[#unwanted + 1] = name
        end
        if not ignored then index = index + 1 end
      end
      local ddp = DDP(net)
      ddp(rs.ones(10, 2)):sum():backward()
      local message = raised("RuntimeError", function() ddp(rs.ones(10, 2)):sum():backward() end)
      local tail = message and message:match("did not receive grad.*") or ""
      local ok = has(message, "rank " .. rank)
      for _, i in ipairs(indices) do ok = ok and tail:find("%f[%d]" .. i .. "%f[%D]") ~= nil end
      if level ~= "OFF" then ok = has(tail, table.unpack(wanted)) and ok end
      for _, name in ipairs(unwanted) do ok = ok and not has(tail, name) end
      check(("D250 at %s every unused parameter of nested modules is told, and no other%s"):format(level,
        ignore and ": an ignored one is none" or ""), ok)
    end)
  end
end)

-- ---- used outside of forward ----

local Outside = nn.Module "Outside"
function Outside:init()
  self.fc1 = nn.Linear(2, 10, { bias = false })
  self.fc2 = nn.Linear(10, 4, { bias = false })
  self.fc3 = nn.Linear(4, 4, { bias = false })
end
function Outside:forward(x) return F.softmax(F.relu(self.fc2(F.relu(self.fc1(x)))), 1), self.fc3 end

row("T251", 2, function(rank, check)
  local x, y = seeded(4 + rank, rs.rand, 4, 2), rs.randint(0, 4, { 4 })
  for _, view in ipairs(BOTH) do
    local id, tail = view and "T253" or "T251", view and ", with views" or ""
    at_each_level(function(level)
      local function run(find)
        local ddp = DDP(seeded(1, Outside), { find_unused_parameters = find, gradient_as_bucket_view = view })
        local ok, message = pcall(function()
          local out, fc3 = ddp(x)
          F.cross_entropy(fc3(out), y):backward()
        end)
        return ok, message, ddp
      end
      local ok, message, ddp = run(true)
      local text = not ok and message.message:lower() or ""
      check(("%s a layer called outside of forward: found unused, then marked ready twice, index 2%s"):format(id, tail),
        not ok and message.kind == "RuntimeError" and has(text, "mark a variable ready only once", "marked ready twice")
        and text:find("index 2") ~= nil or has(text, "parameter 2"))
      check(("%s its name is told at %s, too"):format(id, level), has(text, "fc3.weight"))
      check(id .. " the error is in the logging data", logged(ddp, "ready only once"))
      local off, _, without = run(false)
      local default = run(nil)
      check(("%s without the search, or without a word of it, that is no fault%s"):format(id, tail), off and default
        and same_on_all(without.module.fc3.weight.grad))
    end)
  end
end)

row("T256", 2, function(rank, check)
  local checkpoint = rs.utils.checkpoint.checkpoint
  local class = nn.Module "Turns"
  function class:init(checkpointed, shared)
    self.l1 = nn.Linear(20, 20)
    self.l2 = nn.Linear(20, 20)
    self.count = 0
    self.checkpointed = checkpointed
    if shared then self.l2.weight = self.l1.weight end
  end
  function class:forward(x)
    local layer = self.count % 2 == 1 and self.l1 or self.l2
    self.count = self.count + 1
    return self.checkpointed and checkpoint(layer, x, { use_reentrant = false }) or layer(x)
  end
  local x = seeded(2, rs.randn, 4, 20)
  for _, shared in ipairs(BOTH) do
    for _, view in ipairs(BOTH) do
      for _, none in ipairs(BOTH) do
        local plain, ddp = seeded(1, class, false, shared),
          DDP(seeded(1, class, true, shared), { find_unused_parameters = true,
          gradient_as_bucket_view = view })
        local ok, unused = true, true
        for i = 1, 5 do
          plain:zero_grad { set_to_none = none }
          ddp:zero_grad { set_to_none = none }
          plain(x):pow(2):mean():backward()
          ddp(rows(x, 2 * rank, 2)):pow(2):mean():backward()
          ok = ok and same_grads(plain, ddp)
          if none or i == 1 then
            unused = unused and ddp.module[i % 2 == 1 and "l1" or "l2"].bias.grad == nil
          end
        end
        check((shared and "D256 layers that share a weight"
          or "T256 layers") .. " in turn, checkpointed: gradients of one process", ok)
        check((shared and "D256" or "T256") .. " and nil where a layer was not used", unused)
      end
    end
  end
end)

-- ---- outputs that nobody uses ----

row("D257", 2, function(_, check)
  local Pair = nn.Module "Pair"
  function Pair:init()
    self.a = nn.Linear(10, 10, { bias = false })
    self.b = nn.Linear(10, 10, { bias = false })
  end
  function Pair:forward(x, form)
    local a, b = self.a(x), self.b(x)
    if form == "dict" then return { predictions = rs.tuple { a, b } } end
    if form == "tuple" then return rs.tuple { a, b } end
    return a, b
  end
  local function outputs(net, x, form)
    local one, two = net(x, form)
    if form == "dict" then return one.predictions[1], one.predictions[2] end
    if form == "tuple" then return one[1], one[2] end
    return one, two
  end
  local x = seeded(3, rs.randn, 10, 10)
  for _, form in ipairs { "tuple", "dict", "results" } do
    for _, view in ipairs(BOTH) do
      local plain, ddp = seeded(1, Pair),
        DDP(seeded(1, Pair), { find_unused_parameters = true, gradient_as_bucket_view = view })
      local _, b = outputs(plain, x, form)
      local _, c = outputs(ddp, x, form)
      b:sum():backward()
      c:sum():backward()
      check(("D257 an output of a %s that the loss leaves out: its parameter's gradient stays nil"):format(form),
        ddp.module.a.weight.grad == nil and same_grads(plain, ddp))
      ddp:zero_grad()
      plain:zero_grad()
      local ok, kept, saved = true, true, nil
      for i = 0, 5 do
        local one, two = outputs(plain, x, form)
        local three, four = outputs(ddp, x, form)
        local first, second
        if i < 2 then
          first, second = one:matmul(two):sum(), three:matmul(four):sum()
        else
          first, second = two:sum(), four:sum()
        end
        first:backward()
        second:backward()
        if i == 1 then saved = ddp.module.a.weight.grad:clone() end
        if i >= 2 then kept = kept and near(saved, ddp.module.a.weight.grad) end
        ok = ok and same_grads(plain, ddp)
      end
      check(("D257 once used and then left out, it stays as it was (%s)"):format(form), ok and kept)
    end
  end
end)

row("D258", 2, function(_, check)
  local Undefined = rs.autograd.Function "Undefined"
  function Undefined.forward(_, t) return t:clone() end
  function Undefined.backward() return nil end
  local plain, ddp = seeded(1, Three), DDP(seeded(1, Three), { find_unused_parameters = true })
  local x = rs.ones(1, 2)
  Undefined.apply(plain(x, true):sum()):backward()
  Undefined.apply(ddp(x, true):sum()):backward()
  check("D258 gradients that never were defined are no fault, and no gradient", same_grads(plain, ddp)
    and ddp.module.fc1.weight.grad == nil)
end)

row("D259", 2, function(rank, check)
  local class = nn.Module "ByRank"
  function class:init()
    self.lin1 = nn.Linear(10, 10, { bias = false })
    self.lin2 = nn.Linear(10, 10, { bias = false })
  end
  function class:forward(x)
    x = F.relu(self.lin1(x))
    return rank == 0 and self.lin2(x) or x
  end
  local function trained(options)
    options.gradient_as_bucket_view = true
    local ddp, x = DDP(seeded(31415, class), options), seeded(31416, rs.randn, 20, 10)
    for _ = 1, 10 do ddp(x):sum():backward() end
    return ddp
  end
  local base, static = trained { find_unused_parameters = true }, trained { static_graph = true }
  check("D259 a graph that differs by rank: the search never rebuilds buckets, a static graph does",
    base:_get_ddp_logging_data().has_rebuilt_buckets == 0 and static:_get_ddp_logging_data().has_rebuilt_buckets == 1)
  check("D259 both give the same gradients", same_grads(base, static))
end)

