-- Exercise 38: one stream, many readers.
--
-- A stream of `items` items, 0 to items - 1, is read by `world` ranks, each with a DataLoader of num_workers workers (0:
-- the rank itself reads). part(rank, world, info, items) is what one reader takes; info is get_worker_info(), nil where
-- there are no workers. Together all readers have to take each item once; every rank has to get as many items as the
-- others, so that none hangs: what cannot be dealt out evenly among the ranks is left out, the last items of the stream.
--     ringside exercise 38
return {
  -- answers a list of items, in the order in which they are to be read
  part = function(rank, world, info, items)
    local list = {}
    for i = 0, items - 1 do list[#list + 1] = i end
    return list
  end,
}
