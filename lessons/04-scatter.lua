-- Lesson 04: the chunk rule.
--
-- scatter is the first thing that DataParallel does with a batch. It cuts every tensor that it finds, however deep in
-- lists, along one dimension, and sends the pieces to the devices. One rule says how long a piece is; all else follows.
local rs = require "ringside"
local scatter = rs.nn.parallel.scatter

rs.lesson {
  title = "The chunk rule",
  devices = 8,
  hardware = "classroom",
  seed = 4,
  minutes = 15,
  needs = "02", tell = { ["dp.scatter"] = "scatter cut for {devices} devices: pieces of {list dp.scatter.chunk.rows} rows." },
}

local text = {
  welcome = "Ten rows of six floats: 240 bytes, on device 0.",
  cut = {
    question = "How are ten rows cut for four?",
    choices = { "3 3 3 1", "3 3 2 2", "15 floats each" },
    answer = "3 3 3 1",
    why = "Pieces of ceil(10 / 4) = 3 rows. The last gets the rest.",
    wrong = {
      ["3 3 2 2"] = "Pieces are not evened out. All but the last are full.",
      ["15 floats each"] = "Size plays no part. The cut runs between rows, on dim 0.",
    },
    hides = { "dp", "memory" },
  },
  bytes = {
    question = "How many of the 240 bytes move?",
    choices = { "0", "168", "240" },
    answer = "168",
    why = "Seven rows of 24 bytes. Device 0 reads its three in place.",
    wrong = {
      ["240"] = "Device 0's piece need not move: it is a view.",
      ["0"] = "A storage lives on one device. The others need copies.",
    },
    hides = { "dp", "memory" },
  },
  watch = "In the viewer: n goes to the end of scatter, then S four times: a chunk each. Event shows its rows and bytes.",
  moved = "Device 0 got a view, the others copies: 72, 72, 24 bytes.",
  nine = {
    question = "Nine rows on four devices?",
    choices = { "3 2 2 2", "3 3 3", "an error" },
    answer = "3 3 3",
    why = "ceil(9 / 4) = 3. Three pieces, and nothing is left.",
    wrong = {
      ["3 2 2 2"] = "Not every device must work. The length comes first.",
      ["an error"] = "No batch size is refused. The last piece may be missing.",
    },
    hides = { "dp", "memory" },
  },
  more = "Next: these nine and 5 rows on four devices, 17 and 100 on eight.",
  idle = "17 rows on eight: six pieces. Two devices have nothing to do.",
  tag = {
    question = "Input { x, { mask, 'tag', 7 } }: 'tag' is",
    choices = { "cut", "copied", "shared" },
    answer = "shared",
    why = "Only tensors are cut. All else is one shared object.",
    wrong = {
      ["cut"] = "scatter looks for tensors in lists. It never cuts a text.",
      ["copied"] = "All replicas hold one object: all see a change to it.",
    },
    hides = "dp.scatter.shared",
  },
  nested = "The mask was cut like x. 'tag' and 7 were shared.",
  back = "Backward goes the other way: it gathers the pieces' gradients.",
  finish = "One rule: ceil(rows / devices). Tensors are cut, all else is shared.",
  checks = {
    rows = "10 rows on 4 devices are 3, 3, 3 and 1",
    bytes = "the chunks have 72, 72, 72 and 24 bytes",
    offsets = "they begin at elements 0, 18, 36 and 54",
    devices = "chunk r is for device r",
    view = "device 0's chunk is a view of x",
    moved = "all but device 0's view move: 168 bytes",
    cases = "%d rows on %d devices are %s",
    depth = "each replica's mask is as long as its rows",
    shared = "2 objects are shared",
    same = "'tag' and 7 arrive everywhere as they were",
    grad = "x.grad has x's shape, [10, 6]",
    home = "and lies on x's device",
    came = "each row's gradient came from the device that had the row",
  },
  teacher = [[
Time: 3 minutes for the first two questions, 4 for the rule on paper, 3 in the viewer, 5 for the exercise.
On the board: ceil(rows / devices) first, then subtract until nothing is left. Let them do 17 on 8 and 100 on 8.
Expected wrong answers: "15 floats each" (split by total size), "3 2 2 2" (split evenly, as a sampler does), "copied"
(the object 'tag'). If fewer than 30 % say "3 3 3", do 5 on 4 and 6 on 4 on the board and ask again; between 30 and 70 %
let neighbours talk for a minute and ask again; above 70 % go on.
In the viewer: /dp.scatter.chunk finds the first, > the next: the Event pane has alias, rows, bytes and offset.
One new command: :until rows = 1. It goes to the next event whose argument rows is 1: the last chunk, on device 3.
Next question for the fast ones: two tensors of 8 and 2 rows on four devices: how many replicas? (Two. Rows 4 to 7 of
the first are dropped without a word.)
Two-minute fallback: ringside run, and only the question about nine rows by show of hands.]],
}

