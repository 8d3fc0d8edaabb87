-- Bytes on four devices, worked out by hand from the allocator's rules: blocks are rounded up to 512 bytes; blocks of up
-- to 1 MiB come from segments of 2 MiB, below 10 MiB from segments of 20 MiB.
local rs = require "ringside"
local nn, cuda = rs.nn, rs.cuda
rs.lesson { title = "Memory of four devices", devices = 4 }
rs.manual_seed(0)

local MIB = 1024 * 1024
local function block(bytes) return (bytes + 511) // 512 * 512 end
local function floats(count) return block(4 * count) end

local function holds(name, device, allocated, reserved)
  collectgarbage()
  local is, has = cuda.memory_allocated(device), cuda.memory_reserved(device)
  rs.check(("%s: device %d holds %d B in segments of %d B (%d, %d)"):format(name, device, allocated, reserved, is, has),
    is == allocated and has == reserved)
end

local function all_hold(name, first, first_reserved, others, others_reserved)
  holds(name, 0, first, first_reserved)
  for device = 1, 3 do holds(name, device, others, others_reserved) end
end

-- ---- an MLP with Adam under DataParallel: 100 rows of 100 features a device ----
local function mlp()
  local net = nn.Sequential { nn.Linear(100, 200), nn.ReLU(), nn.Linear(200, 10) }:to "device:0"
  local dp = nn.DataParallel(net, { device_ids = { 0, 1, 2, 3 } })
  local opt = rs.optim.Adam(net:parameters(), { lr = 0.001 })
  local x = rs.randn({ 400, 100 }, { device = "device:0" })
  local y = rs.randint(0, 10, { 400 }):to "device:0"

  -- Four tensors, each in a block of its own; labels are int64.
  local parameters = floats(200 * 100) + floats(200) + floats(10 * 200) + floats(10)
  local data = floats(400 * 100) + block(8 * 400)
  all_hold("the MLP and its data", parameters + data, 2 * MIB, 0, 0)

  -- A replica's parameters are pieces of one flat copy; its graph keeps its chunk and what ReLU put out.
  local flat = floats(200 * 100 + 200 + 10 * 200 + 10)
  local out = dp(x)
  local graph = floats(100 * 200)
  all_hold("after forward", parameters + data + graph + floats(400 * 10), 2 * MIB,
    flat + floats(100 * 100) + graph, 2 * MIB)

  -- The sum of the gradients is one flat tensor, of which each .grad is a piece.
  local loss = nn.functional.cross_entropy(out, y)
  loss:backward()
  out, loss = nil, nil
  all_hold("after backward", parameters + data + flat, 2 * MIB, 0, 2 * MIB)

  -- Adam's two moments are as large as the parameters, each in a block of its own.
  opt:step()
  local state = 2 * parameters
  all_hold("after Adam's first step", parameters + data + flat + state, 2 * MIB, 0, 2 * MIB)

  local function step()
    opt:zero_grad()
    nn.functional.cross_entropy(dp(x), y):backward()
    opt:step()
  end
  step()
  collectgarbage()
  local segments, peak = rs.trace:count "memory.segment", cuda.max_memory_allocated(0)
  for _ = 1, 5 do
    step()
    collectgarbage()
  end
  rs.check("a steady iteration takes no segment and gives none back", rs.trace:count "memory.segment" == segments)
  rs.check("its peak stays", cuda.max_memory_allocated(0) == peak)
  all_hold("after seven steps", parameters + data + flat + state, 2 * MIB, 0, 2 * MIB)
end
mlp()
collectgarbage()
all_hold("when all has gone", 0, 2 * MIB, 0, 2 * MIB)
cuda.empty_cache()
all_hold("when the caches are empty", 0, 0, 0, 0)

