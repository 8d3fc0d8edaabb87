-- Exercise 10: repair the ring, twice.
--
-- Each rank has a tensor `mine` and wants its left neighbour's in `theirs`. Both functions below send first and receive
-- then, and hang. Repair one with isend, the other with nothing but send and recv: by the order in which ranks call them.
-- They are run on three ranks, and on other numbers of ranks, two or more.
--     ringside exercise 10
local rs = require "ringside"
local dist = rs.distributed

return {
  with_isend = function(rank, world, mine, theirs)
    dist.send(mine, (rank + 1) % world)
    dist.recv(theirs, (rank - 1) % world)
  end,

  by_turns = function(rank, world, mine, theirs)
    dist.send(mine, (rank + 1) % world)
    dist.recv(theirs, (rank - 1) % world)
  end,
}
