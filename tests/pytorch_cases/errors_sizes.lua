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
local apart = nn.MultiheadAttention(4, 2, { kdim = 3, vdim = 5 })
says("attention: kdim", A, { "key was expecting embedding dimension of 3, but got 7" },
  function() apart(z(3, 2, 4), z(6, 2, 7), z(6, 2, 5)) end)
says("attention: vdim", A, { "value was expecting embedding dimension of 5, but got 3" },
  function() apart(z(3, 2, 4), z(6, 2, 3), z(6, 2, 3)) end)
says("attention: key", R, { "key was expecting embedding dimension of 4, but got 6" },
  function() heads(z(3, 2, 4), z(5, 2, 6), z(5, 2, 6)) end)
local attend = F.scaled_dot_product_attention
says("scaled_dot_product_attention: key", R, { "scaled_dot_product_attention", "key", "query", "7, got 6", "[2, 3, 7]", "[2, 5, 6]" },
  function() attend(z(2, 3, 7), z(2, 5, 6), z(2, 5, 6)) end)
says("scaled_dot_product_attention: value", R, { "as many values as keys, 5, got 4", "[2, 5, 7]", "[2, 4, 6]" },
  function() attend(z(2, 3, 7), z(2, 5, 7), z(2, 4, 6)) end)
says("scaled_dot_product_attention: batches", R, { "query, key and value", "[4, 2, 3, 7], [3, 2, 5, 7] and [4, 2, 5, 7]" },
  function() attend(z(4, 2, 3, 7), z(3, 2, 5, 7), z(4, 2, 5, 7)) end)
says("scaled_dot_product_attention: mask", R, { "attn_mask", "[3, 5]", "got [4, 5]" },
  function() attend(z(2, 3, 7), z(2, 5, 7), z(2, 5, 7), { attn_mask = z(4, 5) }) end)
rs.check("scaled_dot_product_attention: batches of one, a mask of one row",
  rs.equal(attend(z(4, 2, 3, 7), z(1, 2, 5, 7), z(2, 5, 6), { attn_mask = z(1, 5) }), z(4, 2, 3, 6)))
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
says("convolution: kernel", R, { "input size per channel: (4 x 6). Kernel size: (7 x 3)" },
  function() F.conv2d(z(1, 1, 4, 2), z(2, 1, 3, 3), nil, { padding = { 0, 2 }, dilation = { 3, 1 } }) end)
says("convolution: groups of the weight", R, { "groups=2, expected weight to be divisible by 2 at dimension 0", "[3, 2, 2, 2]" },
  function() F.conv2d(z(1, 4, 4, 4), z(3, 2, 2, 2), nil, { groups = 2 }) end)
says("of a row: kernel", R, { "input size per channel: (4). Kernel size: (7)." }, function() nn.Conv1d(2, 8, 7)(z(1, 2, 4)) end)
says("of a row: channels", R, { "weight of size [8, 2, 3], expected input[1, 5, 7] to have 2 channels, but got 5" },
  function() nn.Conv1d(2, 8, 3)(z(5, 7)) end)
says("of a row: weight", R, { "conv1d", "of 3 dimensions", "[8, 2]" }, function() F.conv1d(z(1, 2, 4), z(8, 2)) end)
says("of a row: bias", R, { "Given weight of size [8, 2, 3]", "8 elements, but got bias of size [4]" },
  function() F.conv1d(z(1, 2, 4), z(8, 2, 3), z(4)) end)
says("transposed: channels", R, { "transposed=1, weight of size [2, 6, 3, 3], expected input[1, 5, 4, 4] to have 2 channels",
  "got 5 channels" }, function() nn.ConvTranspose2d(2, 6, 3)(z(5, 4, 4)) end)
says("transposed: a result without elements", R, { "(2 x 4). Calculated output size per channel: (-2 x 0)" },
  function() nn.ConvTranspose2d(2, 6, 3, { padding = 3 })(z(1, 2, 2, 4)) end)
says("MaxPool2d", R, { "input size: (3 x 2 x 5). Calculated output size: (3 x 0 x 1)" }, function() nn.MaxPool2d(4)(z(1, 3, 2, 5)) end)
says("AvgPool2d", R, { "input size: (3 x 5 x 1). Calculated output size: (3 x 2 x -2)" },
  function() nn.AvgPool2d(4, { stride = 1 })(z(3, 5, 1)) end)
says("MaxPool1d", R, { "max_pool1d: Given input size: (3 x 2). Calculated output size: (3 x 0)" },
  function() nn.MaxPool1d(4)(z(1, 3, 2)) end)
says("AvgPool1d", R, { "avg_pool1d: Given input size: (3 x 2). Calculated output size: (3 x 0)" },
  function() nn.AvgPool1d(4)(z(1, 3, 2)) end)
