-- Lesson 24: three hangs.
--
-- A job that stands still says nothing. Three programs of two ranks, each with the mistake that real jobs make most: one rank
-- validates alone, two ranks call in another order, one rank has fewer batches. Say first where they will stand; then read
-- the report, line by line. It is the same that `ringside hang` prints of the flight recorder's dumps of a real job.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

rs.lesson {
  title = "Three hangs",
  hardware = "classroom",
  costs = { host = 0, kernel = 0 },     -- only the wire costs
  seed = 24,
  minutes = 35,
  needs = "18, 19",
}

local hidden = { "fault", "c10d", "ddp", "comm" } -- kept back while a question is open
local text = {
  welcome = "Three programs stop today. Alone, each ends with exit status 3: ringside run 24 -- a (or b, c). Here we catch it.",
  a = {
    question = "(a) Rank 0 alone calls ddp(x) in eval, then both barrier. They stand",
    choices = { "nowhere, it runs", "both in barrier", "rank 0 in broadcast, rank 1 in barrier" },
    answer = "rank 0 in broadcast, rank 1 in barrier",
    why = "ddp(x) sends rank 0's buffers to all ranks before a forward, in eval, too. Rank 1 is not there to take them.",
    wrong = {
      ["nowhere, it runs"] = "On real jobs it may seem so: rank 0 sends and goes on. Then a barrier meets a broadcast.",
      ["both in barrier"] = "Then nobody would wait in vain. One of the two comes there late: what does ddp(x) do first?",
    },
    hides = hidden,
  },
  lines = {
    "Line 1 says where they stand: %s.",
    "Line 2 says why: %s.",
    "Then how far they agreed: %s.",
    "And who waits for whom: %s.",
  },
  rows = "Below that a row for each rank; the numbers in brackets are the tensor's shape.",
  row = "rank %s: last enqueued %s, started %s, completed %s; now: %s",
  agreed = {
    question = "Call #6 is the last that all made alike. Where is the mistake?",
    choices = { "before that call", "behind it, before the first that differs", "anywhere" },
    answer = "behind it, before the first that differs",
    why = "Up to there all ranks did the same. One call later they do not: between the two lies the line that differs.",
    wrong = {
      ["before that call"] = "Up to there all ranks have made the same calls. What was wrong there would not stop them here.",
      anywhere = "That is what one does without a report: thousands of lines. Here two calls bound the place.",
    },
  },
  b = {
    question = "(b) all_reduce, then broadcast; rank 1 the other way round. They stand",
    choices = {
      "nowhere: each call is made twice",
      "rank 0 in all_reduce #0, rank 1 in broadcast #0",
      "both in all_reduce",
    },
    answer = "rank 0 in all_reduce #0, rank 1 in broadcast #0",
    why = "Calls meet by their number, not by their name. Number 0 is an all_reduce here and a broadcast there.",
    wrong = {
      ["nowhere: each call is made twice"] = "If calls were sorted by name. They are counted: the first meets the first.",
      ["both in all_reduce"] = "Rank 1 would have to be through with its broadcast. Nobody takes it.",
    },
    hides = hidden,
  },
  whose = {
    question = "The report says 'rank 1 left out all_reduce #0', or another order. Which of the ranks is wrong?",
    choices = { "rank 0", "rank 1", "that the program has to say" },
    answer = "that the program has to say",
    why = "With two ranks there is no majority. The report shows two lines; which one was meant, you know.",
    wrong = {
      ["rank 0"] = "Its order is as good as the other one. With three ranks the two that agree would be believed.",
      ["rank 1"] = "It is named since somebody has to be. With two ranks each differs from the other alike.",
    },
  },
  c = {
    question = "(c) Training, one all-reduce a batch. Rank 0 has three batches, rank 1 has five. Where does rank 1 stand?",
    choices = { "in its fourth all-reduce", "in its fifth all-reduce", "at its end, rank 0 waits" },
    answer = "in its fourth all-reduce",
    why = "Three batches meet three. In the fourth backward nobody answers: rank 0 has returned.",
    wrong = {
      ["in its fifth all-reduce"] = "For that the fourth would have to end, and rank 0 has no fourth.",
      ["at its end, rank 0 waits"] = "The one that has more waits. Rank 0 is through and knows nothing of it.",
    },
    hides = hidden,
  },
  arrows = {
    question = "In (a) and (b) it was 0 -> 1 -> 0, a circle. Now it is 1 -> 0 and no way back. What does that tell?",
    choices = { "rank 0 waits, too", "rank 0 is no longer there", "the wire is cut" },
    answer = "rank 0 is no longer there",
    why = "Who is waited for and waits for nobody has returned, raised, was killed, or is stuck in its own code. The report says which.",
    wrong = {
      ["rank 0 waits, too"] = "Then an arrow would lead on from rank 0.",
      ["the wire is cut"] = "Then both would have made the call, and both would wait in it.",
    },
  },
  at_once = "The report comes %.0f virtual us after the last event: it is not a time-out. Gloo would say 'timed out', in half an hour.",
  cures = "The cures, a line each: (a) ddp.module(x), (b) one order, (c) Join, or equal counts. They are your exercise.",
  finish = "Read it in this order: where, why, how far they agreed, who waits. Then open the program, at the line it names.",
  checks = {
    kind = "(%s) is a %s: alone it would end the run with status 3",
    stand = "(%s) rank 0 stands in %s, rank 1 in %s, as their call number %d",
    gone = "(c) rank 1 stands in its fourth gradient's all_reduce, and rank 0 has returned",
    reduced = "(c) rank %d has three averaged gradients of its weight and of its bias",
    agreed = "(%s) the last call that all made alike is %s",
    edges = "(%s) who waits for whom: %s",
    shape = "(%s) the report names shape and line of the lesson",
    fault = "(%s) the record has it as %s",
    at_once = "(%s) is found 0 virtual us after the last event",
  },
  teacher = [[
Time: 15 minutes for the three, 10 in the viewer, 10 for the exercise.
Expected wrong answers: "nowhere, it runs" for (a) (eval is thought to be private to a rank), "each call is made twice" for (b) (calls are
thought to meet by name), "its fifth" for (c).
Play (b): two students with two cards each, all_reduce and broadcast, in another order. They lay down one card at a time.
Below 30 % right on (a): ask what lesson 18's forward did first. 30 to 70 %: pairs draw two columns of calls, ask again.
In the viewer: break fault, c: the lanes end where the ranks stand, and :info tasks says who waits for whom.
One new key: e goes on to the next fault (or failed check), E back to the one before.
The clinic has 19 more: ringside run hang_clinic, each with its report. Whoever has a job that hangs: TORCH_FR_BUFFER_SIZE=2000,
and ringside hang reads the dumps of all ranks.
Next question: (c) with SyncBatchNorm in the model? (It stops in a forward: one call earlier.)
Two-minute fallback: ringside run 24 -- c, and read the report aloud, line by line.]],
}
local checks = text.checks

