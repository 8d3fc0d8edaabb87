-- What is drawn for a device: from a generator of one's own the CPU's numbers, copied; from the rank's own what Philox
-- gives there (src/tensor/cpu/draw.h), number by number.
-- `ringside run --trust --executor free --device cuda draws.lua -- SIZE`
local rs = require "ringside"
rs.lesson { title = "numbers drawn", devices = 1 }
local size = math.tointeger(rs.args[1])

local function both(name, draw)
  local function drawn(device)
    local generator = rs.Generator()
    generator:manual_seed(42)
    return draw { device = device, generator = generator }
  end
  local same = rs.equal(drawn("device:0"):cpu(), drawn "cpu")
  rs.check(name .. " of " .. size .. " from a generator of one's own are the CPU's", same)
end

both("uniform numbers", function(how) return rs.rand({ size }, how) end)
both("normal numbers", function(how) return rs.randn({ size }, how) end)

-- ---- by the rule ----

local mask = 0xffffffff
local function words(seed, subsequence, block)
  local c0, c1, c2, c3 = block & mask, block >> 32, subsequence & mask, subsequence >> 32
  local k0, k1 = seed & mask, seed >> 32
  for _ = 1, 10 do
    local even, odd = c0 * 0xd2511f53, c2 * 0xcd9e8d57
    c0, c1, c2, c3 = (odd >> 32) ~ c1 ~ k0, odd & mask, (even >> 32) ~ c3 ~ k1, even & mask
    k0, k1 = (k0 + 0x9e3779b9) & mask, (k1 + 0xbb67ae85) & mask
  end
  return c0, c1, c2, c3
end
local function single(x) return (string.unpack("<f", string.pack("<f", x))) end
local function fraction(word) return single(single(word) * 2.0 ^ -32 + 2.0 ^ -33) end

rs.manual_seed(42)
local kept = rs.nn.functional.dropout(rs.ones({ size }, { device = "device:0" }), 0.3, true):cpu():tolist()
local uniform = rs.rand({ size }, { device = "device:0" }):cpu():tolist()
local masks, numbers, block = true, true, {}
for i = 0, size - 1 do
  if i % 4 == 0 then block = { words(42, i // 4, 0) } end
  masks = masks and (kept[i + 1] ~= 0) == (fraction(block[i % 4 + 1]) < single(0.7))
  local u = fraction((words(42, i, 1)))
  numbers = numbers and uniform[i + 1] == (u == 1 and 0 or u)
end
rs.check("a mask of dropout of " .. size .. " is Philox's", masks)
rs.check("uniform numbers of " .. size .. " are Philox's", numbers)
rs.check("kernels have drawn both",
  rs.trace:count "kind = kernel and phase = begin and device = 0 and (op ~ bernoulli or op ~ uniform)" == 2)
