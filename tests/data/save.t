#!/usr/bin/perl
# rs.save and rs.load keep whole states of a training: nested tables, shared elements, devices. What nobody can keep, and
# files that no rs.save wrote, cost one line.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside qw(folder ringside lesson refused);
use Test::More;

my $path = folder() . '/state.safetensors';

# Every check of a lesson that may use the file: its text is the test's name.
sub holds {
    my ($name, $text, @options) = @_;
    my $head = qq{local rs = require "ringside"\nlocal nn, optim, dist = rs.nn, rs.optim, rs.distributed\n}
        . qq{rs.lesson { title = "$name", devices = 2 }\nlocal path = rs.args[1]\n};
    my $file = lesson($name =~ tr/ /_/r, $head . $text);
    for my $executor ('stepped', 'free') {
        my $run = ringside('run', '--trust', '--tap', '--executor', $executor, @options, $file, '--', $path);
        is($run->{status}, 0, "$name, $executor") or diag($run->{out}, $run->{err});
    }
    return;
}

holds('values', <<'END');
local state = { step = 7, rate = 0.1, tiny = 4.9e-324, minus = -0.0, none = rs.none, on = true, off = false, name = "ü \"x\"\n",
  list = { 1, 2.5, "three", { 4 } }, [0] = "zero", [-3] = "minus three", [2.5] = "half", [true] = "yes", [false] = { no = 1 },
  huge = math.huge, least = -math.huge, odd = 0 / 0, large = math.maxinteger, small = math.mininteger,
  rng = rs.get_rng_state(), empty = {}, [""] = "no name", nul = "a\0b" }
state.again, state.list.up = state.list, state
rs.save(state, path)
local back = rs.load(path)
rs.check("numbers, texts and booleans come back", back.step == 7 and math.type(back.step) == "integer" and back.rate == 0.1
  and back.tiny == 4.9e-324 and 1 / back.minus == -math.huge and back.none == rs.none and back.on == true and back.off == false
  and back.name == state.name and back.nul == "a\0b" and back[""] == "no name")
rs.check("numbers without end, too", back.huge == math.huge and back.least == -math.huge and back.odd ~= back.odd
  and back.large == math.maxinteger and back.small == math.mininteger)
rs.check("lists, and keys that are no names", back.list[1] == 1 and back.list[2] == 2.5 and back.list[4][1] == 4 and back[0] == "zero"
  and back[-3] == "minus three" and back[2.5] == "half" and back[true] == "yes" and back[false].no == 1 and next(back.empty) == nil)
rs.check("a table that stands in two places is one table", back.again == back.list and back.list.up == back)
rs.check("a generator's state goes on", (function()
  local next = rs.rand(3)
  rs.set_rng_state(back.rng)
  return rs.equal(rs.rand(3), next)
end)())
for _, value in ipairs { 3, "text", true, rs.ones(2) } do
  rs.save(value, path)
  local one = rs.load(path)
  rs.check("a value alone", one == value or rs.equal(one, value))
end
END

holds('tensors', <<'END');
local base = rs.arange(24.0):reshape { 4, 6 }
local weight = nn.Parameter(rs.ones(2, 2))
local half = rs.tensor { 1.5, -0.0, 3 }
local state = { deep = { base = base, row = base[1], columns = base:t(), every = base[{ "...", rs.slice(0, 6, 2) }],
    wide = rs.arange(3.0):reshape { 3, 1 }:expand { 3, 4 } },
  bool = rs.tensor { true, false }, bf16 = half:to("bfloat16"), f16 = half:to("float16"), f64 = half:to("float64"),
  i64 = rs.tensor { 1, -2 }, i32 = rs.tensor({ 1, -2 }, { dtype = "int32" }), i8 = rs.tensor({ -3 }, { dtype = "int8" }), u8 = rs.tensor({ 200 }, { dtype = "uint8" }),
  none = rs.zeros { 0, 3 }, scalar = rs.tensor(2.5), weight = weight, same = weight, grad = rs.ones({ 2 }, { requires_grad = true }),
  turned = rs.arange(6.0):reshape { 2, 3 }:t(), gaps = rs.arange(12.0):reshape { 3, 4 }[{ "...", rs.slice(1, 3) }] }
