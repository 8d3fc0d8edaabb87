-- An LSTM's layer as one op against its steps as LSTMCell takes them: outputs, states and all gradients, for random
-- shapes, on the CPU and on a device.
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "LSTM", devices = 2, prefix = "" }
rs.manual_seed(3)

local function pick(low, high) return rs.randint(low, high + 1, { 1 }):item() end

-- The cell of one layer and direction, with the layer's own parameters.
local function cell_of(lstm, layer, back, input)
  local suffix = "_l" .. layer .. (back and "_reverse" or "")
  local cell = nn.LSTMCell(input, lstm.hidden_size, { bias = lstm.bias })
  for _, name in ipairs(lstm.bias and { "weight_ih", "weight_hh", "bias_ih", "bias_hh" } or { "weight_ih", "weight_hh" }) do
    cell[name] = lstm[name .. suffix]
  end
  return cell
end

-- One direction: the outputs of all steps in order of time, the last state and cell.
local function walk(cell, x, h, c, back)
  local steps, out = x:size(0), {}
  for at = 0, steps - 1 do
    local t = back and steps - 1 - at or at
    h, c = cell(x[t], { h, c })
    out[t + 1] = h
  end
  return rs.stack(out), h, c
end

local function by_steps(lstm, x, state)
  local hs, cs, sides = {}, {}, lstm.bidirectional and { false, true } or { false }
  x = lstm.batch_first and x:transpose(0, 1) or x
  for layer = 0, lstm.num_layers - 1 do
    local outs = {}
    for side, back in ipairs(sides) do
      local cell, at = cell_of(lstm, layer, back, x:size(-1)), layer * #sides + side - 1
      outs[side], hs[at + 1], cs[at + 1] = walk(cell:to(x.device), x, state[1][at], state[2][at], back)
    end
    x = rs.cat(outs, 2)
  end
  return lstm.batch_first and x:transpose(0, 1) or x, rs.stack(hs), rs.stack(cs)
end

-- Each with a weight of its own, so that no two elements can be taken for each other.
local function weighed(tensors)
  local sum = 0
  for at, tensor in ipairs(tensors) do
    sum = (tensor * rs.linspace(-1, at, tensor:numel(), { device = tensor.device }):reshape(tensor:size())):sum() + sum
  end
  return sum
end

local function near(a, b) return rs.allclose(a:cpu(), b:cpu(), 1e-4, 1e-5) end

local function compare(name, options, sizes, device)
  local lstm = nn.LSTM(sizes.input, sizes.hidden, options):to(device)
  local states = lstm.num_layers * (lstm.bidirectional and 2 or 1)
  local shape = lstm.batch_first and { sizes.rows, sizes.steps, sizes.input } or { sizes.steps, sizes.rows, sizes.input }
  local function leaf(wanted) return rs.randn(wanted):to(device):requires_grad_() end
  local x, h, c = leaf(shape), leaf { states, sizes.rows, sizes.hidden }, leaf { states, sizes.rows, sizes.hidden }
  local wanted = lstm:parameters()
  table.move({ x, h, c }, 1, 3, #wanted + 1, wanted)
  local y, last = lstm(x, { h, c })
  local whole = { y, last[1], last[2] }
  local steps = { by_steps(lstm, x, { h, c }) }
  local same = near(whole[1], steps[1]) and near(whole[2], steps[2]) and near(whole[3], steps[3])
  for used = 1, 7 do -- every choice of the three results has gradients of its own
    local mine, theirs = {}, {}
    for part = 1, 3 do
      if used >> (part - 1) & 1 == 1 then
        mine[#mine + 1], theirs[#theirs + 1] = whole[part], steps[part]
      end
    end
    local keep = { retain_graph = true, allow_unused = true }
    local a = table.pack(rs.autograd.grad(weighed(mine), wanted, keep))
    local b = table.pack(rs.autograd.grad(weighed(theirs), wanted, keep))
    for at = 1, #wanted do
      same = same and (a[at] == nil) == (b[at] == nil) and (a[at] == nil or near(a[at], b[at]))
    end
  end
  rs.check(name, same)
end

for number = 1, 12 do
  local options = { num_layers = pick(1, 2), bias = pick(0, 3) > 0, batch_first = pick(0, 1) == 1,
                    bidirectional = pick(0, 1) == 1 }
  local sizes = { steps = pick(1, 5), rows = pick(1, 5), input = pick(1, 6), hidden = pick(1, 40) }
  compare(string.format("case %d: %d layers, %s, %d steps of %d rows, %d to %d, as its steps", number, options.num_layers,
    options.bidirectional and "both ways" or "one way", sizes.steps, sizes.rows, sizes.input, sizes.hidden), options,
    sizes, number % 3 == 0 and "device:1" or "cpu")
end

local function refused(f, pattern)
  local ok, err = pcall(f)
  return not ok and tostring(err):find(pattern, 1, true) ~= nil
end

local lstm, x = nn.LSTM(3, 4), rs.randn { 5, 2, 3 }
rs.check("what the layer put out and needs again may not change", refused(function()
  local y = lstm(x)
  y:mul_(2)
  y:sum():backward()
end, "[torch.FloatTensor [5, 2, 4]], which is output 0 of MkldnnRnnLayer"))
rs.check("the last state is a copy: it may change", pcall(function()
  local y, last = lstm(x)
  last[1]:mul_(2)
  y:sum():backward()
end))
rs.check("an input that it needs again may not change either", refused(function()
  local given = x:clone()
  local y = lstm(given)
  given:add_(1)
  y:sum():backward()
end, "[torch.FloatTensor [5, 2, 3]] is at version 1; expected version 0"))
rs.check("a second backward needs the graph kept", refused(function()
  local y = lstm(x)
  y:sum():backward()
  y:sum():backward()
end, "a second time"))
rs.check("weights of another shape are told", refused(function()
  local other = nn.LSTM(3, 4)
  other.weight_hh_l0 = nn.Parameter(rs.zeros { 16, 5 })
  other(x)
end, "do not fit"))
rs.check("weights of another dtype, too", refused(function() nn.LSTM(3, 4):double()(x) end, "float"))
local plain = rs.no_grad(function() return (lstm(x)) end)
rs.check("without gradients the numbers are the same", rs.equal(plain, (lstm(x)):detach()))
rs.check("expanded and strided gradients are taken as they are", pcall(function()
  local y = lstm(x:clone():requires_grad_())
  y:transpose(0, 2):sum(0):mean():backward()
end))
