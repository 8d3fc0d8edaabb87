-- Checks of exercise 14. What the rule says of lists of sizes, then what DDP does with models of other widths.
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed

local layers, width = rs.vary(4, { 3, 5, 6 }), rs.vary(512, { 96, 200, 300 })
local widths = rs.vary({ 64, 256, 128, 32, 200 }, { { 200, 40, 300 }, { 16, 16, 400, 90 }, { 128, 128, 128, 128, 128, 128 } })
local cap_kib = rs.vary(96, { 40, 300, 128 })
rs.lesson { title = "Exercise: predict the boxes", hardware = "classroom", seed = 14 }

local MIB = 1024 * 1024
local text = {
  checks = {
    default = "no cap given: %d layers of width %d",
    same = "a cap of 2 MiB",
    exact = "a size that just reaches the cap closes the bucket",
    huge = "a huge gradient joins what is open",
    list = "three caps, the last one repeats",
    ran = "DDP cuts a model of other widths as you do",
    each = "%d layers, a bucket each after the rebuild",
  },
  hints = {
    cut = {
      "Go through bytes and add up. When is a bucket full?",
      "It is full when the sum reaches its cap: sum >= cap, with the gradient that did it.",
      "What is left at the end is a bucket, too, if it is not empty.",
    },
    caps = {
      "Which cap holds for bucket number n, counted from 1? caps[n], and behind the end of caps its last one.",
      "caps[math.min(n, #caps)].",
    },
    each = {
      "A layer is a bias of 4 * width bytes, then a weight of 4 * width * width.",
      "The cap has to be more than the bias, and at most bias and weight together. Bytes / (1024 * 1024) are MiB.",
    },
  },
}
local checks, hints = text.checks, text.hints
local student = rs.exercise()

-- The rule itself, for what is expected.
local function rule(bytes, caps)
  local buckets, open = {}, nil
  for _, size in ipairs(bytes) do
    open = (open or 0) + size
    if open >= (caps[#buckets + 1] or caps[#caps]) then buckets[#buckets + 1], open = open, nil end
  end
  buckets[#buckets + 1] = open
  return buckets
end

-- The sizes of layers' gradients as they become ready: last layer first, the bias before the weight.
local function ready(sizes)
  local bytes = {}
  for i = #sizes, 1, -1 do
    local from, to = sizes[i], sizes[i + 1] or sizes[i]
    bytes[#bytes + 1], bytes[#bytes + 2] = 4 * to, 4 * from * to
  end
  return bytes
end

-- The buckets of rank 0 that a rebuild made.
local function rebuilt(sizes, cap_mb)
  local list, seq = {}, rs.trace:seq()
  for i, from in ipairs(sizes) do list[i] = nn.Linear(from, sizes[i + 1] or from) end
  dist.spawn(function()
    local ddp = nn.parallel.DistributedDataParallel(nn.Sequential(table.unpack(list)), { bucket_cap_mb = cap_mb })
    for _ = 1, 2 do ddp(rs.ones(1, sizes[1])):sum():backward() end
  end, { world = 2 })
  local buckets = {}
  for _, bucket in ipairs(rs.trace:events { kind = "ddp.bucket", rank = 0 }) do
    if bucket.seq > seq then buckets[#buckets + 1] = bucket.args.bytes end
  end
  table.remove(buckets, 1)              -- iteration 0's
  return buckets
end

local function same(name, bytes, caps, tips)
  rs.close(name, student.cut({ table.unpack(bytes) }, { table.unpack(caps) }), rule(bytes, caps), 0, { hints = tips })
end

local alike = {}
for i = 1, layers do alike[i] = width end
same(checks.default:format(layers, width), ready(alike), { MIB, 25 * MIB }, hints.cut)
same(checks.same, ready { 512, 512, 512, 512 }, { 2 * MIB }, hints.cut)
same(checks.exact, { 60, 40, 100, 99, 1, 7 }, { 100 }, hints.cut)
same(checks.huge, { 8, 9000, 8, 8 }, { 100 }, hints.cut)
same(checks.list, { 10, 20, 30, 40, 50, 60, 70, 80 }, { 30, 60, 100 }, hints.caps)

local cap = cap_kib * 1024
rs.close(checks.ran, student.cut(ready(widths), { cap }), rebuilt(widths, cap / MIB), 0, { hints = hints.cut })

local wanted, given = {}, student.one_each(width, layers)
for i = 1, layers do wanted[i] = 4 * (width * width + width) end
local usable = type(given) == "number" and given > 0 and given < 4096
rs.close(checks.each:format(layers), usable and rebuilt(alike, given) or {}, wanted, 0, { hints = hints.each })