rs.save(state, path)
local back = rs.load(path)
for name, t in pairs(state) do
  if name ~= "deep" then
    local b = back[name]
    rs.check(name .. " comes back", rs.equal(b, t) and b.dtype == t.dtype and b.shape == t.shape and b.device == t.device)
    rs.check(name .. " lies as it lay", table.concat(b:stride(), ",") == table.concat(t:stride(), ","))
  end
end
rs.check("a parameter is one, and requires gradients", back.weight.requires_grad and back.weight == back.same
  and rs.equal(back.weight, weight) and nn.Linear(2, 2).weight.requires_grad and back.grad.requires_grad and not back.bf16.requires_grad)
local net = nn.Module("Net")
local one = net()
one.w = back.weight
rs.check("so a module takes it", one:parameters()[1] == back.weight)
local deep = back.deep
rs.check("views come back", rs.equal(deep.row, base[1]) and rs.equal(deep.columns, base:t()) and rs.equal(deep.wide, state.deep.wide))
deep.base:fill_(9)
rs.check("and share their elements again", deep.row[3]:item() == 9 and deep.columns[{ 5, 3 }]:item() == 9 and deep.every[{ 2, 1 }]:item() == 9)
rs.check("a stretched one takes no more than it has", deep.wide:stride()[2] == 0)
local rows = rs.arange(1000.0):reshape { 100, 10 }
rs.save({ a = { rows[3], rows[4] } }, path)
local pair = rs.load(path).a
rs.check("two views without what they are views of", rs.equal(pair[1], rows[3]) and rs.equal(pair[2], rows[4]) and pair[1]:storage_id() == pair[2]:storage_id())
local tied = nn.Sequential { nn.Linear(3, 3, { bias = false }), nn.Linear(3, 3, { bias = false }) }
tied[1].weight = tied[0].weight
rs.save(tied:state_dict(), path)
local dict = rs.load(path)
rs.check("tied weights stay tied", dict["0.weight"]:storage_id() == dict["1.weight"]:storage_id() and rs.equal(dict["0.weight"], tied[0].weight))
END

holds('devices', <<'END');
local a, b = rs.arange(4.0):to("device:1"), rs.ones(2):to("device:0")
local state = { a = a, part = a[{ rs.slice(1, 3) }], deep = { b = b, c = rs.zeros(1) } }
rs.save(state, path)
local function devices(map)
  local back = rs.load(path, { map_location = map })
  rs.check("what moved is what it was", rs.equal(back.a:cpu(), a:cpu()) and rs.equal(back.part:cpu(), a:cpu()[{ rs.slice(1, 3) }]) and back.part:storage_id() == back.a:storage_id())
  return back.a.device .. " " .. back.deep.b.device .. " " .. back.deep.c.device
end
rs.check("each tensor on its device", devices() == "device:1 device:0 cpu")
rs.check("all in one place", devices("cpu") == "cpu cpu cpu" and devices("device:1") == "device:1 device:1 device:1" and devices("cuda:0") == "device:0 device:0 device:0"
  and devices(1) == "device:1 device:1 device:1")
rs.check("by a table", devices { ["device:1"] = "device:0" } == "device:0 device:0 cpu" and devices { ["cuda:0"] = "cuda:1", cpu = "device:0" } == "device:1 device:1 device:0"
  and devices { [1] = "cpu" } == "cpu device:0 cpu")