local jobs = {}

function jobs.a(rank)
  local net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
  local ddp = nn.parallel.DistributedDataParallel(net)
  ddp(rs.randn(4, 2)):sum():backward()
  ddp:eval()
  if rank == 0 then ddp(rs.randn(4, 2)) end         -- only one rank validates
  dist.barrier()
end

function jobs.b(rank)
  local function sum_losses() dist.all_reduce(rs.ones(1)) end
  local function share_weights() dist.broadcast(rs.ones(4), 0) end
  local calls = rank == 0 and { sum_losses, share_weights } or { share_weights, sum_losses }
  for _, call in ipairs(calls) do call() end
end

function jobs.c(rank)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
  for _ = 1, rank == 0 and 3 or 5 do                -- batches
    ddp(rs.ones(1, 2)):sum():backward()
  end
end

local only = ...
if only then
  dist.spawn(jobs[only] or error("there are a, b and c", 0), { world = 2 })
end

-- The report's table, a sentence for each rank: a cell's words stand in its column, on one line or several.
local columns = { "ranks", "last enqueued", "started", "completed", "now" }
local function tell_rows(told)
  local header, rows = told:match("\n(ranks [^\n]*)\n(.*)$")
  local at, cells = { [6] = 1000 }, nil
  for i, name in ipairs(columns) do at[i] = header:find(name, 1, true) end
  rs.say(text.rows)
  for line in (rows .. "\n0"):gmatch("[^\n]+") do
    if line:find("^%d") then
      if cells then rs.say(text.row:format(table.unpack(cells))) end
      cells = { "", "", "", "", "" }
    end
    for i in ipairs(cells) do
      local piece = line:sub(at[i], at[i + 1] - 1):match("^%s*(.-)%s*$")
      cells[i] = cells[i] .. (cells[i] ~= "" and piece ~= "" and " " or "") .. piece
    end
  end
