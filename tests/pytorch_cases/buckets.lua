-- What PyTorch's own tests ask of DDP's buckets and of sparse gradients. T: rows of the common list; D: further tests
-- of the same files, other caps, dtypes and worlds.
--
-- Left out, with the reason: one bucket given two dtypes by hand, a Reducer made by hand (there is none apart from
-- the wrapper); a frozen configuration object (the caps are fields of the wrapper); EmbeddingBag (Embedding tests the
-- same).
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local F, DDP = nn.functional, nn.parallel.DistributedDataParallel

rs.lesson { title = "PyTorch cases: buckets", seed = 1, prefix = "" }

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

local function refused(kind, words, f, ...)
  local ok, e = pcall(f, ...)
  if ok or type(e) ~= "table" or e.kind ~= kind then return false end
  for _, word in ipairs(words) do
    if not e.message:find(word, 1, true) then return false end
  end
  return true
end

local function near(a, b) return rs.allclose(a:detach(), b:detach(), { atol = 1e-5, rtol = 1e-5 }) end
local function dense(t) return t.is_sparse and t:to_dense() or t end
local function seeded(seed, make, ...)
  rs.manual_seed(seed)
  return make(...)
end
local function rows(t, from, count) return t[rs.slice(from, from + count)] end
local function same_grads(a, b)
  local list, ok = b:parameters(), true
  for i, p in ipairs(a:parameters()) do
    local grad = list[i].grad
    ok = ok and (p.grad == nil) == (grad == nil) and (grad == nil or near(dense(p.grad), dense(grad)))
  end
  return ok
end

-- {{0, 1}, {2}} as "0 1 | 2".
local function told(lists)
  local texts = {}
  for i, list in ipairs(lists) do texts[i] = table.concat(list, " ") end
  return table.concat(texts, " | ")
end

local BOTH = { false, true }
local MIB = 1024 * 1024

-- ---- the rule ----

local function f32(n) return rs.zeros(n) end
local function f64(n) return rs.zeros({ n }, { dtype = "float64" }) end
local function mixed(n) return { f32(2 * n), f64(n), f32(2 * n), f64(n), f32(2 * n), f64(n) } end
local function f32s(...)
  local out = {}
  for i, n in ipairs { ... } do out[i] = f32(n) end
  return out
end

local ASSIGNMENTS = {
  { "T220 tensors of 100, 200, 100, 50 and one limit of 400 bytes", f32s(100, 200, 100, 50), { 400 }, "0 | 1 | 2 | 3",
    "400 400 400 400" },
  { "T222 four of 10 and limits of 40 and 80", f32s(10, 10, 10, 10), { 40, 80 }, "0 | 1 2 | 3", "40 80 80" },
  { "D221 two dtypes and one limit", mixed(25), { 400 }, "0 2 | 1 3 | 4 | 5", "400 400 400 400" },
  { "D223 two dtypes and two limits: each has its own row of limits", mixed(25), { 200, 400 }, "0 | 1 | 2 4 | 3 5",
    "200 200 400 400" },
  { "D220 a bucket closes when it reaches the limit, so it may exceed it", f32s(60, 60, 60, 60, 60), { 400 },
    "0 1 | 2 3 | 4", "400 400 400" },
  { "D220 a limit of one byte: one each", f32s(1, 2, 3), { 1 }, "0 | 1 | 2", "1 1 1" },
  { "D220 a limit above all: one bucket", f32s(100, 200, 100, 50), { 1 << 40 }, "0 1 2 3", tostring(1 << 40) },
  { "D222 three limits, of which the last repeats", f32s(10, 10, 10, 10, 10, 10, 10), { 40, 80, 120 },
    "0 | 1 2 | 3 4 5 | 6", "40 80 120 120" },
  { "D222 a first limit that is larger than the second", f32s(10, 10, 10, 10), { 80, 40 }, "0 1 | 2 | 3", "80 40 40" },
  { "D222 what is too large for a limit closes its bucket at once", f32s(1000, 10, 10, 1000), { 40, 80 },
    "0 | 1 2 | 3", "40 80 80" },
  { "D222 half and whole numbers count their own bytes",
    { rs.zeros({ 10 }, { dtype = "float16" }), rs.zeros({ 10 }, { dtype = "float16" }),
      rs.zeros({ 5 }, { dtype = "int64" }) },
    { 40 }, "0 1 | 2", "40 40" },
}
for _, case in ipairs(ASSIGNMENTS) do
  local lists, limits = dist._compute_bucket_assignment_by_size(case[2], case[3])
  rs.check(case[1], told(lists) == case[4] and table.concat(limits, " ") == case[5])
end

