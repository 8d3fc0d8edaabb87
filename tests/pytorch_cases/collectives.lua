-- What PyTorch's own tests ask of collectives.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "PyTorch cases: collectives", seed = 1, prefix = "" }

-- n * n * n elements, all v.
local function cube(n, v, dtype) return rs.full({ n, n, n }, v, { dtype = dtype or "float32" }) end

local SUMS = { SUM = 22, PRODUCT = 200, MIN = 2, MAX = 10 }

-- Each rank in turn is root and holds 2, the others hold 10.
local function turns(group, members, f)
  local ok = true
  for _, root in ipairs(members) do
    for op in pairs(SUMS) do ok = f(root, op) and ok end
  end
  return ok
end

-- 2 and 10s, over as many ranks.
local function expected(op, count)
  if op == "SUM" then return 2 + 10 * (count - 1) end
  if op == "PRODUCT" then return 2.0 * 10 ^ (count - 1) end
  return op == "MIN" and 2 or 10
end

local function reduces(rank, group, members)
  return turns(group, members, function(root, op)
    local t = cube(root + 1, rank == root and 2.0 or 10.0)
    dist.all_reduce(t, dist.ReduceOp[op], group)
    return rs.equal(t, cube(root + 1, expected(op, #members)))
  end)
end

-- ---- all_reduce ----

dist.spawn(function(rank)
  local ok = true
  for root = 0, 2 do
    local t = cube(root + 1, rank == root and 2.0 or 10.0)
    dist.all_reduce(t)
    ok = ok and rs.equal(t, cube(root + 1, 22.0))
  end
  rs.check("T080 all_reduce: the sum of 2, 10 and 10 is 22", ok)
  ok = true
  for root = 0, 2 do
    local t = cube(root + 1, rank == root and 2.0 or 10.0)
    dist.all_reduce(t, dist.ReduceOp.PRODUCT)
    ok = ok and rs.equal(t, cube(root + 1, 200.0))
  end
  rs.check("T082 all_reduce: the product of 2, 10 and 10 is 200", ok)
end, { world = 3 })

dist.spawn(function(rank)
  local group = dist.new_group { 1, 2 }
  if rank == 0 then
    local t = cube(1, 7.0)
    dist.all_reduce(t, { group = group })
    rs.check("T085 a rank outside of the group takes no part", t:item() == 7)
    return
  end
  local ok = true
  for root = 1, 2 do
    for op, sum in pairs { SUM = 12.0, PRODUCT = 20.0 } do
      local t = cube(root + 1, rank == root and 2.0 or 10.0)
      dist.all_reduce(t, dist.ReduceOp[op], group)
      ok = ok and rs.equal(t, cube(root + 1, sum))
    end
  end
  rs.check("T085 all_reduce in a group of two: 12 and 20", ok)
end, { world = 3 })

dist.spawn(function(rank)
  local group = dist.new_group()
  rs.check("T087 a group of all ranks is as the default group: 22, 200, 2, 10", reduces(rank, group, { 0, 1, 2 }))
  local t = cube(1, rank == 0 and 1.0 or 10.0)
  dist.all_reduce(t, dist.ReduceOp.MIN, group)
  rs.check("T087 the minimum of 1 and 10s is 1", t:item() == 1)
end, { world = 3 })

-- ---- with a root ----

dist.spawn(function(rank)
  local group = dist.new_group { 1, 2 }
  if rank == 0 then return end
  local ok = true
  for root = 1, 2 do
    for op, sum in pairs { SUM = 12.0, PRODUCT = 20.0, MIN = 1.0, MAX = 10.0 } do
      local first = op == "MIN" and 1.0 or 2.0
      local t = cube(root + 1, rank == root and first or 10.0)
      dist.reduce(t, root, dist.ReduceOp[op], group)
      if rank == root then ok = ok and rs.equal(t, cube(root + 1, sum)) end
    end
  end
  rs.check("T090 reduce in a group: the root has 12, 20, 1 and 10", ok)
end, { world = 3 })

dist.spawn(function(rank)
  local values = { float32 = -1e-10, float64 = -1e-100, int8 = -2, uint8 = 129, int32 = -100000,
    int64 = -1000000000000000 }
  local ok = true
  for root = 0, 2 do
    for dtype, value in pairs(values) do
      local t = cube(root + 1, rank == root and value or 0, dtype)
      dist.broadcast(t, root)
      ok = ok and t.dtype == dtype and rs.equal(t, cube(root + 1, value, dtype))
    end
  end
  rs.check("T092 broadcast: numbers of six types arrive exactly from each rank", ok)
end, { world = 3 })

dist.spawn(function(rank)
  local t = rs.tensor { -1.0 }
  dist.scatter(t, rank == 0 and { rs.tensor { 0.0 }, rs.tensor { 1.0 }, rs.tensor { 2.0 } } or nil)
  rs.check("T100 scatter: the source is rank 0 unless given, and alone has the list", t:item() == rank)
  local ok, err = pcall(dist.scatter, rs.zeros { 1 }, rank ~= 0 and { rs.zeros { 1 } } or nil, 0)
  rs.check("T100 a list elsewhere, or none there, is a ValueError", not ok and err.kind == "ValueError")
end, { world = 3 })

dist.spawn(function(rank)
  local ok = true
  for root = 0, 2 do
    local list
    if rank == root then list = { cube(root + 1, -1.0), cube(root + 1, -1.0), cube(root + 1, -1.0) } end
    dist.gather(cube(root + 1, rank + 0.0), list, root)
    for i, t in ipairs(list or {}) do ok = ok and rs.equal(t, cube(root + 1, i - 1.0)) end
  end
  rs.check("T102 gather: the root has what each rank had, in their order", ok)
end, { world = 3 })

-- ---- sparse, coalesced ----

dist.spawn(function(rank)
  local ok = true
  for dims, sum in ipairs { 12, 24, 48 } do
    local shape, dense = { rank + 1 }, { 3 }
    for _ = 1, dims do
      shape[#shape + 1], dense[#dense + 1] = 2, 2
    end
    -- Rank r has r + 1 rows of ones: 6 rows of 2 ** dims elements.
    local rows = {}
    for i = 0, rank do rows[i + 1] = i end
    local t = rs.sparse_coo_tensor({ rows }, rs.ones(shape), dense)
    dist.all_reduce(t)
    ok = ok and t:is_coalesced() and t:to_dense():sum():item() == sum and t:to_dense():reshape { 3, -1 }[{ 0, 0 }]:item() == 3
  end
  rs.check("T095 sparse all_reduce: with 1, 2 and 3 dense dimensions elements add up to 12, 24 and 48", ok)
end, { world = 3 })

dist.spawn(function(rank)
  local ok = true
  for op, expect in pairs { MIN = { 1.0, 3.0 }, MAX = { 2.0, 4.0 } } do
    local a, b = cube(2, rank == 0 and 1.0 or 2.0), cube(3, rank == 0 and 4.0 or 3.0)
    dist.all_reduce_coalesced({ a, b }, dist.ReduceOp[op])
    ok = ok and rs.equal(a, cube(2, expect[1])) and rs.equal(b, cube(3, expect[2]))
  end
  rs.check("T097 all_reduce_coalesced: (1, 4) with (2, 3) is 1, 3 and 2, 4", ok)
end, { world = 3 })

dist.spawn(function(rank)
  local inputs = { rs.full({ 1 }, rank + 0.0), rs.full({ 2, 2 }, rank + 1.0), rs.full({ 3, 3, 3 }, rank + 2.0) }
  local outputs, ok = {}, true
  for q = 1, 3 do outputs[q] = { rs.zeros { 1 }, rs.zeros { 2, 2 }, rs.zeros { 3, 3, 3 } } end
  dist.all_gather_coalesced(outputs, inputs)
  for q, list in ipairs(outputs) do
    for k, t in ipairs(list) do ok = ok and rs.equal(t, rs.full(t.shape, q + k - 2.0)) end
  end
  rs.check("T105 all_gather_coalesced: tensor k of rank q is q + k", ok)
end, { world = 3 })

-- ---- one tensor; lists of unequal lengths ----

local function gathers_into_one(rank, device)
  local mine = rs.full({ 4 }, rank + 0.0, { device = device })
  local joined, stacked = rs.zeros({ 12 }, { device = device }), rs.zeros({ 3, 4 }, { device = device })
  dist.all_gather_into_tensor(joined, mine)
  dist.all_gather_into_tensor(stacked, mine)
  local expect = rs.arange(0, 3):to("float32"):repeat_interleave(4)
  return rs.equal(joined:cpu(), expect) and rs.equal(stacked:cpu(), expect:reshape { 3, 4 })
end

dist.spawn(function(rank)
  rs.check("T107 all_gather_into_tensor: side by side, or one rank a row", gathers_into_one(rank, "cpu"))
end, { world = 3 })

dist.spawn(function(rank)
  local inputs, outputs, ok = {}, {}, true
  for i = 0, 2 do
    inputs[i + 1] = rs.full({ i + 1, 3 }, rank + 0.0)
    outputs[i + 1] = rs.full({ rank + 1, 3 }, -1.0)
  end
  dist.all_to_all(outputs, inputs)
  for i, t in ipairs(outputs) do ok = ok and rs.equal(t, rs.full({ rank + 1, 3 }, i - 1.0)) end
  rs.check("T110 all_to_all: piece i is what rank i had", ok)
end, { world = 3 })

dist.spawn(function(rank)
  local inputs, ok = {}, true
  for i = 0, 2 do inputs[i + 1] = rs.full({ 2 * i + 1 }, rank + i + 0.0) end
  local out = rs.zeros { 2 * rank + 1 }
  dist.reduce_scatter(out, inputs)
  rs.check("T112 reduce_scatter of pieces of unequal length", rs.equal(out, rs.full({ 2 * rank + 1 }, 3.0 + 3 * rank)))
  local lists = { rs.zeros { 1 }, rs.zeros { 3 }, rs.zeros { 5 } }
  dist.all_gather(lists, rs.full({ 2 * rank + 1 }, rank + 1.0))
  for i, t in ipairs(lists) do ok = ok and rs.equal(t, rs.full({ 2 * i - 1 }, i + 0.0)) end
  rs.check("T112 all_gather of pieces of unequal length", ok)
end, { world = 3 })

-- ---- barriers ----

local before = rs.trace:seq()
dist.spawn(function(rank)
  for late = 0, 2 do
    if rank == late then rs.advance(300000) end
    dist.barrier()
  end
end, { world = 3 })

-- Round k is the k-th of each rank; rank k is the late one.
local function rounds(phase)
  local times = { [0] = {}, {}, {} }
  for _, event in ipairs(rs.trace:events { kind = "c10d.barrier", phase = phase }) do
    if event.seq >= before then table.insert(times[event.rank], event.t) end
  end
  return times
end

local came, left = rounds "begin", rounds "end"
for late = 0, 2 do
  rs.check("T115 nobody leaves a barrier before the late rank has come", math.min(left[0][late + 1],
    left[1][late + 1], left[2][late + 1]) >= came[late][late + 1])
end

dist.spawn(function()
  local tensors, ok = {}, true
  for i = 0, 15 do
    tensors[i] = rs.full({ 100, 100 }, i + 0.0)
    dist.all_reduce(tensors[i], { async_op = true })
  end
  dist.barrier()
  for i = 0, 15 do ok = ok and rs.equal(tensors[i], rs.full({ 100, 100 }, i * 2.0)) end
  rs.check("T117 a barrier comes after all that was issued before it, also where nobody holds the Work", ok)
end, { world = 2 })

-- ---- futures, completion ----

dist.spawn(function()
  local t = cube(2, 2.0)
  local future = dist.all_reduce(t, { async_op = true }):get_future()
  local last = future:then_(function(done) return done:value()[1] * 3 end):then_(function(done) return done:value() + 1 end)
  rs.check("T127 the future of an all_reduce of 2s, then times 3, then and 1: 19", rs.equal(last:wait(), cube(2, 19.0)))
end, { world = 3 })

dist.spawn(function()
  local group, first = dist.new_group(), nil
  local done, last = 0, nil
  for _ = 1, 3 do
    local work = dist.broadcast(rs.zeros { 2 }, 0, group, true)
    first = first or work:_get_sequence_number()
    work:get_future():then_(function() done, last = done + 1, work:_get_sequence_number() end):wait()
  end
  dist.barrier(group)
  rs.check("T132 three broadcasts: three completions, the last is the third of the group", done == 3 and
    last - first + 1 == 3 and group:_get_sequence_number_for_group() == 4)
end, { world = 2 })

-- ---- objects ----

dist.spawn(function(rank)
  local theirs = { 1, "two", { three = 3.5 } }
  local list = rank == 1 and theirs or { rs.none, rs.none, rs.none }
  dist.broadcast_object_list(list, 1)
  rs.check("T130 broadcast_object_list: the list is replaced by the source's",
    list[1] == 1 and list[2] == "two" and list[3].three == 3.5)
end, { world = 3 })

-- ---- bits, many in flight ----

dist.spawn(function(rank)
  local ok = true
  for i = 1, 4 do
    local t = rs.arange(4 * i)
    dist.all_reduce(t, dist.ReduceOp.BXOR)
    ok = ok and rs.equal(t, rs.zeros({ 4 * i }, { dtype = "int64" }))
  end
  rs.check("T120 BXOR of four equal ranges is 0", ok)
  local both, one = rs.tensor { 1 | 1 << (4 + rank) }, rs.tensor { 1 << (4 + rank) }
  dist.all_reduce(both, dist.ReduceOp.BAND)
  dist.all_reduce(one, dist.ReduceOp.BOR)
  rs.check("T120 BAND leaves 1, BOR makes 240", both:item() == 1 and one:item() == 240)
end, { world = 4 })

dist.spawn(function(rank)
  local tensors, works, ok = {}, {}, true
  for i = 1, 1000 do
    tensors[i] = rs.full({ 1 }, i - 1.0 + rank)
    works[i] = dist.all_reduce(tensors[i], { async_op = true })
  end
  for i = 1, 1000 do
    works[i]:wait()
    ok = ok and tensors[i]:item() == 2 * (i - 1) + 1
  end
  rs.check("T122 1000 all_reduces in flight: each has its own sum", ok)
end, { world = 2 })

dist.spawn(function(rank)
  local scattered, gathered = true, true
  for i = 0, 999 do
    for root = 0, 1 do
      local t = rs.zeros { 1 }
      dist.scatter(t, rank == root and { rs.tensor { i + root + 0.0 }, rs.tensor { i + root + 0.0 } } or nil, root)
      scattered = scattered and t:item() == i + root
      local list = rank == root and { rs.zeros { 1 }, rs.zeros { 1 } } or nil
      dist.gather(rs.tensor { i + rank + 0.0 }, list, root)
      gathered = gathered and (not list or (list[1]:item() == i and list[2]:item() == i + 1))
    end
  end
  rs.check("T125 1000 rounds of scatter from each root: i + root", scattered)
  rs.check("T125 1000 rounds of gather to each root: i, i + 1", gathered)
end, { world = 2 })
