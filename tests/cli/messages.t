#!/usr/bin/perl
# What a lesson is told when it calls something wrongly: the kind that PyTorch raises, which argument, what it got,
# what it wants, what was meant. One lesson makes all the calls below; none crashes, each message is one line.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my @cases = map { [ /^(.*?) +=> (\w+): (.*)$/ ] } grep { /=>/ } <DATA>;
my $calls = join '', map { my $call = $_->[0]; "$call\n" } @cases;
my $run = ringside('run', lesson('messages', <<"END_LESSON"));
local rs = require "ringside"
rs.lesson { title = "Messages", devices = 2 }
local env = setmetatable({ rs = rs, nn = rs.nn, F = rs.nn.functional, dist = rs.distributed, optim = rs.optim,
  data = rs.utils.data, t = rs.tensor { { 1., 2., 3. }, { 4., 5., 6. } }, v = rs.tensor { 1., 2., 3. },
  i = rs.tensor { 0, 1, 2 }, b = rs.tensor { true, false, true }, cyc = {}, NAN = 0 / 0, BIG = 1 << 62,
  hostile = setmetatable({}, { __index = function() error("hostile") end }),
  leaf = function(n) return rs.ones(n or 3, { requires_grad = true }) end }, { __index = _G })
env.cyc[1] = env.cyc
for line in ([==[\n$calls]==]):gmatch("([^\\n]+)") do
  local f = assert(load(line, "\@call", "t", env) or load("return " .. line, "\@call", "t", env), line)
  local ok, e = pcall(f)
  print("\@\@ " .. (ok and "no error" or tostring(e.kind) .. ": " .. tostring(e.message):gsub("\\n", " ")))