local lists, limits = dist._compute_bucket_assignment_by_size(f32s(10, 10, 10, 10), { 80 },
  { false, true, false, false })
rs.check("D224 a tensor whose gradient is sparse has a bucket of its own, without a limit",
  told(lists) == "0 2 | 1 | 3" and table.concat(limits, " ") == "80 0 80")
lists = dist._compute_bucket_assignment_by_size(f32s(10, 10, 10, 10), { 80 }, nil, { 3, 1, 0, 2 })
rs.check("D224 given an order, buckets follow it", told(lists) == "3 1 | 0 2")
lists = dist._compute_bucket_assignment_by_size(f32s(10, 10, 10, 10), { 40, 80 }, nil, { 3, 2, 1, 0 })
rs.check("D224 the limits go by that order, too", told(lists) == "3 | 2 1 | 0")

row("T225", 2, function(_, check)
  local sparse = {}
  for i, t in ipairs(mixed(25)) do sparse[i] = t:to_sparse() end
  local ddp = DDP(nn.Linear(2, 2))
  check("D225 before an error there is none in the logging data", ddp:_get_ddp_logging_data().has_error == nil)
  check("T225 the assignment refuses sparse tensors, logger or not",
    refused("RuntimeError", { "sparse" }, dist._compute_bucket_assignment_by_size, sparse, { 400 })
    and refused("RuntimeError", { "sparse" }, dist._compute_bucket_assignment_by_size, sparse, { 400 }, nil, nil,
      ddp.logger))
  local data = ddp:_get_ddp_logging_data()
  check("T225 with a logger the logging data has the error", data.has_error == 1
    and data.error:find("sparse", 1, true) ~= nil
    and data.iteration == 0)
end)

-- ---- dtypes in one model ----

local Three = nn.Module "Three"
function Three:init(unused, dtype2)
  self.fc1 = nn.Linear(2, 10, { bias = false })
  self.fc2 = nn.Linear(10, 4, { bias = false })
  self.fc3 = nn.Linear(4, 4, { bias = false })
  self.unused = unused
  if dtype2 then self.fc2 = self.fc2:to(dtype2) end
end
function Three:forward(x)
  local function to(t, layer) return t:to(layer.weight.dtype) end
  x = F.relu(self.fc1(to(x, self.fc1))):to("float32")
  x = F.relu(self.fc2(to(x, self.fc2))):to("float32")
  return F.softmax(self.unused and x or self.fc3(x), 1)
end

