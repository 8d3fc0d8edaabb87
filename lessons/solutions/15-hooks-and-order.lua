-- Solution of exercise 15: one rank is late. Predict every later start.
--
-- The second iteration of lesson 15: two buckets of 1 050 624 bytes, {a.bias, a.weight} and {b.bias, b.weight}. Only
-- the backward of a Linear costs, and the wire: in the lesson 500 us, and 125.0624 us an all-reduce of a bucket. Here
-- rank 1's first hook comes late, as after `delay 1 100` in the viewer. All times are in us; 0 is where rank 0's backward
-- begins. The numbers vary.
--     ringside exercise 15
return {
  -- An all-reduce of so many bytes on two ranks: two hops of half of them, 10 us + bytes / (10 000 B/us) each.
  all_reduce_us = function(bytes)
    return 2 * (10 + bytes / 2 / 10000)
  end,

  -- The backward of one Linear takes `backward` us, an all-reduce of a bucket `all_reduce` us. Rank 1's backward begins
  -- `late` us after rank 0's.
  -- When each rank starts the all-reduce of bucket 0 and of bucket 1, when it has the sum of bucket 1, and when its
  -- autograd.backward ends, the callbacks at its end included. A rank does one all-reduce at a time.
  times = function(late, backward, all_reduce)
    local through = late + backward + all_reduce -- bucket 0, which moves when both ranks have started it
    local first, second = math.max(2 * backward, through), math.max(late + 2 * backward, through)
    local has = math.max(first, second) + all_reduce
    return {
      [0] = { start0 = backward, start1 = first, end1 = has, backward = has },
      [1] = { start0 = late + backward, start1 = second, end1 = has, backward = has },
    }
  end,
}