-- The chunks in a stretch of the timeline: their arguments, and the bytes that moved.
local function chunks_of(from, to)
  local list = { rows = {}, bytes = {}, offset = {}, device = {}, moved = 0 }
  for _, event in ipairs(rs.trace:events { kind = "dp.scatter.chunk" }) do
    if event.seq >= from and event.seq < to then
      for _, name in ipairs { "rows", "bytes", "offset" } do table.insert(list[name], event.args[name]) end
      table.insert(list.device, event.device)
      if not event.args.alias then list.moved = list.moved + event.args.bytes end
    end
  end
  return list
end

rs.say(text.welcome)
local FOUR, EIGHT = { 0, 1, 2, 3 }, { 0, 1, 2, 3, 4, 5, 6, 7 }
local x = rs.ones({ 10, 6 }, { device = "device:0", requires_grad = true })

rs.ask(text.cut)
rs.ask(text.bytes)
rs.say(text.watch)
local start = rs.trace:seq()
local chunks = scatter(x, FOUR)
for _, device in ipairs(FOUR) do rs.cuda.synchronize(device) end -- so that the timeline has the copies now
local done = rs.trace:seq()
rs.say(text.moved)

rs.ask(text.nine)
rs.say(text.more)
local cases = { { 5, FOUR }, { 9, FOUR }, { 17, EIGHT }, { 100, EIGHT } }
local lengths = {}
for i, case in ipairs(cases) do
  local batch = rs.ones({ case[1] }, { device = "device:0" })
  lengths[i] = {}
  for r, chunk in ipairs(scatter(batch, case[2])) do lengths[i][r] = chunk:size(0) end
end
rs.say(text.idle)

rs.ask(text.tag)
local before = rs.trace:count { kind = "dp.scatter.shared" }
local nested = scatter({ x, { rs.ones({ 10 }, { device = "device:0" }), "tag", 7 } }, FOUR)
rs.say(text.nested)

-- The gradient of chunk r is r everywhere, so that of a row says who had it.
rs.say(text.back)
local grads = {}
for r, chunk in ipairs(chunks) do grads[r] = rs.full_like(chunk, r) end
rs.autograd.backward(chunks, grads)

-- What the timeline showed, as numbers.
local checks = text.checks
local cut = chunks_of(start, done)
rs.close(checks.rows, cut.rows, { 3, 3, 3, 1 })
rs.close(checks.bytes, cut.bytes, { 72, 72, 72, 24 })
rs.close(checks.offsets, cut.offset, { 0, 18, 36, 54 })
rs.close(checks.devices, cut.device, FOUR)
rs.check(checks.view, chunks[1]:storage_id() == x:storage_id() and chunks[2]:storage_id() ~= x:storage_id())
rs.close(checks.moved, cut.moved, 168)

local expected = { { 2, 2, 1 }, { 3, 3, 3 }, { 3, 3, 3, 3, 3, 2 }, { 13, 13, 13, 13, 13, 13, 13, 9 } }
for i, case in ipairs(cases) do
  rs.close(checks.cases:format(case[1], #case[2], table.concat(expected[i], ", ")), lengths[i], expected[i])
end

local masks, same = {}, true
for r, input in ipairs(nested) do
  masks[r] = input[2][1]:size(0)
  same = same and input[2][2] == "tag" and input[2][3] == 7
end
rs.close(checks.depth, masks, { 3, 3, 3, 1 })
rs.check(checks.shared, rs.trace:count { kind = "dp.scatter.shared" } - before == 2)
rs.check(checks.same, same)
rs.close(checks.grad, x.grad:size(), { 10, 6 })
rs.check(checks.home, x.grad.device == "device:0")
rs.close(checks.came, x.grad:select(1, 0):tolist(), { 1, 1, 1, 2, 2, 2, 3, 3, 3, 4 })

rs.say(text.finish)

rs.teacher(text.teacher)
