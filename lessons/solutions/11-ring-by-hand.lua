-- Solution of exercise 11: when the floats do not divide by the ranks.
--
-- A ring of `world` ranks sums a tensor of `count` float32. A hop costs 10 us + bytes / (10 000 B/us); a step lasts
-- as long as its longest hop. Three ranks and eight floats are the case to begin with; others follow.
--     ringside exercise 11
return {
  -- How many floats chunk 0, 1, 2 ... have: a list of `world` numbers.
  elements = function(world, count)
    local most, left, list = (count + world - 1) // world, count, {} -- ceil(count / world) until nothing is left
    for chunk = 1, world do
      list[chunk] = math.min(most, left)
      left = left - list[chunk]
    end
    return list
  end,

  -- Bytes of the longest hop.
  longest_bytes = function(world, count)
    return 4 * ((count + world - 1) // world)
  end,

  -- How long a hop of so many bytes takes, in us.
  hop_us = function(bytes)
    return 10 + bytes / 10000
  end,

  -- How long the whole all-reduce takes, in us.
  total_us = function(world, count)
    return 2 * (world - 1) * (10 + 4 * ((count + world - 1) // world) / 10000)
  end,
}
