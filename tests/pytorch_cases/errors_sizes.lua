-- A size error says what was expected, what came and of which argument. Kinds and words of states are PyTorch 2.15's, as run
-- on it (packed sequences: its LSTM says less); of the others the numbers and the argument.
local rs = require "ringside"
local nn, F, dist = rs.nn, rs.nn.functional, rs.distributed
rs.lesson { title = "PyTorch cases: errors of sizes", devices = 2, seed = 3, prefix = "" }

local z = rs.zeros
local function whole(...) return rs.zeros({ ... }, { dtype = "int64" }) end
local function pair(h, c) return rs.tuple(h, c) end
local function says(name, kind, words, f)
  local ok, e = pcall(f)
  local found = not ok and type(e) == "table" and e.kind == kind
  for _, word in ipairs(words) do found = found and e.message:find(word, 1, true) ~= nil end
  rs.check(name .. (found and "" or ok and ": it computes" or ": " .. tostring(e)), found)
end
local R, V, A = "RuntimeError", "ValueError", "AssertionError"

-- ---- a state that is cut along dimension 0, by DataParallel ----

for _, which in ipairs { "h", "c" } do
  local Net = nn.Module "Net"
  function Net:init() self.rnn = nn.LSTM(3, 4, { num_layers = 2, batch_first = true }) end
  function Net:forward(x, h, c) return (self.rnn(x, pair(h, c))) end
  local cut, kept = z(2, 6, 4):to(0), z(4, 3, 4):to(0)
  local ok, e = pcall(nn.DataParallel(Net():to(0)), rs.ones(6, 5, 3):to(0), which == "h" and cut or kept,
    which == "c" and cut or kept)
  rs.check("dp-ddp-05 LSTM in a DataParallel: what came of " .. which, not ok and
    e.message:find(("Expected hidden[%d] size (2, 3, 4), got [1, 6, 4]"):format(which == "h" and 0 or 1), 1, true))
end

-- ---- recurrent layers ----

for _, first in ipairs { false, true } do
  local options = { num_layers = 2, batch_first = first }
  local x, rows = z(7, 4, 3), first and 7 or 4
  local lstm, gru, rnn = nn.LSTM(3, 5, options), nn.GRU(3, 5, options), nn.RNN(3, 5, options)
  local good, size = z(2, rows, 5), ("size (2, %d, 5), got "):format(rows)
  says("LSTM: h", R, { "Expected hidden[0] " .. size .. "[1, 8, 5]" }, function() lstm(x, pair(z(1, 8, 5), good)) end)
  says("LSTM: c", R, { "Expected hidden[1] " .. size .. "[2, " .. rows .. ", 6]" },
    function() lstm(x, pair(good, z(2, rows, 6))) end)
  says("GRU", R, { "Expected hidden " .. size .. "[1, 8, 5]" }, function() gru(x, z(1, 8, 5)) end)
  says("RNN", R, { "Expected hidden " .. size .. "[3, 1, 5]" }, function() rnn(x, z(3, 1, 5)) end)
  says("RNN: dimensions", R, { "For batched 3-D input, hx should also be 3-D but got 2-D tensor" },
    function() rnn(x, z(2, 5)) end)
  says("LSTM: dimensions", R, { "For batched 3-D input, hx and cx should also be 3-D but got (3-D, 2-D) tensors" },
    function() lstm(x, pair(good, z(2, 5))) end)
  says("GRU: input", R, { "input.size(-1) must be equal to input_size. Expected 3, got 2" }, function() gru(z(7, 4, 2)) end)
end
local lstm, gru = nn.LSTM(3, 5, { num_layers = 2 }), nn.GRU(3, 5, { num_layers = 2 })
says("unbatched LSTM: dimensions", R, { "For unbatched 2-D input, hx and cx should also be 2-D but got (2-D, 3-D) tensors" },
  function() lstm(z(8, 3), pair(z(2, 5), z(2, 1, 5))) end)
