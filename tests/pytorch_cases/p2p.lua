-- Point to point and lists of objects, as PyTorch's own tests ask. Order: sends and receives, batches, what is refused,
-- objects.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "PyTorch cases: point to point", seed = 1, prefix = "" }

-- f(rank, check) on each rank; what ranks check under one name is one check here, of all that did.
local function spawn(f, options)
  local by_rank = dist.spawn(function(rank)
    local checks = {}
    f(rank, function(name, ok) checks[#checks + 1] = { name, ok and true or false } end)
    return checks
  end, options)
  local names, held = {}, {}
  for rank = 0, options.world - 1 do
    for _, row in ipairs(by_rank[rank]) do
      if held[row[1]] == nil then names[#names + 1] = row[1] end
      held[row[1]] = held[row[1]] ~= false and row[2]
    end
  end
  for _, name in ipairs(names) do rs.check(name, held[name]) end
end

local function cube(n, v) return rs.full({ n, n, n }, v + 0.0) end

local function kind_of(...)
  local ok, err = pcall(...)
  return ok and "no error" or err.kind
end

-- ---- sends and receives ----

spawn(function(rank, check)
  local world, ok = dist.get_world_size(), true
  for source = 0, world - 1 do
    if rank == source then
      for other = 0, world - 1 do
        if other ~= source then dist.send(cube(source + 1, source + 1), other) end
      end
    else
      local t = cube(source + 1, -1)
      ok = ok and dist.recv(t, source) == source and rs.equal(t, cube(source + 1, source + 1))
    end
  end
  check("T134 in turn each rank sends its cube to all", ok)
end, { world = 3 })

spawn(function(rank, check)
  local world, ok, seen = dist.get_world_size(), true, {}
  local function receive(later)
    local t = cube(10, -1)
    local sender
    if later then
      local work = dist.irecv(t)
      work:wait()
      sender = work:source_rank()
      ok = ok and sender == work:_source_rank()
    else
      sender = dist.recv(t)
    end
    ok = ok and rs.equal(t, cube(10, sender))
    seen[sender] = (seen[sender] or 0) + 1
  end
  for receiver = 0, world - 1 do
    for other = 0, world - 1 do
      if rank == receiver and other ~= receiver then
        receive(false)
        receive(true)
      end
    end
    if rank ~= receiver then
      dist.send(cube(10, rank), receiver)
      dist.send(cube(10, rank), receiver)
    end
  end
  local lists = {}
  dist.all_gather_object(lists, seen)
  local total = {}
  for _, its in ipairs(lists) do
    for sender, times in pairs(its) do total[sender] = (total[sender] or 0) + times end
  end
  for sender = 0, world - 1 do ok = ok and total[sender] == 4 end
  check("T136 a receive without a source answers who sent; each rank is seen four times", ok)
end, { world = 3 })

spawn(function(rank, check)
  local world, works, outputs = dist.get_world_size(), {}, {}
  for i = 0, world - 1 do
    outputs[i] = rs.full({ 1 }, -1.0)
    if i ~= rank then
      works[#works + 1] = dist.isend(rs.full({ 1 }, rank + 0.0), i)
      works[#works + 1] = dist.irecv(outputs[i], i)
    end
  end
  local ok = true
  for _, work in ipairs(works) do work:wait() end
  for i = 0, world - 1 do ok = ok and (i == rank or outputs[i]:item() == i) end
  check("T139 every pair both ways, all asynchronous", ok)
end, { world = 4 })

-- ---- batches ----

spawn(function(rank, check)
  local world, ops, received, ok = dist.get_world_size(), {}, {}, true
  for source = 0, world - 1 do
    received[source] = cube(source + 1, -1)
    if source ~= rank then
      ops[#ops + 1] = dist.P2POp(dist.isend, cube(rank + 1, rank + 1), source, { tag = rank })
      ops[#ops + 1] = dist.P2POp(dist.irecv, received[source], source, { tag = source })
    end
  end
  for _, work in ipairs(dist.batch_isend_irecv(ops)) do work:wait() end
  for source = 0, world - 1 do
    ok = ok and (source == rank or rs.equal(received[source], cube(source + 1, source + 1)))
  end
  check("T141 a batch of all isends and irecvs, matched by the sender's tag", ok)
end, { world = 3 })

spawn(function(rank, check)
  if rank == 0 then
    local from, to = rs.arange(6.0), rs.zeros(6)
    local works = dist.batch_isend_irecv { dist.P2POp(dist.isend, from, 0), dist.P2POp(dist.irecv, to, 0) }
    for _, work in ipairs(works) do work:wait() end
    check("T144 a rank sends to and receives from itself inside a batch", rs.equal(from, to))
    check("T144 but not outside of one", kind_of(dist.isend, from, 0) == "ValueError" and
             kind_of(dist.irecv, to, 0) == "ValueError" and kind_of(dist.send, from, 0) == "ValueError" and
             kind_of(dist.recv, to, 0) == "ValueError")
  end
end, { world = 2 })

-- 1.13 said RuntimeError, 2.15 says ValueError.
spawn(function(_, check)
  check("T146 a list of numbers is no batch", kind_of(dist.batch_isend_irecv, { 1, 2 }) == "ValueError")
  check("T146 nor is a number", kind_of(dist.batch_isend_irecv, 1) == "ValueError")
  check("T146 nor an empty list", kind_of(dist.batch_isend_irecv, {}) == "IndexError")
  check("T146 another function is no op", kind_of(dist.P2POp, dist.broadcast, rs.ones(1), 0) == "ValueError")
end, { world = 1 })

-- ---- counted in the trace ----

local before = { send = rs.trace:count { kind = "c10d.send" }, recv = rs.trace:count { kind = "c10d.recv" },
                 hop = rs.trace:count { kind = "comm.hop" } }
spawn(function(rank, check)
  local world = dist.get_world_size()
  for receiver = 0, world - 1 do
    for _ = 1, 2 * (world - 1) do
      if rank == receiver then dist.recv(cube(2, -1)) end
    end
    for _ = 1, 2 do
      if rank ~= receiver then dist.send(cube(2, rank), receiver) end
    end
  end
end, { world = 3 })
local each = { send = rs.trace:count { kind = "c10d.send" } - before.send,
               recv = rs.trace:count { kind = "c10d.recv" } - before.recv,
               hop = rs.trace:count { kind = "comm.hop" } - before.hop }
rs.check("T149 2 (W - 1) sends and as many receives a rank, each with a hop",
         each.send == 12 and each.recv == 12 and each.hop == 12)

spawn(function(rank, check)
  local column = rs.zeros(4, 4)[{ "...", rank }]
  local call = rank == 0 and dist.send or dist.recv
  check("T151 a column is refused on both sides", kind_of(call, column, 1 - rank) == "RuntimeError")
end, { world = 2 })

-- ---- objects ----

spawn(function(rank, check)
  local function objects()
    return { { rank = 1, list = { 1, { 2, "x" } } }, "text", 7, 1.5, true, rs.none, rs.tuple(1, "two"), rs.arange(4) }
  end
  for source = 0, 2 do
    local list = rank == source and objects() or {}
    for i = #list + 1, 8 do list[i] = rs.none end
    dist.broadcast_object_list(list, source)
    local want = objects()
    local ok = #list == 8 and list[1].rank == 1 and list[1].list[2][2] == "x" and list[6] == rs.none and
               list[7][2] == "two" and rs.equal(list[8], want[8])
    for i = 2, 5 do ok = ok and list[i] == want[i] end
    check("T130 the list is replaced by src's", ok)
  end
end, { world = 3 })

spawn(function(rank, check)
  local all, ok = {}, true
  dist.all_gather_object(all, { rank = rank })
  for r = 0, 2 do ok = ok and all[r + 1].rank == r end
  local mine = {}
  dist.scatter_object_list(mine, rank == 1 and { "o0", { "o1" }, 2 } or nil, 1)
  ok = ok and (rank == 1 and mine[1][1] == "o1" or mine[1] == (rank == 0 and "o0" or 2))
  local got = rank == 2 and {} or nil
  dist.gather_object({ "from", rank }, got, 2)
  if rank == 2 then
    for r = 0, 2 do ok = ok and got[r + 1][1] == "from" and got[r + 1][2] == r end
  end
  check("all_gather_object, scatter_object_list and gather_object", ok)
  check("who sends gives a list, who does not receive gives none",
           kind_of(dist.scatter_object_list, {}, nil, rank) == "ValueError" and
           kind_of(dist.gather_object, rank, rank ~= 1 and {} or nil, 1) == "ValueError")
end, { world = 3 })
