-- What PyTorch's own tests ask of DDP with a static graph. T: rows of the common list; D: further tests of the same
-- files, other worlds and options.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local F, DDP = nn.functional, nn.parallel.DistributedDataParallel

rs.lesson { title = "PyTorch cases: static graph", seed = 1, prefix = "" }

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
local function logged(ddp, word)
  local data = ddp:_get_ddp_logging_data()
  return data.has_error == 1 and data.error:lower():find(word, 1, true) ~= nil and data.iteration ~= nil
end

local BOTH = { false, true }

-- ---- when it may be said ----

local function iteration(ddp) ddp(rs.randn(2, 2)):sum():backward() end

for _, world in ipairs { 2, 3 } do
  row("T258", world, function(_, check)
    local ddp = DDP(seeded(1, nn.Linear, 2, 2))
    iteration(ddp)
    local message = raised("RuntimeError", ddp._set_static_graph, ddp)
    check("T258 after the first iteration it is too late, and the logging data say so", has(message, "before training")
      and logged(ddp, "before training"))
  end)
end

row("D258", 2, function(_, check)
  local function answer(f)
    local ddp = DDP(seeded(1, nn.Linear, 2, 2))
    f(ddp)
    return raised("RuntimeError", ddp._set_static_graph, ddp), ddp
  end
  check("D258 a forward with gradients is enough to be too late", answer(function(ddp) ddp(rs.randn(2, 2)) end) ~= nil)
  local none = answer(function(ddp)
    rs.no_grad(function() ddp(rs.randn(2, 2)) end)
  end)
  local unsynced = answer(function(ddp)
    ddp:no_sync(function() iteration(ddp) end)
  end)
  check("D258 one under no_grad or no_sync is not", none == nil and unsynced == nil)
  local message, ddp = answer(function() end)
  check("D258 before the first iteration it is in time", message == nil
    and ddp:_get_ddp_logging_data().static_graph == 1)
  local again = raised("RuntimeError", ddp._set_static_graph, ddp)
  for _ = 1, 3 do iteration(ddp) end
  check("D258 to say it again is no fault, early or late", again == nil
    and raised("RuntimeError", ddp._set_static_graph, ddp) == nil)
  local built = DDP(nn.Linear(2, 2), { static_graph = true })
  iteration(built)
  check("D258 nor where it was said at construction", raised("RuntimeError", built._set_static_graph, built) == nil
    and not logged(built, "before training"))
end)

-- ---- graphs that change ----

local Flow = nn.Module "Flow"
function Flow:init()
  self.lin1 = nn.Linear(10, 10, { bias = false })
  self.lin2 = nn.Linear(10, 10, { bias = false })
end
function Flow:forward(x, second)
  x = F.relu(self.lin1(x))
  return second and self.lin2(x) or x
end
local function flow(ddp, second) ddp(rs.randn(20, 10), second):sum():backward() end

for _, world in ipairs { 2, 3 } do
  row("T260", world, function(rank, check)
    for _, view in ipairs(BOTH) do
      for _, find in ipairs(BOTH) do
        for iterations = 1, 3 do
          local ddp = DDP(seeded(1, Flow),
            { static_graph = true, gradient_as_bucket_view = view, find_unused_parameters = find })
          for _ = 1, iterations do flow(ddp, true) end
          local quiet = raised("RuntimeError", flow, ddp, false) == nil
          local message = raised("RuntimeError", flow, ddp, true)
          check(("T260 used %d times, then unused: the forward after that raises, with index 1"):format(iterations),
            quiet
            and has(message, "finished reduction in the prior iteration", "training graph has changed", "static",
              ("did not receive grad for rank %d: 1"):format(rank)))
          check("T260 the error is in the logging data", logged(ddp, "finished reduction in the prior iteration"))
        end
        local ddp = DDP(seeded(1, Flow),
          { static_graph = true, gradient_as_bucket_view = view, find_unused_parameters = find })
        flow(ddp, false)
        local message = raised("RuntimeError", flow, ddp, true)
        check("D259 unused, then used: its backward raises", has(message, "training graph has changed", "static")
          and logged(ddp, "training graph has changed"))
        check("D259 and what follows is an unfinished reduction", has(raised("RuntimeError", flow, ddp, true),
          "finished reduction in the prior iteration"))
      end
    end
  end)
end

row("T263", 2, function(_, check)
  local class = nn.Module "Toy"
  function class:init()
    self.net1 = nn.Linear(10, 10, { bias = false })
    self.net2 = nn.Linear(10, 10)
  end
  function class:forward(x, both) return self.net2(both and self.net1(x) or x) end
  local function answers(options, sequence)
    local ddp, out = DDP(seeded(1, class), options), {}
    for i = 1, #sequence do
      ddp(rs.randn(1, 10), sequence:sub(i, i) == "b"):sum():backward()
      out[i] = ddp.reducer:_ddp_graph_static() and "y" or "n"
    end
    return table.concat(out)
  end
  for _, view in ipairs(BOTH) do
    local function options(find) return { find_unused_parameters = find, gradient_as_bucket_view = view } end
    check("T263 unused ones that never change are a static graph, with and without the search",
      answers(options(true), "nnnnnn") == "yyyyyy" and answers(options(false), "bbbbbb") == "yyyyyy"
      and answers(options(true), "bbbbbb") == "yyyyyy")
    check("T263 alternating ones are none", answers(options(true), "bnbnbn"):sub(-1) == "n")
    check("D263 one change is enough, and it stays so", answers(options(true), "nnnbnn") == "yyynnn"
      and answers(options(true), "nbnbnb") == "ynnnnn")
  end
  check("D263 a graph that was said to be static is", answers({ static_graph = true }, "nnnn") == "yyyy")
end)