for name, layer in pairs { max_pool2d = nn.MaxPool2d(2), avg_pool2d = nn.AvgPool2d(2), adaptive_avg_pool2d = nn.AdaptiveAvgPool2d(3) } do
  says(name .. ": dimensions", R, { name .. ": ", "3 to 4 dimensions, got one of 2: [5, 7]" }, function() layer(z(5, 7)) end)
end
for name, layer in pairs { max_pool1d = nn.MaxPool1d(2), avg_pool1d = nn.AvgPool1d(2), adaptive_avg_pool1d = nn.AdaptiveAvgPool1d(3) } do
  says(name .. ": dimensions", R, { name .. ": ", "2 to 3 dimensions, got one of 1: [5]" }, function() layer(z(5)) end)
end
says("max_pool2d: padding", R, { "at most half of kernel size, but got padding=2 and kernel_size=3" },
  function() F.max_pool2d(z(1, 5, 7), 3, { padding = 2 }) end)
says("linear: bias", R, { "linear", "bias of shape [2], got [3]" }, function() F.linear(z(4, 5), z(2, 5), z(3)) end)
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
says("GroupNorm: input", R, { "GroupNorm: expected an input of 6 channels, got 4", "[1, 4, 2]" },
  function() nn.GroupNorm(2, 6)(z(1, 4, 2)) end)
says("GroupNorm without weights takes other channels", R, { "divisible by num_groups", "shape [1, 5, 2] and num_groups=2" },
  function() nn.GroupNorm(2, 6, { affine = false })(z(1, 5, 2)) end)
says("BatchNorm2d: input", R, { "BatchNorm2d: expected an input of 3 channels, got 2", "[1, 2, 4, 4]" },
  function() nn.BatchNorm2d(3)(z(1, 2, 4, 4)) end)
says("Bilinear: input1", R, { "input1", "got 3 but expected 2" }, function() nn.Bilinear(2, 3, 4)(z(5, 3), z(5, 3)) end)
says("Bilinear: input2", R, { "input2", "got 4 but expected 3" }, function() nn.Bilinear(2, 3, 4)(z(5, 2), z(5, 4)) end)
says("Softmax2d", V, { "expected input to be 3D or 4D, got 2D" }, function() nn.Softmax2d()(z(2, 2)) end)
says("dropout of channels", R, { "2 dimensions or more", "[3]" }, function() F.dropout2d(z(3)) end)

-- ---- losses ----

says("cross_entropy: batch", V, { "Expected input batch_size (3) to match target batch_size (2)." },
  function() F.cross_entropy(z(3, 4), whole(2)) end)
says("cross_entropy: places", R, { "Expected target size [5, 2], got [5, 3]" },
  function() F.cross_entropy(z(5, 3, 2), whole(5, 3)) end)
says("cross_entropy: too many targets", R, { "Expected target size [5], got [5, 2]" },
  function() F.cross_entropy(z(5, 3), whole(5, 2)) end)
says("cross_entropy: probabilities", R, { "cross_entropy", "int64", "[5, 3], got float32 of size [5, 2]" },
  function() F.cross_entropy(z(5, 3), z(5, 2)) end)
says("nll_loss: a target's type", R, { "target dtype to be Long or Byte, but got Float" }, function() F.nll_loss(z(5, 3), z(5)) end)
for _, name in ipairs { "l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "kl_div", "poisson_nll_loss",
  "hinge_embedding_loss" } do
  says(name, R, { name .. ": input [5, 2] and target [4, 2] do not fit" }, function() F[name](z(5, 2), z(4, 2)) end)
end
says("smooth_l1_loss: beta 0", R, { "input [5] and target [4]" }, function() F.smooth_l1_loss(z(5), z(4), { beta = 0 }) end)
says("binary_cross_entropy: weight", R, { "binary_cross_entropy: expected a weight", "size [4], got [3]" },
  function() F.binary_cross_entropy(z(4), z(4), { weight = z(3) }) end)
says("with logits: pos_weight", R, { "binary_cross_entropy_with_logits: expected a pos_weight", "size [4], got [3]" },
  function() F.binary_cross_entropy_with_logits(z(4), z(4), { pos_weight = z(3) }) end)
says("cross_entropy: weight", R, { "4 classes", "got weight tensor of shape: [5]" },
  function() F.cross_entropy(z(3, 4), whole(3), { weight = z(5) }) end)
says("binary_cross_entropy", V, { "target", "size [3], got [2]" }, function() F.binary_cross_entropy(z(3), z(2)) end)

-- ---- tensors ----

