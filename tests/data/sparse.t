#!/usr/bin/perl
# Sparse gradients where Python has no twin: under DataParallel on two to four devices, on the devices themselves, and who
# shares what with whom. What a tensor does alone is in tests/parity/twins/sparse_*.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $head = <<'END';
local rs = require "ringside"
local nn, F = rs.nn, rs.nn.functional
local function rows(t) return table.concat(t:_indices():reshape(-1):tolist(), " ") end
local function same(a, b) return rs.equal(a:to_dense(), b:to_dense()) end
local function devices(count)
  local list = {}
  for i = 1, count do list[i] = i - 1 end
  return list
end
END

# A lesson that must hold in both executors.
sub holds {
    my ($name, $text) = @_;
    my $file = lesson($name =~ s/ /-/gr, qq{$head rs.lesson { title = "$name", devices = 4, seed = 3 }\n$text});
    for my $executor ('stepped', 'free') {
        my $run = ringside('run', '--trust', '--tap', '--quiet', '--exact', '--executor', $executor, $file);
        ok($run->{status} == 0 && $run->{out} =~ /^ok 1 /m, "$name, $executor") or diag("$run->{out}$run->{err}");
    }
    return;
}

holds('an embedding under DataParallel', <<'END');
local ids = rs.tensor { { 1, 2 }, { 1, 9 }, { 3, 1 }, { 0, 0 }, { 2, 2 } }
for count = 1, 4 do
  local table_of = nn.Embedding(10, 3, { sparse = true })
  local plain = nn.Embedding(10, 3, { sparse = true })
  rs.no_grad(function() plain.weight:copy_(table_of.weight) end)
  table_of:to("device:0")
  local dp = nn.DataParallel(table_of, { device_ids = devices(count) })
  local name = count .. " devices: "
  for step = 1, 2 do
    local out, alone = dp(ids:to("device:0")), plain(ids)
    local loss, other = (out * out):sum(), (alone * alone):sum()
    loss:backward()
    other:backward()
    local grad = table_of.weight.grad
    rs.check(name .. "the output is that of one", rs.equal(out:cpu(), alone))
    rs.check(name .. "the gradient is sparse and on the first device",
      grad.is_sparse and grad.layout == "sparse_coo" and grad.device == "device:0" and not grad:is_coalesced())
    rs.check(name .. "it has an entry for each lookup, replica after replica, step after step",
      rows(grad) == ("1 2 1 9 3 1 0 0 2 2 "):rep(step):sub(1, -2) and grad:_nnz() == 10 * step)
    rs.check(name .. "its sum is the plain one's", rs.allclose(grad:to_dense():cpu(), plain.weight.grad:to_dense()))
  
  end
  rs.optim.SGD(table_of:parameters(), { lr = 0.5 }):step()
  rs.optim.SGD(plain:parameters(), { lr = 0.5 }):step()
  rs.check(name .. "a step goes as far", rs.allclose(table_of.weight:cpu(), plain.weight))
end
END

holds('replicas that look nothing up', <<'END');
local Either = nn.Module("Either")
function Either:init(options)
  options.sparse = true
  self.rows, self.line = nn.Embedding(6, 2, options), nn.Linear(1, 2)
end
function Either:forward(x)
  if x[{ 0, 0 }]:item() < 0 then return self.line(x:float()) end
  return self.rows(x:reshape(-1))
end
local net = Either({}):to("device:0")
local dp = nn.DataParallel(net, { device_ids = { 0, 1 } })
dp(rs.tensor({ { 1 }, { 2 }, { 3 }, { 3 } }):to("device:0")):sum():backward()
rs.check("all looked up: sparse", net.rows.weight.grad.is_sparse and rows(net.rows.weight.grad) == "1 2 3 3")
rs.check("what nobody used has zeros", not net.line.weight.grad.is_sparse and net.line.weight.grad:abs():sum():item() == 0)
net:zero_grad()
dp(rs.tensor({ { 1 }, { 2 }, { -1 }, { -3 } }):to("device:0")):sum():backward()
rs.check("a replica that did not use the table gives dense zeros, and the sum is dense",
  not net.rows.weight.grad.is_sparse and rs.equal(net.rows.weight.grad:sum(1):cpu(), rs.tensor { 0.0, 2, 2, 0, 0, 0 }))
net = Either({ padding_idx = 5 }):to("device:0")
dp = nn.DataParallel(net, { device_ids = { 0, 1 } })
dp(rs.tensor({ { 1 }, { 5 }, { 5 }, { 5 } }):to("device:0")):sum():backward()
rs.check("one that looked up padding alone gives no rows, and the sum stays sparse",
  net.rows.weight.grad.is_sparse and rows(net.rows.weight.grad) == "1")
END

