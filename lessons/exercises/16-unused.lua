-- Exercise 16: cure it without the flag, and say what that costs.
--
-- Each rank uses one of several layers, find_unused_parameters is off. Let the loss reach every parameter, without changing its
-- value: then all gradients come, and the bucket leaves.
--     ringside exercise 16
return {
  -- `net` is the model, net:parameters() lists its parameters; `out` is what a forward through one of its layers gave. The
  -- loss has to be out:sum().
  loss = function(net, out)
    return out:sum()
  end,

  -- Bytes that a rank all-reduces in one iteration, with a model of so many parameters (tensors) that have so many elements
  -- (float32) together: with your loss, and with find_unused_parameters instead.
  bytes = function(parameters, elements)
    return { loss = 0, flag = 0 }
  end,

  -- An element of a parameter that no rank uses is w. What is it after one step of SGD(lr) with weight decay, which adds
  -- decay * w to each gradient and leaves out parameters that have none?
  unused_after = function(w, lr, decay)
    return { loss = 0, flag = 0 }
  end,
}