end
END_LESSON
is("$run->{status} $run->{signal} $run->{err}", '0 0 ', 'none of the calls ends the lesson');
my @told = $run->{out} =~ /^\@\@ (.*)$/gm;
is(scalar @told, scalar @cases, 'each call is answered in one line');
for my $n (0 .. $#cases) {
    my ($call, $kind, $words) = @{ $cases[$n] };
    my $told = $told[$n] // '';
    my @missing = grep { index($told, $_) < 0 } split / \| /, $words;
    ok(index($told, "$kind: ") == 0 && !@missing, "$call: $kind") or diag("told: $told\nwanted: $kind: $words");
}
done_testing();
__DATA__
rs.zeros()                                  => TypeError: argument 1 of zeros | a shape | got nothing
rs.zeros("two")                             => TypeError: argument 1 of zeros | got string
rs.zeros(2.5)                               => TypeError: an integer | got 2.5
rs.zeros(NAN)                               => TypeError: an integer | got nan
rs.zeros({2, "3"})                          => TypeError: size 1 of the shape is string
rs.zeros(hostile)                           => TypeError: a shape | got table
rs.zeros(cyc)                               => TypeError: size 0 of the shape is table
rs.zeros(-1)                                => RuntimeError: must be non-negative, got -1 for dimension 0
rs.zeros(math.mininteger)                   => RuntimeError: negative
rs.zeros(BIG)                               => RuntimeError: too large
rs.zeros(1 << 40, 1 << 40)                  => RuntimeError: too large
rs.zeros({0, BIG, BIG})                     => RuntimeError: too large
rs.zeros(2, 3, nil, 4)                      => TypeError: zeros takes 2 arguments, but 4 were given
rs.zeros(2, {dtpye = "int64"})              => TypeError: unknown option 'dtpye': did you mean 'dtype'?
rs.zeros(2, {dtype = "float77"})            => TypeError: unknown dtype "float77" | float32 | int8
t:char() + t:byte()                         => NotImplementedError: add | int8 | int16 | t:to("int32")
rs.sparse_coo_tensor(rs.tensor{{0}}, rs.ones({1}):char(), {4}) + rs.sparse_coo_tensor(rs.tensor{{0}}, rs.ones({1}):byte(), {4}) => NotImplementedError: add | int16
rs.promote_types("int8", "uint8")           => NotImplementedError: promote_types | int16
rs.tensor({-129}, {dtype = "int8"})         => RuntimeError: cannot be converted to type int8 without overflow: -129
t:char():clamp({min = 128})                 => RuntimeError: Clamp min value 128 | Char
rs.zeros(2, {device = "gpu:0"})             => RuntimeError: "gpu:0" is no device
rs.zeros(2, {device = 9})                   => RuntimeError: device:9 does not exist | device:1
rs.zeros(2, {requires_grad = 1})            => TypeError: option requires_grad | true or false | got number
rs.tensor{{1, 2}, {3}}                      => ValueError: length 2 at depth 1, got 1
rs.tensor{{1, 2}, 3}                        => TypeError: not all of one depth
rs.tensor{1, "2"}                           => TypeError: numbers or booleans, not of string
rs.tensor{a = 1}                            => TypeError: made of lists | key 'a'
rs.tensor(cyc)                              => ValueError: deeper than 8
rs.tensor({1}, {requires_grad = true})      => RuntimeError: int64
rs.arange(0, 10, -1)                        => RuntimeError: from 0 to 10 in steps of -1
rs.randint(5, 2, {2})                       => RuntimeError: low < high, got 5 and 2
rs.randn(2, {generator = 3})                => TypeError: randn: expected Generator, got 3
rs.full({2}, "x")                           => TypeError: argument 2 of full | a number, got string
rs.zeroes(2)                                => AttributeError: rs has no 'zeroes': did you mean 'zeros'?
nn.Liner(2, 2)                              => AttributeError: rs.nn has no 'Liner': did you mean 'Linear'?
F.cross_entropi(t, t)                       => AttributeError: did you mean 'cross_entropy'?
optim.Sgd                                   => AttributeError: rs.optim has no 'Sgd': did you mean 'SGD'?
dist.allreduce(t)                           => AttributeError: did you mean 'all_reduce'?
dist.ReduceOp.SUMM                          => AttributeError: did you mean 'SUM'?
data.DataLaoder                             => AttributeError: rs.utils.data has no 'DataLaoder': did you mean 'DataLoader'?
rs.optim()                                  => TypeError: rs.optim is a namespace, not a function
t.shpae                                     => AttributeError: a Tensor has no 'shpae': did you mean 'shape'?
t:sume()                                    => AttributeError: a Tensor has no 'sume': did you mean 'sum'?
nn.Linear(2, 2).wieght                      => AttributeError: a Linear has no 'wieght': did you mean 'weight'?
nn.Linear(2, 2):prameters()                 => AttributeError: did you mean 'parameters'?
optim.SGD({t}, {lr = 1}):stpe()             => AttributeError: an optimizer has no 'stpe': did you mean 'step'?
t[5]                                        => IndexError: index 5 | dimension 0 with size 2
t[{0, -4}]                                  => IndexError: index -4 | dimension 1 with size 3
t[{0, 0, 0}]                                => IndexError: too many indices | dimension 2
t[BIG]                                      => IndexError: out of bounds
t[1.5]                                      => IndexError: an index is made of | number
t[b]                                        => IndexError: mask | size 3 | size 2
t[rs.tensor{1.5}]                           => IndexError: float32
t[{rs.slice(0, 2, 0)}]                      => ValueError: step
t[0] = "x"                                  => TypeError: what is assigned | a number | got string
t[0] = rs.zeros(5)                          => RuntimeError: [5] | [3]
t.shape = 3                                 => AttributeError: "shape" of a Tensor cannot be set
t.requires_grad = "x"                       => TypeError: true or false, got string
t + "x"                                     => TypeError: add | Tensor or a number, got string
t + rs.zeros(2, 4)                          => RuntimeError: add: shapes [2, 3] and [2, 4] do not fit
t + t:to("device:0")                        => RuntimeError: found cpu and device:0
t:add(t, 3)                                 => TypeError: argument 2 of add | a table of options
t:add(t, {alpah = 2})                       => TypeError: unknown option 'alpah': did you mean 'alpha'?
t.add(t)                                    => TypeError: argument 2 of add | got nothing
t:exp(2)                                    => TypeError: exp takes 0 arguments, but 1 were given
t:mm(t)                                     => RuntimeError: mm: mat1 and mat2 | (2x3 and 2x3)
t:mm(v)                                     => RuntimeError: mat2 must be a matrix, got 1-D
v:dot(rs.zeros(4))                          => RuntimeError: dot: | 3 elements | got 4
t:sum(5)                                    => IndexError: dimension 5 | -2 to 1
t:sum("x")                                  => TypeError: sum: expected an integer, got string
t:sum{dmi = 1}                              => TypeError: unknown option 'dmi': did you mean 'dim'?
i:mean()                                    => NotImplementedError: floating point | Long
t:topk(9)                                   => RuntimeError: 9 of 3
t:gather(0, v)                              => RuntimeError: int64 | float32
t:gather(1, rs.tensor{{5}})                 => RuntimeError: index 5 is out of range
t:masked_fill(v, 1)                         => RuntimeError: bool | float32
t:chunk(0)                                  => RuntimeError: greater than 0, got: 0
t:chunk(2, {dmi = 1})                       => TypeError: did you mean 'dim'?
t:split({1, 5})                             => RuntimeError: sum exactly to 2 | got split_sizes=[1, 5]
t:view(4)                                   => RuntimeError: shape '[4]' is invalid
t:t():view(6)                               => RuntimeError: reshape
t:expand(2, 4)                              => RuntimeError: [2, 3] and [2, 4]
t:transpose(0, 5)                           => IndexError: dimension 5
t:narrow(0, 1, 5)                           => RuntimeError: start 1 and length 5 exceed the size 2
t:narrow(0, 0, {length = 1, start = 0})     => TypeError: argument 'start' is given twice
t:flip{0, 0}                                => RuntimeError: dim 0 appears multiple times
t:as_strided({2, 2}, {BIG, 1})              => RuntimeError: outside its storage
t:item()                                    => RuntimeError: 6
t:to()                                      => TypeError: a device, a dtype or a Tensor, got nothing
rs.cat({})                                  => ValueError: at least one tensor
rs.cat(t)                                   => TypeError: a list of tensors, got Tensor
rs.cat({t, 3})                              => TypeError: element 2 of the list | Tensor, got number
rs.cat({t, v})                              => RuntimeError: got 2 and 1 | number 1
i // 0                                      => RuntimeError: divided by 0
i:add_(1.5)                                 => RuntimeError: Float | Long
leaf():add_(1)                              => RuntimeError: a leaf Variable that requires grad
leaf():view(3):zero_()                      => RuntimeError: a view of a leaf
(leaf() * 2):backward()                     => RuntimeError: only for scalar outputs
(leaf() * 2):backward(rs.ones(4))           => RuntimeError: [4] | [3]
t:detach():backward()                       => RuntimeError: does not require grad
local x = leaf() local y = (x * x):sum() y:backward() y:backward()          => RuntimeError: a second time
local x = leaf() local y = x:exp() y:add_(1) y:sum():backward()             => RuntimeError: inplace operation | ExpBackward0 | version 1; expected version 0
leaf():sum():backward{retian_graph = true}  => TypeError: did you mean 'retain_graph'?
rs.autograd.grad(leaf():sum(), leaf())      => RuntimeError: not have been used in the graph
rs.gradcheck(3, {t})                        => TypeError: argument 1 of gradcheck | a function, got 3
rs.gradcheck(function(x) return x end, {leaf()}) => ValueError: float64 | float32
rs.no_grad(3)                               => TypeError: argument 1 of no_grad | a function, got 3
rs.set_grad_enabled("x")                    => TypeError: true or false, got string
nn.Linear(2)                                => TypeError: nn.Linear: missing the argument 'out_features'
nn.Linear("x", 2)                           => TypeError: argument 'in_features' must be an integer, got string
nn.Linear(2, 2, {bais = false})             => TypeError: did you mean 'bias'?
nn.Linear(2, 2, false, 3, 4)                => TypeError: takes 3 arguments, but 5 were given
nn.Linear(2, 2)(t)                          => RuntimeError: last dimension is 3 | takes 2
nn.Linear(2, 2)()                           => TypeError: missing | 'input'
nn.Embedding(4, 2)(t)                       => RuntimeError: int64 | float32
nn.Embedding(4, 2)(rs.tensor{9})            => IndexError: index 9 | 4 rows
nn.Conv2d(3, 4, 3, {groups = 2})            => ValueError: divisible by groups
nn.Conv2d(2, 3, 3)(rs.zeros(1, 3, 8, 8))    => RuntimeError: 2 channels | got 3 channels
nn.Dropout(2)                               => ValueError: between 0 and 1, but got 2
nn.MSELoss{reduction = "avg"}               => ValueError: avg | "mean", "sum" or "none"
nn.CrossEntropyLoss()(t, rs.tensor{0, 5})   => IndexError: 5 is out of range
nn.CrossEntropyLoss()(t, rs.tensor{0})      => ValueError: batch_size (2) | batch_size (1)
nn.ModuleList{1}                            => TypeError: element 1 of ModuleList | Module, got number
nn.Module("M")()(t)                         => NotImplementedError: [M] | forward
nn.Linear(2, 2):load_state_dict({})         => RuntimeError: Missing key | "weight"
nn.Linear(2, 2):load_state_dict(3)          => TypeError: a table, got 3
nn.Linear(2, 2):train("x")                  => TypeError: true or false, got string
nn.Linear(2, 2):zero_grad{set_to_nne = true} => TypeError: did you mean 'set_to_none'?
local l = nn.Linear(2, 2) l.weight = t      => TypeError: a plain tensor as parameter 'weight'
nn.init.kaiming_uniform_(v)                 => ValueError: fewer than 2 dimensions
optim.SGD({}, {lr = 0.1})                   => ValueError: empty parameter list
optim.SGD({t}, {lr = -1})                   => ValueError: Invalid learning rate: -1
optim.SGD({t}, {lr = 1, momentun = 0.9})    => TypeError: did you mean 'momentum'?
optim.SGD({t, t}, {lr = 1})                 => ValueError: more than one parameter group
optim.Adam({t}, {betas = {1.5, 0.9}})       => ValueError: index 0: 1.5
optim.lr_scheduler.StepLR(3, 1)             => TypeError: Optimizer, got 3
optim.lr_scheduler.StepLR(optim.SGD({t}, {lr = 1}), 1, {gama = 1}) => TypeError: did you mean 'gamma'?
data.DataLoader(t, {batch_size = 0})        => ValueError: batch_size | 0
data.DataLoader(t, {batch_szie = 2})        => TypeError: did you mean 'batch_size'?
data.TensorDataset(t, v)                    => AssertionError: Size mismatch
local D = data.Dataset("D") function D:__len() return 3 end return #D() => NotImplementedError: no function "len"; it is called so, without __
for _ in data.DataLoader(data.IterableDataset("S")()) do end => NotImplementedError: no function "iter"
nn.SyncBatchNorm.convert_sync_batchnorm(3)  => TypeError: argument 1 of convert_sync_batchnorm: expected Module, got 3
data.DistributedSampler(t, {num_replicas = 2, rank = 5}) => ValueError: Invalid rank 5 | [0, 1]
nn.DataParallel(nn.Linear(2, 2))(rs.zeros(4, 2)) => RuntimeError: device:0 | cpu
nn.DataParallel(nn.Linear(2, 2), {devices = {0}}) => TypeError: did you mean 'device_ids'?
nn.parallel.scatter(cyc, {0, 1})            => ValueError: does one contain itself
nn.parallel.gather({t, 3}, 0)               => TypeError: replica 1
nn.parallel.gather({rs.tuple(t, t), rs.tuple(t)}, 0) => ValueError: a tuple of 2 | replica 1 one of 1
nn.parallel.gather({{t}, {t, t}}, 0)        => ValueError: a list of 1 | replica 1 one of 2
nn.parallel.parallel_apply(3, {t})          => TypeError: a table, got 3
nn.parallel.parallel_apply({nn.ReLU(), nn.ReLU()}, {rs.tuple(t), rs.tuple()}) => RuntimeError: in replica 1. | no device was provided
nn.parallel.DistributedDataParallel(nn.Linear(2, 2)) => ValueError: process group
dist.spawn(function(r) nn.parallel.DistributedDataParallel(nn.Linear(1, 1), {bucket_cap_bm = 1}) end, {world = 2}) => TypeError: rank 0: | did you mean 'bucket_cap_mb'?
dist.spawn(function(r) nn.parallel.DistributedDataParallel(nn.Linear(1, 1), {static_graf = true}) end, {world = 2}) => TypeError: rank 0: | did you mean 'static_graph'?
dist.spawn(function(r) nn.parallel.DistributedDataParallel(nn.Linear(1, 1), {bucket_cap_mb = -1}) end, {world = 2}) => ValueError: bucket_cap_mb
dist.all_reduce(t)                          => ValueError: dist.spawn
dist.spawn(function() end)                  => ValueError: how many ranks
dist.spawn(function() end, {wrold = 2})     => TypeError: did you mean 'world'?
dist.spawn(function(r) dist.all_reduce(rs.ones(2), {opp = "SUM"}) end, {world = 2}) => TypeError: rank 0: | did you mean 'op'?
dist.spawn(function(r) dist.allreduce(rs.ones(2)) end, {world = 2}) => AttributeError: rank 0: | did you mean 'all_reduce'?
dist.spawn(function(r) dist.all_reduce(rs.ones(2 + r)) end, {world = 2}) => MismatchError: shape | [3] on rank 1 | [2] on rank 0
dist.spawn(function(r) dist.broadcast(rs.ones(1), 5) end, {world = 2}) => RuntimeError: rank: 5 | 2 ranks
dist.spawn(function(r) dist.recv(rs.ones(1), 1 - r) end, {world = 2}) => DeadlockError: rank 0 in recv from rank 1 | rank 1 in recv from rank 0
rs.close("x", 1, 2, "tol")                  => TypeError: a table of options, got string
rs.close("x", 1, 1, {tol = 3})              => TypeError: did you mean 'atol'?
rs.ask{"q"}                                 => ValueError: a question and an answer
rs.advance(-1)                              => ValueError: 0 to 1e12
rs.trace:count{kind = "dp.scater"}          => ValueError: did you mean dp.scatter?
rs.trace:count("kind =")                    => ValueError: missing behind 'kind'
rs.lesson{title = "again"}                  => RuntimeError: once
rs.help("Liner")                            => KeyError: did you mean nn.Linear?
rs.cuda.Stream(9)                           => RuntimeError: device:9
nn.Sequential { fc1 = nn.Linear(3, 4) }     => TypeError: 'fc1' stands in a list
nn.ModuleList { modules = {} }              => TypeError: 'modules' stands in a list
optim.lr_scheduler.MultiStepLR(optim.SGD({ leaf() }, { lr = 0.1 }), { mileston = { 1, 3 } }) => TypeError: 'mileston' stands in a list
ipairs(data.DataLoader(data.TensorDataset(t))) => TypeError: for x, y in loader do
F.scaled_dot_product_attention(rs.zeros({ 1, 1, 2, 2 }, { device = "device:0" }), rs.zeros({ 1, 1, 2, 2 }, { device = "device:0" }), rs.zeros({ 1, 1, 2, 2 }, { device = "device:0" }), rs.zeros { 2, 2 }) => RuntimeError: one device
nn.MultiheadAttention(4, 2, { add_zero_attn = true })(rs.zeros(3, 1, 4), rs.zeros(3, 1, 4), rs.zeros(3, 1, 4), nil, false, rs.tensor(0.5)) => AssertionError: found 0-D tensor instead
nn.MultiheadAttention(4, 2)(rs.zeros(3, 1, 4), rs.zeros(3, 1, 4), rs.zeros(3, 1, 4), nil, true, rs.zeros(1, 3)) => RuntimeError: The shape of the 2D attn_mask is torch.Size([1, 3])
nn.MultiheadAttention(4, 2)(rs.zeros(3, 1, 4), rs.zeros(3, 1, 4), rs.zeros(3, 1, 4), rs.zeros(3, 1)) => AssertionError: expecting key_padding_mask shape of (1, 3), but got (3, 1)