says("view", R, { "shape '[-1, 4]' is invalid for input of size 6" }, function() z(6):view(-1, 4) end)
says("view: the written sizes", R, { "shape '[5, 2, -1]' is invalid for input of size 6" }, function() z(3, 2):view(5, 2, -1) end)
says("reshape", R, { "shape '[-1, 4]' is invalid for input of size 6" }, function() z(3, 2):t():reshape(-1, 4) end)
says("view: two sizes left out", R, { "only one dimension can be inferred" }, function() z(6):view(-1, -1) end)
says("unflatten: one size left out", R, { "sizes [-1, 4]", "dim 0 (6)" }, function() z(6):unflatten(0, { -1, 4 }) end)
says("a size below 0", R, { "must be non-negative, got -3 for dimension 1" }, function() z(2, -3) end)
says("an index", "IndexError", { "index 3 is out of bounds for dimension 1 with size 3" }, function() return z(2, 3)[{ 1, 3 }] end)
says("copy_", R, { "expected a source of shape [2]", "got [3]" }, function() z(2):copy_(z(3)) end)
says("copy_: more dimensions", R, { "expected a source of shape [2]", "got [3, 2]" }, function() z(2):copy_(z(3, 2)) end)
says("an assignment", R, { "expected a source of shape [3]", "got [2]" }, function()
  local t = z(2, 3)
  t[1] = z(2)
end)
says("in place", R, { "add_: output with shape [3] doesn't match the broadcast shape [2, 3]" }, function() z(3):add_(z(2, 3)) end)
says("operands that do not fit: which of three", R, { "[2, 1] and [3, 4]" },
  function() rs.where(z(1, 4):gt(0), z(2, 1), z(3, 4)) end)
says("mm", R, { "mm: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)", "3, got 4" }, function() z(2, 3):mm(z(4, 5)) end)
says("mm: a vector", R, { "mm: mat2 must be a matrix, got 1-D tensor" }, function() z(2, 3):mm(z(4)) end)
says("addmm: input", R, { "addmm", "[2, 2], got [3, 3]" }, function() rs.addmm(z(3, 3), z(2, 5), z(5, 2)) end)
says("mv", R, { "mv", "a vector of 3 elements", "got 4" }, function() z(2, 3):mv(z(4)) end)
says("dot", R, { "dot", "a vector of 2 elements", "got 4" }, function() z(2):dot(z(4)) end)
says("bmm", R, { "first two dimensions of batch2 tensor to be: [2, 4] but got: [2, 5]" }, function() z(2, 3, 4):bmm(z(2, 5, 6)) end)
says("cat", R, { "except in dimension 0. Expected size 3", "got size 2 in dimension 1 for tensor number 1" },
  function() rs.cat { z(2, 3), z(2, 2) } end)
says("cat: dimensions", R, { "Tensors must have same number of dimensions: got 2 and 1", "number 2" },
  function() rs.cat { z(2, 3), z(1, 3), z(3) } end)
says("gather", R, { "index [2, 4] to be no larger than self [2, 3] apart from dimension 0" },
  function() z(2, 3):gather(0, whole(2, 4)) end)
says("scatter_add", R, { "index [2, 3]", "self [4, 3] apart from dimension 0", "no larger than src [1, 3]" },
  function() z(4, 3):scatter_add(0, whole(2, 3), z(1, 3)) end)
says("index_add", R, { "a source of shape [2, 3]", "got [4, 3]" }, function() z(5, 3):index_add(0, whole(2), z(4, 3)) end)
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

-- Lists of an all_gather may be uneven, so a rank sees by itself only what is wrong with its own place.
local function lists(...)
  local sizes = { ... }
  return function()
    dist.spawn(function(rank)
      local list = {}
      for i, size in ipairs(sizes[rank + 1]) do list[i] = z(table.unpack(size)) end
      dist.all_gather(list, z(table.unpack(sizes[rank + 1][rank + 1])))
    end, { world = #sizes })
  end
end
local two, six = { 2, 2 }, { 2, 3 }
says("all_gather: a list that is wrong for an equal tensor", "MismatchError",
  { "cause: shape: all_gather #0: ", "'s list has 6 elements for rank 2, whose", "tensor has 4" },
  lists({ two, two, six }, { two, two, six }, { two, two, two }))
says("all_gather: two that are wrong for each other", "MismatchError", { "list has 6 elements for rank ", "tensor has 4" },
  lists({ two, six }, { six, two }))
says("all_gather: two lists that disagree about a third", "MismatchError", { "elements for rank 2, ", "has 4", "has 6" },
  lists({ two, two, six }, { two, two, two }, { two, two, six }))
says("all_gather: even lists of two sizes", "MismatchError", { "gets [2, 3] on rank 1, [2, 2] on rank 0" },
  lists({ two, two }, { six, six }))
