-- Solution of exercise 39: gather what has no common length.
--
-- Each rank has a tensor `mine` of [n, width]; n differs from rank to rank, and may be 0. Write gather_rows: it answers
-- a list with every rank's rows, as tensors, on all ranks. And say beforehand what the padding costs.
--     ringside exercise 39
local rs = require "ringside"
local dist = rs.distributed

return {
  gather_rows = function(mine)
    local lengths, list, longest = {}, {}, 0
    dist.all_gather(lengths, rs.tensor({ mine:size(0) }))
    for _, length in ipairs(lengths) do longest = math.max(longest, length:item()) end
    local room = rs.zeros(longest, mine:size(1))
    room[{ rs.slice(0, mine:size(0)) }] = mine
    dist.all_gather(list, room)
    for i, length in ipairs(lengths) do list[i] = list[i][{ rs.slice(0, length:item()) }] end
    return list
  end,

  -- Bytes that travel for nothing: rows[rank] rows of `width` float32 each, padded to the longest, each tensor sent
  -- world - 1 times. `rows` counts from 0.
  padding_bytes = function(rows, width, world)
    local longest, zeros = 0, 0
    for rank = 0, world - 1 do longest = math.max(longest, rows[rank]) end
    for rank = 0, world - 1 do zeros = zeros + longest - rows[rank] end
    return zeros * width * 4 * (world - 1)
  end,
}