holds('sums on devices', <<'END');
local function make(list, device)
  local t = rs.sparse_coo_tensor({ list }, rs.ones { #list, 2 }, { 3, 2 })
  return device and t:to(device) or t
end
rs.check("on the CPU pairs of one row meet", rows(make { 0, 2 } + make { 0, 1 }) == "0 1 2")
local sum = make({ 0, 2 }, 1) + make({ 0, 1 }, 1)
rs.check("on a device they stand one after the other", rows(sum) == "0 2 0 1" and sum.device == "device:1")
sum = sum + make({ 2, 1, 0 }, 1)
rs.check("until there are more than the table has elements", rows(sum) == "0 1 2" and
  rs.equal(sum:_values():cpu(), rs.full({ 3, 2 }, 1.0) + rs.tensor { { 2.0 }, { 1.0 }, { 1.0 } }))
rs.check("which are then merged, but do not say so", not sum:is_coalesced() and not pcall(sum.values, sum))
local alone = rs.sparse_coo_tensor({ { 0, 0 } }, rs.ones { 2 }, { 1 }):to(1)
alone = alone + alone
rs.check("one pair cannot but be merged", alone:_nnz() == 1 and alone:is_coalesced() and alone:values():item() == 4)
rs.check("a device's and the CPU's are not added", not pcall(function() return make { 1 } + make({ 1 }, 1) end))
rs.check("nor a dense one of another device", not pcall(function() return rs.ones { 3, 2 } + make({ 1 }, 1) end))
local moved = make { 2, 0 }:to("device:2"):double()
rs.check("a copy goes with both parts", moved.device == "device:2" and moved:_indices().device == "device:2" and
  moved:_values().dtype == "float64" and same(moved:cpu():float(), make { 2, 0 }))
END

holds('who shares what', <<'END');
local weight = rs.ones({ 4, 2 }, { requires_grad = true })
local ids = rs.tensor { 2, 0 }
local held
local hook = weight:register_hook(function(g) held = g end)
local function squares() return (F.embedding(ids, weight, { sparse = true }) ^ 2):sum() end
squares():backward()
rs.check("a gradient that a hook holds is copied", held ~= weight.grad and
  held:_values():storage_id() ~= weight.grad:_values():storage_id() and
  held:_indices():storage_id() ~= weight.grad:_indices():storage_id())
hook:remove()
weight.grad = nil
squares():backward()
rs.check("one that nobody holds is not: its rows' numbers are still those looked up",
  weight.grad:_indices():storage_id() == ids:storage_id())
local clone, detached = weight.grad:clone(), weight.grad:detach()
rs.check("a clone shares neither part, a detached one both",
  clone:_values():storage_id() ~= weight.grad:_values():storage_id() and
  clone:_indices():storage_id() ~= weight.grad:_indices():storage_id() and
  detached:_values():storage_id() == weight.grad:_values():storage_id())
local kept = weight.grad
weight.grad:mul_(2)
rs.check("in place its values change where they lie", detached:_values():sum():item() == 16 and kept == weight.grad)
local function kind_of(f) return select(2, pcall(f)).kind end
rs.check("it has no storage to ask for", kind_of(function() return kept:storage_id() end) == "NotImplementedError")
rs.check("indices out of range are told", kind_of(function()
  return rs.sparse_coo_tensor({ { 4 } }, { { 1.0, 2.0 } }, { 4, 2 })
end) == "RuntimeError")
rs.check("so are several sparse dimensions", kind_of(function()
  return rs.sparse_coo_tensor({ { 0 }, { 1 } }, { 1.0 }, { 4, 2 })
end) == "NotImplementedError")
END

holds('state of optimizers', <<'END');
local function weight() return nn.Parameter(rs.arange(8.0):reshape(4, 2)) end
local function step(opt, w, ids)
  opt:zero_grad()
  local loss = (F.embedding(rs.tensor(ids), w, { sparse = true }) ^ 2):sum()
  loss:backward()
  opt:step()
end
for _, case in ipairs { { "SGD", { lr = 0.1, momentum = 0.9 } }, { "Adagrad", { lr = 0.1, lr_decay = 0.2 } },
  { "SparseAdam", { lr = 0.1 } } } do
  local w, again = weight(), weight()
  local opt, other = rs.optim[case[1]]({ w }, case[2]), rs.optim[case[1]]({ again }, case[2])
  step(opt, w, { 1, 3, 1 })
  step(other, again, { 2 })
  rs.no_grad(function() again:copy_(w) end)
  other:load_state_dict(opt:state_dict())
  for _, ids in ipairs { { 0, 1 }, { 3 } } do
    step(opt, w, ids)
    step(other, again, ids)
  end
  rs.check(case[1] .. " goes on from a loaded state", rs.equal(w, again))
  local there = weight():to("device:1"):detach():requires_grad_()
  local here = weight()
  opt, other = rs.optim[case[1]]({ there }, case[2]), rs.optim[case[1]]({ here }, case[2])
  for _, ids in ipairs { { 1, 3, 1 }, { 0 } } do
    opt:zero_grad()
    local loss = (F.embedding(rs.tensor(ids):to("device:1"), there, { sparse = true }) ^ 2):sum()
    loss:backward()
    opt:step()
    step(other, here, ids)
  end
  rs.check(case[1] .. " goes the same way on a device", rs.allclose(there:cpu(), here))
end
local w, still = weight(), weight()
local loss = (still * still):sum()
loss:backward()
local opt = rs.optim.SparseAdam({ w, still })
opt:zero_grad()
loss = (F.embedding(rs.tensor { 1 }, w, { sparse = true }) ^ 2):sum() + (still * still):sum()
loss:backward()
rs.check("a gradient that it cannot take is told before anything has moved",
  not pcall(opt.step, opt) and rs.equal(w, weight()))
END
done_testing();