for _, world in ipairs { 2, 3 } do
  row("T265", world, function(_, check)
    local class = nn.Module "TwoNames"
    function class:init()
      self.net1 = nn.Linear(10, 5, { bias = false })
      self.bias = nn.Parameter(rs.zeros(5))
      self.net1.bias = self.bias
      self.net2 = nn.Linear(10, 5)
    end
    function class:forward(x) return self.net2(x):sum() end
    for _, find in ipairs(BOTH) do
      for _, view in ipairs(BOTH) do
        local plain, ok = seeded(1, class), true
        local ddp = DDP(seeded(1, class),
          { static_graph = true, find_unused_parameters = find, gradient_as_bucket_view = view })
        local x = seeded(2, rs.randn, 20, 10)
        for _ = 1, 6 do
          (plain(x) / 10):backward();
          (ddp(x) / 10):backward()
          ok = ok and same_grads(plain, ddp) and ddp.module.bias.grad == nil and ddp.module.net1.weight.grad == nil
        end
        check(("T265 an unused parameter of two names: six iterations, its gradient stays nil%s"):format(find
          and ", with the search, too" or ""), ok)
      end
    end
  end)
end

-- ---- what a static graph allows ----

for _, world in ipairs { 2, 3 } do
  row("D266", world, function(rank, check)
    local class = nn.Module "Net"
    function class:init()
      self.lin = nn.Linear(10, 10)
      self.relu = nn.ReLU()
    end
    function class:forward(x) return self.relu(self.lin(x)) end
    for _, view in ipairs(BOTH) do
      local plain = seeded(42, class)
      local ddp = DDP(seeded(42 + rank, class), { static_graph = true, gradient_as_bucket_view = view })
      local ok = true
      for _ = 1, 4 do
        plain:zero_grad()
        ddp:zero_grad()
        local one, two = rs.ones(2, 10), rs.full({ 2, 10 }, rank + 1.0)
        local a, b = ddp(one), ddp(two);
        (a:sum() + b:sum()):backward()
        for other = 1, world do
          local loss = (plain(one):sum() + plain(rs.full({ 2, 10 }, other + 0.0)):sum()) / world
          loss:backward()
        end
        ok = ok and same_grads(plain, ddp)
      end
      check("D266 two forwards and one backward: gradients of one process", ok)
    end
  end)
end

row("D267", 2, function(rank, check)
  local x = seeded(3, rs.randn, 4, 512)
  local function four() return nn.Sequential { nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 512), nn.ReLU(),
    nn.Linear(512, 64) } end
  for _, view in ipairs(BOTH) do
    local plain, ddp = seeded(1, four),
      DDP(seeded(1, four), { static_graph = true, bucket_cap_mb = 0.1, gradient_as_bucket_view = view })
    local rebuilt, alike, launched = {}, true, {}
    for i = 1, 5 do
      local before = rs.trace:count { kind = "ddp.all_reduce_bucket", rank = rank }
      plain(x):pow(2):mean():backward()
      ddp(rows(x, 2 * rank, 2)):pow(2):mean():backward()
      alike = alike and same_grads(plain, ddp)
      launched[i] = rs.trace:count { kind = "ddp.all_reduce_bucket", rank = rank } - before
      rebuilt[i] = ddp:_get_ddp_logging_data().has_rebuilt_buckets or 0
      plain:zero_grad()
      ddp:zero_grad()
    end
    check("D267 it rebuilds its buckets in the third forward, one later than without",
      table.concat(launched, " ") == "1 1 3 3 3"
      and rebuilt[5] == 1)
    check("D267 with the gradients of one process throughout", alike)
  end
end)

row("D268", 2, function(rank, check)
  for _, view in ipairs(BOTH) do
    local ddp = DDP(nn.Linear(1, 1, { bias = false }), { static_graph = true, gradient_as_bucket_view = view })
    local grads = {}
    for i, sync in ipairs { true, false, true, false, false, true } do
      local function go() ddp(rs.full({ 1, 1 }, rank + 1.0)):sum():backward() end
      if sync then go() else ddp:no_sync(go) end
      grads[i] = ("%g"):format(ddp.module.weight.grad:item())
    end
    check("D268 after a first iteration that was reduced, no_sync accumulates", table.concat(grads, " ")
      == (rank == 0 and "1.5 2.5 4.5 5.5 6.5 9" or "1.5 3.5 4.5 6.5 8.5 9"))
  end
end)

row("D269", 3, function(rank, check)
  local class = nn.Module "Shared"
  function class:init()
    self.a = nn.Linear(4, 4)
    self.b = nn.Linear(4, 4)
    self.unused = nn.Linear(4, 4)
    self.b.weight = self.a.weight
  end
  function class:forward(x) return self.b(F.relu(self.a(x))) end
  for _, view in ipairs(BOTH) do
    local plain, ddp = seeded(2, class), DDP(seeded(2, class), { static_graph = true, gradient_as_bucket_view = view })
    local x, ok = seeded(3, rs.randn, 6, 4), true
    for _ = 1, 5 do
      plain(x):pow(2):mean():backward()
      ddp(rows(x, 2 * rank, 2)):pow(2):mean():backward()
      ok = ok and same_grads(plain, ddp) and same_on_all(ddp.module.a.weight.grad)
      plain:zero_grad()
      ddp:zero_grad()
    end
    check("D269 a shared weight and a layer that is never used need no search", ok
      and ddp.module.unused.weight.grad == nil)
  end
end)
