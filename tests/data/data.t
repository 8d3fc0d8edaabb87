#!/usr/bin/perl
# Data, optimizers and files as a lesson uses them, in both executors: samplers, loaders, splits, the digits, schedules,
# state that goes out and in again, safetensors files and what is refused of them.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

# Runs a lesson that must hold in both executors.
sub holds {
    my ($name, $text, @options) = @_;
    my $file = lesson($name, qq{local rs = require "ringside"\nlocal nn, optim, data = rs.nn, rs.optim, rs.utils.data\n}
        . qq{rs.lesson { title = "$name", devices = 2, seed = 0 }\n$text});
    for my $executor ('stepped', 'free') {
        my $run = ringside('run', '--tap', '--executor', $executor, @options, $file);
        ok($run->{status} == 0 && $run->{out} =~ /^ok 1 /m, "$name, $executor") or diag($run->{out}, $run->{err});
    }
}

holds('loaders', <<'END');
local set = data.TensorDataset(rs.arange(10), rs.arange(10):to("float32") * 2)
rs.check("a sample is a list", #set == 10 and set[3][1]:item() == 3 and set[-1][2]:item() == 18)
local rows, outer = 0, 0
local loader = data.DataLoader(set, { batch_size = 4 })
for x, y in loader do
  rows, outer = rows + x:size(0), outer + 1
  for a in loader do if a:size(0) == 2 then rows = rows + 100 end end
end
rs.check("loops over one loader nest", rows == 310 and outer == 3 and #loader == 3)
rs.check("drop_last", #data.DataLoader(set, { batch_size = 4, drop_last = true }) == 2)
for x in data.DataLoader(set, { batch_size = 3, sampler = { 9, 1, 5 } }) do
  rs.check("a list is a sampler", rs.equal(x, rs.tensor { 9, 1, 5 }))
end
local Squares = data.Dataset("Squares")
function Squares:init(n) self.n = n end
function Squares:len() return self.n end
function Squares:getitem(i) return { x = i, y = i * 0.5, name = "s" .. i, pair = { rs.tensor { i, i }, i } } end
for batch in data.DataLoader(Squares(3), { batch_size = 2 }) do
  rs.check("collate goes by name", batch.x.dtype == "int64" and batch.y.dtype == "float64" and
    batch.name[1] == "s" .. batch.x[0]:item() and batch.pair[1]:dim() == 2 and batch.pair[2]:dim() == 1)
end
for a, b in data.DataLoader(Squares(3), { batch_size = 3, collate_fn = function(list) return #list, "two" end }) do
  rs.check("collate_fn answers what it likes", a == 3 and b == "two")
end
local on_device = data.TensorDataset(rs.arange(6):reshape { 3, 2 }:to("device:1"))
for x in data.DataLoader(on_device, { batch_size = 2, shuffle = true }) do
  rs.check("batches stay on the data's device", x.device == "device:1" and x:dim() == 2)
end
for _, case in ipairs { { data.DataLoader, set, { num_workers = -1 } }, { data.DataLoader, set, { batch_size = 0 } },
  { data.DataLoader, set, { shuffle = true, sampler = { 1 } } }, { data.DistributedSampler, set, {} },
  { data.DistributedSampler, set, { num_replicas = 2, rank = 2 } }, { data.DataLoader, 3 }, { data.random_split, set, { 4, 4 } },
  { data.RandomSampler, {} }, { data.TensorDataset }, { data.TensorDataset, rs.arange(2), rs.arange(3) } } do
  rs.check("wrong arguments are refused", not pcall(table.unpack(case)))
end
rs.check("an index outside is refused", not pcall(function()
  for _ in data.DataLoader(set, { sampler = { 10 } }) do end
end))
END

holds('workers', <<'END');
local set = data.TensorDataset(rs.arange(8))
local kept = data.DataLoader(set, { batch_size = 2, num_workers = 2, persistent_workers = true })
local inner, outer = 0, 0
for _ in kept do
  outer = outer + 1
  for _ in kept do inner = inner + 1 end
end
rs.check("workers that persist have one pass: nested loops share it", outer == 1 and inner == 4)
local one, two = kept:iter(), kept:iter()
rs.check("so do two iterators", one()[0]:item() == 0 and two()[0]:item() == 2 and one()[0]:item() == 4)
local Slow = data.Dataset("Slow")
function Slow:init() end
function Slow:len() return 6 end
function Slow:getitem(i)
  if i == 2 then rs.advance(50000) end
  return i
end
local loader, again, passes = nil, 0, 0
for _, persistent in ipairs { false, true } do
  loader = data.DataLoader(Slow(), { num_workers = 2, timeout = 0.02, persistent_workers = persistent })
  local next_one, came, tries = loader:iter(), {}, 0
  repeat
    local ok, x = pcall(next_one)
    if ok and x then came[#came + 1] = x:item() end
    tries = tries + 1
  until ok and not x or tries > 20
  rs.check("after a time-out the batch still comes, in its place", table.concat(came, " ") == "0 1 2 3 4 5")
end
for _ = 1, 6 do -- given up in the middle, a new pass is its own
  local ok, next_one = pcall(loader.iter, loader)
  if ok then
    passes = passes + 1
    again  = again + (next_one():item() == 0 and next_one():item() == 1 and 1 or 0)
    pcall(next_one)
  end
end
rs.check("a pass that was given up leaves nothing to the next", passes >= 2 and again == passes)
END

holds('resumed', <<'END');
local function row(t) return table.concat(t:tolist(), " ") end
local set = data.TensorDataset(rs.arange(10), rs.arange(10) * 2)
local makers = {
  ["in order"] = function() return {} end,
  shuffled = function() return { shuffle = true } end,
  ["shuffled by a generator"] = function(g) return { shuffle = true, generator = g } end,
  ["a sampler's generator"] = function(g) return { sampler = data.RandomSampler(set, { generator = g }) } end,
  ["with replacement"] = function() return { sampler = data.RandomSampler(set, true, 40) } end,
  ["a subset"] = function() return { sampler = data.SubsetRandomSampler { 9, 7, 5, 3, 1, 0, 2 } } end,
  ["a subset's generator"] = function(g) return { sampler = data.SubsetRandomSampler({ 9, 7, 5, 3, 1 }, g) } end,
  ["a rank's share"] = function() return { sampler = data.DistributedSampler(set, 2, 1) } end,
  ["a list"] = function() return { sampler = { 4, 3, 2, 1, 0, 9, 8 } } end,
}
local function pass(loader, g, told, stop)
  local state
  for x in loader do
    told[#told + 1] = row(x) .. " " .. rs.rand(1):item()
    if #told == stop then state = { loader:state_dict(), rs.get_rng_state() } end
  end
  told[#told + 1] = rs.rand({ 1 }, { generator = g }):item()
  return state
end
local function make(how)
  local g = rs.Generator():manual_seed(5)
  local options = makers[how](g)
  options.batch_size = 2
  return data.DataLoader(set, options), g
end
for how in pairs(makers) do
  rs.manual_seed(11)
  local loader, g = make(how)
  if loader.sampler.set_epoch then loader.sampler:set_epoch(3) end
  local whole, rest = {}, {}
  local state = pass(loader, g, whole, 2)
  pass(loader, g, whole)
  rs.manual_seed(99)
  local again, other = make(how)
  again:load_state_dict(state[1])
  rs.set_rng_state(state[2])
  pass(again, other, rest)
  pass(again, other, rest)
  rs.check("a pass goes on where it stood, " .. how, table.concat(whole, "|", 3) == table.concat(rest, "|"))
end
local sampler = data.RandomSampler(set)
local first = {}
for i in sampler do
  first[#first + 1] = i
  if #first == 4 then first.state = sampler:state_dict() end
end
local second = data.RandomSampler(set)
second:load_state_dict(first.state)
local rest = {}
for i in second do rest[#rest + 1] = i end
rs.check("a sampler goes on by itself", first.state.yielded == 4 and table.concat(first, " ", 5) == table.concat(rest, " "))
local fresh = data.DataLoader(set, { batch_size = 5 })
for _ in fresh do end
rs.check("a pass that is over leaves nothing behind", fresh:state_dict().batches == 0)
for _, wrong in ipairs { {}, { batches = -1 }, { batches = "2" } } do
  local ok, why = pcall(fresh.load_state_dict, fresh, wrong)
  rs.check("what is no state is refused", not ok and why.kind == "ValueError")
end
END

holds('splits', <<'END');
rs.manual_seed(42)
local parts = data.random_split(data.TensorDataset(rs.arange(5)), { 3, 2 })
rs.check("one permutation", parts[1][0][1]:item() == 2 and parts[1][1][1]:item() == 4 and parts[2][1][1]:item() == 1)
for x in data.DataLoader(parts[1], { batch_size = 3 }) do rs.check("a part", rs.equal(x, rs.tensor { 2, 4, 3 })) end
local thirds = data.random_split(rs.arange(10), { 0.5, 0.25, 0.25 })
rs.check("fractions", #thirds[1] == 6 and #thirds[2] == 2 and #thirds[3] == 2)
local seen = {}
for i in data.RandomSampler(rs.arange(5), { num_samples = 12 }) do seen[i] = (seen[i] or 0) + 1 end
rs.check("whole permutations first", seen[0] >= 2 and seen[4] >= 2)
local images, labels = rs.data.digits { split = "train" }
rs.check("1438 digits train", images:size(0) == 1438 and labels:size(0) == 1438 and images:max():item() == 1)
local losses = rs.distributed.spawn(function(rank)
  local sampler, sum = data.DistributedSampler(rs.arange(10)), 0
  sampler:set_epoch(3)
  for x in data.DataLoader(rs.arange(10), { batch_size = 2, sampler = sampler }) do sum = sum + x:sum():item() end
  return sum
end, { world = 2 })
rs.check("two ranks see all samples", losses[0] + losses[1] == 45)
END

holds('optimizers', <<'END');
-- The same three steps on the CPU, on a device, and of a transposed parameter in float64.
local function run(make, convert)
  rs.manual_seed(1)
  local p = nn.Parameter(convert(rs.randn { 5, 7 }))
  local opt = make { p }
  for _ = 1, 3 do p.grad = convert(rs.randn { 5, 7 }) opt:step() end
  return p:detach():to("cpu"):to("float32"):contiguous(), opt
end
for name, make in pairs {
  sgd = function(p) return optim.SGD(p, { lr = 0.1, momentum = 0.9, weight_decay = 0.01, nesterov = true }) end,
  plain = function(p) return optim.SGD(p, { lr = 0.1 }) end,
  adam = function(p) return optim.Adam(p, { lr = 0.1, amsgrad = true, weight_decay = 0.1 }) end,
  adamw = function(p) return optim.AdamW(p, { lr = 0.1 }) end,
} do
  local cpu = run(make, function(t) return t end)
  local device = run(make, function(t) return t:to("device:1") end)
  local wide = run(make, function(t) return t:to("float64"):t():contiguous():t() end)
  rs.check(name .. " on a device is the same", rs.equal(cpu, device))
  rs.close(name .. " of strided float64 is nearly so", wide, cpu, 1e-4)
end
local p = nn.Parameter(rs.ones { 3 })
local function step(opt)
  p.grad = rs.ones { 3 }
  opt:step()
  return opt
end
local first = optim.Adam({ p }, { lr = 0.1 })
step(first)
local state, kept = first:state_dict(), p:detach():clone()
local saved = state.state[0].exp_avg:clone()
step(first)
local after = p:detach():clone()
rs.no_grad(function() p:copy_(kept) end)
local second = optim.Adam({ p }, { lr = 5 })
state.state[0].exp_avg, state.state[0].exp_avg_sq = saved, rs.full({ 3 }, 0.001)
state.state[0].step = rs.tensor(1.0)
second:load_state_dict(state)
step(second)
rs.close("a loaded state goes on", p:detach(), after, 1e-6)
rs.check("with its rate", second.param_groups[1].lr == 0.1 and second.state[p].step:item() == 2)
second.param_groups[1].lr = 0
kept = p:detach():clone()
step(second)
rs.check("the group's rate counts", rs.equal(p:detach(), kept))
second:add_param_group { params = { nn.Parameter(rs.ones { 1 }) }, lr = 7 }
rs.check("groups can be added", second.param_groups[2].lr == 7 and second.param_groups[2].eps == 1e-8)
rs.check("a closure's loss is answered", second:step(function() return 5 end) == 5)
rs.check("SGD has a rate of its own", optim.SGD({ p }).param_groups[1].lr == 0.001)
local wide = optim.Adam({ { params = { p }, decoupled_weight_decay = true } }, { foreach = true, fused = false })
rs.check("how PyTorch's loops are written is kept", wide.param_groups[1].foreach and wide.defaults.fused == false)
rs.check("Adam's groups can decay as AdamW's", wide.param_groups[1].decoupled_weight_decay and
  optim.AdamW({ p }).defaults.decoupled_weight_decay and not wide.defaults.decoupled_weight_decay)
wide.param_groups[1].betas[1] = 0.5
rs.check("a group's betas are its own", wide.defaults.betas[1] == 0.9)
rs.check("SGD without momentum remembers nothing", next(step(optim.SGD({ p })).state) == nil)
p.grad = rs.ones { 3 }
wide:zero_grad { set_to_none = false }
rs.check("zero_grad fills with zeros where asked", p.grad:sum():item() == 0)
wide:zero_grad()
rs.check("else gradients are nil after it", p.grad == nil)
for _, case in ipairs { { optim.SGD, { p }, { differentiable = true } }, { optim.SGD, { p }, { lr = -1 } },
  { optim.Adam, { p }, { foreach = true, fused = true } }, { optim.AdamW, { p }, { decoupled_weight_decay = true } }, { optim.SGD, {}, { lr = 1 } },
  { optim.SGD, { p, p }, { lr = 1 } }, { optim.SGD, { p }, { lr = 1, nesterov = true } }, { optim.Adam, { p }, { betas = { 1, 0 } } },
  { optim.Adam, { p }, { momentum = 1 } }, { optim.SGD, { { params = { p } }, { lr = 1 } } }, { optim.AdamW, { p * 2 } },
  { second.load_state_dict, second, { state = {}, param_groups = {} } }, { second.load_state_dict, second, {} } } do
  rs.check("wrong arguments are refused", not pcall(table.unpack(case)))
end
p.grad = rs.tensor { 3.0, 4.0, 0.0 }
rs.check("the norm before clipping", nn.utils.clip_grad_norm_({ p }, 1):item() == 5)
rs.close("and after", p.grad, rs.tensor { 0.6, 0.8, 0.0 }, 1e-5)
nn.utils.clip_grad_value_({ p }, 0.7)
rs.close("values are cut", p.grad, rs.tensor { 0.6, 0.7, 0.0 }, 1e-5)
p.grad = rs.tensor { 1 / 0, 0.0, 0.0 }
rs.check("a norm that is not finite", not pcall(nn.utils.clip_grad_norm_, { p }, 1, { error_if_nonfinite = true }))
END

holds('schedules', <<'END');
local lr = optim.lr_scheduler
local function rates(make, steps)
  local opt, list = optim.SGD({ nn.Parameter(rs.zeros { 1 }) }, { lr = 1.0 }), {}
  local schedule = make(opt)
  for i = 0, steps do list[i] = opt.param_groups[1].lr opt:step() schedule:step() end
  return list, schedule, opt
end
local list, schedule, opt = rates(function(o) return lr.StepLR(o, 2) end, 4)
rs.close("StepLR", { list[0], list[1], list[2], list[4] }, { 1, 1, 0.1, 0.01 }, 1e-12)
local saved = schedule:state_dict()
rs.check("its state", saved.last_epoch == 5 and saved.optimizer == nil)
schedule:load_state_dict { last_epoch = 1 }
rs.check("which can be loaded", schedule.last_epoch == 1)
list = rates(function(o) return lr.CosineAnnealingLR(o, 200) end, 400)
rs.close("CosineAnnealingLR", { list[50], list[100], list[150], list[200], list[400] },
  { 0.8535533905932737, 0.5, 0.1464466094067263, 0, 1 }, 1e-9)
list = rates(function(o) return lr.LambdaLR(o, function(e) return 0.5 ^ e end) end, 3)
rs.close("LambdaLR", { list[0], list[3] }, { 1, 0.125 }, 1e-12)
list = rates(function(o)
  return lr.SequentialLR(o, { lr.LinearLR(o, { start_factor = 0.5, total_iters = 2 }), lr.ExponentialLR(o, 0.5) }, { 2 })
end, 4)
rs.close("SequentialLR", { list[0], list[1], list[2], list[3], list[4] }, { 0.5, 0.75, 1, 0.5, 0.25 }, 1e-12)
rs.check("wrong arguments are refused", not pcall(lr.StepLR, opt, 0) and not pcall(lr.LinearLR, opt, { start_factor = 0 }) and
  not pcall(lr.SequentialLR, opt, { schedule }, { 1 }) and not pcall(lr.StepLR, 3, 1))
END

# ---- files ----

my $path = folder() . '/weights.safetensors';
holds('safetensors', <<"END" . <<'END2', '--trust');
local path = "$path"
END
rs.manual_seed(3)
local net = nn.Sequential { nn.Linear(3, 4), nn.Linear(4, 2) }
local dict = net:state_dict()
dict.count, dict.flags, dict.empty, dict.one = rs.arange(3), rs.tensor { 1, 0 }:eq(rs.tensor { 1, 1 }), rs.zeros { 0, 2 }, rs.tensor(7.5)
rs.save(dict, path, { metadata = { epoch = "3", ["ü"] = "ö" } })
local back, metadata = rs.load(path)
local count = 0
for name, t in pairs(dict) do
  count = count + 1
  rs.check(name .. " comes back", back[name].dtype == t.dtype and back[name].shape == t.shape and rs.equal(back[name], t))
end
for name in pairs(back) do count = count - 1 end
rs.check("nothing else does", count == 0 and metadata.epoch == "3" and metadata["ü"] == "ö")
back.count, back.flags, back.empty, back.one = nil, nil, nil, nil
local other = nn.Sequential { nn.Linear(3, 4), nn.Linear(4, 2) }
other:load_state_dict(back)
local x = rs.ones { 1, 3 }
rs.check("the loaded network answers the same", rs.equal(other(x), net(x)))
for _, wrong in ipairs { { { a = print }, path }, { { net }, path }, { {}, "/no/such/folder/x" }, { { __metadata__ = x }, path },
  { { ["\xff"] = x }, path }, { {}, path, { metadata = { a = 1 } } } } do
  rs.check("cannot be saved", not pcall(rs.save, table.unpack(wrong)))
end
rs.check("what was there stays", rs.load(path).one:item() == 7.5)
rs.check("no such file", not pcall(rs.load, "/no/such/file"))
END2

# The layout byte by byte: another program's file can be read.
sub file_of { my ($header, $data) = @_; return pack('Q<', length $header) . $header . $data }
my $plain = '{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}';
spill($path, file_of($plain . '  ', pack('f<2', 1.5, -2)));
holds('foreign', qq{local t = rs.load("$path").w\nrs.check("is read", t[0]:item() == 1.5 and t[1]:item() == -2)\n}, '--trust');
my $bytes = '{"w":{"dtype":"I8","shape":[3],"data_offsets":[0,3]}}';
spill($path, file_of($bytes, pack('c3', -128, -1, 127)));
holds('bytes with a sign', qq{local t = rs.load("$path").w
rs.check("are read", t.dtype == "int8" and table.concat(t:tolist(), " ") == "-128 -1 127")
rs.save({ w = t:flip { 0 } }, "$path.turned")
}, '--trust');
open my $written, '<:raw', "$path.turned" or die $!;
my $all = do { local $/; <$written> };
like($all, qr/"dtype":"I8","shape":\[3\].*\x7f\xff\x80\z/s, 'and written as they lie');

my %hostile = (
    'an empty file'              => '',
    'a short one'                => 'abc',
    'a header that is too long'  => pack('Q<', 1 << 60) . $plain,
    'one longer than the file'   => pack('Q<', 1000) . $plain,
    'no JSON'                    => file_of('{"w":', ''),
    'an array'                   => file_of('[]', ''),
    'a number'                   => file_of('{"w":1}', ''),
    'deep nesting'               => file_of('[' x 100000, ''),
    'one name twice'             => file_of('{"w":{"dtype":"U8","shape":[],"data_offsets":[0,1]},"w":{}}', 'a'),
    'an unknown dtype'           => file_of('{"w":{"dtype":"X9","shape":[2],"data_offsets":[0,8]}}', '12345678'),
    'a negative size'            => file_of('{"w":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}', '12345678'),
    'a huge shape'               => file_of('{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}', ''),
    'too many dimensions'        => file_of('{"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,2],"data_offsets":[0,8]}}', '12345678'),
    'a fraction as size'         => file_of('{"w":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}}', '12345678'),
    'offsets outside'            => file_of('{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}', '12345678'),
    'offsets that run backwards' => file_of('{"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}', '12345678'),
    'offsets that do not fit'    => file_of('{"w":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}', '12345678'),
    'a gap'                      => file_of('{"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', '12345678'),
    'an overlap'                 => file_of('{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},'
                                          . '"v":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}', '12345678'),
    'data that nobody names'     => file_of($plain, '123456789'),
    'data that is missing'       => file_of($plain, '1234567'),
    'metadata that are no texts' => file_of('{"__metadata__":{"a":1}}', ''),
);
my $load = lesson('load', qq{local rs = require "ringside"\nrs.lesson { title = "load" }\nrs.load(rs.args[1])\n});
for my $name (sort keys %hostile) {
    refused("refused: $name", ringside('run', '--trust', $load, '--', spill($path, $hostile{$name})), 2,
        qr/load\.lua:3: ValueError: .*weights\.safetensors/);
}
refused('a lesson without --trust reaches no files', ringside('run', $load, '--', $path), 2, qr/--trust/);

# ---- the digits ----

my $digits = lesson('digits', qq{local rs = require "ringside"\nrs.lesson { title = "digits" }\nrs.data.digits()\n});
mkdir folder() . '/data';
for my $case ([ 'no pixels', "1,2,3\n" ], [ 'a pixel of 17', join(',', 17, (0) x 63, 1) . "\n" ],
              [ 'a label of 10', join(',', (0) x 64, 10) . "\n" ], [ 'no rows', '' ], [ 'other bytes', "\x1f\x8b\x08\x00garbage" ]) {
    spill(folder() . '/data/digits.csv.gz', $case->[1]);
    refused("digits: $case->[0]", ringside('run', $digits), 2, qr/digits\.csv\.gz: /);
}

# ---- the example ----

for my $executor ('stepped', 'free') {
    my $run = ringside('run', '--tap', '--executor', $executor, 'lessons/examples/train_digits.lua');
    is($run->{status}, 0, "the digits are learned, $executor") or diag($run->{out}, $run->{err});
    is($run->{err}, '', '... and no progress is shown in TAP');
    my @ok = $run->{out} =~ /^ok \d+ - train_digits/mg;
    is(scalar @ok, 5, '... with five checks');
}

done_testing();
