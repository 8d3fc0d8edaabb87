#!/usr/bin/perl
# Said clearly: what a first hour meets, each message read aloud.
use strict;
use warnings;
use lib 'tests/cli';
use File::Temp qw(tempdir);
use Ringside;
use Test::More;

my $six    = 'lessons/01-six-rows.lua';
my $folder = folder();

# ---- values of options ----
refused('--world 0',         ringside('run', '--world', '0', $six), 2, qr/'0' is no N for --world: .*1 to 1024$/);
refused('--world 1025',      ringside('run', '--world', '1025', $six), 2, qr/'1025' is no N for --world: .*1 to 1024$/);
refused('--executor foo',    ringside('run', '--executor', 'foo', $six), 2, qr/'foo' is no NAME for --executor: .*stepped or free$/);
refused('--limit-seconds 0', ringside('run', '--limit-seconds', '0', $six), 2, qr/--limit-seconds: .*more than 0/);
refused('--seed -1',         ringside('run', '--seed', '-1', $six), 2, qr/'-1' is no N for --seed: .*whole number from 0/);
refused('--timeout nan',     ringside('run', '--timeout', 'nan', $six), 2, qr/--timeout: .*more than 0 and at most/);
refused('--backend foo',     ringside('run', '--backend', 'foo', $six), 2, qr/no --backend foo; did you mean gloo\?/);
refused('--device foo',      ringside('step', '--device', 'foo', $six), 2, qr/--device foo: there are cpu \(virtual devices\) and cuda/);
refused('bench --case nope', ringside('bench', '--case', 'nope'), 2,
    qr/no case 'nope': trace_cost has .*mlp64.*train_step has .*lstm32x32.*switch has .*tasks-512/);
refused('bench switch --case mlp64', ringside('bench', 'switch', '--case', 'mlp64'), 2, qr/no case 'mlp64': switch has tasks-2[^;]*$/);
refused('bench --case',        ringside('bench', '--case'), 2, qr/--case takes the name of a case/);
refused('bench --threads two', ringside('bench', '--threads', 'two'), 2, qr/--threads takes a number of threads/);
my $bench = ringside('bench', '--help')->{out};
my %cases = map { $_ => 1 } map { split ' ' } $bench =~ /^ {15}(\S.*)$/mg;
my $counted = ringside('bench', 'switch', '--quick', '--case', 'tasks-8');
like($counted->{out}, qr/^switch +ringside-stepped +tasks-8 /m, 'a case that the help lists is measured');
ok($cases{$_}, "bench --help lists the case $_") for qw(stage-event embed6 tfm8x64 lstm32x32 tasks-2);

# ---- ringside version ----
is(ringside('version')->{out}, ringside('--version')->{out}, 'ringside version says what --version says');
is(ringside('version', '--help')->{status}, 0, 'version has --help');
refused('version takes nothing', ringside('version', 'x'), 2, qr/version takes no 'x'/);

