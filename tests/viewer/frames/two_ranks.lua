-- What tests/viewer/frames.t shows: one training step of a small net on two ranks, with a question before it.
local rs = require "ringside"
local nn, optim, dist = rs.nn, rs.optim, rs.distributed
rs.lesson { title = "Two ranks, one step", devices = 2, hardware = "classroom", seed = 3 }
rs.ask { "Which bucket is sent first?", choices = { "that of the last layer", "that of the first layer" },
         answer = "that of the last layer", why = "Its gradients come first.",
         wrong = { ["that of the first layer"] = "Backward goes from the end to the beginning." },
         hides = "ddp.mark_bucket_ready" }
dist.spawn(function(rank)
  rs.manual_seed(1)
  local net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
  local ddp = nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = 0.00002 })
  local optimizer = optim.SGD(ddp:parameters(), { lr = 0.1 })
  local loss = ddp(rs.randn(2, 4)):sum()
  loss:backward()
  optimizer:step()
end, { world = 2 })
rs.say "Both ranks made the same step."
