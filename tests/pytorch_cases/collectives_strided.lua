-- Tensors whose elements do not lie in a row, and results that cannot be written. What 2.15's gloo does with each was run on
-- two ranks of it; see the table. Where its numbers are wrong without a word, ours are those of the elements, and one
-- warning says so.
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "PyTorch cases: collectives of strided tensors", seed = 1, prefix = "" }

-- A column of two elements, n * 10 and n * 10 + 2, in a storage of four; a square that is turned.
local function square(n) return rs.arange(4.0):view(2, 2) + 10 * n end
local function column(n) return square(n):select(1, 0) end
local function turned(n) return square(n):t() end
local function zeros(like) return rs.zeros(table.unpack(like:size())) end
local function both(f) return { f(), f() } end
local function equal(t, ...) return rs.equal(t:detach():contiguous(), rs.tensor { ... }) end

-- What gloo answers: "right", "wrong" (silently) or a kind of error with its words. Each row: the call, for a column, for a
-- turned square; the call itself, which answers whether its numbers are the elements'.
local contiguous, row = "ValueError: Tensors must be contiguous", "RuntimeError: input tensor has to be contiguous"
local function full(t, n) return zeros(t) + n end
local rows = {
  { "all_reduce", "wrong", "right", function(view, rank)
    local t, before = view(rank), view(0):clone() + view(1)
    dist.all_reduce(t)
    return rs.equal(t:clone(), before:clone())
  end },
  { "broadcast", "wrong", "right", function(view, rank)
    local t = view(rank)
    dist.broadcast(t, 0)
    return rs.equal(t:clone(), view(0):clone())
  end },
  { "reduce", "wrong", "right", function(view, rank)
    local t = view(rank)
    dist.reduce(t, 0)
    return rank ~= 0 or rs.equal(t:clone(), view(0) + view(1))
  end },
  { "all_gather of", "right", "right", function(view, rank)
    local out = both(function() return zeros(view(0)) end)
    dist.all_gather(out, view(rank))
    return rs.equal(out[1], view(0):clone()) and rs.equal(out[2], view(1):clone())
  end },
  { "all_gather into", "right", "right", function(view, rank)
    local out = { (view(7)), (view(8)) }
    dist.all_gather(out, full(out[1], rank))
    return rs.equal(out[1]:clone(), full(out[1], 0)) and rs.equal(out[2]:clone(), full(out[1], 1))
  end },
  { "all_gather_into_tensor of", "right", "right", function(view, rank)
    local out = zeros(rs.cat { view(0), view(1) })
    dist.all_gather_into_tensor(out, view(rank))
    return rs.equal(out, rs.cat { view(0), view(1) })
  end },
  { "gather of", "right", "right", function(view, rank)
    local out = both(function() return zeros(view(0)) end)
    dist.gather(view(rank), rank == 0 and out or nil, 0)
    return rank ~= 0 or rs.equal(out[2], view(1):clone())
  end },
  { "gather into", "right", "right", function(view, rank)
    local out = { (view(7)), (view(8)) }
    dist.gather(full(out[1], rank), rank == 0 and out or nil, 0)
    return rank ~= 0 or rs.equal(out[2]:clone(), full(out[1], 1))
  end },
  { "scatter of", "wrong", "wrong", function(view, rank)
    local out = zeros(view(0))
    dist.scatter(out, rank == 0 and { (view(3)), (view(4)) } or nil, 0)
    return rs.equal(out, view(3 + rank):clone())
  end },
  { "scatter into", "wrong", "wrong", function(view, rank)
    local out = view(rank)
    dist.scatter(out, rank == 0 and { full(out, 5), full(out, 6) } or nil, 0)
    return rs.equal(out:clone(), full(out, 5 + rank))
  end },
  { "reduce_scatter of", "right", "right", function(view, rank)
    local out = zeros(view(0))
    dist.reduce_scatter(out, { (view(rank)), (view(3 + rank)) })
    return rs.equal(out, view(3 * rank) + view(3 * rank + 1))
  end },
  { "reduce_scatter into", "wrong", "wrong", function(view, rank)
    local out = view(rank)
    dist.reduce_scatter(out, { view(1):contiguous(), view(2):contiguous() })
    return rs.equal(out:clone(), view(1 + rank) * 2)
  end },
  { "reduce_scatter_tensor into", "right", "right", function(view, rank)
    local out = view(rank)
    dist.reduce_scatter_tensor(out, rs.cat { view(1), view(2) })
    return rs.equal(out:clone(), view(1 + rank) * 2)
  end },
  { "all_to_all of", "right", "right", function(view, rank)
    local out = both(function() return zeros(view(0)) end)
    dist.all_to_all(out, { (view(rank)), (view(3 + rank)) })
    return rs.equal(out[1], view(3 * rank):clone()) and rs.equal(out[2], view(3 * rank + 1):clone())
  end },
  { "all_to_all into", "right", "right", function(view, rank)
    local out = { (view(7)), (view(8)) }
    dist.all_to_all(out, { full(out[1], rank), full(out[1], 5 + rank) })
    return rs.equal(out[1]:clone(), full(out[1], 5 * rank)) and rs.equal(out[2]:clone(), full(out[1], 5 * rank + 1))
  end },
  { "all_to_all_single of", contiguous, contiguous, function(view, rank)
    dist.all_to_all_single(zeros(view(0)), view(rank))
  end },
  { "all_to_all_single into", "wrong", "wrong", function(view, rank)
    local out = view(rank)
    dist.all_to_all_single(out, view(3 + rank):contiguous())
    return rs.equal(out:clone(), rs.cat { view(3):narrow(0, rank, 1), view(4):narrow(0, rank, 1) })
  end },
  { "all_reduce_coalesced", "right", "right", function(view, rank)
    local t = view(rank)
    dist.all_reduce_coalesced { t }
    return rs.equal(t:clone(), view(0) + view(1))
  end },
  { "send", row, row, function(view, rank) dist.send(view(rank), 1 - rank) end },
  { "recv", row, row, function(view, rank) dist.recv(view(rank), 1 - rank) end },
  { "recv from any", row, row, function(view, rank) dist.recv(view(rank)) end },
  { "isend", row, row, function(view, rank) dist.isend(view(rank), 1 - rank) end },
  { "irecv", row, row, function(view, rank) dist.irecv(view(rank), 1 - rank) end },
  { "batch_isend_irecv", row, row, function(view, rank)
    dist.batch_isend_irecv { dist.P2POp(dist.isend, rs.ones(2), 1 - rank), dist.P2POp(dist.irecv, view(rank), 1 - rank) }
  end },
}