end

-- Runs a job that hangs, and reads its report: the four sentences, where it begins in the record, how late it came.
local function examine(name, kind, edges)
  local seq = rs.trace:seq()
  local _, why = pcall(dist.spawn, jobs[name], { world = 2 })
  local recorded = kind == "MismatchError" and "fault.mismatch" or "fault.deadlock"
  local fault = rs.trace:first(recorded .. " and seq >= " .. seq)
  local told = why.message:gsub("\n  +", " ")
  local parts = { told:match("^[^\n]*"), told:match("\ncause: ([^\n]*)"), told:match("\n\n([^\n]*)"), told:match("for whom: ([^\n]*)") }
  for i, part in ipairs(parts) do rs.say(text.lines[i]:format(part)) end
  tell_rows(why.message)
  local late = (fault.t - rs.trace:last("seq < " .. fault.seq).t) / 1000
  rs.check(checks.kind:format(name, kind), why.kind == kind)
  rs.check(checks.edges:format(name, edges), parts[4] == edges, { virtual = kind == "MismatchError" })  -- in free one may be seen before it waits
  rs.check(checks.shape:format(name), told:find("#%d+ %[%d+%]") ~= nil and told:find("(line " .. why.line .. ")", 1, true) ~= nil)
  rs.check(checks.fault:format(name, recorded), fault.args.report == why.message)
  rs.close(checks.at_once:format(name), late, 0, 1e-9, { virtual = true })
  return parts, seq, late
end
local function stand(name, where, zero, one, number)
  rs.check(checks.stand:format(name, zero, one, number), where == ("rank 1 in %s #%d, rank 0 in %s #%d"):format(one, number, zero, number))
end
local function has(sentence, words) return sentence:find(words, 1, true) ~= nil end

rs.say(text.welcome)
rs.ask(text.a)
local parts = examine("a", "MismatchError", "0 -> 1 -> 0")
stand("a", parts[1], "broadcast", "barrier", 7)
rs.check(checks.agreed:format("a", "all_reduce, number 6"), has(parts[3], "all made alike: all_reduce #6"))
rs.ask(text.agreed)

rs.ask(text.b)
parts = examine("b", "MismatchError", "0 -> 1 -> 0")
stand("b", parts[1], "all_reduce", "broadcast", 0)
rs.check(checks.agreed:format("b", "none"), has(parts[3], "no earlier one is known"))
rs.ask(text.whose)

rs.ask(text.c)
local seq, late
parts, seq, late = examine("c", "DeadlockError", "1 -> 0")
rs.check(checks.gone, has(parts[1], "rank 1 waits in all_reduce #8") and has(parts[2], "rank 0 returned after all_reduce #7"))
rs.check(checks.agreed:format("c", "all_reduce, number 7"), has(parts[3], "all made alike: all_reduce #7"))
for rank = 0, 1 do
  local copies = rs.trace:count(("ddp.copy_bucket_to_grad and rank %d and seq >= %d"):format(rank, seq))
  rs.close(checks.reduced:format(rank), copies, 3 * 2)                               -- weight and bias
end
rs.ask(text.arrows)

rs.say(text.at_once:format(late))
rs.say(text.cures)
rs.say(text.finish)
rs.teacher(text.teacher)
