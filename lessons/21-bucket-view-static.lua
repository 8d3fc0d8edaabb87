-- Lesson 21: fewer copies, fewer walks.
--
-- Gradients are copied into their bucket, and the means back out of it: each number lies in memory twice. With
-- gradient_as_bucket_view a gradient is a view of its bucket. And with static_graph DDP looks for unused parameters once.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Fewer copies, fewer walks",
  devices = 2,
  hardware = "classroom",
  seed = 21,
  minutes = 20,
  needs = "14", story = { ["c10d.rendezvous"] = false, ["ddp.verify_params"] = false },
}

local text = {
  welcome = "Linear(4, 4), then Linear(4, 2), on two ranks: four gradients with 30 numbers, 120 bytes, and one bucket.",
  copies = {
    question = "After a backward: how many storages are behind the four gradients and the bucket?",
    choices = { "1", "4", "5" },
    answer = "5",
    why = "Each gradient has one, and the bucket is a tensor of its own: what travels is a copy.",
    wrong = {
      ["1"] = "Not by itself. That is what gradient_as_bucket_view is for.",
      ["4"] = "The bucket is not one of the gradients: they are copied into it, and the means are copied back.",
    },
    hides = { "ddp", "autograd", "c10d", "memory" },
  },
  view = {
    question = "And with gradient_as_bucket_view = true?",
    choices = { "1", "2", "5" },
    answer = "1",
    why = "Each gradient is a piece of the bucket: 120 bytes in all instead of 240, and no way back to copy.",
    wrong = {
      ["2"] = "There is no second one: the mean arrives in the bucket, and there the gradients are.",
      ["5"] = "A view has no storage of its own: lesson 02.",
    },
    hides = { "ddp", "autograd", "c10d", "memory" },
  },
  offset = {
    question = "Iteration 1's bucket is rebuilt in the order in which gradients came. Where in it does the first weight begin?",
    choices = { "0", "14", "20" },
    answer = "14",
    why = "It is ready last: behind the second layer's bias and weight and the first one's bias, 2 + 8 + 4 elements.",
    wrong = {
      ["0"] = "So it was in iteration 0, where the bucket lay in the order of definition.",
      ["20"] = "There the second weight began in iteration 0, behind 16 + 4 elements.",
    },
    hides = { "ddp", "autograd", "c10d", "memory" },
  },
  static = {
    question = "Layers a, b, c, only a is used. Three iterations: how many all-reduces with static_graph? find_unused makes 6.",
    choices = { "3", "4", "6" },
    answer = "4",
    why = "One bucket each time, and the map of what is used once: DDP trusts that it stays so, and walks no graph any more.",
    wrong = {
      ["3"] = "Once the ranks have to tell each other what they use: in the first iteration.",
      ["6"] = "find_unused sends its map in every iteration, as any of them may use another branch.",
    },
    hides = { "ddp", "autograd", "c10d", "comm" },
  },
  change = {
    question = "Now a in iteration 0 and b in iteration 1, still with static_graph. What happens?",
    choices = { "b gets its mean", "an error on both ranks", "a hang" },
    answer = "an error on both ranks",
    why = "b's hook fires in the backward, though iteration 0 said that it never does: each rank finds that out for itself.",
    wrong = {
      ["b gets its mean"] = "Nobody waits for b: what iteration 0 has seen is what is waited for.",
      ["a hang"] = "Both ranks take the other branch, and both notice. Nobody is left alone in a collective.",
    },
    hides = { "ddp", "autograd", "c10d", "comm", "fault" },
  },
  has = "Iteration %d: storages: %d, with %d bytes; the gradients begin at elements %s.",
  walks = "All-reduces in three iterations: %d with find_unused_parameters, %d with static_graph.",
  told = "Both ranks were told: %s",
  finish = "A view saves the copy and the bytes; a static graph saves the search, and must stay what it was.",
  copied = "copied",
  viewed = "views",
  checks = {
    sizes = "%s, rank %d: in both iterations storages: %d, bytes: %d",
    offsets = "%s, rank %d: the gradients begin at %s, then at %s",
    back = "%s, rank %d: %d copies from a bucket to a gradient",
    same = "rank %d: the gradients are bit by bit the same in both runs",
    walks = "rank %d: three iterations make %d all-reduces with find_unused_parameters, %d with static_graph",
    changed = "rank %d: the other branch is an error, in iteration 1",
  },
  teacher = [[
Time: 6 minutes for the questions, 8 in the viewer, 6 for the exercise.
Draw 30 boxes in a row, the bucket, and let four students stand before their pieces: that is a view. Then let them swap
places for iteration 1.
Expected wrong answers: "4" (the bucket is thought of as a list), "0" (definition order), "a hang" (every surprise in DDP
is expected to hang). Below 30 % right on the offset: write down the order of lesson 15 first. Between 30 and 70 %: pairs
add up elements, ask again. Above: go on.
In the viewer: break ddp.copy_bucket_to_grad rank 0, then c: eight stops in the first run, none in the second. In the third
and fourth run break ddp.used_map rank 0 stops three times, then once.
One new command: info buckets. After each backward of the second run it lists what lies in the bucket, in which order: add
up the elements before the first weight.
Next question: may one call grad:detach_() on such a gradient? (No: it is a view, and PyTorch refuses.)
Two-minute fallback: ringside run, and read the four lines with storages and offsets aloud.]],
}
local checks = text.checks

