-- Solution 20: gather k numbers and their places from each rank, scatter them into zeros, divide.
--
-- A hook that sends only the k numbers of its bucket that are furthest from 0, and where they lie. What a rank does not
-- send it keeps and adds to the bucket of the next backward: nothing is lost, it only comes later (error feedback).
--     ringside exercise 20
local rs = require "ringside"
local dist = rs.distributed

-- A list of what every rank has.
local function gathered(tensor)
  local list = {}
  for i = 1, dist.get_world_size() do list[i] = rs.empty_like(tensor) end
  dist.all_gather(list, tensor)
  return list
end

return {
  -- k:        how many numbers to send, at most as many as the bucket has
  -- memory:   a table; memory[bucket:index()] is what this rank has not sent yet, a flat tensor, nil at first
  -- bucket:   bucket:buffer() is this rank's gradients in a row, undivided
  -- Answers a Future of the mean over the ranks of what was sent: as long as the bucket, 0 where nobody sent anything.
  hook = function(k, memory, bucket)
    local wanted = bucket:buffer():clone()
    if memory[bucket:index()] then wanted = wanted + memory[bucket:index()] end
    local _, places = wanted:abs():topk(k)
    local sent = wanted:gather(0, places)
    memory[bucket:index()] = wanted:scatter(0, places, rs.zeros_like(sent))

    local mean, numbers, where = rs.zeros_like(wanted), gathered(sent), gathered(places)
    for rank = 1, #numbers do mean:scatter_add_(0, where[rank], numbers[rank]) end
    local future = rs.futures.Future()
    future:set_result(mean / #numbers)
    return future
  end,
}
