-- What PyTorch's own tests ask of what DistributedDataParallel hands through: outputs of any form, hooks of modules,
-- checkpointed layers. T: rows of the common list; D: further tests of the same files, other options. Gradients are
-- those of one process.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local F, DDP = nn.functional, nn.parallel.DistributedDataParallel

rs.lesson { title = "PyTorch cases: DistributedDataParallel's outputs", seed = 1, prefix = "" }

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

local function near(a, b, tolerance)
  return rs.allclose(a:detach():to("cpu"), b:detach():to("cpu"), { atol = tolerance or 1e-5, rtol = 1e-5 })
end

-- An error of this kind whose words have all of these in them.
local function refused(kind, words, f, ...)
  local ok, e = pcall(f, ...)
  if ok or type(e) ~= "table" or e.kind ~= kind then return false end
  for _, word in ipairs(words) do
    if not e.message:find(word, 1, true) then return false end
  end
  return true
end

-- Every table with one value of each list: crossed({ "a", { 1, 2 } }, { "b", { 3 } }) is { { a = 1, b = 3 }, { a = 2,
-- b = 3 } }.
local function crossed(...)
  local out = { {} }
  for _, choice in ipairs { ... } do
    local more = {}
    for _, options in ipairs(out) do
      for _, value in ipairs(choice[2]) do
        local copy = { [choice[1]] = value }
        for key, given in pairs(options) do copy[key] = given end
        more[#more + 1] = copy
      end
    end
    out = more
  end
  return out
end
local BOTH = { false, true }
local VIEW, STATIC, FIND = { "gradient_as_bucket_view", BOTH }, { "static_graph", BOTH },
  { "find_unused_parameters", BOTH }

-- A module made twice with one seed is made twice alike.
local function seeded(seed, make, ...)
  rs.manual_seed(seed)
  return make(...)
end

local function same_grads(a, b, tolerance)
  local list, ok = b:parameters(), true
  for i, p in ipairs(a:parameters()) do
    local grad = list[i].grad
    ok = ok and (p.grad == nil) == (grad == nil) and (grad == nil or near(p.grad, grad, tolerance))
  end
  return ok
end

local function same_parameters(a, b, tolerance)
  local list, ok = b:parameters(), true
  for i, p in ipairs(a:parameters()) do ok = ok and near(p, list[i], tolerance) end
  return ok
end

local function same_on_all(t)
  local list = dist.all_gather({}, t:detach():to("cpu"):contiguous())
  for i = 2, #list do
    if not rs.equal(list[1], list[i]) then return false end
  end
  return true
end

local function grads_agree(model)
  local ok = true
  for _, p in ipairs(model:parameters()) do
    if p.requires_grad then ok = p.grad and same_on_all(p.grad) and ok end
  end
  return ok
end

-- p + grad, then the gradients go: to nil, or to zeros.
local function step(model, zeros)
  rs.no_grad(function()
    for _, p in ipairs(model:parameters()) do
      if p.grad then p:add_(p.grad) end
    end
  end)
  model:zero_grad { set_to_none = not zeros }
end

local function rows(t, from, count) return t[rs.slice(from, from + count)] end

-- ---- outputs of any form ----

local Forms = nn.Module "Forms"
function Forms:init()
  self.fc1 = nn.Linear(2, 10, { bias = false })
  self.fc2 = nn.Linear(10, 4, { bias = false })
end
function Forms:forward(x, form) return form(F.softmax(F.relu(self.fc2(F.relu(self.fc1(x)))), 1), self) end

local FORMS = {
  { "a tensor", function(t) return t end, function(o) return o end },
  { "a tuple of two", function(t, m) return rs.tuple { t, m.fc1.weight:sum() } end, function(o) return o[1] end },
  { "several results", function(t) return t, t * 2 end, function(o) return o end },
  { "a tuple in a tuple", function(t) return rs.tuple { rs.tuple { t, 1 }, "x" } end, function(o) return o[1][1] end },
  { "a list", function(t) return { t, { t + 1 } } end, function(o) return o[1] end },
  { "a map in a map", function(t) return { result = { deep = t }, name = "x" } end,
    function(o) return o.result.deep end },
  { "a map of lists", function(t) return { a = { t, t * 3 }, b = 4 } end, function(o) return o.a[1] end },
}

row("D203", 2, function(rank, check)
  local x, y = seeded(4, rs.randn, 4, 2), rs.tensor({ 0, 1, 2, 3 }, { dtype = "int64" })
  for _, form in ipairs(FORMS) do
    local ok = true
    for _, options in ipairs(crossed(VIEW, FIND)) do
      local plain, ddp = seeded(8, Forms), DDP(seeded(8, Forms), options)
      for _ = 1, 3 do
        F.cross_entropy(form[3](plain(x, form[2])), y):backward()
        F.cross_entropy(form[3](ddp(rows(x, rank * 2, 2), form[2])), rows(y, rank * 2, 2)):backward()
        ok = ok and same_grads(plain, ddp)
        step(plain)
        step(ddp)
      end
    end
    check(("D203 forward may return %s"):format(form[1]), ok)
  end
end)

row("D206", 2, function(rank, check)
  local class = nn.Module "Nested"
  function class:init() self.lin = nn.Linear(100, 1, { bias = false }) end
  function class:forward(x, kind)
    local l = self.lin
    if kind == "tuple" then return rs.tuple { l(x), rs.tuple { l(x), l(x) } } end
    if kind == "list" then return { l(x), { l(x), l(x) } } end
    return { a = l(x), b = { c = l(x) } }
  end
  local function loss(out)
    if type(out) ~= "table" then return out:sum() end
    local sum
    for _, key in ipairs { 1, 2, "a", "b", "c" } do
      if out[key] ~= nil then sum = sum and sum + loss(out[key]) or loss(out[key]) end
    end
    return sum
  end
  local ddp, static = DDP(seeded(3, class)), DDP(seeded(3, class), { static_graph = true })
  local x = seeded(10 + rank, rs.randn, 10, 100)
  local ok, kinds = true, true
  for _, kind in ipairs { "list", "list", "list", "list", "list", "list" } do
    loss(ddp(x, kind)):backward()
    step(ddp)
    local out = static(x, kind)
    kinds = kinds and type(out) == "table"
    loss(out):backward()
    step(static)
    ok = ok and same_parameters(ddp, static)
  end
  check("D206 lists in lists come through a static graph as they are", ok and kinds)
  for _, kind in ipairs { "tuple", "dict" } do
    ddp, static = DDP(seeded(3, class)), DDP(seeded(3, class), { static_graph = true })
    for _ = 1, 6 do
      loss(ddp(x, kind)):backward()
      step(ddp)
      loss(static(x, kind)):backward()
      step(static)
      ok = ok and same_parameters(ddp, static)
    end
    check(("D206 so does a %s"):format(kind), ok)
  end
end)

row("D208", 2, function(rank, check)
  local class = nn.Module "Detached"
  function class:init()
    self.fc1 = nn.Linear(10, 10, { bias = false })
    self.fc2 = nn.Linear(10, 10, { bias = false })
  end
  function class:forward(x)
    x = self.fc2(F.relu(self.fc1(x)))
    return x:detach(), x:clone()
  end
  local ok, x = true, seeded(rank, rs.randn, 1, 10)
  for _, options in ipairs(crossed(FIND, STATIC, VIEW)) do
    local ddp = DDP(seeded(2, class), options)
    for _ = 1, 6 do
      local a, b = ddp(x)
      local sum = (a + b):sum()
      ok = ok and not a.requires_grad and b.requires_grad
      sum:backward()
    end
    ok = grads_agree(ddp) and ok
  end
  check("D208 an output without a graph stays without, and the others train", ok)
end)

row("T212", 2, function(rank, check)
  local class = nn.Module "Fresh"
  function class:init()
    self.fc1 = nn.Linear(10, 10, { bias = false })
    self.fc2 = nn.Linear(10, 10, { bias = false })
  end
  function class:forward(x, one, two, nested)
    x = self.fc2(F.relu(self.fc1(x)))
    return x, one or rs.randn(1, 10), two or rs.randn(1, 10), { tensor = nested and nested.tensor or rs.randn(1, 10) }
  end
  for _, static in ipairs(BOTH) do
    local ok, agree = true, true
    for _, options in ipairs(crossed(FIND, VIEW)) do
      options.static_graph, options.broadcast_buffers = static, false
      local ddp = DDP(seeded(2, class), options)
      local one, two, nested
      for i = 1, 2 do
        ddp:zero_grad()
        local out
        out, one, two, nested = ddp(seeded(10 * i + rank, rs.randn, 1, 10), one, two, nested)
        ok = ok and one.grad_fn == nil and two.grad_fn == nil and nested.tensor.grad_fn == nil
        out:mean():backward()
      end
      agree = grads_agree(ddp) and agree
    end
    check((static and "T212 with a static graph" or "D212 without one") .. ", outputs made in forward have no grad_fn",
      ok)
    check((static and "T212" or "D212") .. " and the parameters are reduced", agree)
  end
end)

row("D222", 2, function(rank, check)
  local batch = rs.namedtuple("Batch", { "a", "b" })
  local class = nn.Module "Named"
  function class:init() self.lin = nn.Linear(10, 1) end
  function class:forward(input, kw)
    self.saw = { getmetatable(input) == getmetatable(batch(input.a, input.b)), kw and kw.scale }
    return self.lin(input.a + input.b) * (kw and kw.scale or 1)
  end
  local ddp, plain = DDP(seeded(1, class)), seeded(1, class)
  local a, b = seeded(2, rs.rand, 3, 10), rs.rand(3, 10)
  check("D222 named tuples and keywords reach forward as they are", near(ddp(batch(a, b), rs.kw { scale = 3 }),
    plain.lin(a + b) * 3) and ddp.module.saw[1] and ddp.module.saw[2] == 3)
end)

-- ---- what lies around the module ----

row("T209", 2, function(rank, check)
  local function hooked()
    local net = seeded(0, nn.Linear, 2, 2)
    net:register_forward_pre_hook(function(_, args) return { F.relu(args[1]) } end)
    net:register_forward_hook(function(_, _, out) return F.gelu(out) end)
    net:register_full_backward_hook(function(_, grads) return { F.elu(grads[1]) } end) -- celu with alpha 1
    return net
  end
  local plain, inner = hooked(), hooked()
  local ddp = DDP(inner)
  local x = seeded(5, rs.rand, 5, 2)
  local one, two = (x - 0.5):requires_grad_(), (x - 0.5):requires_grad_()
  local a, b = plain(one), ddp(two)
  a:sum():backward()
  b:sum():backward()
  check("T209 hooks before, after and in backward work as on the plain module", near(a, b) and same_grads(plain, ddp)
    and near(one.grad, two.grad))
  local seen = {}
  ddp:register_forward_pre_hook(function() seen[#seen + 1] = "before" end)
  ddp:register_forward_hook(function(_, _, out)
    seen[#seen + 1] = "after"
    return out * 2
  end)
  check("D209 the wrapper has hooks of its own", near(ddp(x), plain(x) * 2)
    and table.concat(seen, " ") == "before after")
end)

-- ---- checkpointed layers ----

-- Two layers, of which the second runs under a checkpoint: once, or twice; or, with kind nil, without one.
local Layers = nn.Module "Layers"
function Layers:init(times, shared, kind)
  self.l1 = nn.Linear(20, 20)
  self.l2 = nn.Linear(20, 20)
  self.times = times
  self.kind = kind
  if shared then self.l1.weight = self.l2.weight end
end
function Layers:forward(x)
  x = self.l1(x)
  for _ = 1, self.times do
    if self.kind == nil then
      x = self.l2(x)
    else
      x = rs.utils.checkpoint.checkpoint(self.l2, x, { use_reentrant = self.kind == "reentrant" })
    end
  end
  return x
end

-- Whether five iterations give one process's gradients; or what they raise.
local function iterations(rank, case, options, whole)
  local plain = seeded(6, Layers, case.times, case.shared)
  local ddp = DDP(seeded(6, Layers, case.times, case.shared, not whole and case.kind or nil), options)
  local x, ok = seeded(2, rs.randn, 4, 20), true
  for _ = 1, 5 do
    plain(x):pow(2):mean():backward()
    local mine, out = rows(x, 2 * rank, 2):clone():requires_grad_(), nil
    if whole then
      out = rs.utils.checkpoint.checkpoint(ddp, mine, { use_reentrant = case.kind == "reentrant" })
    else
      out = ddp(mine)
    end
    out:pow(2):mean():backward()
    ok = ok and same_grads(plain, ddp)
    plain:zero_grad()
    ddp:zero_grad()
  end
  return ok
end

local CHECKPOINTS = {
  { id = "T214", name = "once", times = 1 }, { id = "D214", name = "twice", times = 2 },
  { id = "D215", name = "twice, with a weight that two layers share", times = 2, shared = true },
}
for _, case in ipairs(CHECKPOINTS) do
  row(case.id, 2, function(rank, check)
    for _, kind in ipairs { "reentrant", "other" } do
      case.kind = kind
      for _, options in ipairs(crossed(FIND, STATIC, VIEW)) do
        local name = ("a layer checkpointed %s, %s kind%s%s%s"):format(case.name, kind,
          options.find_unused_parameters and ", search" or "", options.static_graph and ", static graph" or "",
          options.gradient_as_bucket_view and ", views" or "")
        if kind == "reentrant" and not options.static_graph and (options.find_unused_parameters or case.times == 2) then
          check(("%s %s: a parameter is ready twice"):format(case.id, name),
            refused("RuntimeError", { "ready only once" }, iterations, rank, case, options))
        else
          check(("%s %s: gradients of one process"):format(case.id, name), iterations(rank, case, options))
        end
      end
    end
  end)
end

row("D216", 2, function(rank, check)
  for _, kind in ipairs { "reentrant", "other" } do
    for _, options in ipairs(crossed(STATIC, VIEW)) do
      check(("D216 the whole wrapper under a checkpoint, %s kind%s%s"):format(kind,
        options.static_graph and ", static graph" or "", options.gradient_as_bucket_view and ", views" or ""),
        iterations(rank, { times = 1, shared = true, kind = kind }, options, true))
    end
  end
end)