-- What has to come out: storages and their bytes, copies in two iterations, where the gradients begin; all-reduces with
-- find_unused_parameters and with static_graph; in which iteration another branch fails, and with what.
local expected = {
  [text.copied] = { size = { 5, 240 }, back = 8, offsets = { { 0, 0, 0, 0 }, { 0, 0, 0, 0 } } },
  [text.viewed] = { size = { 1, 120 }, back = 0, offsets = { { 0, 16, 20, 28 }, { 14, 10, 2, 0 } } },
  walks = { 6, 4 },
  changed = "1 RuntimeError",
}

-- Two iterations; of each: how many storages with how many bytes the bucket (given 120 bytes last) and the gradients lie
-- in, where in them the gradients begin, and what they are.
local function train(rank, view)
  rs.manual_seed(21)
  local net, told = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), { sizes = {}, offsets = {}, grads = {} }
  local ddp = nn.parallel.DistributedDataParallel(net, { gradient_as_bucket_view = view })
  for i = 1, 2 do
    ddp:zero_grad()
    ddp(rs.randn(1, 4) * (rank + 1)):sum():backward()
    local size, offsets, seen = { 1, 120 }, {}, {}
    seen[rs.trace:last { kind = "memory.alloc", bytes = 120, rank = rank }.args.storage] = true
    for k, p in ipairs(net:parameters()) do
      local id = p.grad:storage_id()
      local bytes = rs.trace:last { kind = "memory.alloc", storage = id }.args.bytes
      if not seen[id] then size = { size[1] + 1, size[2] + bytes } end
      seen[id], offsets[k], told.grads[4 * i + k - 4] = true, p.grad:storage_offset(), p.grad:tolist()
    end
    told.sizes[i], told.offsets[i] = size, offsets
    if rank == 1 then rs.say(text.has:format(i - 1, size[1], size[2], table.concat(offsets, " "))) end
  end
  return told
end

local told = {}
local function compare(name, view)
  local seq, wanted = rs.trace:seq(), expected[name]
  told[name] = dist.spawn(train, { world = 2, args = { view } })
  for rank = 0, 1 do
    local here, copies = told[name][rank], "ddp.copy_bucket_to_grad and rank %d and seq >= %d"
    rs.close(checks.sizes:format(name, rank, wanted.size[1], wanted.size[2]), here.sizes, { wanted.size, wanted.size })
    local first, second = table.concat(wanted.offsets[1], " "), table.concat(wanted.offsets[2], " ")
    rs.close(checks.offsets:format(name, rank, first, second), here.offsets, wanted.offsets)
    rs.close(checks.back:format(name, rank, wanted.back), rs.trace:count(copies:format(rank, seq)), wanted.back)
    if view then rs.close(checks.same:format(rank), here.grads, told[text.copied][rank].grads, 0) end
  end
end

rs.say(text.welcome)
rs.ask(text.copies)
compare(text.copied, false)
rs.ask(text.view)
rs.ask(text.offset)
compare(text.viewed, true)

local Branches = nn.Module("Branches")
function Branches:init()
  for _, name in ipairs { "a", "b", "c" } do self[name] = nn.Linear(2, 2) end
end
function Branches:forward(x, branch) return self[branch](x) end

-- One iteration a branch. Answers how many all-reduces it took; or the iteration that failed, and what was told.
local function walk(rank, option, branches)
  local ddp, made = nn.parallel.DistributedDataParallel(Branches(), { [option] = true }), rs.trace:seq()
  for i, branch in ipairs(branches) do
    ddp:zero_grad()
    local went, why = pcall(function() ddp(rs.full({ 1, 2 }, rank + 1.0), branch):sum():backward() end)
    if not went then return { i - 1 .. " " .. why.kind, why.message } end
  end
  return rs.trace:count("c10d.allreduce and rank " .. rank .. " and seq >= " .. made)
end

rs.ask(text.static)
local searched = dist.spawn(walk, { world = 2, args = { "find_unused_parameters", { "a", "a", "a" } } })
local static = dist.spawn(walk, { world = 2, args = { "static_graph", { "a", "a", "a" } } })
rs.say(text.walks:format(searched[0], static[0]))
for rank = 0, 1 do
  rs.close(checks.walks:format(rank, table.unpack(expected.walks)), { searched[rank], static[rank] }, expected.walks)
end

rs.ask(text.change)
local changed = dist.spawn(walk, { world = 2, args = { "static_graph", { "a", "b" } } })
rs.say(text.told:format(changed[1][2]))
for rank = 0, 1 do rs.check(checks.changed:format(rank), changed[rank][1] == expected.changed) end

rs.say(text.finish)
rs.teacher(text.teacher)
