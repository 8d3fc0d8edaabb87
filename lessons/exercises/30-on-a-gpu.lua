-- Exercise 30: a number each step, and no bubble.
--
-- A training that prints its loss after each step: loss:item() asks the device for a number, so the host waits until
-- all that was launched is done, and only then launches the next step. Meanwhile the device stands still: a bubble.
--     ringside exercise 30
return {
  -- step() does one step and answers its loss, a tensor on the device that needs no gradient. Does `count` steps;
  -- answers a list of all losses, as numbers, in their order. The device must not be asked before the last step is
  -- launched.
  losses = function(step, count)
    local list = {}
    for i = 1, count do list[i] = step():item() end
    return list
  end,

  -- Steps may be too many for all of their losses to be kept, and a curve is wanted while they run: now every `each`
  -- steps, with `each` dividing count, show(mean) gets the mean of those `each` losses, a number. The device may be asked
  -- once for each show, no more.
  curve = function(step, count, each, show)
    for _ = 1, count do show(step():item()) end
  end,

  -- How long a device stood still between its first kernel and its last: `kernels` is a list of { from, to } in us, in no
  -- order; several streams may have had kernels at the same time.
  bubble = function(kernels)
    return 0
  end,
}
