#!/usr/bin/perl
# What modules are beside their numbers: state by name, copies, layers that work in place, sparse gradients; and the
# corners of clipping and schedules. The expected values are PyTorch 2.15's.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../cli";
use Ringside;
use Test::More;

my $start = qq{local rs = require "ringside"\nlocal nn, optim = rs.nn, rs.optim\nrs.lesson { title = "modules" }\n};

# A lesson all of whose checks hold, in both executors.
sub holds {
    my ($name, $text) = @_;
    my $file = lesson($name =~ s/ /-/gr, $start . $text);
    for my $executor ('stepped', 'free') {
        my $run = ringside('run', '--trust', '--tap', '--quiet', '--executor', $executor, $file);
        ok($run->{status} == 0 && $run->{out} =~ /^ok 1 /m, "$name, $executor") or diag("$run->{out}$run->{err}");
    }
}

my $path = folder() . '/tied.safetensors';
holds('the state of a module goes by name', qq{local path = "$path"\n} . <<'END');
local Tied = nn.Module("Tied")
function Tied:init()
  self.a = nn.Linear(2, 2, { bias = false })
  self.norm = nn.BatchNorm1d(2)
  self.b = nn.Linear(2, 2)
  self.b.weight = self.a.weight
end
local net, other = Tied(), Tied()
rs.check("names come in PyTorch's order, shared ones twice", table.concat(net:state_names(), " ") ==
  "a.weight norm.weight norm.bias norm.running_mean norm.running_var norm.num_batches_tracked b.weight b.bias")
rs.save(net:state_dict(), path)
other:load_state_dict(rs.load(path))
rs.check("a file brings all of it", rs.equal(other.a.weight, net.a.weight) and rs.equal(other.b.bias, net.b.bias))
rs.check("what was shared stays shared", other.a.weight:storage_id() == other.b.weight:storage_id())
local dict = net:state_dict()
dict["b.bias"], dict.more, dict["norm.bias"] = nil, rs.zeros { 1 }, rs.zeros { 3 }
local ok, err = pcall(net.load_state_dict, net, dict)
rs.check("what does not fit is told in PyTorch's words", not ok and err.kind == "RuntimeError" and err.message ==
  'Error(s) in loading state_dict for Tied:\n\tMissing key(s) in state_dict: "b.bias". ' ..
  '\n\tUnexpected key(s) in state_dict: "more". \n\tsize mismatch for norm.bias: copying a param with shape ' ..
  'torch.Size([3]) from checkpoint, the shape in current model is torch.Size([2]).')
rs.check("without strict a wrong shape is still wrong", not pcall(net.load_state_dict, net, dict, { strict = false }))
dict["norm.bias"] = nil
rs.check("names may differ then", pcall(net.load_state_dict, net, dict, { strict = false }))
END