local function warnings(from)
  local count = 0
  for _, event in ipairs(rs.trace:events { kind = "lesson.warning" }) do
    if event.seq >= from and event.args.text:find("silently", 1, true) then count = count + 1 end
  end
  return count
end
local function now()
  local events = rs.trace:events {}
  return events[#events].seq
end

for _, row in ipairs(rows) do
  for i, view in ipairs { column, turned } do
    local gloo, name = row[i + 1], row[1] .. (i == 1 and ": a column" or ": a turned square")
    local from = now()
    local by_rank = dist.spawn(function(rank)
      local made = {}
      local ok, e = pcall(row[4], function(n)
        made[#made + 1] = { square(n), n }
        return view == column and made[#made][1]:select(1, 0) or made[#made][1]:t()
      end, rank)
      local kept = true
      for _, one in ipairs(made) do
        kept = kept and (view == turned or rs.equal(one[1]:select(1, 1):clone(), rs.tensor { 1.0, 3.0 } + 10 * one[2]))
      end
      return { ok = ok, answer = ok and e or nil, why = not ok and e.kind .. ": " .. e.message or "", kept = kept }
    end, { world = 2 })
    for rank = 0, 1 do
      local got = by_rank[rank]
      local kind, words = gloo:match "^(%w+): (.*)$"
      if kind then
        rs.check(name .. " is refused, as by gloo",
          not got.ok and got.why:find(kind, 1, true) == 1 and got.why:find(words, 1, true) ~= nil)
      else
        rs.check(name .. " is right", got.ok and got.answer)
        rs.check(name .. " leaves its neighbours alone", got.kept)
      end
    end
    rs.check(name .. ": a warning where gloo is silently wrong, and nowhere else",
      warnings(from) == (gloo == "wrong" and 1 or 0))
  end
end

local from = now()
dist.spawn(function(rank)
  for _ = 1, 3 do dist.all_reduce((column(rank))) dist.broadcast((column(rank)), 0) end
end, { world = 3 })
rs.check("one warning, however often and by however many", warnings(from) == 1)

-- ---- what the warning says ----

local function warned(f)
  local from, text = now(), nil
  pcall(dist.spawn, f, { world = 2 })
  for _, event in ipairs(rs.trace:events { kind = "lesson.warning" }) do
    text = event.seq >= from and event.args.text or text
  end
  return text or ""
end
local function told(name, text, ...)
  local holds = true
  for _, word in ipairs { ... } do holds = holds and text:find(word, 1, true) ~= nil end
  rs.check(name .. ": the warning" .. (holds and "" or " says " .. text), holds)
end
local line = tonumber(tostring(select(2, pcall(function() error("here") end))):match(":(%d+):"))
told("all_reduce", warned(function(rank) dist.all_reduce((column(rank))) end), "all_reduce (line " .. line + 1 .. ")",
  "not contiguous. Ringside reduces", "Pass t:contiguous(), then copy the result back")
told("scatter of", warned(function(rank)
  dist.scatter(rs.zeros(2), rank == 0 and { (column(3)), (column(4)) } or nil, 0)
end), "scatter (line " .. line + 4 .. ")", "a tensor of the list", "the receivers would get wrong numbers")
told("all_to_all_single", warned(function(rank) dist.all_to_all_single((column(rank)), rs.ones(2)) end),
  "all_to_all_single (line " .. line + 6 .. ")", "Ringside moves")
told("reduce", warned(function(rank) dist.reduce(rs.ones(1):expand(3), 1) end), "reduce (line " .. line + 8 .. ")")
rs.check("a result that is refused has no warning: it was expanded",
  warned(function() dist.all_reduce(rs.ones(1):expand(3)) end) == "")

-- ---- a result that cannot be written ----

local function leaf(n) return rs.zeros(n or 2):requires_grad_() end
local stretched, used = "more than one element", "a leaf Variable that requires grad is being used in an in-place operation"
local writes = {
  { "all_gather", stretched, function() dist.all_gather({ rs.zeros(1):expand(2), rs.zeros(1):expand(2) }, rs.ones(2)) end },
  { "all_gather on one rank", stretched, function(rank)
    dist.all_gather(both(function() return rank == 1 and rs.zeros(1):expand(2) or rs.zeros(2) end), rs.ones(2))
  end, alone = 1 },
  { "reduce_scatter", stretched, function() dist.reduce_scatter(rs.zeros(1):expand(2), both(function() return rs.ones(2) end)) end },
  { "all_gather into leaves", used, function() dist.all_gather(both(leaf), rs.ones(2)) end },
  { "all_gather_into_tensor, a leaf", used, function() dist.all_gather_into_tensor(leaf(), rs.ones(1)) end },
  { "gather into leaves", used, function(rank)
    dist.gather(rs.ones(2), rank == 0 and both(leaf) or nil, 0)
  end, alone = 0 },
  { "reduce_scatter into a leaf", used, function() dist.reduce_scatter(leaf(), both(function() return rs.ones(2) end)) end },
  { "reduce_scatter_tensor into a leaf", used, function() dist.reduce_scatter_tensor(leaf(), rs.ones(4)) end },
  { "all_to_all into leaves", used, function() dist.all_to_all(both(leaf), both(function() return rs.ones(2) end)) end },
  { "all_reduce_coalesced of a leaf", used, function() dist.all_reduce_coalesced { leaf() } end },
}
for _, write in ipairs(writes) do
  local by_rank = dist.spawn(function(rank)
    local ok, e = pcall(write[3], rank)
    local t = rs.ones(2)
    dist.all_reduce(t)
    return { ok = ok, why = not ok and e.kind .. ": " .. e.message or "", sum = equal(t, 2.0, 2.0) }
  end, { world = 2 })
  for rank = 0, 1 do
    local fails = write.alone == nil or write.alone == rank
    local got = by_rank[rank]
    rs.check(write[1] .. ": who cannot write the result is told, and nobody else",
      got.ok == not fails and (got.ok or got.why:find("RuntimeError: " .. write[2], 1, true) ~= nil))
    rs.check(write[1] .. ": the group goes on", got.sum)
  end
end

dist.spawn(function(rank)
  local out, whole = both(leaf), leaf()
  rs.no_grad(function() dist.all_gather(out, rs.ones(2) * rank) end)
  rs.check("without gradients a leaf is written", equal(out[2], 1.0, 1.0))
  dist.all_reduce(whole)
  dist.broadcast(whole, 0)
  dist.scatter(whole, rank == 0 and both(function() return rs.ones(2) end) or nil, 0)
  dist.all_to_all_single(whole, rs.ones(2) * 3)
  rs.check("what gloo writes as memory asks no leaf", equal(whole, 3.0, 3.0))
  local work = dist.all_gather(both(leaf), rs.ones(2), nil, true)
  local ok, e = pcall(work.wait, work)
  rs.check("asynchronously, its wait says so", not ok and e.message:find(used, 1, true) ~= nil)
end, { world = 2 })
