-- Solution of exercise 14: predict the boxes.
--
-- A bucket closes when its size reaches its cap: what reaches it is still in. The last one may stay smaller. From lesson 14 on
-- you can cut any model's gradients on paper; here a function does it, and the engine has the last word.
--     ringside exercise 14
return {
  -- `bytes` are the sizes of the gradients in the order in which they become ready. `caps[1]` is the first bucket's cap in
  -- bytes, `caps[2]` the second one's ..., the last one is for all that follow. A list of the buckets' sizes.
  cut = function(bytes, caps)
    local buckets, filled = {}, 0
    for i, size in ipairs(bytes) do
      filled = filled + size
      if filled >= caps[math.min(#buckets + 1, #caps)] or i == #bytes then
        buckets[#buckets + 1], filled = filled, 0
      end
    end
    return buckets
  end,

  -- A cap in MiB (a fraction may be needed) with which `layers` layers Linear(width, width) are one bucket each after the
  -- rebuild: the bias is ready before its weight, a float32 has 4 bytes, a MiB is 1024 * 1024 of them.
  one_each = function(width, layers)
    return width * width * 4 / (1024 * 1024) -- the bias alone does not reach it, with the weight it is passed
  end,
}
