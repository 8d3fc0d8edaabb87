-- Steps by sparse gradients: an embedding under DataParallel on two devices, then Adagrad, SparseAdam and SGD with momentum.
-- Whoever runs this under a failing allocator must fail or be right.
local rs = require "ringside"
local nn, F = rs.nn, rs.nn.functional

rs.lesson { title = "Sparse steps", devices = 2 }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local Net = nn.Module("Net")
function Net:init() self.rows, self.norm = nn.Embedding(5, 2, { sparse = true }), nn.BatchNorm1d(2) end
function Net:forward(ids) return self.norm(self.rows(ids)) end
local net = Net():to("device:0")
rs.no_grad(function() net.rows.weight:copy_(rs.arange(10.0):reshape(5, 2)) end)
local dp = nn.DataParallel(net, { device_ids = { 0, 1 } })
local out = dp(rs.tensor({ 1, 3, 1, 4 }):to("device:0"))
local loss = (out * out * out):sum()
loss:backward()
local grad = net.rows.weight.grad
rs.check("each lookup has its row", grad.is_sparse and rs.equal(grad:_indices():cpu(), rs.tensor { { 1, 3, 1, 4 } }))
rs.check("merged each comes once", rs.equal(grad:coalesce():indices():cpu(), rs.tensor { { 1, 3, 4 } }))

local function stepped(make)
  local weight = nn.Parameter(rs.arange(8.0):reshape(4, 2))
  local opt = make({ weight })
  for _, ids in ipairs { { 2, 0, 2 }, { 1, 2 } } do
    opt:zero_grad()
    local total = (F.embedding(rs.tensor(ids), weight, { sparse = true }) ^ 2):sum()
    total:backward()
    nn.utils.clip_grad_norm_({ weight }, 1)
    opt:step()
  end
  return weight:detach():sum():item()
end
rs.close("Adagrad", stepped(function(p) return rs.optim.Adagrad(p, { lr = 0.5 }) end), 24.854602813720703, 1e-5)
rs.close("SparseAdam", stepped(function(p) return rs.optim.SparseAdam(p, { lr = 0.5 }) end), 24.76376724243164, 1e-5)
rs.close("SGD", stepped(function(p) return rs.optim.SGD(p, { lr = 0.5, momentum = 0.9 }) end), 25.633657455444336, 1e-5)
