-- The memory of a device: blocks come back, wait for streams that use them, end at limits, and say so; a training takes
-- nothing more from the driver after its second iteration.
-- `ringside run --trust --executor free --device cuda pool.lua -- REAL`, "yes" on a GPU, "no" on the tests' runtime
local rs = require "ringside"
local nn = rs.nn
local is_real = rs.args[1] == "yes"
rs.lesson { title = "the pool", devices = 2, device_memory = is_real and 2 ^ 42 or 2 ^ 34 }
local DEVICE = "device:0"
local HEAVY = is_real and 2048 or 32         -- products of such matrices keep a stream busy
local BLOCK = is_real and 1 << 30 or 1 << 24 -- so many elements are asked for until there are no more

local function stats() return rs.cuda.memory_stats(0) end

-- Reuse: the second tensor of one size takes the first one's block.
do
  local before = stats()["segment.all.allocated"]
  for _ = 1, 100 do
    local t = rs.zeros({ 1000 }, { device = DEVICE })
    t:add_(1)
    t = nil
    collectgarbage()
  end
  rs.cuda.synchronize()
  local now = stats()
  rs.check("a hundred tensors, one after the other, take one segment", now["segment.all.allocated"] - before <= 1)
  rs.check("and hold nothing when they are gone", now["allocated_bytes.all.current"] == 0)
end

-- record_stream: a block that another stream reads is not given to anybody before that stream is past it. Products keep
-- the other stream busy, so that it reads late.
do
  local side, wrong = rs.cuda.Stream(0), 0
  local heavy = rs.randn { HEAVY, HEAVY }:to(DEVICE)
  for round = 1, 20 do
    local x = rs.full({ 1 << 16 }, round, { device = DEVICE, dtype = "float32" })
    local y
    side:wait_stream(rs.cuda.current_stream(0))
    rs.cuda.stream(side, function()
      for _ = 1, 4 do heavy:mm(heavy) end
      y = x * 1
    end)
    x:record_stream(side)
    x = nil
    collectgarbage()
    local other = rs.full({ 1 << 16 }, -1, { device = DEVICE })
    side:synchronize()
    if not rs.equal(y:cpu(), rs.full({ 1 << 16 }, round, { dtype = "float32" })) then wrong = wrong + 1 end
    other = nil
  end
  rs.check("record_stream keeps a block until the other stream is past it, 20 of 20 times", wrong == 0)
end

-- A training: segments are taken in the first two iterations, none later.
do
  rs.manual_seed(1)
  local model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)):to(DEVICE)
  local optimizer = rs.optim.SGD(model:parameters(), { lr = 0.1, momentum = 0.9 })
  local x, y = rs.randn { 32, 64 }:to(DEVICE), rs.randint(0, 10, { 32 }):to(DEVICE)
  local taken = {}
  for i = 1, 10 do
    optimizer:zero_grad()
    nn.functional.cross_entropy(model(x), y):backward()
    optimizer:step()
    collectgarbage()
    taken[i] = stats()["segment.all.allocated"]
  end
  rs.check("no segment is taken from the third iteration on", taken[10] == taken[2])
  rs.check("and none was given back", stats()["segment.all.freed"] == 0)
end

-- Limits.
local function refusal(f)
  local ok, why = pcall(f)
  return ok and "" or tostring(why)
end
do
  local total = rs.cuda.get_device_properties(0).total_memory
  rs.cuda.set_per_process_memory_fraction(2 ^ 26 / total, 0)
  local text = refusal(function() return rs.empty({ 1 << 26 }, { device = DEVICE }) end)
  print((text:gsub("\n.*", " ...")))
  rs.check("who asks for more than the limit is told how much there may be", text:find "OutOfMemoryError" ~= nil and
           text:find "256.00 MiB were asked for" ~= nil and text:find "may use 64" ~= nil)
  text = refusal(function() return rs.empty({ 1 << 20 }, { device = DEVICE }) end)
  rs.check("what fits is had all the same", text == "")
  rs.cuda.set_per_process_memory_fraction(1.0, 0)
end

-- More than the GPU has: the driver refuses, in words, and work goes on.
do
  local held = {}
  local text = refusal(function()
    for i = 1, 4096 do held[i] = rs.empty({ BLOCK }, { device = DEVICE }) end
  end)
  local blocks = #held
  held = nil
  collectgarbage()
  print("after " .. blocks .. " blocks: " .. (text:gsub("\n.*", " ...")))
  rs.check("more than there is ends in an OutOfMemoryError", text:find "OutOfMemoryError" ~= nil)
  rs.cuda.synchronize()
  rs.cuda.empty_cache()
  rs.check("and after that the device works on", rs.ones({ 1000 }, { device = DEVICE }):sum():item() == 1000)
end