says("unbatched LSTM: c", R, { "Expected hidden[1] size (2, 1, 5), got [3, 1, 5]" },
  function() lstm(z(8, 3), pair(z(2, 5), z(3, 5))) end)
says("unbatched GRU: dimensions", R, { "For unbatched 2-D input, hx should also be 2-D but got 3-D tensor" },
  function() gru(z(8, 3), z(2, 1, 5)) end)
says("a batch of one is no reason to take a state without it", R, { "hx should also be 3-D but got 2-D" },
  function() gru(z(8, 1, 3), z(2, 5)) end)
local projected = nn.LSTM(3, 5, { proj_size = 2 })
says("projected LSTM: h is as wide as the projection", R, { "Expected hidden[0] size (1, 4, 2), got [1, 4, 5]" },
  function() projected(z(8, 4, 3), pair(z(1, 4, 5), z(1, 4, 5))) end)
says("and c as the layer", R, { "Expected hidden[1] size (1, 4, 5), got [1, 4, 2]" },
  function() projected(z(8, 4, 3), pair(z(1, 4, 2), z(1, 4, 2))) end)
says("both directions", R, { "Expected hidden[0] size (2, 4, 5), got [1, 4, 5]" },
  function() nn.LSTM(3, 5, { bidirectional = true })(z(8, 4, 3), pair(z(1, 4, 5), z(2, 4, 5))) end)
local pack = nn.utils.rnn.pack_padded_sequence
local packed = pack(z(8, 4, 3), { 8, 7, 3, 2 })
says("packed GRU", R, { "Expected hidden size (1, 4, 5), got [1, 3, 5]" }, function() nn.GRU(3, 5)(packed, z(1, 3, 5)) end)
says("packed GRU: dimensions", R, { "Expected hidden size (1, 4, 5), got [4, 5]" }, function() nn.GRU(3, 5)(packed, z(4, 5)) end)
says("packed LSTM", R, { "Expected hidden[1] size (1, 4, 5), got [1, 3, 5]" },
  function() nn.LSTM(3, 5)(packed, pair(z(1, 4, 5), z(1, 3, 5))) end)
says("packed input", R, { "Expected 3, got 2" }, function() nn.GRU(3, 5)(pack(z(8, 4, 2), { 8, 7, 3, 2 })) end)

-- ---- cells ----

local cell = nn.LSTMCell(3, 5)
says("LSTMCell: input", R, { "input has inconsistent input_size: got 2 expected 3" }, function() cell(z(4, 2)) end)
says("LSTMCell: dimensions of the input", V, { "LSTMCell: Expected input to be 1D or 2D, got 3D instead" },
  function() cell(z(4, 3, 1)) end)
says("LSTMCell: h", R, { "hidden0 has inconsistent hidden_size: got 6, expected 5" },
  function() cell(z(4, 3), pair(z(4, 6), z(4, 5))) end)
says("LSTMCell: c", R, { "hidden1 has inconsistent hidden_size: got 6, expected 5" },
  function() cell(z(4, 3), pair(z(4, 5), z(4, 6))) end)
says("LSTMCell: rows of c", R, { "Input batch size 4 doesn't match hidden1 batch size 3" },
  function() cell(z(4, 3), pair(z(4, 5), z(3, 5))) end)
says("LSTMCell: dimensions of h", V, { "Expected hx[0] to be 1D or 2D, got 3D instead" },
  function() cell(z(4, 3), pair(z(1, 4, 5), z(4, 5))) end)
for _, name in ipairs { "GRUCell", "RNNCell" } do
  local one = nn[name](3, 5)
  says(name .. ": state", R, { "hidden0 has inconsistent hidden_size: got 6, expected 5" }, function() one(z(4, 3), z(4, 6)) end)
  says(name .. ": rows", R, { "Input batch size 4 doesn't match hidden0 batch size 3" }, function() one(z(4, 3), z(3, 5)) end)
  says(name .. ": dimensions", V, { name .. ": Expected hidden to be 1D or 2D, got 3D instead" },
    function() one(z(4, 3), z(1, 4, 5)) end)
  says(name .. ": a state without the batch", R, { "Expected 2D hidden0", "got 1D tensor" }, function() one(z(4, 3), z(5)) end)
