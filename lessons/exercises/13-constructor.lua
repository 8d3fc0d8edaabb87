-- Exercise 13: equal weights, dropout of its own.
--
-- No DDP this time: `build` itself has to see to it that all ranks begin with the same weights. But each rank has other rows,
-- and should drop other elements: after `build` its random numbers must be its own. Then say why both matter.
--     ringside exercise 13
local rs = require "ringside"

return {
  -- Called on each rank, `seed` is the same on all. make() draws the weights of a model and answers it. A job that is started
  -- again with the same seed draws the same numbers again.
  build = function(rank, seed, make)
    rs.manual_seed(seed)
    return make()
  end,

  -- Two ranks' weights are `gap` apart at the start, and nobody made them equal. Each of `steps` times both subtract lr times
  -- the same averaged gradient. How far apart are they then?
  gap_after = function(gap, lr, steps)
    return 0
  end,

  -- `world` ranks have `rows` rows each and drop elements of them, all in the same way (`alike`) or each in its own. In how
  -- many different ways are elements of a row dropped? (No two rows of a rank are alike.)
  ways = function(world, rows, alike)
    return 0
  end,
}
