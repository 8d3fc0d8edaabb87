-- Solution of exercise 12: let the program choose by size.
--
-- A hop costs 10 us and then a microsecond for every 10 000 bytes. The tree is asked for in worlds of 4, 8 or 16 ranks,
-- the others in worlds that are no power of two, too. There halving-doubling first folds: with P the power of two below
-- the world, the extra ranks hand over their whole tensor to a partner, P ranks halve and double, and the partners hand
-- the whole sum back.
--     ringside exercise 12
local function hop(bytes) return 10 + bytes / 10000 end

local function ring_us(bytes, world) return 2 * (world - 1) * hop(bytes / world) end

local function tree_us(bytes, world)
  local rounds, reached = 0, 1
  while reached < world do rounds, reached = rounds + 1, 2 * reached end
  return 2 * rounds * hop(bytes)
end

local function halving_doubling_us(bytes, world)
  local power, us = 1, 0
  while 2 * power <= world do power = 2 * power end
  if power < world then us = 2 * hop(bytes) end
  local part = bytes
  while power > 1 do
    power, part = power // 2, part / 2
    us = us + 2 * hop(part)
  end
  return us
end

return {
  -- How long each of them takes for so many bytes, in us. The bytes divide by whatever you divide them by.
  ring_us = ring_us,

  tree_us = tree_us,

  halving_doubling_us = halving_doubling_us,

  -- "ring", "tree" or "halving_doubling". Ten sizes are summed by your choice; no fixed choice may be as fast in all.
  choose = function(bytes, world)
    local ring, tree, halving = ring_us(bytes, world), tree_us(bytes, world), halving_doubling_us(bytes, world)
    if halving <= ring and halving <= tree then return "halving_doubling" end
    return ring <= tree and "ring" or "tree"
  end,
}
