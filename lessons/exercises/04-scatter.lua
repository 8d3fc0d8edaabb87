-- Exercise 04: cut along another dimension, and a mask that does not fit.
--
-- Change the three functions. They are run with other sizes, too. Look at lesson 04 for what scatter gives back.
--     ringside exercise 04
local rs = require "ringside"
local scatter = rs.nn.parallel.scatter

return {
  -- Part 1. x is [rows, columns]. Cut its columns for these devices, not its rows.
  -- Return the list of pieces that scatter gives.
  columns = function(x, devices)
    return scatter(x, devices)
  end,

  -- Part 2. A batch x of [n, n] has a mask: true where x > 0. But this mask is laid out the other way round:
  -- mask[j][i] belongs to x[i][j]. scatter does not know that, and cuts both along dim 0.
  -- Return an x for which at least one replica then gets a mask that is wrong for its rows.
  wrong = function(n)
    return rs.ones { n, n }
  end,

  -- Part 3. Such an x and such a mask. Return the two as they have to be, so that scatter({ x, mask }, devices)
  -- gives each replica its rows of x and the right mask for them.
  repair = function(x, mask)
    return x, mask
  end,
}