local seen = {}
rs.check("by a function that moves", devices(function(t, place)
  seen[#seen + 1] = place .. " " .. t.device
  return t
end) == "cpu cpu cpu" and table.concat(seen, ", ") == "device:1 cpu, device:0 cpu, cpu cpu")
rs.check("one that answers a device, or nothing", devices(function(_, place) if place == "device:1" then return "device:0" end end) == "device:0 device:0 cpu")
rs.check("by place", rs.load(path, "cpu").a.device == "cpu" and rs.load(path, { ["device:1"] = "cpu" }).a.device == "cpu")
local function why(...)
  local ok, e = pcall(rs.load, ...)
  return ok and "nothing" or tostring(e)
end
rs.check("a device that is not there", why(path, { map_location = "device:5" }):find("RuntimeError: .*a was saved on device:1, for which map_location names one that is not there, and of devices this run has 2.*map_location") ~= nil)
rs.check("no device", (why(path, { map_location = "disk" }) .. why(path, { map_location = function() return {} end }))
  :find('RuntimeError: "disk" is no device.*TypeError: map_location: expected a device') ~= nil)
rs.check("another tensor", why(path, { map_location = function() return rs.ones(7) end }):find("TypeError: map_location answered another tensor") ~= nil)
rs.check("an error of the function's", why(path, { map_location = function() error("mine", 0) end }):find("mine") ~= nil)
rs.check("a mistyped option", why(path, { map_locaton = "cpu" }):find("did you mean 'map_location'") ~= nil)
local ddp = nn.DataParallel(nn.Linear(2, 2):to("device:0"))
rs.save(ddp.module:state_dict(), path)
rs.check("a flat state, too", rs.load(path).weight.device == "device:0" and rs.load(path, "cpu").weight.device == "cpu")
local w = rs.load(path, "device:1").weight
rs.check("and a table of weights goes where it is told", w.device == "device:1")
END

my $few = lesson('few', <<'END');
local rs = require "ringside"
rs.lesson { title = "few", devices = 1 }
print(rs.load(rs.args[1], { map_location = rs.args[2] }).deep.w.device)
END
my $wrote = lesson('wrote', <<'END');
local rs = require "ringside"
rs.lesson { title = "wrote", devices = 2 }
rs.save({ deep = { w = rs.ones(2):to("device:1") } }, rs.args[1])
END
is(ringside('run', '--trust', $wrote, '--', $path)->{status}, 0, 'a tensor is saved on device:1');
refused('a run without that device says what to do', ringside('run', '--trust', $few, '--', $path), 2,
    qr/RuntimeError: \S+: deep\.w was saved on device:1, and of devices this run has 1: say where it shall go, as in rs\.load\(path, \{ map_location = "cpu" \}\)/);
like(ringside('run', '--trust', $few, '--', $path, 'cpu')->{out}, qr/^cpu$/m, 'and does it');

holds('what no file keeps', <<'END');
rs.save({ before = rs.tensor(5.0) }, path)
local net, opt = nn.Linear(2, 2), nil
opt = optim.SGD(net:parameters(), { lr = 0.1 })
local g, deep = rs.Generator(), {}
do
  local at = deep
  for _ = 1, 400 do at.x = {}; at = at.x end
end
local sparse = rs.sparse_coo_tensor(rs.tensor { { 0 } }, rs.ones(1, 2), { 2, 2 })
for text, value in pairs {
  ["state.optimizer.hook is a function"] = { state = { optimizer = { hook = print } } },
  ["state.net is a module, which no file keeps; save its state_dict()"] = { state = { net = net } },
  ["opt is an optimizer, which no file keeps; save its state_dict()"] = { opt = opt },
  ["list[2].g is a generator, which no file keeps; save its get_state()"] = { list = { 1, { g = g } } },
  ["the value is a function"] = print,
  ["thread is a thread"] = { thread = coroutine.create(print) },
  ["a is a table with a metatable"] = { a = setmetatable({}, {}) },
  ["a has a key that is a table"] = { a = { [{}] = 1 } },
  ["a.s is a sparse tensor"] = { a = { s = sparse } },
  ["lies deeper than 150 tables"] = deep,
  ["which is not UTF-8 text"] = { ["\xff"] = 1 },
} do
  local ok, e = pcall(rs.save, value, path)
  rs.check(text, not ok and e.message:find(text, 1, true) ~= nil and not e.message:find("\n"))
end
rs.check("the wrong kind of value is a TypeError", select(2, pcall(rs.save, { f = print }, path)).kind == "TypeError")
rs.check("the metadata's own name", not pcall(rs.save, {}, path, { metadata = { ringside = "x" } }))
rs.check("what was there stays", rs.load(path).before:item() == 5)
END

# ---- files that no rs.save wrote ----

sub file_of {
    my ($value, $metadata) = @_;
    $value =~ s/(["\\])/\\$1/g;
    my $header = qq({"__metadata__":{"ringside":"$value"},"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)
        . '"n":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}}';
    open my $file, '>:raw', $path or die $!;
    print $file pack('Q<', length $header), $header, pack('f<2', 1.5, -2), 'abcd';
    close $file;
    return $path;
}
my $load = lesson('load', qq{local rs = require "ringside"\nrs.lesson { title = "load" }\nlocal t = rs.load(rs.args[1])\nprint("loaded", t)\n});
like(ringside('run', '--trust', $load, '--', file_of('{"value":{"map":{"a":{"tensor":"w"},"b":{"bytes":"n"}}}}'))->{out}, qr/b = "?abcd/, 'the form is as written here');
my %hostile = (
    'no JSON'                    => '{"value":',
    'a list'                     => '[]',
    'no value'                   => '{}',
    'an array as value'          => '{"value":[1]}',
    'a tensor that is not there' => '{"value":{"tensor":"x"}}',
    'a device of another name'   => '{"value":{"tensor":"w","device":"disk:0"}}',
    'a device without a number'  => '{"value":{"tensor":"w","device":"device:"}}',
    'a negative device'          => '{"value":{"tensor":"w","device":"device:-1"}}',
    'a device with more'         => '{"value":{"tensor":"w","device":"device:1x"}}',
    'a device that is a number'  => '{"value":{"tensor":"w","device":1}}',
    'sizes without strides'      => '{"value":{"tensor":"w","size":[2],"offset":0}}',
    'sizes outside'              => '{"value":{"tensor":"w","size":[3],"stride":[1],"offset":0}}',
    'an offset outside'          => '{"value":{"tensor":"w","size":[1],"stride":[1],"offset":2}}',
    'a huge offset'              => '{"value":{"tensor":"w","size":[1],"stride":[1],"offset":9223372036854775807}}',
    'a negative offset'          => '{"value":{"tensor":"w","size":[1],"stride":[1],"offset":-1}}',
    'a huge stride'              => '{"value":{"tensor":"w","size":[2],"stride":[9223372036854775807],"offset":1}}',
    'a negative stride'          => '{"value":{"tensor":"w","size":[2],"stride":[-1],"offset":1}}',
    'huge sizes'                 => '{"value":{"tensor":"w","size":[4294967296,4294967296],"stride":[0,0],"offset":0}}',
    'too many sizes'             => '{"value":{"tensor":"w","size":[1,1,1,1,1,1,1,1,1],"stride":[1,1,1,1,1,1,1,1,1],"offset":0}}',
    'fractions as sizes'         => '{"value":{"tensor":"w","size":[1.5],"stride":[1],"offset":0}}',
    'bytes that require grad'    => '{"value":{"tensor":"n","requires_grad":true}}',
    'a text of floats'           => '{"value":{"bytes":"w"}}',
    'a key that is a table'      => '{"value":{"pairs":[[{},1]]}}',
    'a key that is no number'    => '{"value":{"pairs":[[{"number":"nan"},1]]}}',
    'a pair of three'            => '{"value":{"pairs":[[1,2,3]]}}',
    'one that was not seen'      => '{"value":{"same":4}}',
    'deep nesting'               => '{"value":' . ('{"list":[' x 1500) . '1' . (']}' x 1500) . '}',
);
for my $name (sort keys %hostile) {
    refused("refused: $name", ringside('run', '--trust', $load, '--', file_of($hostile{$name})), 2, qr/load\.lua:3: \w+Error: /);
}

# What rs.save wrote, with a byte of its description changed, taken out or put in: read, or refused in one line.
my $seed = $ENV{RINGSIDE_SEED} // time % 1e6;
srand $seed;
note "RINGSIDE_SEED=$seed";
my $whole = lesson('whole', <<'END');
local rs = require "ringside"
rs.lesson { title = "whole", devices = 2 }
local t = rs.arange(6.0)
rs.save({ list = { 1, 2.5, "x" }, t = t, part = t[{ rs.slice(1, 3) }], deep = { d = rs.ones(2):to("device:1"), none = rs.none, [0] = true },
  rng = rs.get_rng_state(), w = rs.nn.Parameter(rs.ones(2)), far = math.huge }, rs.args[1])
END
ringside('run', '--trust', $whole, '--', $path);
my $written = do { open my $file, '<:raw', $path or die $!; local $/; <$file> };
my $length  = unpack 'Q<', $written;
my @signs   = split //, '0123456789{}[],:"-\\ntef';
my @odd;
for (1 .. ($ENV{RINGSIDE_LONG} ? 3000 : 60)) {
    my ($header, $rest) = (substr($written, 8, $length), substr $written, 8 + $length);
    for (0 .. int rand 3) {
        my ($at, $new) = (int rand length $header, $signs[rand @signs]);
        substr($header, $at, int rand 2) = $new;
    }
    open my $file, '>:raw', $path or die $!;
    print $file pack('Q<', length $header), $header, $rest;
    close $file;
    my $run = ringside('run', '--trust', $load, '--', $path);
    push @odd, "$run->{status} $run->{signal} $run->{err}\n$header"
        if $run->{signal} || !($run->{status} == 0 || ($run->{status} == 2 && $run->{err} =~ /\Aringside: [^\n]*Error: [^\n]*\n\z/));
}
is("@odd", '', 'a description that was tampered with is read or refused in one line');

# ---- what stops a save ----

sub parts { return scalar(() = glob folder() . '/*.part*') }
my $full = lesson('full', <<'END');
local rs = require "ringside"
rs.lesson { title = "full" }
rs.save({ old = rs.ones(3), step = 1 }, rs.args[1])
rs.faults.write()
print(pcall(rs.save, { new = rs.ones(300), step = 2 }, rs.args[1]))
local back = rs.load(rs.args[1])
print("there is", back.step, back.old:sum():item())
END
like(ringside('run', '--trust', $full, '--', $path)->{out}, qr/^false\t.*No space left.*\nthere is\t1\t3/m,
    'a disk that is full while a state is saved leaves the old file whole');
is(parts(), 0, 'and nothing beside it');

my $look  = lesson('look', qq{local rs = require "ringside"\nrs.lesson { title = "look" }\nprint("step", rs.load(rs.args[1], "cpu").step)\n});
my $ranks = lesson('ranks', <<'END');
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "ranks", devices = 3 }
local path, how = rs.args[1], rs.args[2]
dist.spawn(function(rank)
  local device = "device:" .. rank
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(8, 8):to(device))
  if rank == 0 then
    if math.tointeger(how) then rs.faults.kill(0, { at = math.tointeger(how) }) end
    rs.save({ step = 2, model = ddp.module:state_dict() }, how == "folder" and "/no/such/folder/x" or path)
  end
  dist.barrier()
  local back = rs.load(path, { map_location = device })
  ddp.module:load_state_dict(back.model)
  assert(back.model.weight.device == device and ddp.module.weight.device == device)
end, { world = 3 })
END
for my $executor ('stepped', 'free') {
    my @run = ('run', '--trust', '--executor', $executor, $ranks, '--', $path);
    is(ringside(@run, 'fine')->{status}, 0, "$executor: rank 0 saves, all wait, all load onto their own device");
    my $folder = ringside(@run, 'folder');
    like($folder->{err}, qr/rank 0: .*No such file.*waits in barrier #\d+ \(line \d+\) for rank/s, "$executor: who could not save is named")
        or diag($folder->{err});
    is($folder->{status}, 3, '... and the others hung');
    my (@unnamed, @broken);
    for my $at (0 .. 8) {
        my $killed = ringside(@run, $at);
        push @unnamed, $at if $killed->{err} !~ /rank 0 was killed/ || $killed->{status} != 3;
        push @broken, $at if ringside('run', '--trust', $look, '--', $path)->{out} !~ /^step\s+2$/m;
    }
    is("@unnamed", '', "$executor: a rank that dies while it saves is named by those who wait at the barrier");
    is("@broken", '', '... and the file is whole');
    is(parts(), 0, '... and nothing half written lies beside it');
}
done_testing();
