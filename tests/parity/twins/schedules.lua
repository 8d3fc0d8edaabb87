-- Learning-rate schedules, two groups each.
local rs = require "ringside"
local nn, optim = rs.nn, rs.optim
local s = optim.lr_scheduler
rs.lesson { title = "schedules", devices = 0 }
local kinds = {
  { "step", function(o) return s.StepLR(o, 3, { gamma = 0.5 }) end },
  { "multi", function(o) return s.MultiStepLR(o, { 2, 5, 5 }, { gamma = 0.3 }) end },
  { "exponential", function(o) return s.ExponentialLR(o, 0.8) end },
  { "cosine", function(o) return s.CosineAnnealingLR(o, 7, { eta_min = 0.01 }) end },
  { "linear", function(o) return s.LinearLR(o, { start_factor = 0.2, end_factor = 0.9, total_iters = 6 }) end },
  { "lambda", function(o)
    return s.LambdaLR(o, { function(e) return 1 / (1 + e) end, function(e) return 0.9 ^ e end })
  end },
  { "sequential", function(o)
    return s.SequentialLR(o, { s.LinearLR(o, { start_factor = 0.1, total_iters = 4 }), s.CosineAnnealingLR(o, 8),
      s.ExponentialLR(o, 0.5) }, { 4, 10 })
  end },
}
for _, kind in ipairs(kinds) do
  local opt = optim.SGD({ { params = { nn.Parameter(rs.zeros { 1 }) } },
    { params = { nn.Parameter(rs.zeros { 1 }) }, lr = 0.7 } }, { lr = 0.3 })
  local schedule = kind[2](opt)
  for _ = 1, 16 do
    print(string.format("%s %.12g %.12g", kind[1], opt.param_groups[1].lr, opt.param_groups[2].lr))
    opt:step()
    schedule:step()
  end
end
