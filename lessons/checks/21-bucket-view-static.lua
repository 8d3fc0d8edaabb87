-- Checks of exercise 21. All four kinds of training run; the record says what was copied in each iteration.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local layers, width = rs.vary(2, { 1, 3, 4 }), rs.vary(4, { 2, 5 })
rs.lesson { title = "Exercise: which copies return?", devices = 2, hardware = "classroom", seed = 21 }

local text = {
  checks = {
    into = "%s, %s, iteration %d: copies into the bucket",
    back = "%s, %s, iteration %d: copies out of it",
  },
  view = { [true] = "views of the bucket", [false] = "gradients of their own" },
  none = { [true] = "made nil", [false] = "set to zero" },
  hints = {
    into = {
      "A gradient that lies in the bucket already is divided there. Which ones do, when the backward has added to them?",
      "A gradient that was nil before the backward is a new tensor after it, with a storage of its own.",
      "So only views that were set to zero stay where they are; and before iteration 0 there is none.",
    },
    back = {
      "The mean arrives in the bucket. A gradient with a storage of its own has to get it from there.",
      "And a gradient that is a view of the bucket?",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- Of each of three iterations: how many gradients were multiplied from a storage of their own into the bucket, and how
-- many copied out of it.
local function train(rank, view, set_to_none)
  local list, told, device = {}, {}, "device:" .. rank -- there each kernel is recorded
  for i = 1, layers do list[i] = nn.Linear(width, width) end
  local net = nn.Sequential(table.unpack(list)):to(device)
  local ddp = nn.parallel.DistributedDataParallel(net, { gradient_as_bucket_view = view })
  for iteration = 0, 2 do
    ddp:zero_grad { set_to_none = set_to_none }
    local since = rs.trace:seq()
    ddp(rs.ones({ 1, width }, { device = device })):sum():backward()
    local function count(what) return rs.trace:count(("%s and rank %d and seq >= %d"):format(what, rank, since)) end
    told[iteration] = { into = count("kernel and op = mul_scalar"), back = count("ddp.copy_bucket_to_grad") }
  end
  return told
end

for _, view in ipairs { false, true } do
  for _, set_to_none in ipairs { true, false } do
    local told = dist.spawn(train, { world = 2, args = { view, set_to_none } })[0]
    for iteration = 0, 2 do
      local said = student.copies(2 * layers, view, set_to_none, iteration)
      said = type(said) == "table" and said or {}
      local place = { text.view[view], text.none[set_to_none], iteration }
      rs.close(checks.into:format(table.unpack(place)), said.into, told[iteration].into, { hints = hints.into })
      rs.close(checks.back:format(table.unpack(place)), said.back, told[iteration].back, { hints = hints.back })
    end
  end
end