end

-- ---- attention ----

local heads = nn.MultiheadAttention(4, 2)
says("attention: width", A, { "was expecting embedding dimension of 4, but got 6" },
  function() heads(z(3, 2, 6), z(3, 2, 6), z(3, 2, 6)) end)
says("attention: key and value", A, { "key shape torch.Size([5, 2, 4]) does not match value shape torch.Size([6, 2, 4])" },
  function() heads(z(3, 2, 4), z(5, 2, 4), z(6, 2, 4)) end)
says("attention: batches", R, { "key", "batch size 2", "got 1" }, function() heads(z(3, 2, 4), z(5, 1, 4), z(5, 1, 4)) end)
says("attention: dimensions", A,
  { "For batched (3-D) `query`, expected `key` and `value` to be 3-D but found 2-D and 2-D tensors respectively" },
  function() heads(z(3, 2, 4), z(5, 4), z(5, 4)) end)
says("attention: the query's", A, { "query should be unbatched 2D or batched 3D tensor but received 4-D query tensor" },
  function() heads(z(3, 2, 4, 1), z(5, 4), z(5, 4)) end)
says("attention: heads", A, { "embed_dim must be divisible by num_heads", "5 and 2" }, function() nn.MultiheadAttention(5, 2) end)

-- ---- other layers ----

says("convolution: channels", R, { "weight of size [2, 1, 2, 2], expected input[1, 3, 4, 4] to have 1 channels", "got 3 channels" },
  function() F.conv2d(z(1, 3, 4, 4), z(2, 1, 2, 2)) end)
says("convolution: dimensions", R, { "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [3, 4]" },
  function() F.conv2d(z(3, 4), z(2, 1, 2, 2)) end)
says("convolution: weight", R, { "of 4 dimensions", "[2, 1, 2]" }, function() F.conv2d(z(1, 1, 3, 4), z(2, 1, 2)) end)
says("convolution: bias", R, { "expected bias to be 1-dimensional with 2 elements, but got bias of size [3]" },
  function() F.conv2d(z(1, 1, 4, 4), z(2, 1, 2, 2), z(3)) end)
says("convolution: groups", V, { "out_channels must be divisible by groups", "3 and 2" },
  function() nn.Conv2d(4, 3, 1, { groups = 2 }) end)
says("batch_norm: running_mean", R, { "running_mean should contain 2 elements not 3" },
  function() F.batch_norm(z(4, 2), z(3), z(3)) end)
says("batch_norm: running_var", R, { "running_var should contain 2 elements not 3" },
  function() F.batch_norm(z(4, 2), z(2), z(3)) end)
says("layer_norm: input", R, { "Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]" },
  function() F.layer_norm(z(2, 3), { 4 }) end)
says("LayerNorm: input", R, { "expected input with shape [*, 2, 3], but got input of size[2, 4]" },
  function() nn.LayerNorm { 2, 3 }(z(2, 4)) end)
says("layer_norm: bias", R, { "Expected bias to be of same shape as normalized_shape, but got bias of shape [4]", "= [3]" },
  function() F.layer_norm(z(2, 3), { 3 }, z(3), z(4)) end)
says("GroupNorm: weight", R, { "weight should contain 6 elements not 4" }, function() nn.GroupNorm(2, 4)(z(1, 6, 2)) end)
says("Bilinear: input1", R, { "input1", "got 3 but expected 2" }, function() nn.Bilinear(2, 3, 4)(z(5, 3), z(5, 3)) end)
says("Bilinear: input2", R, { "input2", "got 4 but expected 3" }, function() nn.Bilinear(2, 3, 4)(z(5, 2), z(5, 4)) end)
says("Softmax2d", V, { "expected input to be 3D or 4D, got 2D" }, function() nn.Softmax2d()(z(2, 2)) end)
says("dropout of channels", R, { "2 dimensions or more", "[3]" }, function() F.dropout2d(z(3)) end)

