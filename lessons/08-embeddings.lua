-- Lesson 08: dense table, few rows.
--
-- Nobody separates an embedding: every device and every rank has the whole table. A batch looks up a few of its rows, so most of
-- the gradient is zeros, and DistributedDataParallel sends them all. With sparse = true the gradient is a list of rows, and
-- only these travel. (DDP: each rank is a program with its own indices; gradients are averaged. Lessons 13 to 16 open it.)
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Dense table, few rows",
  devices = 2,
  hardware = "classroom",
  seed = 8,
  minutes = 25,
  needs = "07",
}

local text = {
  welcome = "Embedding(1000, 10), two ranks: rank 0 looks up 1, 2, 3, rank 1 looks up 4, 5, 6, and the loss is the sum.",
  table = {
    question = "How many rows of the table does rank 1 have?",
    choices = { "3", "500", "1000" },
    answer = "1000",
    why = "Each rank has the whole table. What is divided are the indices: who looks up what.",
    wrong = {
      ["3"] = "It looks up 3. It could look up any.",
      ["500"] = "Nobody cuts a table: neither DataParallel (lesson 01) nor DDP.",
    },
    hides = { "module", "ddp" },
  },
  bytes = {
    question = "Dense: how many bytes of gradient are in DDP's bucket?",
    choices = { "120", "240", "40000" },
    answer = "40000",
    why = "A dense gradient has the table's shape: 1000 rows of 10 floats, and 997 of the rows are zeros.",
    wrong = {
      ["120"] = "Those are the three rows that a rank looked up. The gradient has all 1000.",
      ["240"] = "Six rows are not zero after the sum. Zeros take bytes, too.",
    },
    hides = { "ddp", "c10d", "comm" },
  },
  value = {
    question = "Row 1 was looked up by rank 0 alone. What stands in its gradient then?",
    choices = { "0.5", "1", "2" },
    answer = "0.5",
    why = "The loss is a sum: rank 0's gradient is 1, rank 1's is 0. DDP takes the mean over the ranks.",
    wrong = {
      ["1"] = "That is rank 0's own. DDP divides by two ranks, whoever looked it up.",
      ["2"] = "Nobody doubles it: rank 1 did not look it up.",
    },
    hides = { "ddp", "c10d", "comm" },
  },
  dense = "Dense: %d rows are not zero: %s; row 1 is %.1f",
  sparse = "Now sparse = true: the gradient is a list of indices with a list of rows.",
  after = {
    question = "Each rank has three rows. How many has the averaged gradient?",
    choices = { "3", "6", "1000" },
    answer = "6",
    why = "Each rank has other rows, so there is nothing to add up: everybody collects all, 1 2 3 and 4 5 6.",
    wrong = {
      ["3"] = "Then rank 0 would not learn of rows 4, 5, 6, and the tables would part.",
      ["1000"] = "That is the dense one. Nobody fills up with zeros here.",
    },
    hides = { "ddp", "c10d", "comm" },
  },
  payload = {
    question = "An index is an int64, a row is 10 floats. How many bytes does a rank send for its three rows?",
    choices = { "120", "132", "144" },
    answer = "144",
    why = "3 x 8 bytes of indices and 3 x 40 of values: two all-gathers. A third tells the count before.",
    wrong = {
      ["120"] = "Those are the values. Whose rows they are has to be told, too.",
      ["132"] = "An index is eight bytes, not four.",
    },
    hides = { "c10d", "comm" },
  },
  watch = "Watch c10d.allreduce_sparse: inside it three all-gathers, of the counts, the indices and the values.",
  few = "Sparse: %d rows: %s; row 1 is %.1f",
  model = {
    question = "Lesson 01's model: this table, sparse, and a dense Linear(10, 10). How many buckets?",
    choices = { "1", "2", "3" },
    answer = "2",
    why = "A bucket is one flat tensor. A list of rows has no place in it, and travels alone.",
    wrong = {
      ["1"] = "So it is if both are dense: 40440 bytes in one.",
      ["3"] = "Weight and bias of the Linear share one.",
    },
    hides = "ddp",
  },
  twice = {
    question = "On one device: indices 3, 3, 5, sparse. How many rows has the gradient?",
    choices = { "2", "3" },
    answer = "3",
    why = "A row for each look-up. coalesce adds up those of the same index: two rows, and row 3 counts twice.",
    wrong = { ["2"] = "So many are left after coalesce. Backward only writes down what comes." },
    hides = { "autograd", "op" },
  },
  added = "%d rows before coalesce, %d after; row 3 is %.0f",
  finish = "The table is everywhere. Dense sends all of its gradient, sparse the rows that were looked up.",
  checks = {
    bucket = "dense, rank %d: one bucket of 40000 bytes",
    reduced = "dense, rank %d: and so many are all-reduced",
    half = "dense, rank %d: rows 1 to 6 are 0.5",
    rows = "dense, rank %d: all other rows are 0",
    nnz = "sparse, rank %d: 6 rows, of the indices 1 to 6",
    values = "sparse, rank %d: their values are 0.5",
    sent = "sparse, rank %d: it sends 24 bytes of indices and 120 of values",
    none = "sparse, rank %d: no dense tensor is all-reduced",
    together = "lesson 01's model, dense: one bucket of 40440 bytes",
    alone = "sparse: two buckets, and the table alone in one of them",
    three = "{3, 3, 5}: 3 rows, 2 after coalesce",
    row = "row 3 is 2, row 5 is 1",
  },
  teacher = [[
Time: 7 minutes to predict, 8 in the viewer, 10 for the exercise.
Expected wrong answers: "500" (the question that brings most people here: how are embeddings separated?), "120" (what was
looked up), "3" rows after the average.
In the viewer: break c10d.allreduce rank 0, c: the dense run; look at its hops. Then break c10d.allreduce_sparse rank 0, c.
Ask: a batch looks up 4000 of 1000 rows. Which is better? (Dense: the exercise finds where they cross.)
With real jobs: sparse gradients need gloo, NCCL has no sparse all-reduce. Adagrad and SparseAdam read them, Adam does not.
Next question: rank 0 looks up row 7, and so does rank 1. How many rows has the average? (One fewer: coalesced.)
Two-minute fallback: ringside run, and compare 40000 with 144.]],
}
local checks = text.checks

