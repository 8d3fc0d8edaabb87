#!/usr/bin/perl
# Help: every name that a lesson can reach has a topic with its signature and a text, from the tables that declare it;
# so have all ops, kinds of events and commands of the debugger. What is misspelt is answered with what was meant.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

# ---- the program ----

sub help_of { return ringside('help', @_)->{out} }

like(help_of('add'), qr/^rs\.add\(t, other, \{alpha = 1\}\)\nt:add\(other, \{alpha = 1\}\)\n/,
    'an op is shown as a function and as a method');
like(help_of('add'), qr/AddBackward0.*torch\.add$/ms, 'with the node that it records and its name in PyTorch');
is(help_of('nn.Linear'), help_of('Linear'), 'the namespace may be left out');
is(help_of('rs.nn.Linear'), help_of('torch.nn.Linear'), 'and may be written as in PyTorch');
like(help_of('Linear'), qr/^  in_features .*^  bias .*\(true unless given\)/ms, 'arguments are told with their defaults');
like(help_of('dist.all_reduce'), qr/\Adist\.all_reduce\(t.*torch\.distributed\.all_reduce$/ms, 'dist.all_reduce');
like(help_of('DataParallel'), qr/device_ids.*output_device.*PyTorch  torch\.nn\.DataParallel$/ms, 'DataParallel');
like(help_of('t.shape'), qr/sizes/, 'a field of a tensor');
like(help_of('DataParallel'), qr/rs\.kw\{mask = m\}.*outputs/s, 'DataParallel: how it is called with keyword arguments');
like(help_of('DataParallel'), qr/"cpu"\s.*and -1\s+\(deprecated\) mean\s+the\s+host/s, 'and that the output may go to the host');
like(help_of('nn.parallel.data_parallel'), qr/^  Answers  the outputs, gathered on output_device$/m, 'data_parallel answers outputs');
unlike(help_of("cuda.$_"), qr/"cpu"/, "cuda.$_ does not offer the host")
    for qw(memory_summary memory_stats memory_reserved mem_get_info reset_peak_memory_stats get_device_properties);
like(help_of('cuda.memory_summary'), qr/memory_stats\(device\) as a text/, 'memory_summary says what it prints');
like(help_of($_->[0]), $_->[1], "people look up $_->[0]")
    for [ kwargs => qr/rs\.kw/ ], [ gradient => qr/p\.grad/ ], [ device_memory => qr/bytes/ ], [ n => qr/\Anext / ];
like(help_of('dp.scatter'), qr{event.*Args.*devices, dim, chunks.*nn\.parallel\.scatter_kwargs.*src/parallel/}s,
    'a kind of event is told with its arguments, counterpart and source');
like(help_of('break'), qr/\Abreak \[EXPR.*debugger.*Keys/s, 'a command of the debugger');
is(help_of('devices'), ringside('devices', '--help')->{out}, 'a subcommand tells what its --help tells');
like(help_of('step'), qr/command of the debugger.*See also.*ringside step \[options\]/s,
    'of what has several meanings all are told');
like(help_of('bucket_cap_mb'), qr/\Abucket_cap_mb, an argument of\n  nn\.parallel\.DistributedDataParallel\s+MiB, /,
    'an argument is told with what takes it');
like(help_of('static_graph'), qr/get_ddp_logging_data.*^  nn\.parallel\.DistributedDataParallel\s+true: every iteration/ms,
    'beside fields that are called so');
like(help_of('dim'), qr/^  and of \d+ more$/m, 'of many functions the first are told');
like(help_of('nn.DataParallel'), qr/^  device_ids\s+a list of devices; all/m, 'devices of DataParallel are in use');
like(help_of('dist.barrier'), qr/^  device_ids\s+not used/m, 'those of a barrier are not');
like(help_of('nn.init'), qr/kaiming_uniform_.*zeros_/s, 'a namespace lists its names');
like(ringside('help')->{out}, qr/^  ringside run .*^  nn\.functional .*^  events /ms,
    'alone it lists subcommands and namespaces');
refused('a typo is answered with the name that was meant', ringside('help', 'Liner'), 2,
    qr/no help for 'Liner': did you mean nn\.Linear\?/);
refused('so is a wrong case', ringside('help', 'embedDing'), 2, qr/did you mean nn\.(?:functional\.e|E)mbedding\?/);
refused('a part of a name finds it', ringside('help', 'xavier'), 2, qr/did you mean nn\.init\.xavier/);
refused('nonsense is refused', ringside('help', 'qwertyuiopasdf'), 2, qr/no help for 'qwertyuiopasdf'/);
refused('two names are refused', ringside('help', 'add', 'sub'), 2, qr/one name/);
refused('an unknown option', ringside('help', '--every'), 2, qr/--every.*--all/);

# ---- the whole reference ----

my $all = help_of('--all');
is($all, help_of('--reference'), '--all is the whole reference');
my %topic = $all =~ /^### (\S+)\n\n```\n(.*?)^```$/gms;
cmp_ok(scalar keys %topic, '>', 500, 'which tells hundreds of names');
my @silent = grep { $topic{$_} !~ /\A\S.*\n(?:\S.*\n)? +\S/ } sort keys %topic;
is("@silent", '', 'each with a signature and a text');
my @poor = grep { $topic{$_} =~ /^  [a-zA-Z_]\w* *(?:\([^\n]* unless given\))?$/m } sort keys %topic;
is("@poor", '', 'every argument is told, not only named');
my @long = grep { /[^\n]{121}/ && !/^\S/m } values %topic;
is(scalar @long, 0, 'texts are broken into lines');

sub rows {
    my ($path, $pattern) = @_;
    my $text = slurp($path);
    return $text =~ /^$pattern/gm;
}
my @ops = rows('src/tensor/ops.def', qr/OP\( *(\w+),/);
my @events = rows('src/stages.def', qr/(?:STAGE|POINT)_KIND\( *\w+, *\w+, *"([^"]+)"/);
my @commands = rows('src/control/commands.def', qr/COMMAND\( *\w+, *"([^"]+)"/);
cmp_ok(scalar @ops, '>', 100, 'there are ops');
cmp_ok(scalar @events, '>', 70, 'there are kinds of events');
cmp_ok(scalar @commands, '>', 40, 'there are commands');
is(join(' ', grep { !defined $topic{$_} && !defined $topic{"rs.$_"} } @ops), '', 'every op has a topic');
my @mute = grep { !defined $topic{$_} || $topic{$_} !~ /\A\Q$_\E, a kind of event\n +\S/
    || $topic{$_} !~ /^  Source +src\/\S+\.c:\d+, \w+$/m } @events;
is("@mute", '', 'every kind of event has a topic with a text and its source');
is(join(' ', grep { !defined $topic{$_} || $topic{$_} !~ /^  (?:Where|Keys) /m } @commands), '',
    'every command has a topic');

# Families that must say more than arguments: shapes, dtypes, answers or errors.
my @bare = grep { /^(?:nn|optim|nn\.functional|nn\.init|dist)\.[A-Za-z]\w*$/ && $topic{$_} !~ /^  (?:Shapes|Answers) /m
    && !/^optim\.(?:step|zero_grad)$|calculate_gain|ReduceOp|BuiltinCommHookType|DebugLevel|\.(?:get_|is_|barrier|destroy|init_process|store|_)/ } sort keys %topic;
is("@bare", '', 'modules, losses, optimizers, initialisers and collectives say what they take and answer');

# No row of reference.def is about something that is not there.
my $table = slurp('src/lua/reference.def');
my %known = map { my $key = $_; $key =~ s/^rs\.//; $key =~ tr/:/./; ($key => 1) } keys %topic;
for (values %topic) {
    my @forms = /^([\w.:]+)[({]/gm;
    for my $form (@forms) { $form =~ s/^rs\.//; $form =~ tr/:/./; $known{$form} = 1 }
}
my %gone;
for my $names ($table =~ /^(?:ABOUT|COUNTERPART)\( "([^"]*)"/gm) {
    for my $name (split ' ', $names) { $gone{$name} = 1 unless $known{$name} || $known{"t.${name}_"} || $known{"t.$name"} }
}
my %used;
for my $key (keys %topic) { $used{$1} = 1 while $topic{$key} =~ /^  ([a-zA-Z_]\w*)  /gm }
for my $row ($table =~ /^ARGUMENT\( "([^"]*)"/gm) {
    my ($about, $argument) = $row =~ /^(\S+) (\S+)$/ ? ($1, $2) : (undef, $row);
    $gone{$row} = 1 if !$used{$argument} || (defined $about && !$known{$about} && !$known{"t.$about"});
}
is(join(', ', sort keys %gone), '', 'no row of the reference\'s table is about something that is not there');

# ---- every name that a lesson reaches ----

my $walk = ringside('run', '--trust', lesson('walk', <<'END_LESSON'));
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "Walk", devices = 2 }
local seen, missing, count, hooks = {}, {}, 0, dist.algorithms.ddp_comm_hooks
local function told(path)
  count = count + 1
  local ok, text = pcall(rs.help, path)
  if not ok or #text < #path then missing[#missing + 1] = path end
end
local function walk(path, t)
  if seen[t] then return end
  seen[t] = true
  for name, value in pairs(t) do
    if type(name) == "string" and name:sub(1, 2) ~= "__" and not (path == "rs" and (name == "args" or name == "distributed")) then
      local here = path .. "." .. name
      if type(value) == "table" and (rawget(getmetatable(value), "__index") or {}) ~= rawget(getmetatable(rs.utils.data.Subset), "__index") and value ~= dist.ReduceOp and value ~= dist.BuiltinCommHookType and value ~= hooks.DDPCommHookType then walk(here, value)
      else told((here:gsub("^rs%.distributed%.", "dist."))) end
    end
  end
end
walk("rs", rs)
walk("rs.distributed", dist)

-- What objects answer to: the table behind __index, or the one that its function keeps.
local function methods(word, object)
  local meta = assert(debug.getmetatable(object), word)
  local index = meta.methods or meta.__index
  if type(index) == "function" then
    for i = 1, 9 do
      local _, kept = debug.getupvalue(index, i)
      if type(kept) == "table" then index = kept break end
    end
  end
  assert(type(index) == "table", word .. " has no methods")
  for name in pairs(index) do -- of containers and DistributedDataParallel some are found among all modules'
    local where = word
    for _, other in ipairs(word == "m" and { "list", "dict", "ddp" } or {}) do
      if not pcall(rs.help, where .. "." .. name) then where = other end
    end
    told(where .. "." .. name)
  end
end
local x = rs.ones(2, 2, { requires_grad = true })
local layer = nn.Linear(2, 2)
local loss = layer(x):sum()
local opt = rs.optim.SGD(layer:parameters(), { lr = 0.1 })
local data = rs.utils.data.TensorDataset(x)
methods("t", x)
methods("m", layer)
methods("opt", opt)
methods("fn", loss.grad_fn)
methods("handle", x:register_hook(function() end))
methods("s", rs.cuda.Stream(0))
methods("e", rs.cuda.Event())
methods("scheduler", rs.optim.lr_scheduler.StepLR(opt, 1))
methods("loader", rs.utils.data.DataLoader(data))
methods("sampler", rs.utils.data.RandomSampler(data))
methods("g", rs.Generator())
dist.init_process_group("local", { rank = 0, world_size = 1 })
methods("group", dist.group.WORLD)
for _, name in ipairs { "options", "group_name", "group_desc" } do told("group." .. name) end
methods("dist.store", dist.HashStore())
for _, name in ipairs { "shape", "dtype", "device", "grad", "grad_fn", "requires_grad", "is_leaf", "ndim", "_version", "name",
                        "data", "is_parameter", "is_cuda", "_base", "output_nr", "T", "layout" } do told("t." .. name) end
print(count .. " names")
print("missing: " .. table.concat(missing, " "))
local ok, e = pcall(rs.help, "Liner")
print(tostring(ok) .. " " .. e.kind .. ": " .. e.message)
print(rs.help(rs.sum))
END_LESSON
like($walk->{out}, qr/^(?:[4-9]\d\d|\d{4,}) names$/m, 'a lesson reaches hundreds of names') or diag($walk->{err});
like($walk->{out}, qr/^missing: $/m, 'and every one has its topic') or diag($walk->{out});
like($walk->{out}, qr/^false KeyError: no help for 'Liner': did you mean nn\.Linear\?$/m, 'rs.help knows what was meant');
like($walk->{out}, qr/^rs\.sum\(t.*: sum of all/m, 'rs.help of a function is its signature and text');
my @properties = slurp('src/lua/tensor.c') =~ /\{ "(\w+)", get_\w+ \}/g;
cmp_ok(scalar @properties, '>', 10, 'tensors have fields');
is(join(' ', grep { !defined $topic{"t.$_"} } @properties), '', 'and every field has its topic');
done_testing();
