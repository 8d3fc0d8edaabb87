-- Random programs of sends and receives: groups, tags, blocking or later, in batches, from any source, to oneself, lists
-- of objects, barriers between. Arguments: first=SEED count=N, announce=1 (each seed before it runs). All ranks draw the
-- same list of messages and carry out their ends of it in that order, so nothing can wait for ever; a message's numbers
-- are made of its place in the list, so who receives knows what must come. Prints per seed who was met where any source
-- would do: in `stepped` that repeats.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Random point to point", prefix = "" }

io.stdout:setvbuf "line"
local options = { first = 1, count = 20 }
for _, word in ipairs { ... } do
  local name, value = word:match("^(%w+)=(%w+)$")
  if not name then error("an argument is NAME=VALUE, not " .. word) end
  options[name] = math.tointeger(value) or value
end

local function one_program(rank, seed)
  local state = seed * 2654435761 % 4294967296
  local function draw(low, high)
    state = (state * 1103515245 + 12345) % 4294967296
    return low + (state >> 8) % (high - low + 1)
  end
  local world, kinds = dist.get_world_size(), { "float32", "float64", "int64", "uint8", "bool" }

  -- ---- groups, and messages in one order for all ----
  local groups = { [0] = { ranks = {} } }
  for r = 0, world - 1 do groups[0].ranks[r + 1] = r end
  for g = 1, draw(0, 2) do
    local ranks = {}
    for r = 0, world - 1 do if draw(0, 2) > 0 then ranks[#ranks + 1] = r end end
    if #ranks == 0 then ranks[1] = 0 end
    groups[g] = { ranks = ranks, group = dist.new_group(ranks) }
  end

  local messages, any_tag = {}, 1000
  local function add(message)
    message.id = #messages + 1
    messages[message.id] = message
  end
  for _ = 1, draw(5, 25) do
    local g = draw(0, #groups)
    local ranks = groups[g].ranks
    local function member() return ranks[draw(1, #ranks)] end
    local what = draw(0, 19)
    if what == 0 then
      add { barrier = true }
    elseif what <= 3 and #ranks > 1 then           -- a bunch that one rank takes as it comes
      local to, bunch = member(), {}
      any_tag = any_tag + 1
      for i = 1, draw(1, 5) do
        local from = member()
        if from == to then from = ranks[ranks[1] == to and 2 or 1] end
        bunch[i] = { g = g, from = from, to = to, tag = any_tag, any = true, kind = "int64", count = 2, bunch = bunch }
      end
      for _, message in ipairs(bunch) do add(message) end
    else
      local from, to = member(), member()
      add { g = g, from = from, to = to, tag = draw(0, 2), kind = kinds[draw(1, #kinds)], count = draw(0, 9),
            object = what == 4 and from ~= to }
    end
  end

  -- ---- what each carries ----
  local function tensor_of(m)
    local values = {}
    for i = 1, m.count do values[i] = m.kind == "bool" and (m.id + i) % 2 == 0 or (m.id * 7 + i) % 200 end
    if m.any then values = { m.from, m.id } end
    if m.count == 0 then return rs.zeros(0, { dtype = m.kind }) end
    return rs.tensor(values, { dtype = m.kind })
  end
  local function objects_of(m) return { { id = m.id, { m.from } }, "from " .. m.from, tensor_of(m) } end

  -- ---- this rank's ends ----
  local open, met, batch = {}, {}, nil
  local function wrong(m, what) error(("seed %d, message %d: %s"):format(seed, m.id, what)) end
  local function check(m, got, source)
    if m.any then
      local from, id = got[0]:item(), got[1]:item()
      local sent = messages[id]
      if from ~= source or sent.bunch ~= m.bunch or sent.from ~= from then wrong(m, "another bunch's message") end
      local last = m.bunch.last or {}
      m.bunch.last = last
      if (last[from] or 0) >= id then wrong(m, "messages of one sender in another order") end
      last[from] = id
      met[#met + 1] = from
    elseif source ~= m.from or not rs.equal(got, tensor_of(m)) then
      wrong(m, "not what was sent")
    end
  end
  local function settle(entry)
    entry.work:wait()
    if entry.into then
      local source = entry.work:source_rank()
      check(entry.m, entry.into, groups[entry.m.g].ranks[source + 1])
    elseif not rs.equal(entry.sent, tensor_of(entry.m)) then
      wrong(entry.m, "what was sent changed")
    end
  end
  local function flush()
    if batch == nil then return end
    for i, work in ipairs(dist.batch_isend_irecv(batch.ops)) do
      batch.entries[i].work = work
      open[#open + 1] = batch.entries[i]
    end
    batch = nil
  end
  -- Any receive of a bunch may get any of its messages: they are looked at in the order in which they were posted.
  local function settle_all() for _, entry in ipairs(open) do settle(entry) end open = {} end

  local own = seed * 31 + rank
  local function choose(n)
    own = (own * 1103515245 + 12345) % 4294967296
    return (own >> 8) % n
  end
  local function where(m, name, peer)
    local members = groups[m.g]
    local to = { group = members.group, tag = not m.object and m.tag or nil }
    if choose(2) == 0 then
      to[name] = peer
    else
      for i, r in ipairs(members.ranks) do if r == peer then to["group_" .. name] = i - 1 end end
    end
    return to
  end
  local function into_batch(m, op, tensor, peer)
    if batch and batch.g ~= m.g then flush() end
    batch = batch or { g = m.g, ops = {}, entries = {} }
    batch.ops[#batch.ops + 1] = dist.P2POp(op, tensor, where(m, "peer", peer))
    batch.entries[#batch.ops] = { m = m, [op == dist.irecv and "into" or "sent"] = tensor }
  end
  local function send(m)
    if m.object then dist.send_object_list(objects_of(m), where(m, "dst", m.to)) return end
    local t, how = tensor_of(m), m.from == m.to and 2 or choose(3)
    if how < 2 then flush() end
    if how == 0 then dist.send(t, where(m, "dst", m.to))
    elseif how == 1 then open[#open + 1] = { m = m, sent = t, work = dist.isend(t, where(m, "dst", m.to)) }
    else into_batch(m, dist.isend, t, m.to) end
  end
  local function receive(m)
    if m.object then
      local got = { rs.none, rs.none, rs.none }
      local source, want = dist.recv_object_list(got, where(m, "src", m.from)), objects_of(m)
      if source ~= m.from or got[1].id ~= m.id or got[1][1][1] ~= m.from or got[2] ~= want[2] or
         not rs.equal(got[3], want[3]) then wrong(m, "other objects") end
      return
    end
    local t, how = rs.zeros(m.count, { dtype = m.kind }), m.from == m.to and 2 or choose(3)
    if how < 2 then flush() end
    if m.any then
      local to = { group = groups[m.g].group, tag = m.tag }
      if choose(2) == 0 then check(m, t, dist.recv(t, to))
      else settle { m = m, into = t, work = dist.irecv(t, to) } end
    elseif how == 0 then check(m, t, dist.recv(t, where(m, "src", m.from)))
    elseif how == 1 then open[#open + 1] = { m = m, into = t, work = dist.irecv(t, where(m, "src", m.from)) }
    else into_batch(m, dist.irecv, t, m.from) end
  end

  for _, m in ipairs(messages) do
    if m.barrier then
      flush()
      dist.barrier()
    elseif m.from == rank or m.to == rank then
      if not (m.from == m.to) then
        if choose(2) == 0 or m.any or m.object then flush() end
      end
      if m.from == rank then send(m) end
      if m.to == rank then receive(m) end
      if batch and #batch.ops > 3 then flush() end
      if batch == nil and choose(4) == 0 then settle_all() end
    end
  end
  flush()
  settle_all()
  return table.concat(met, " ")
end

for seed = options.first, options.first + options.count - 1 do
  if options.announce then print("-- seed " .. seed) end
  local met = dist.spawn(one_program, { world = 2 + seed % 4, args = { seed } })
  local line = {}
  for r = 0, 1 + seed % 4 do line[#line + 1] = met[r] end
  print(seed .. " " .. table.concat(line, " | "))
end
print("# " .. options.count .. " programs")