-- ---- Linear(1000, 1000) with 1000 rows, the batch of lesson 09 ----
local function costs()
  local net = nn.Linear(1000, 1000):to "device:0"
  local dp = nn.DataParallel(net, { device_ids = { 0, 1, 2, 3 } })
  local x = rs.randn({ 1000, 1000 }, { device = "device:0" })
  local weight, bias, batch = floats(1000 * 1000), floats(1000), floats(1000 * 1000)
  -- Weight and batch (3.8 MiB each) share a segment of 20 MiB; the bias has one of 2 MiB.
  holds("Linear and its batch", 0, weight + bias + batch, 22 * MIB)

  -- The flat copy is large, a chunk of 250 rows (0.95 MiB) small; device 0 uses what it has, and gathers. Nobody asks for
  -- the batch's gradient, so the graph keeps the chunk and not the weight.
  local out = dp(x)
  local flat, chunk = floats(1000 * 1000 + 1000), floats(250 * 1000)
  rs.check("a chunk comes from a small segment", chunk <= MIB)
  all_hold("after its forward", weight + bias + batch + floats(1000 * 1000), 22 * MIB, chunk, 22 * MIB)
  rs.check("device 0 peaks", cuda.max_memory_allocated(0) > cuda.max_memory_allocated(1))

  -- Weight, batch, outputs and the weight's gradient leave 4 970 496 of the first 20 MiB. The flat gradient takes them
  -- all, since a rest below 1 MiB is not parted with. Those that are added to it need a second segment.
  out:sum():backward()
  out = nil
  rs.check("the flat gradient leaves a rest that is too small", 20 * MIB - 4 * weight - flat < MIB)
  all_hold("after its backward", weight + bias + batch + flat, 42 * MIB, 0, 22 * MIB)
end
costs()

-- ---- what each byte is for ----
local function roles()
  local net = nn.Sequential { nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128) }:to "device:0"
  local dp = nn.DataParallel(net, { device_ids = { 0, 1 } })
  local opt = rs.optim.Adam(net:parameters())
  local x, y = rs.randn({ 512, 64 }, { device = "device:0" }), rs.randint(0, 128, { 512 }):to "device:0"
  local parameters = floats(64 * 256) + 3 * floats(256) + floats(256 * 128) + floats(128)
  local buffers = 2 * floats(256) + block(8)
  local inputs = floats(512 * 64) + block(8 * 512)
  local function tells(name, device, wanted, seq)
    local memory = rs.trace:memory(device, seq)
    local sum = 0
    for role, bytes in pairs(wanted) do
      rs.check(("%s: device %d has %d B of %s (%s)"):format(name, device, bytes, role, memory[role]), memory[role] == bytes)
      sum = sum + bytes
    end
    rs.check(("%s: device %d has nothing else (%d of %d)"):format(name, device, sum, memory.allocated), memory.allocated == sum)
    return memory
  end
  collectgarbage()
  local rest = cuda.memory_allocated(0) - parameters - buffers - inputs
  rs.check("nothing is left of what was before", rest == 0)
  tells("before", 0, { parameters = parameters, buffers = buffers, inputs = inputs })
  local before = rs.trace:seq() - 1

  local out = dp(x)
  local flat = floats(64 * 256 + 3 * 256 + 256 * 128 + 128)
  local memory = rs.trace:memory(1)
  rs.check("the replica's parameters are those of a replica", memory.replicas >= flat and memory.parameters == 0)
  rs.check("chunks are inputs", memory.inputs == floats(256 * 64))
  rs.check("what its modules keep are activations", memory.activations >= 2 * floats(256 * 256))
  rs.check("the pieces come to all that is allocated", memory.allocated == cuda.memory_allocated(1))
  rs.check("gathered are outputs", rs.trace:memory(0).outputs == floats(512 * 128))
  local loss = nn.functional.cross_entropy(out, y)
  loss:backward()
  out, loss = nil, nil
  collectgarbage()
  tells("after backward", 0,
    { parameters = parameters, buffers = buffers, inputs = inputs, gradients = flat })
  opt:step()
  tells("after the step", 0, { parameters = parameters, buffers = buffers, inputs = inputs, gradients = flat,
    optimizer_state = 2 * parameters })
  rs.check("reserved bytes are told, too", rs.trace:memory(0).reserved == cuda.memory_reserved(0))
  tells("before, asked afterwards", 0, { parameters = parameters, buffers = buffers, inputs = inputs }, before)
  opt:zero_grad()
  tells("without gradients", 0, { parameters = parameters, buffers = buffers, inputs = inputs,
    optimizer_state = 2 * parameters })
  rs.check("the host's too", rs.trace:memory("cpu").reserved == 0)
end
collectgarbage()
cuda.empty_cache()
roles()
