-- In `free` a real device draws by itself, from Philox: where it stands, who shares it, and that each number is what the
-- rule makes of a block. Arguments: executor=free|stepped
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "devices that draw", prefix = "", devices = 2 }
local executor = (... or ""):match "^executor=(%w+)$" or "free"
local functional = nn.functional

-- ---- the rule, by hand (src/tensor/cpu/draw.h) ----

local function words(seed, subsequence, block)
  local mask, c = 0xffffffff, { block & 0xffffffff, block >> 32, subsequence & 0xffffffff, subsequence >> 32 }
  local k0, k1 = seed & mask, seed >> 32
  for _ = 1, 10 do
    local even, odd = c[1] * 0xd2511f53, c[3] * 0xcd9e8d57
    c = { (odd >> 32) ~ c[2] ~ k0, odd & mask, (even >> 32) ~ c[4] ~ k1, even & mask }
    k0, k1 = (k0 + 0x9e3779b9) & mask, (k1 + 0xbb67ae85) & mask
  end
  return c
end
local function single(x) return (string.unpack("<f", string.pack("<f", x))) end
local function fraction(word) return single(single(word) * 2.0 ^ -32 + 2.0 ^ -33) end

-- The mask of `block`: element i takes word i mod 4 of subsequence i div 4.
local function is_mask(mask, seed, block, keep)
  local right = true
  for i = 0, #mask - 1 do
    local kept = fraction(words(seed, i // 4, block)[i % 4 + 1]) < single(keep)
    right = right and (mask[i + 1] ~= 0) == kept
  end
  return right
end

-- Number i of [0, 1): the first word of subsequence i.
local function are_uniform(numbers, seed, block)
  local right = true
  for i = 0, #numbers - 1 do
    local u = fraction(words(seed, i, block)[1])
    right = right and numbers[i + 1] == (u == 1 and 0 or u)
  end
  return right
end

-- ---- masks ----

local size = 1003
local function mask_on(device, p) return functional.dropout(rs.ones({ size }, { device = device }), p, true) end
local function numbers(t) return t:cpu():reshape { -1 }:tolist() end
local function equal(a, b) return rs.equal(a:cpu(), b:cpu()) end

rs.manual_seed(42)
local first, second, other = mask_on("device:0", 0.3), mask_on("device:0", 0.3), mask_on("device:1", 0.3)
rs.manual_seed(42)
rs.check("a seed gives the same masks again", equal(mask_on("device:0", 0.3), first) and equal(mask_on("device:0", 0.3), second))
rs.check("the next mask is another", not equal(first, second))

local function device_draws()
  rs.check("a mask is what the rule makes of the seed's first block", is_mask(numbers(first), 42, 0, 0.7))
  rs.check("the next one, of its second block", is_mask(numbers(second), 42, 1, 0.7))
  rs.check("a device whose seed is the same draws the same, whatever others have drawn", equal(first, other))

  rs.manual_seed(-7)
  local x = rs.empty({ 37, 5 }, { device = "device:1" })
  x:uniform_()
  rs.check("uniform numbers are those of the rule, of a seed of 64 bits", are_uniform(numbers(x), -7, 0))
  x:bernoulli_(0.25)
  rs.check("and coins", is_mask(numbers(x), -7, 1, 0.25))

  rs.manual_seed(3)
  local _ = rs.empty({ 0 }, { device = "device:0" }):uniform_()
  local after = rs.rand({ 9 }, { device = "device:0" })
  rs.check("what has no elements takes no block", are_uniform(numbers(after), 3, 0))

  for _, dtype in ipairs { "float32", "float64", "float16", "bfloat16" } do
    local normal = rs.empty({ 20000 }, { device = "device:0", dtype = dtype }):normal_(2, 3):double()
    local mean, std = normal:mean():item(), normal:std():item()
    rs.check("normal numbers of " .. dtype .. " have their mean and deviation",
             math.abs(mean - 2) < 0.1 and math.abs(std - 3) < 0.1)
    local uniform = rs.empty({ 20000 }, { device = "device:0", dtype = dtype }):uniform_(-1, 3):double()
    rs.check("uniform numbers of " .. dtype .. " lie in their range",
             uniform:min():item() >= -1 and uniform:max():item() < 3 and math.abs(uniform:mean():item() - 1) < 0.05)
  end

  rs.manual_seed(42)
  local _ = rs.rand { 3 }
  local undisturbed = mask_on("device:0", 0.3)
  rs.check("what the host draws leaves devices where they are", equal(undisturbed, first))
  rs.manual_seed(42)
  mask_on("device:0", 0.3)
  local state = rs.get_rng_state()
  local following = mask_on("device:0", 0.3)
  rs.set_rng_state(state)
  rs.check("a state that is set goes on on the device, too", equal(mask_on("device:0", 0.3), following) and #state == 5056)
  rs.check("and on the others", equal(mask_on("device:1", 0.3), following))
  rs.manual_seed(42)
  local host = rs.rand { 5 }
  rs.manual_seed(42)
  mask_on("device:0", 0.3)
  rs.check("and the other way round", equal(rs.rand { 5 }, host))
end

-- ---- whoever shares a generator ----

local function own_generators_draw_on_the_host()
  local function drawn(device)
    local generator = rs.Generator()
    generator:manual_seed(11)
    return rs.rand({ 50 }, { device = device, generator = generator })
  end
  rs.check("a generator of one's own draws the same for host and device", equal(drawn "device:0", drawn "cpu"))
end

local function replicas_draw_alike()
  local dp = nn.DataParallel(nn.Dropout(0.4):to "device:0", { device_ids = { 0, 1 } })
  rs.manual_seed(5)
  local out = dp(rs.ones({ 2 * 64, 7 }, { device = "device:0" }))
  rs.check("replicas with equal chunks have equal masks", equal(out:narrow(0, 0, 64), out:narrow(0, 64, 64)))
  rs.check("which are those of the seed", is_mask(numbers(out:narrow(0, 0, 64)), 5, 0, 0.6))
end

-- The gradient shows the mask that the backward found; what is drawn between the two is not to change it.
local function checkpoints_draw_again()
  local function gradient(reentrant, checkpointed)
    local x = rs.ones({ 200 }, { device = "device:0" }):requires_grad_()
    rs.manual_seed(8)
    mask_on("device:0", 0.5)
    local function twice(t) return functional.dropout(functional.dropout(t, 0.5, true), 0.5, true) end
    local out = checkpointed and rs.utils.checkpoint.checkpoint(twice, x, { use_reentrant = reentrant }) or twice(x)
    local between = mask_on("device:0", 0.5)
    out:sum():backward()
    return x.grad, out, between, mask_on("device:0", 0.5)
  end
  local plain, plain_out, plain_between, plain_after = gradient(false, false)
  for _, reentrant in ipairs { true, false } do
    local how = reentrant and "re-entrant" or "not re-entrant"
    local grad, out, between, after = gradient(reentrant, true)
    rs.check("a checkpoint draws its masks again in the backward, " .. how, equal(grad, plain) and equal(out, grad))
    rs.check("and draws nobody else's turn, " .. how, equal(out, plain_out) and equal(between, plain_between) and
             equal(after, plain_after))
  end
end

local function host_draws()
  rs.manual_seed(42)
  rs.check("in stepped the host draws, the CPU's numbers", equal(mask_on("cpu", 0.3), first))
  rs.check("for one device after the other", equal(mask_on("cpu", 0.3), second) and equal(mask_on("cpu", 0.3), other))
end

if executor == "free" then
  device_draws()
  own_generators_draw_on_the_host()
  replicas_draw_alike()
  checkpoints_draw_again()
else
  host_draws()
end
