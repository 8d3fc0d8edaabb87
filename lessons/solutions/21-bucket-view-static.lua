-- Solution 21: a gradient made nil is a new tensor in the next backward, and has to be copied into its place.
--
-- A model of `params` parameters under DDP, one bucket, trained for some iterations. Before each backward the gradients
-- are made nil (zero_grad's default), or set to zero where they lie (set_to_none = false). How many gradients are copied
-- into the bucket in an iteration, and how many means are copied out of it? Division in place is no copy.
--     ringside exercise 21
return {
  -- view:        whether gradient_as_bucket_view is set
  -- set_to_none: whether zero_grad makes the gradients nil
  -- iteration:   0, 1, 2 ...; before the first one there are no gradients, and buckets are rebuilt before iteration 1
  copies = function(params, view, set_to_none, iteration)
    local lies_there = view and not set_to_none and iteration > 0 -- a rebuild takes the gradients along
    return { into = lies_there and 0 or params, back = view and 0 or params }
  end,
}
