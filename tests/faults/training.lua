-- Two training steps of a network with convolutions and BatchNorm, one with SGD and momentum, one with Adam, on numbers that
-- need no generator. The checks compare with PyTorch's: whoever runs this under a failing allocator must fail or be right.
local rs = require "ringside"
local nn = rs.nn

rs.lesson { title = "A training step", devices = 1 }
if arg[1] == "nothing" then return end -- so that a test knows what was allocated before

local function fill(tensor, scale, shift)
  local numbers = rs.arange(tensor:numel(), { dtype = "float32" }):mul(0.7):sin():mul(scale):add(shift)
  rs.no_grad(function() tensor:copy_(numbers:view(tensor.shape)) end)
end

local net = nn.Sequential {
  nn.Conv2d(1, 4, 3, { padding = 1, bias = false }), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3),
}
local names = {}
for name, tensor in net:named_parameters() do
  names[#names + 1] = name
  fill(tensor, 0.4, #names % 3 * 0.3)
end

local images = rs.empty({ 5, 1, 6, 6 })
fill(images, 1, 0.2)
local labels, criterion = rs.tensor { 0, 2, 1, 1, 0 }, nn.CrossEntropyLoss()

local function step(opt)
  opt:zero_grad()
  local loss = criterion(net(images), labels)
  loss:backward()
  local norm = nn.utils.clip_grad_norm_(net:parameters(), 1.0)
  opt:step()
  return loss:item(), norm:item()
end

local first, first_norm = step(rs.optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 }))
local second, second_norm = step(rs.optim.Adam(net:parameters(), { lr = 0.01 }))
local state = net:state_dict()
local copy = nn.Sequential {
  nn.Conv2d(1, 4, 3, { padding = 1, bias = false }), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3),
}
copy:load_state_dict(state)
copy:eval()
local scores = rs.no_grad(function() return copy(images) end)

rs.close("the losses are PyTorch's", { first, second }, { 1.2117901, 1.0758221 }, 1e-5)
rs.close("the gradients' norms are PyTorch's", { first_norm, second_norm }, { 2.0850468, 0.6918730 }, 1e-5)
rs.close("the running means are PyTorch's", state["1.running_mean"], { 0.101981, 0.101987, 0.101985, 0.101974 }, 1e-5)
rs.close("the restored network scores as PyTorch's", scores:sum(0), { 72.118530, 70.679184, 66.195290 }, 1e-3)
