-- Lesson 02: who owns these bytes?
--
-- A tensor is a way to read a storage: where to begin (offset), how far to the next element in each dimension
-- (strides), how many (shape). A view is another way to read the same storage; a copy is another storage. Everything
-- that DataParallel does with a batch is one of the two, and from here on you can tell which.
local rs = require "ringside"

rs.lesson {
  title = "Who owns these bytes?",
  devices = 2,
  hardware = "classroom",
  seed = 2,
  minutes = 20,
  needs = "01",
}

local text = {
  welcome = "24 floats in one storage of 96 bytes on device 0, read as 4 rows of 6:\n%s",
  pieces = {
    question = "x:chunk(3, 0) asks for three pieces of four rows. How many come?",
    choices = { "2", "3", "4" },
    answer = "2",
    why = "ceil(4 / 3) = 2 rows a piece, and after two pieces nothing is left. The rule of lesson 01.",
    wrong = {
      ["3"] = "Three is what you ask for. The length of a piece is worked out first, the number follows.",
      ["4"] = "One row each would be four pieces: more than were asked for.",
    },
    hides = "memory",
  },
  write = {
    question = "Now second[{ 0, 0 }] = -1. Does x change?",
    choices = { "no, chunk made a copy", "yes, at row 2, column 0", "yes, at row 0, column 0" },
    answer = "yes, at row 2, column 0",
    why = "Element 0 of the second piece is element 12 of the storage, and that is row 2, column 0 of x.",
    wrong = {
      ["no, chunk made a copy"] = "No memory.alloc has been recorded: there are no other bytes to write to.",
      ["yes, at row 0, column 0"] = "The second piece does not begin where the storage begins: mind its offset.",
    },
    hides = "memory",
  },
  turn = "The other way round: two pieces along dim 1, and the transpose. Neither moves an element.",
  share = {
    question = "second:to('device:1'): do the two share bytes?",
    choices = { "yes, it is a view on another device", "no, it is a copy" },
    answer = "no, it is a copy",
    why = "A storage lives on one device. Values travel, addresses do not: that is all scatter and replicate can do.",
    wrong = { ["yes, it is a view on another device"] = "A view reads another tensor's bytes, and those lie on device 0." },
    hides = { "memory", "stream", "kernel" },
  },
  finish = "One storage, read in many ways; one copy, because a device was crossed. Ask of each tensor: whose bytes?",
  checks = {
    strides = "from one row to the next it is 6 elements, within a row 1",
    pieces = "chunk(3, 0) makes two pieces",
    rows = "of 2 rows each",
    offsets = "their offsets are 0 and 12",
    same_strides = "their strides are x's: 6 and 1",
    aliases = "two memory.alias, both of x's storage",
    no_alloc = "and no memory.alloc: a view costs no bytes",
    write = "after the write x[2, 0] is -1",
    version = "the write is counted: x and its views share a version",
    right = "chunk(2, 1)'s second piece is 4 rows of 3",
    right_offset = "it begins at element 3",
    right_strides = "from row to row it is still 6 elements",
    gaps = "so its rows have gaps between them: not contiguous",
    turned = "t() only swaps the strides: 1 and 6",
    storage = "all of them read x's storage",
    still = "three more memory.alias, still no memory.alloc",
    to = "to makes one memory.alloc, on device 1",
    bytes = "of 48 bytes, the piece and not the whole storage",
    own = "it has a storage of its own",
    apart = "a write there leaves x as it was",
    nothing = "to the device where it is, to copies nothing",
  },
  teacher = [[
Time: 8 minutes to run and predict, 7 in the viewer, 5 for the exercise.
Before running, write 0 to 23 in one long row on the board and let the class draw each piece into it: chunk(3, 0) is
two halves, chunk(2, 1)'s second piece is four islands. Islands are what "not contiguous" means.
Expected wrong answers: "3" pieces (the argument is taken for the result), "no, chunk made a copy" (from NumPy's fancy
indexing, or from list slices in Python), "row 0, column 0" (the offset is forgotten).
In the viewer: break memory.alias, then c again and again: in the Event pane elements and offset change, the storage
stays the same; in the Memory pane device 0 stays at 96 bytes. Views take no time: look for them there, not on the
timeline. An element, x[{ 2, 0 }], is two views: a row, and one element of it. Then /memory.alloc, and > to the last:
another device, another storage, 48 bytes, in a block of 512: allocators round up. (The first 96 bytes, on the CPU, are
arange's own.)
Next question for the fast ones: x:view { 24 } works, x:t():view { 24 } does not. Why, and what does reshape do then?
Two-minute fallback: ringside run, and only the question about second[{ 0, 0 }] by show of hands.]],
}
local checks = text.checks

-- What the timeline recorded since `before`, as a list of events.
local function since(before, query)
  local list = {}
  for _, event in ipairs(rs.trace:events(query)) do
    if event.seq >= before then list[#list + 1] = event end
  end
  return list
end

-- Elements count from 0, as in PyTorch: x[{ 2, 0 }] is row 2, column 0. A list of tensors is a Lua table and counts
-- from 1: PyTorch's x.chunk(3, 0)[1] is x:chunk(3, 0)[2].
local x = rs.arange(24, { dtype = "float32", device = "device:0" }):view { 4, 6 }
local own = x:storage_id()
rs.say(text.welcome:format(tostring(x)))
rs.close(checks.strides, x:stride(), { 6, 1 })

rs.ask(text.pieces)
local before = rs.trace:seq()
local pieces = x:chunk(3, 0)
local views, allocs = since(before, { kind = "memory.alias" }), since(before, { kind = "memory.alloc" })
local first, second = pieces[1], pieces[2]
rs.check(checks.pieces, #pieces == 2)
rs.close(checks.rows, { first:size(0), second:size(0) }, { 2, 2 })
rs.close(checks.offsets, { first:storage_offset(), second:storage_offset() }, { 0, 12 })
rs.close(checks.same_strides, { first:stride(), second:stride() }, { { 6, 1 }, { 6, 1 } })
rs.check(checks.aliases,
  #views == 2 and views[1].args.storage == own and views[2].args.storage == own)
rs.check(checks.no_alloc, #allocs == 0)

rs.ask(text.write)
second[{ 0, 0 }] = -1
rs.close(checks.write, x[{ 2, 0 }]:item(), -1)
rs.check(checks.version, x._version == second._version and x._version > 0)

rs.say(text.turn)
before = rs.trace:seq()
local right = x:chunk(2, 1)[2]
local turned = x:t()
rs.close(checks.right, right:size(), { 4, 3 })
rs.close(checks.right_offset, right:storage_offset(), 3)
rs.close(checks.right_strides, right:stride(), { 6, 1 })
rs.check(checks.gaps, not right:is_contiguous())
rs.close(checks.turned, turned:stride(), { 1, 6 })
rs.check(checks.storage, right:storage_id() == own and turned:storage_id() == own)
rs.check(checks.still,
  #since(before, { kind = "memory.alias" }) == 3 and #since(before, { kind = "memory.alloc" }) == 0)

rs.ask(text.share)
before = rs.trace:seq()
local there = second:to("device:1")
allocs = since(before, { kind = "memory.alloc" })
rs.check(checks.to, #allocs == 1 and allocs[1].device == 1)
rs.close(checks.bytes, allocs[1].args.bytes, 48)
rs.check(checks.own, there:storage_id() ~= own and there:storage_offset() == 0)
there[{ 1, 0 }] = 100
rs.close(checks.apart, x[{ 3, 0 }]:item(), 18)
rs.check(checks.nothing, second:to("device:0"):storage_id() == own)

rs.say(text.finish)

rs.teacher(text.teacher)