holds('a stack copies its layer deeply', <<'END');
local Own = nn.Module("Own")
function Own:init() self.inner = nn.Linear(3, 3) end
function Own:forward(x) return self.inner(x) end
for _, layer in ipairs { nn.TransformerEncoderLayer(4, 2, 5), Own() } do
  local stack = nn.TransformerEncoder(layer, 2)
  local first, second = stack.layers[0]:parameters(), stack.layers[1]:parameters()
  rs.check("layers of a stack begin equal",
    #first > 0 and rs.equal(first[1], second[1]) and rs.equal(first[1], layer:parameters()[1]))
  rs.no_grad(function() first[1]:add_(1) end)
  rs.check("and are their own", not rs.equal(first[1], second[1]) and not rs.equal(first[1], layer:parameters()[1]))
  rs.check("their parameters are parameters", first[1].is_leaf and first[1].requires_grad)
end
local own = nn.TransformerEncoder(Own(), 3)
rs.check("a stack of a lesson's layers computes", own(rs.ones { 2, 3 }).shape == rs.ones { 2, 3 }.shape)
END

holds('a layer in place is the same function', <<'END');
local x = rs.tensor { -2.0, -0.5, 0.0, 0.5, 3.0 }
for _, make in ipairs { function(o) return nn.ReLU(o) end, function(o) return nn.LeakyReLU(0.1, o) end,
  function(o) return nn.ELU(o) end, function(o) return nn.ReLU6(o) end, function(o) return nn.Hardtanh(o) end,
  function(o) return nn.SiLU(o) end, function(o) return nn.Dropout(0.4, o) end } do
  local results, grads, changed = {}, {}, nil
  for i, inplace in ipairs { false, true } do
    rs.manual_seed(4)
    local leaf = x:clone():requires_grad_(true)
    local given = leaf * 1
    results[i] = make { inplace = inplace } (given)
    if inplace then changed = rs.equal(given, results[i]) end
    (results[i] * rs.arange(5)):sum():backward()
    grads[i] = leaf.grad
  end
  rs.check("in place is the same function",
    changed and rs.equal(results[1], results[2]) and rs.equal(grads[1], grads[2]))
end
END

holds('sparse gradients add up as in PyTorch', <<'END');
local function two(d, first, second, times, one)
  local w = nn.Parameter(rs.zeros { 6, d })
  local function part(rows, k)
    local out = nn.functional.embedding(rs.tensor(rows), w, { sparse = true })
    if times then return (out * k):sum() end
    return out:sum()
  end
  if one then (part(first, 1.0) + part(second, 10.0)):backward()
  else
    part(first, 1.0):backward()
    part(second, 10.0):backward()
  end
  return table.concat(w.grad:_indices():reshape(-1):tolist(), " ") .. (w.grad:is_coalesced() and " coalesced" or "")
end
rs.check("rows of contiguous gradients are merged", two(1, { 3, 1 }, { 2, 1 }, true) == "2 1 3 1")
rs.check("in rising order if both were", two(2, { 1, 3 }, { 2, 4 }, true) == "1 2 3 4")
rs.check("stretched ones come one after the other", two(1, { 3, 1 }, { 2, 1 }) == "3 1 2 1")
rs.check("within a backward the later one leads", two(2, { 1, 3 }, { 2, 4 }, false, true) == "1 3 2 4")
rs.check("one row is coalesced", two(1, { 1 }, { 2 }, true) == "1 2 coalesced")
rs.check("what a backward has summed is not", two(1, { 1 }, { 2 }, true, true) == "1 2")
END

holds('corners of clipping, schedules and padding are those of PyTorch', <<'END');
local function norm(order, values)
  local p = nn.Parameter(rs.zeros { #values })
  p.grad = rs.tensor(values)
  return nn.utils.clip_grad_norm_({ p }, 1, { norm_type = order }):item()
end
rs.check("the norm of order -inf is the smallest", norm(-math.huge, { 3.0, -2.0, 4.0 }) == 2)
rs.check("negative orders count as well", math.abs(norm(-1, { 1.0, 2.0, 4.0 }) - 4 / 7) < 1e-6)
local p = nn.Parameter(rs.ones { 1 })
local opt = optim.SGD({ p }, { lr = 0.1 })
opt.param_groups[1].lr = -1e-20
p.grad = rs.ones { 1 }
rs.check("a rate that a schedule rounded below 0 is used", pcall(opt.step, opt) and p:item() == 1)
rs.check("but none is begun with", not pcall(optim.SGD, { p }, { lr = -1e-20 }))
rs.check("padding = same wants steps of 1", not pcall(nn.Conv2d, 1, 1, 3, { padding = "same", stride = 2 }))
local mirror = nn.Conv1d(1, 1, 3, { padding = 3, padding_mode = "reflect" })
rs.check("reflected padding is smaller than the plane", not pcall(mirror, rs.ones { 1, 1, 3 }))
rs.check("other words of padding are refused", not pcall(nn.Conv2d, 1, 1, 3, { padding = "full" }) and
  not pcall(nn.Conv2d, 1, 1, 3, { padding_mode = "constant" }))
END
done_testing();