-- ---- losses ----

says("cross_entropy: batch", V, { "Expected input batch_size (3) to match target batch_size (2)." },
  function() F.cross_entropy(z(3, 4), whole(2)) end)
says("cross_entropy: weight", R, { "4 classes", "got weight tensor of shape: [5]" },
  function() F.cross_entropy(z(3, 4), whole(3), { weight = z(5) }) end)
says("binary_cross_entropy", V, { "target", "size [3], got [2]" }, function() F.binary_cross_entropy(z(3), z(2)) end)

-- ---- tensors ----

says("stack", R, { "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 2" },
  function() rs.stack { z(2), z(2), z(3) } end)
says("split", R, { "sum exactly to 5", "dimension 0", "got split_sizes=[2, 2]" }, function() rs.split(z(5), { 2, 2 }) end)
says("unflatten", R, { "sizes [2, 2]", "dim 0 (6)" }, function() z(6):unflatten(0, { 2, 2 }) end)
says("einsum: an operand", R, { "size 4 for operand 1", "seen size 3" }, function() rs.einsum("ij,jk->ik", z(2, 3), z(4, 5)) end)
says("einsum: a subscript twice", R, { "[2, 3]", "2 and 3" }, function() rs.einsum("ii->i", z(2, 3)) end)
says("tensordot", R, { "first has size 3 in dim 1 and second has size 4 in dim 0" }, function() rs.tensordot(z(2, 3), z(4, 5), 1) end)
says("cdist", R, { "X1: 3 X2: 4" }, function() rs.cdist(z(2, 3), z(2, 4)) end)
says("bincount", R, { "weights", "expected [3], got [2]" }, function() rs.bincount(whole(3), z(2)) end)
says("a gradient", R, { "expected [3]", "got [2]" }, function()
  local p = z(3):requires_grad_()
  p.grad = z(2)
end)
says("initialisation", V, { "fewer than 2 dimensions", "[3]" }, function() nn.init.kaiming_normal_(z(3)) end)

-- ---- collectives ----

dist.spawn(function(rank)
  says("all_to_all_single: which tensor", R, { "input", "dim 0 (3)", "group size 2" },
    function() dist.all_to_all_single(z(4), z(3)) end)
  says("all_to_all_single: splits", R, { "output", "3 of 4" },
    function() dist.all_to_all_single(z(4), z(4), { 1, 2 }, { 2, 2 }) end)
  says("all_to_all_single: no dimension", "IndexError", { "output", "Dimension specified as 0 but tensor has no dimensions" },
    function() dist.all_to_all_single(rs.tensor(1.5), z(2)) end)
  says("all_to_all: which list", R, { "input", "expected 2 tensors", "got 3" },
    function() dist.all_to_all({ z(2), z(2) }, { z(2), z(2), z(2) }) end)
  says("all_gather_into_tensor", R, { "expected an output of 6 elements", "got 5" },
    function() dist.all_gather_into_tensor(z(5), z(3)) end)
  says("reduce_scatter_tensor", R, { "expected an input of 6 elements", "got 5" },
    function() dist.reduce_scatter_tensor(z(3), z(5)) end)
  if rank == 0 then
    says("gather: a list's tensor", R, { "index 1", "expected [2], got [3]" },
      function() dist.gather(z(2), { z(2), z(3) }, 0) end)
  end
  says("all_gather_coalesced", R, { "output 0 of rank 1", "[2], got [3]" },
    function() dist.all_gather_coalesced({ { z(2) }, { z(3) } }, { z(2) }) end)
end, { world = 2 })