# ---- help: the right page, the nearest name that is sensible, or nothing found ----
sub page { return ringside('help', @_)->{out} }
like(page('DDP'), qr/\Ann\.parallel\.DistributedDataParallel\(/, 'help DDP is the page of DistributedDataParallel');
like(page('DP'), qr/\Ann\.DataParallel\(/, 'help DP is the page of DataParallel');
is(page('F'), page('nn.functional'), 'help F lists nn.functional');
is(page('F.relu'), page('nn.functional.relu'), 'help F.relu is the page of nn.functional.relu');
like(page('dist'), qr/^rs\.dist\(.*^dist, a namespace:\n.*^dist\.all_reduce\(/ms, 'help dist tells the function and the namespace');
is(page('distributed') =~ s/.*a namespace:\n\n//rs, page('dist') =~ s/.*a namespace:\n\n//rs, 'help distributed lists it, too');
like(page('import') =~ s{\s+}{ }gr, qr/require "ringside"/, 'help import says what stands in its place');
like(page('ring'), qr/all_reduce.*comm\.hop/s, 'help ring leads to the collective and its hops');
like(page('FSDP'), qr/is not built here.*nn\.DataParallel/s, 'help FSDP says that it is not built');
my $sources = join '', map { slurp($_) } 'src/sched/error.c', glob 'src/lua/*.c';
my %kinds = map { $_ => 1 } $sources =~ /"([A-Z]\w+Error)"/g;
cmp_ok(scalar keys %kinds, '>', 15, 'there are kinds of errors');
like(page($_), qr/\A\Q$_\E\n +\S/, "help $_ says what it means") for sort keys %kinds;
like(page('errors'), qr/^BudgetError\n.*^ValueError\n/ms, 'help errors lists the kinds');
refused("help $_ suggests nothing", ringside('help', $_), 2, qr/no help for '$_'; 'ringside help' lists what there is/)
    for qw(pdb for xyzzy kl conda sandbox);
refused("help $_->[0] suggests $_->[1]", ringside('help', $_->[0]), 2, qr/did you mean (?:\w+\.)*\Q$_->[1]\E\?/)
    for ['Liner', 'Linear'], ['softmx', 'Softmax'], ['nn.functional.rleu', 'nn.functional.relu'], ['dataloder', 'DataLoader'];

# ---- TORCH_DISTRIBUTED_DEBUG does what messages say ----
my $unused = lesson('unused', <<'LUA');
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "unused", world = 2 }
local Net = nn.Module("Net")
function Net:init() self.used = nn.Linear(2, 2) self.spare = nn.Linear(3, 3) end
function Net:forward(x) return self.used(x) end
dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(Net())
  for _ = 1, 2 do ddp(rs.ones { 1, 2 }):sum():backward() end
end)
LUA
for my $level ('INFO', 'DETAIL', 'info') {
    my $run = ringside({ env => { TORCH_DISTRIBUTED_DEBUG => $level } }, 'run', $unused);
    refused("TORCH_DISTRIBUTED_DEBUG=$level: the parameters are named", $run, 2, qr/rank 0: 2 \(spare\.weight\) 3 \(spare\.bias\)\.$/);
}
for my $level ('OFF', 'oFf') {
    my $run = ringside({ env => { TORCH_DISTRIBUTED_DEBUG => $level } }, 'run', $unused);
    refused("TORCH_DISTRIBUTED_DEBUG=$level: indices, and how to see names", $run, 2,
        qr/rank 0: 2 3\. Set TORCH_DISTRIBUTED_DEBUG to INFO or DETAIL to see their names\.$/);
}
refused("TORCH_DISTRIBUTED_DEBUG=$_ is refused where the ranks begin", ringside({ env => { TORCH_DISTRIBUTED_DEBUG => $_ } }, 'run', $unused),
    2, qr/:7: ValueError: The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, not '\Q$_\E'$/) for '', 'foo', '0', '-1', ' INFO';
like(page('TORCH_DISTRIBUTED_DEBUG') =~ s{\s+}{ }gr, qr/INFO or DETAIL/, 'help TORCH_DISTRIBUTED_DEBUG');

# ---- narration ----
sub says { my ($name, $body, @options) = @_; return ringside('run', @options, lesson($name, "local rs = require \"ringside\"\n$body")) }
is(says('one', 'rs.check("a", true)')->{out}, "ok 1 - one/a\n1 check holds\n", 'one check holds');
like(says('two', 'rs.check("a", true) rs.check("b", true)')->{out}, qr/^all 2 checks hold$/m, 'all 2 checks hold');
like(says('skip', 'rs.skip("a", "no")')->{out}, qr/^1 check was skipped$/m, 'one check was skipped');
my $tables = says('tables', <<'LUA')->{out};
local a = {}
a.a = a
rs.close("a table", nil, { 1, { 2.5, true }, x = "y" })
rs.close("a text", { 1 }, "one")
rs.close("a tensor", rs.ones { 2 }, "ones")
rs.close("inside", { { 1, 2 }, z = { {} } }, { { 1, 2 }, z = 3 })
rs.close("a circle", a, 1)
rs.close("a long one", ("x"):rep(1000), { 1 })
LUA
like($tables, qr/got nil, expected \{1, \{2\.5, true\}, x = "y"\}$/m, 'close shows the values of a table');
like($tables, qr/got \{1\}, expected "one"$/m, 'and puts texts in quotes');
like($tables, qr/got tensor\(\[1\., 1\.\]\), expected "ones"$/m, 'and the elements of a tensor');
like($tables, qr/at \[z\]: got \{\{\}\}, expected 3$/m, 'and the part that differs');
like($tables, qr/got \{a = \{a = .*, expected 1$/m, 'and ends in a circle');
like($tables, qr/got "x{190,}\.\.\., expected \{1\}$/m, 'and cuts what is long');
refused('a rank that names itself is named once', says('twice', <<'LUA'), 2, qr/lua:2: RuntimeError: rank 1: params\[0\] /);
rs.distributed.spawn(function(rank) if rank == 1 then rs.error("RuntimeError", "rank 1: params[0] is lost") end end, { world = 2 })
LUA
refused('and another by its number', says('once', <<'LUA'), 2, qr/: rank 1: boom$/);
rs.distributed.spawn(function(rank) if rank == 1 then error("boom", 0) end end, { world = 2 })
LUA

# ---- options and answers that there are not ----
sub raises {
    my ($name, $code, $pattern, @options) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return refused($name, says('raises', $code, @options), 2, $pattern);
}
sub in_rank { return "rs.distributed.spawn(function() local store = rs.distributed.store $_[0] end, { world = 1 })" }
raises('rs.ask: an answer that is no choice', 'rs.ask { "How many?", choices = { 1, 2 }, answer = "3" }',
    qr/ValueError: rs\.ask: the answer "3" is none of the choices: "1", "2"$/);
raises('rs.ask: no choice to choose from', 'rs.ask { "How many?", choices = {}, answer = "3" }', qr/empty list of choices/);
raises('rs.ask: an unknown option', 'rs.ask { "q", choises = { 1 }, answer = 1 }', qr/'choises': did you mean 'choices'\?/);
raises('rs.load: an unknown option', 'rs.load("x", { paht = 1 })', qr/unknown option 'paht': did you mean 'path'\?/, '--trust');
raises('store:set: an unknown option', in_rank('store:set("a", "b", { vlue = 1 })'), qr/'vlue': did you mean 'value'\?/);
raises('store:get: an unknown option', in_rank('store:get("a", { kye = 1 })'), qr/'kye': did you mean 'key'\?/);
raises('store:wait: an unknown option', in_rank('store:wait("a", { timeuot = 1 })'), qr/'timeuot': did you mean 'timeout'\?/);
raises('store:add: an unknown option', in_rank('store:add("a", 1, { amuont = 1 })'), qr/'amuont': did you mean 'amount'\?/);
raises('store:get: too many', in_rank('store:get("a", 1, 2)'), qr/get takes 1 argument, but 3 were given/);
raises('store.get: no colon', in_rank('store.get("a")'), qr/write dist\.store:get\(\.\.\.\)/);
is(says('store', in_rank('store:set("k", "a\0b") store:set { key = "n", value = 7 } print(#store:get("k"), store:get "n", store:add("c", 2))'))->{out},
    "3\t7\t2\n", 'the store keeps texts with any bytes and counts');

# ---- memory ----
for my $executor ('stepped', 'free') {
    is(says('memory', <<'LUA', '--executor', $executor)->{out}, "4096\n4096\n0\t0\n", "$executor: what collectgarbage() finds is free at once");
rs.lesson { title = "m", devices = 1 }
local function allocated() return rs.cuda.memory_allocated(0) end
local x = rs.ones { 1000 }:to("device:0")
print(allocated())
x = nil
print(allocated())
print(collectgarbage(), allocated())
LUA
}
like(says('copied', <<'LUA')->{out}, qr/^0\n$/, 'a copy to a device is waited for: who is dead then is free');
rs.lesson { title = "m", devices = 1 }
local y = rs.zeros({ 1000 }, { device = "device:0" })
y:copy_(rs.ones { 1000 })
y = nil
rs.nn.Linear(1, 1):zero_grad()
print(rs.cuda.memory_allocated(0))
LUA
like(says('count', 'print(collectgarbage("count") > 1)')->{out}, qr/true/, 'collectgarbage("count") counts');
raises('collectgarbage("stop")', 'collectgarbage("stop")', qr/it takes "collect" or "count"$/);
my $spent = says('spent', 'local t = {} for i = 1, 1000000 do t[i] = {} end while true do collectgarbage() end');
refused('collecting is work', $spent, 2, qr/BudgetError/);
is(says('sum', 'rs.ones { 4 } print(rs.trace:sum { kind = "memory.alloc" }, rs.trace:sum { kind = "memory.alloc", arg = "bytes" })')->{out},
    "16\t16\n", "trace:sum adds bytes unless told otherwise, as help says");
like(page('trace.sum'), qr/"bytes" unless given/, 'help trace.sum says so');

# ---- a stop at a question ----
my $asked = lesson('asked', 'local rs = require "ringside" rs.lesson { title = "t" } rs.ask { "How many?", choices = { 1, 2 }, answer = 2 } rs.say "so"');
like(ringside('step', '--batch', 'next', $asked)->{out}, qr/\Aa question: How many\?  a\) 1   b\) 2\n\z/, 'step --batch says the question');
like(ringside('step', '--batch', 'break lesson.ask; continue', $asked)->{out},
    qr/^stopped by 1: lesson\.ask\na question: How many\?/m, 'also with a breakpoint');


# ---- a lesson that is no Lua ----
my $kept = "$folder/kept.trace";
is(ringside('run', '--quiet', '--trace', $kept, $asked)->{status}, 0, 'a trace is there');
my $older  = slurp($kept);
my $broken = lesson('broken', "local rs = require \"ringside\"\nlocal x = = 3\n");
refused('run of what is no Lua', ringside('run', '--trace', $kept, $broken), 2, qr/broken\.lua:2: unexpected symbol near '='/);
is(slurp($kept), $older, 'leaves the older trace');
refused('step of what is no Lua', ringside('step', '--batch', 'next; where', '--trace', $kept, $broken), 2,
    qr/broken\.lua:2: unexpected symbol near '='/);
is(slurp($kept), $older, 'leaves it, too');
refused('and so does one without a trace', ringside('step', '--batch', 'next', $broken), 2, qr/broken\.lua:2: unexpected/);
ringside('run', '--trace', "$folder/none.trace", $broken);
ok(!-e "$folder/none.trace" && !-e "$folder/.none.trace.beginning", 'nothing is begun for it');
is(ringside('run', lesson('shell', "#!/usr/bin/env ringside run\nprint(1)"))->{out}, "1\n", 'a first line for the shell is none of Lua\'s');

# ---- step --batch tells an error as run does ----
my %fails = (
    'an error of the engine' => 'rs.ones(2):view(3)',
    'one of Lua'             => 'local x = nil + 1',
    'the lesson\'s own'      => 'rs.error("KeyError", "mine")',
    'one in a rank'          => 'rs.distributed.spawn(function(r) if r == 1 then rs.ones(2):view(3) end end, { world = 2 })',
    'a rank that says which' => 'rs.distributed.spawn(function(r) rs.nn.parallel.DistributedDataParallel(rs.nn.Linear(2 + r, 2)) end, { world = 2 })',
    'a mismatch'             => 'rs.distributed.spawn(function(r) if r == 1 then rs.distributed.barrier() end rs.distributed.all_reduce(rs.ones(2)) end, { world = 2 })',
    'a deadlock'             => 'rs.distributed.spawn(function(r) if r == 1 then rs.distributed.barrier() end if r == 0 then rs.distributed.recv(rs.ones(2), 1) end end, { world = 2 })',
);
for my $what (sort keys %fails) {
    my $file = lesson('fails', "local rs = require \"ringside\"\nrs.lesson { title = \"t\" }\n$fails{$what}\n");
    my ($run, $step) = (ringside('run', $file), ringside('step', '--batch', 'continue', $file));
    is("$step->{status} $step->{err}", "$run->{status} $run->{err}", "$what: step --batch says what run says");
}

# ---- traces ----
refused('--trace of a folder', ringside('run', '--trace', "$folder/", $asked), 2, qr/cannot create .*: it is a directory: name a file in it$/);
mkdir "$folder/sub";
refused('--trace of a folder without a slash', ringside('run', '--trace', "$folder/sub", $asked), 2, qr/cannot create .*: it is a directory: name a file in it$/);
refused('--trace of a folder in step', ringside('step', '--batch', 'next', '--trace', "$folder/sub/", $asked), 2, qr/cannot create .*: it is a directory: name a file in it$/);
my $cut = spill("$folder/cut.trace", substr(slurp($kept), 0, length(slurp($kept)) - 300));
my $hash = ringside('events', '--hash', $cut);
refused('--hash of a trace that was cut', $hash, 2, qr/no hash of a part: cut short/);
is($hash->{out}, '', 'and no number is printed');
for my $json ('{"traceEvents": []}', "\n [{\"ph\": \"X\"}]", '{}') {
    my $file = spill("$folder/chrome.json", $json);
    refused("view of $json", ringside('view', '--print', $file), 2, qr/a Chrome trace; import is not there yet$/);
    refused("events of $json", ringside('events', $file), 2, qr/a Chrome trace; import is not there yet$/);
}
refused('events of another file', ringside('events', $asked), 2, qr/not a Ringside trace$/);

# ---- devices ----
my $devices = ringside('devices')->{out};
# Here may be a GPU, or none, or no CUDA at all.
my %there = (cuda => qr/runtime \d+\.\d+, driver \d+\.\d+; \d+ kernels, for \S/, nccl => qr/NCCL \d\S*; /);
like($devices, qr/^  $_   (?:$there{$_}|built without CUDA: install |\w[^\n]*)/m, "devices says what is there of $_, or what $_ lacks")
    for sort keys %there;
my ($gpus) = $devices =~ /^(GPUs \(--device cuda.*?)^$/ms;
is(join("\n", grep { length > 80 && / / } split /\n/, $gpus), '', 'devices breaks what it says of GPUs at 80 columns');
cmp_ok(scalar(() = $devices =~ /\n/g), '<=', 40, 'devices fits on a screen of 40 lines');

done_testing();