for _, world in ipairs { 1, 2, 3 } do
  row("T227", world, function(rank, check)
    local x, y = seeded(2, rs.rand, 4 * world, 2):to("float64"), rs.randint(0, 4, { 4 * world })
    for _, dtype in ipairs { "float64", "float16" } do
      local ok, sizes = true, {}
      for _, view in ipairs(BOTH) do
        for _, find in ipairs(BOTH) do
          local plain, ddp = seeded(1, Three, false, dtype), DDP(seeded(1, Three, false, dtype),
            { gradient_as_bucket_view = view, find_unused_parameters = find, bucket_cap_mb = 1 })
          for _ = 1, 3 do
            F.cross_entropy(plain(x), y):backward()
            F.cross_entropy(ddp(rows(x, 4 * rank, 4)), rows(y, 4 * rank, 4)):backward()
            for i, p in ipairs(ddp:parameters()) do
              local want = plain:parameters()[i]
              ok = ok and p.grad.dtype == p.dtype and rs.allclose(p.grad, want.grad,
                p.dtype == "float16" and { atol = 2e-3, rtol = 2e-2 } or { atol = 1e-5, rtol = 1e-5 })
            end
            plain:zero_grad()
            ddp:zero_grad()
          end
          sizes[#sizes + 1] = ddp:_get_ddp_logging_data().bucket_sizes
        end
      end
      check(("T227 one bucket a dtype, %s and float32, %d ranks: fine"):format(dtype, world), ok)
      local bytes = dtype == "float64" and "320, 144" or "80, 144"
      local apart = true
      for _, size in ipairs(sizes) do
        apart = apart and (size == bytes or size == (bytes:gsub("(%d+), (%d+)", "%2, %1")))
      end
      check("D227 no bucket mixes dtypes", apart)
    end
  end)
end

row("D228", 2, function(_, check)
  local x, y = seeded(5, rs.rand, 10, 2), rs.randint(0, 4, { 10 })
  local plain, ddp = seeded(1, Three), DDP(seeded(1, Three))
  F.cross_entropy(plain(x), y):backward()
  F.cross_entropy(ddp(x), y):backward()
  check("D228 a forward and a backward: each parameter has the module's gradient", same_grads(plain, ddp))
  plain, ddp = seeded(1, Three, true), DDP(seeded(1, Three, true), { find_unused_parameters = true })
  F.cross_entropy(plain(x), y):backward()
  F.cross_entropy(ddp(x), y):backward()
  check("D228 the parameter that nobody used has none", same_grads(plain, ddp) and ddp.module.fc3.weight.grad == nil)
end)

-- ---- caps ----

row("T230", 1, function(_, check)
  local ddp = DDP(nn.Sequential { nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 10) })
  check("T230 without a word the caps are 26214400 bytes, first 1048576, and there is no list",
    ddp.bucket_bytes_cap == 26214400
    and dist._DEFAULT_FIRST_BUCKET_BYTES == 1048576 and #ddp.bucket_bytes_cap_list == 0
      and ddp.bucket_bytes_cap_default == true
    and ddp:_get_ddp_logging_data().bucket_cap_bytes == 26214400)
  for _, mb in ipairs { 1, 25, 50, 100, 1000, 1.5, 0.001 } do
    ddp = DDP(nn.Linear(2, 2), { bucket_cap_mb = mb })
    check("D230 a cap that is given is the cap of all, the first too", ddp.bucket_bytes_cap == math.floor(mb * MIB)
      and #ddp.bucket_bytes_cap_list == 0 and ddp.bucket_bytes_cap_default == false
      and ddp:_get_ddp_logging_data().bucket_cap_bytes == math.floor(mb * MIB))
  end
  ddp = DDP(nn.Linear(2, 2), { bucket_cap_mb_list = {} })
  check("D230 an empty list is none", ddp.bucket_bytes_cap == 26214400 and #ddp.bucket_bytes_cap_list == 0)
end)

row("T232", 1, function(_, check)
  local function holds(list, cap)
    local ddp = DDP(nn.Linear(2, 2), { bucket_cap_mb_list = list })
    local ok = #ddp.bucket_bytes_cap_list == #list and ddp.bucket_bytes_cap == cap * MIB
      and ddp:_get_ddp_logging_data().bucket_cap_bytes == cap * MIB
    for i, mb in ipairs(list) do ok = ok and ddp.bucket_bytes_cap_list[i] == math.floor(mb * MIB) end
    return ok
  end
  check("T232 a list of 10, 25 and 50 is kept in bytes, and the cap is the 50", holds({ 10, 25, 50 }, 50))
  check("D232 a list of one; of equal ones; ascending; descending; with parts of a MiB", holds({ 50 }, 50)
    and holds({ 25, 25, 25 }, 25)
    and holds({ 5, 10, 15, 20 }, 20) and holds({ 100, 50, 25, 10 }, 100) and holds({ 0.5, 1.5 }, 1.5))
  check("D232 a list beside a cap wins",
    DDP(nn.Linear(2, 2), { bucket_cap_mb = 7, bucket_cap_mb_list = { 3 } }).bucket_bytes_cap == 3 * MIB)
end)

local function four() return nn.Sequential { nn.Linear(512, 512), nn.Linear(512, 512), nn.Linear(512, 512),
  nn.Linear(512, 512) } end
local CAPS = {
  { "without a cap", {}, "4202496", "1050624, 3151872" },
  { "with 25", { bucket_cap_mb = 25 }, "4202496", "4202496" },
  { "with 2", { bucket_cap_mb = 2 }, "4202496", "2101248, 2101248" },
  { "with 2 and a search for unused ones", { bucket_cap_mb = 2, find_unused_parameters = true },
    "2048, 2101248, 2099200" },
  { "with a list of 1 and 3", { bucket_cap_mb_list = { 1, 3 } }, "2048, 3151872, 1048576", "1050624, 3151872" },
  { "with 2 and a static graph", { bucket_cap_mb = 2, static_graph = true }, "4202496", "2101248, 2101248" },
}
row("D234", 2, function(_, check)
  local x = rs.randn(3, 512)
  for _, case in ipairs(CAPS) do
    for _, view in ipairs(BOTH) do
      local options = { gradient_as_bucket_view = view }
      for key, value in pairs(case[2]) do options[key] = value end
      local ddp = DDP(four(), options)
      for _ = 1, 4 do ddp(x):sum():backward() end
      local data = ddp:_get_ddp_logging_data()
      check(("D234 four layers of 512 x 512 %s: %s, then %s"):format(case[1], case[3], case[4] or "the same"),
        data.bucket_sizes == case[3] and (data.rebuilt_bucket_sizes or "") == (case[4] or "")
        and (data.has_rebuilt_buckets == 1) == (case[4] ~= nil))
    end
  end
end)

row("T235", 2, function(_, check)
  local function chain() -- 2 - 400 - ... - 400
    local layers = { nn.Linear(2, 400, { bias = false }) }
    for i = 2, 11 do layers[i] = nn.Linear(400, 400, { bias = false }) end
    return nn.Sequential(layers)
  end
  local function hook(seen, bucket)
    seen[#seen + 1] = { bucket:is_last(), bucket:buffer():numel(), bucket:index() }
    local future = rs.futures.Future()
    future:set_result(bucket:buffer())
    return future
  end
  local function iteration(ddp, seen)
    for i = #seen, 1, -1 do seen[i] = nil end
    ddp(rs.randn(10, 2)):sum():backward()
    local sizes, last = {}, seen[#seen][1]
    for i, call in ipairs(seen) do
      sizes[i] = call[2]
      last = last and call[1] == (i == #seen) and call[3] == i - 1
    end
    return table.concat(sizes, " "), last
  end
  for _, view in ipairs(BOTH) do
    local ddp, seen = DDP(chain(), { bucket_cap_mb = 1, gradient_as_bucket_view = view }), {}
    ddp:register_comm_hook(seen, hook)
    local sizes, last = iteration(ddp, seen)
    check("T235 the first iteration has one bucket, which is the last", sizes == "1600800" and last)
    sizes, last = iteration(ddp, seen)
    check("T235 the second has five of 320000 and one of 800, of which only the final one is last",
      sizes == "320000 320000 320000 320000 320000 800" and last)
    check("D235 so has the third", iteration(ddp, seen) == sizes)
  end
end)

row("D236", 2, function(_, check)
  local class = nn.Module "Large"
  function class:init()
    self.fc1 = nn.Linear(100, 5000, { bias = false })
    self.fc2 = nn.Linear(100, 100, { bias = false })
  end
  function class:forward(x) return self.fc1(x) end
  local x = seeded(4, rs.randn, 20, 100)
  local function trained(kind, skip)
    local ddp = DDP(seeded(3, class), { [kind] = true, bucket_cap_mb = 1.5, skip_all_reduce_unused_params = skip })
    for _ = 1, 10 do ddp(x):sum():backward() end
    return ddp, ddp:_get_ddp_logging_data().num_buckets_reduced
  end
  for _, kind in ipairs { "find_unused_parameters", "static_graph" } do
    local base, two = trained(kind, false)
    local skipping, one = trained(kind, true)
    check("D236 a bucket that nobody used need not be reduced: two buckets are, or one, with " .. kind, two == 2
      and one == 1)
    check("D236 the gradients are the same", same_grads(base, skipping))
  end
end)

-- ---- sparse gradients ----

local Sparse = nn.Module "Sparse"
function Sparse:init() self.embedding = nn.Embedding(10, 10, { sparse = true }) end
function Sparse:forward(ids) return F.softmax(self.embedding(ids):mean(1), 1) end

for _, world in ipairs { 2, 3 } do
  row("D237", world, function(rank, check)
    local ids = seeded(8, rs.randint, 0, 10, { 2 * world, 3 })
    for _, view in ipairs(BOTH) do
      local plain, ddp = seeded(7, Sparse), DDP(seeded(7, Sparse), { gradient_as_bucket_view = view })
      local alike, kept = true, true
      for _ = 1, 3 do
        plain(ids):pow(2):mean():backward()
        ddp(rows(ids, 2 * rank, 2)):pow(2):mean():backward()
        alike = alike and same_grads(plain, ddp)
        kept = kept and ddp.module.embedding.weight.grad.is_sparse
        plain:zero_grad()
        ddp:zero_grad()
      end
      check(("D237 sparse gradients of %d ranks stay sparse and are those of one process"):format(world), alike
        and kept)
    end
  end)
end

row("D238", 2, function(rank, check)
  local class = nn.Module "Both"
  function class:init()
    self.embedding = nn.Embedding(10, 4, { sparse = true })
    self.lin = nn.Linear(4, 2)
  end
  function class:forward(ids) return self.lin(self.embedding(ids):mean(1)) end
  local ids = seeded(8, rs.randint, 0, 10, { 4, 3 })
  for _, options in ipairs { {}, { find_unused_parameters = true }, { static_graph = true },
    { bucket_cap_mb = 0.00001 } } do
    local plain, ddp, ok = seeded(7, class), DDP(seeded(7, class), options), true
    for _ = 1, 4 do
      plain(ids):pow(2):mean():backward()
      ddp(rows(ids, 2 * rank, 2)):pow(2):mean():backward()
      ok = ok and same_grads(plain, ddp)
      plain:zero_grad()
      ddp:zero_grad()
    end
    check("D238 a sparse layer beside a dense one has a bucket of its own, and both are reduced", ok)
  end
end)