-- One backward in DDP: what each row's gradient sums to, which rows it has, and its first eight rows.
local function train(rank, sparse, said)
  local net = nn.Embedding(1000, 10, { sparse = sparse })
  local ddp = nn.parallel.DistributedDataParallel(net)
  ddp(rs.arange(3 * rank + 1, 3 * rank + 4)):sum():backward()
  local grad, rows = net.weight.grad, {}
  local whole = sparse and grad:to_dense() or grad
  for row, sum in ipairs(whole:abs():sum(1):tolist()) do
    if sum ~= 0 then rows[#rows + 1] = row - 1 end
  end
  if sparse then rows = grad:coalesce():indices():tolist()[1] end
  rs.say(said:format(#rows, table.concat(rows, " "), whole[1][0]:item()))
  return { rows = rows, nnz = sparse and grad:_nnz(), values = whole[{ rs.slice(1, 7) }]:tolist() }
end

local halves = rs.full({ 6, 10 }, 0.5):tolist()
local function since(seq, kind, rank)
  local list = {}
  for _, event in ipairs(rs.trace:events { kind = kind, rank = rank }) do
    if event.seq > seq then list[#list + 1] = event.args end
  end
  return list
end

rs.say(text.welcome)
rs.ask(text.table)
rs.ask(text.bytes)
rs.ask(text.value)
local dense = dist.spawn(train, { world = 2, args = { false, text.dense } })
for rank = 0, 1 do
  local buckets, reduced = since(0, "ddp.bucket", rank), since(0, "c10d.allreduce", rank)
  rs.check(checks.bucket:format(rank), #buckets == 1 and buckets[1].bytes == 40000)
  rs.check(checks.reduced:format(rank), #reduced == 1 and reduced[1].bytes == 40000)
  rs.close(checks.half:format(rank), dense[rank].values, halves)
  rs.close(checks.rows:format(rank), dense[rank].rows, { 1, 2, 3, 4, 5, 6 })
end

rs.say(text.sparse)
rs.ask(text.after)
rs.ask(text.payload)
rs.say(text.watch)
local seq = rs.trace:seq()
local few = dist.spawn(train, { world = 2, args = { true, text.few } })
for rank = 0, 1 do
  local gathered = since(seq, "c10d.allgather", rank)
  rs.close(checks.nnz:format(rank), { few[rank].nnz, few[rank].rows }, { 6, { 1, 2, 3, 4, 5, 6 } })
  rs.close(checks.values:format(rank), few[rank].values, halves)
  rs.close(checks.sent:format(rank), { gathered[#gathered - 1].bytes, gathered[#gathered].bytes }, { 24, 120 })
  rs.check(checks.none:format(rank), #since(seq, "c10d.allreduce", rank) == 0)
end

rs.ask(text.model)
local cut = {}
for _, sparse in ipairs { false, true } do
  local from = rs.trace:seq()
  dist.spawn(function()
    nn.parallel.DistributedDataParallel(nn.Sequential(nn.Embedding(1000, 10, { sparse = sparse }), nn.Linear(10, 10)))
  end, { world = 2 })
  cut[sparse] = since(from, "ddp.bucket", 0)
end
rs.check(checks.together, #cut[false] == 1 and cut[false][1].bytes == 40440)
local lone = 0
for _, bucket in ipairs(cut[true]) do lone = lone + (bucket.indices == "0" and 1 or 0) end
rs.check(checks.alone, #cut[true] == 2 and lone == 1)

rs.ask(text.twice)
local net = nn.Embedding(1000, 10, { sparse = true })
net(rs.tensor { 3, 3, 5 }):sum():backward()
local grad = net.weight.grad
local once = grad:coalesce()
rs.say(text.added:format(grad:_nnz(), once:_nnz(), grad:to_dense()[3][0]:item()))
rs.close(checks.three, { grad:_nnz(), once:_nnz(), once:indices():tolist() }, { 3, 2, { { 3, 5 } } })
rs.close(checks.row, { once:values():tolist()[1][1], once:values():tolist()[2][1] }, { 2, 1 })
rs.say(text.finish)
rs.teacher(text.teacher)
