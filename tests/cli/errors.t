#!/usr/bin/perl
# What goes wrong before, in and around a lesson: one clear line on stderr that begins with "ringside: ", the right exit
# status, the lesson's line where there is one, never a C file and never a crash.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $good = lesson('good', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "Good" }
rs.check("it holds", true)
END_LESSON

# ---- an error as an answer ----

my $answered = ringside('run', lesson('answered', <<'END_LESSON'));
local rs = require "ringside"
rs.lesson { title = "Answered" }
local told = rs.distributed.spawn(function() return select(2, pcall(rs.zeros, -1)) end, { world = 1 })
print(told[0].kind, told[0])
END_LESSON
like($answered->{out}, qr/^RuntimeError\s.*RuntimeError: /, 'an error that a rank answers is one, where nothing else has failed')
    or diag($answered->{err});

# ---- the command line ----

mkdir folder() . '/folder.lua';
spill(folder() . '/empty', '');
refused('no such file', ringside('run', 'no/such.lua'), 2, qr{no/such\.lua: .*[Nn]o such file});
refused('a folder as lesson', ringside('run', folder() . '/folder.lua'), 2, qr/folder\.lua: .*(?:folder|directory)/);
refused('no lesson at all', ringside('run'), 2, qr/which lesson/);
refused('two lessons', ringside('run', $good, $good), 2, qr/one lesson/);
refused('an unknown option', ringside('run', '--polcy', 'random', $good), 2, qr/--polcy.*--policy/);
refused('an unknown short option', ringside('run', '-x', $good), 2, qr/-x\b/);
refused('an ambiguous option', ringside('run', '--t', $good), 2, qr/--t\b/);
refused('an option without its value', ringside('run', $good, '--seed'), 2, qr/--seed takes/);
refused('a flag with a value', ringside('run', '--tap=yes', $good), 2, qr/--tap takes no/);
refused('an unknown subcommand', ringside('rnu', $good), 2, qr/'rnu'.*'run'/);
refused('an unknown policy', ringside('run', '--policy', 'fair', $good), 2, qr/fair/);
refused('an unknown executor', ringside('run', '--executor', 'fast', $good), 2, qr/fast/);
refused('unknown hardware', ringside('run', '--hardware', 'clasroom', $good), 2, qr/clasroom.*classroom/);
refused('a device that is not built', ringside('run', '--device', 'cuda', $good), 2, qr/cuda/);
refused('a back-end that is not built', ringside('run', '--backend', 'nccl', $good), 2, qr/nccl/);
refused('a policy for threads', ringside('run', '--executor', 'free', '--policy', 'random', $good), 2, qr/policy/);
refused('stepping threads', ringside('step', '--executor', 'free', '--batch', 'step', $good), 2, qr/stepped/);
refused('step without a terminal', ringside('step', $good), 2, qr/terminal/);
refused("--seed $_", ringside('run', '--seed', $_, $good), 2, qr/--seed/)
    for 'garbage', '-1', '', '1x', '0x10', ' 3', '99999999999999999999999';
refused("--world $_", ringside('run', '--world', $_, $good), 2, qr/--world/)
    for '-2', '1025', '1e9', '18446744073709551616';
refused("--timeout $_", ringside('run', '--timeout', $_, $good), 2, qr/--timeout/)
    for '0', '-1', 'nan', 'inf', '1e300', 's';
is(ringside('run', '--seed', '18446744073709551615', $good)->{status}, 0, 'the largest seed is a seed');
is(ringside('run', $good, '--', '--seed', 'x')->{status}, 0, 'what follows -- is the lesson\'s');
refused('a trace where none can be', ringside('run', '--trace', '/no/such/folder/x.trace', $good), 2,
    qr{/no/such/folder});
refused('a trace over a folder', ringside('run', '--trace', folder(), $good), 2, qr/./);
SKIP: {
    skip 'there is no /dev/full here', 2 unless -e '/dev/full';
    my $told = qx('@{[ program() ]}' run '$good' 2>&1 >/dev/full);
    is($? >> 8, 2, 'a full standard output is told with status 2');
    like($told, qr/\Aringside: [^\n]*standard output[^\n]*\n\z/, 'in one line');
}

# ---- what the lesson says wrongly ----

# The failing line is line 4 of a lesson that declares two devices. With a status and a pattern.
my $case = 0;
sub fails {
    my ($name, $status, $pattern, $line, @options) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $path = lesson('case' . ++$case, qq{local rs = require "ringside"\nlocal nn, dist = rs.nn, rs.distributed\n}
        . qq{rs.lesson { title = "Wrong", devices = 2 }\n$line\nrs.check("not reached", false)\n});
    my $run = ringside('run', @options, $path);
    refused($name, $run, $status, qr/$pattern/) or diag($line);
    like($run->{err}, qr/case$case\.lua:4: /, "$name: the line is told") or diag($run->{err});
}

fails('a syntax error',            2, qr/near/,                     'local = 3');
fails('an unfinished text',        2, qr/unfinished/,               'local s = "abc');
fails('an error of its own',       2, qr/my own words/,             'error("my own words")');
fails('an error that is a table',  2, qr/\S/,                       'error({ code = 7 })');
fails('an error that is nil',      2, qr/\S/,                       'error()');
fails('a name that is not there',            2, qr/AttributeError: rs has no 'no_such_function'/, 'rs.no_such_function(1)');
fails('an index out of range',     2, qr/IndexError.*\b7\b.*\b6\b/, 'local t = rs.zeros(6) print(t[7])');
fails('a negative one',            2, qr/IndexError.*-7/,           'local t = rs.zeros(6) t[-7] = 1');
fails('too many indices',          2, qr/IndexError/,               'local t = rs.zeros(2, 3) print(t[{ 0, 0, 0 }])');
fails('a narrow beyond the end',   2, qr/Error/,                    'rs.zeros(6):narrow(0, 4, 3)');
fails('shapes that do not fit',    2, qr/RuntimeError.*\b3\b/,      'local t = rs.zeros(2, 3) + rs.zeros(2, 4)');
fails('a product that does not',   2, qr/Error.*\b3\b/,             'rs.zeros(2, 3):mm(rs.zeros(2, 3))');
fails('a wrong dtype',             2, qr/float|int64/,              'nn.Embedding(4, 2)(rs.zeros(3))');
fails('an unknown dtype',          2, qr/float77/,                  'rs.zeros(2, { dtype = "float77" })');
fails('an index beyond a table',   2, qr/IndexError|out of range/,  'nn.Embedding(4, 2)(rs.tensor { 1, 4 })');
fails('a wrong width',             2, qr/\b3\b.*\b2\b|\b2\b.*\b3\b/, 'nn.Linear(2, 2)(rs.zeros(1, 3))');
fails('a device that is not there', 2, qr/device:?.*5/,             'rs.zeros(2):to("device:5")');
fails('no device at all',          2, qr/gpu:0/,                    'rs.zeros(2):to("gpu:0")');
fails('a module elsewhere',        2, qr/device:1.*(?:device:0|cpu)|(?:device:0|cpu).*device:1/,
    'nn.Linear(2, 2):to("device:1")(rs.zeros(1, 2))');
fails('operands on two devices',   2, qr/device:1/,
    'local t = rs.zeros(2):to("device:0") + rs.zeros(2):to("device:1")');
fails('DataParallel elsewhere',    2, qr/device:0/,                 'nn.DataParallel(nn.Linear(2, 2))(rs.zeros(4, 2))');
fails('a backward of a vector',    2, qr/scalar/,
    'local t = rs.ones(3, { requires_grad = true }) ; (t * 2):backward()');
fails('a backward twice',          2, qr/second time/,
    'local t = rs.ones(1, { requires_grad = true }) local y = (t * t):sum() y:backward() y:backward()');
fails('a Function backward twice', 2, qr/second time/,
    'local F = rs.autograd.Function("F") F.forward = function(ctx, x) ctx:save_for_backward(x) return x * x end '
    . 'F.backward = function(ctx, g) return g * 2 * ctx.saved_tensors[1] end '
    . 'local y = F.apply(rs.ones(1, { requires_grad = true })):sum() y:backward() y:backward()');
fails('a leaf changed in place',   2, qr/leaf/,                     'rs.ones(3, { requires_grad = true }):add_(1)');
fails('a wrong kind of argument',  2, qr/./,                        'rs.zeros("two")');
fails('a negative size',           2, qr/-1/,                       'rs.zeros(-1)');
fails('a size that overflows',     2, qr/./,                        'rs.zeros(1 << 40, 1 << 40)');
fails('an unknown option name',    2, qr/dtpye/,                    'rs.zeros(2, { dtpye = "int64" })');
fails('a second rs.lesson',        2, qr/once/,                     'rs.lesson { title = "Again" }');
fails('ranks without a number',    2, qr/how many ranks/,           'dist.spawn(function() end)');
fails('a collective without ranks', 2, qr/no ranks|spawn/,          'dist.all_reduce(rs.zeros(1))');
fails('a runaway recursion',       2, qr/stack overflow/,           'local function f() return f() + 1 end f()');
fails('control bytes in an error', 2, qr{\\x1b\[2J\n  ringside: all is well\n},                        'error("\\27[2J\\nringside: all is well")');

fails('a state_dict that does not fit', 2, qr/ state_dict for Linear:\n  size mismatch for weight: .*\n  size mismatch for bias: [^\n\\]*\n\z/,
    'rs.nn.Linear(2, 2):load_state_dict(rs.nn.Linear(3, 3):state_dict())');

# ---- what a lesson may not do ----

fails('os.execute',         2, qr/execute|os/,   'os.execute("touch /tmp/owned")');
fails('io.open',            2, qr/io/,           'io.open("/etc/passwd")');
fails('require "os"',       2, qr/ringside/,     'require "os"');
fails('require "io"',       2, qr/ringside/,     'require "io"');
fails('package.loadlib',    2, qr/package/,      'package.loadlib("libc.so.6", "*")');
fails('dofile',             2, qr/dofile/,       'dofile("/etc/passwd")');
fails('string.dump',        2, qr/dump/,         'string.dump(function() end)');
fails('debug.getregistry',  2, qr/getregistry/,  'debug.getregistry()');
fails('load of bytecode',   2, qr/binary/,       'assert(load("\\27Lua", "x", "b"))');
fails('__gc',               2, qr/__gc/,         'setmetatable({}, { __gc = function() end })');
fails('__gc in a metatable of the engine', 2, qr/index|string/,
    'getmetatable(require("ringside").zeros(2):size()).__gc = function() end');
fails('__gc that comes later, in a rank', 2, qr/__gc/,
    'local m = {} local t = setmetatable({}, m) m.__gc = print '
    . 'require("ringside").distributed.spawn(function() return #t end, { world = 2 })');
fails('collectgarbage',     2, qr/collectgarbage/, 'collectgarbage("stop")');
fails('getmetatable("").__index gives no dump', 2, qr/./, 'error(tostring(("").dump))');
refused('a lesson that is bytecode', ringside('run', spill(folder() . '/byte.lua', "\x1bLua\x54\x00")), 2, qr/./);
refused('a lesson of zeros', ringside('run', spill(folder() . '/zeros.lua', "\0" x 5000)), 2, qr/./);
is(ringside('run', spill(folder() . '/empty.lua', ''))->{status}, 0,
    'an empty lesson does nothing and ends with status 0');

# ---- budgets ----

fails('an endless loop',                2, qr/BudgetError.*--trust/, 'while true do end');
fails('endless loops in a coroutine, under pcall, in free', 2, qr/BudgetError.*--trust/,
    'coroutine.wrap(function() while true do pcall(function() while true do end end) end end)()', '--executor', 'free');
fails('loops in a handler and a coroutine, where Lua has hooks off', 2, qr/BudgetError.*--trust/,
    'local function f() while true do end end coroutine.resume(coroutine.create(function() xpcall(f, f) end))');
fails('tables for ever',                2, qr/memory.*--trust/,
    'local t = {} for i = 1, math.huge do t[i] = { i } end');
fails('texts for ever',                 2, qr/memory.*--trust/,      'local s = "x" while true do s = s .. s end');
fails('one enormous text',              2, qr/too large|memory/,     'local s = string.rep("x", 1 << 40)');
fails('one enormous tensor',            2, qr/limit.*--trust/,       'rs.zeros(1 << 34)');
fails('tensors for ever',               2, qr/limit.*--trust/,
    'local t = {} for i = 1, math.huge do t[i] = rs.zeros(1 << 20) end');
fails('memory under pcall',             2, qr/memory/,
    'local t = {} while true do pcall(function() for i = 1, math.huge do t[#t + 1] = { i } end end) end');

# ---- errors that are caught, and errors of others ----

my $caught = ringside('run', '--tap', lesson('caught', <<'END_LESSON'));
local rs = require "ringside"
rs.lesson { title = "Caught", devices = 2 }
local ok, err = pcall(function() return rs.zeros(6)[7] end)
rs.check("it failed", not ok)
rs.check("the kind", err.kind == "IndexError")
rs.check("the line", err.line == 3)
rs.check("the text", tostring(err):find("caught.lua:3: IndexError: ", 1, true) == 1)
rs.close("the lesson goes on", (rs.ones(3) * 2):tolist(), { 2, 2, 2 })
local same = { mine = true }
local _, got = pcall(error, same)
rs.check("a table comes back as it was", got == same)
local model = rs.nn.Module("Model")
function model:init() end
function model:forward(x) error(same) end
ok, got = pcall(model(), rs.ones(1))
rs.check("out of a forward too", not ok and got == same)
ok, err = xpcall(function() error("x", 0) end, function(e) return "handled" end)
rs.check("xpcall calls its handler", err == "handled")
END_LESSON
is($caught->{status}, 0, 'pcall catches errors and the lesson goes on') or diag($caught->{out}, $caught->{err});

my $inrank = lesson('inrank', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
dist.spawn(function(rank)
  if rank == 1 then error("too late") end
end, { world = 3 })
END_LESSON
refused('an error in a rank names the rank', ringside('run', $inrank), 2, qr/inrank\.lua:4: .*rank 1\b.*too late/);
refused('rs.ask in a rank is refused', ringside('run', lesson('askrank', <<'END_LESSON')), 2, qr/rs\.ask.*rank/);
local rs = require "ringside"
rs.distributed.spawn(function() rs.ask { "Well?", answer = "yes" } end, { world = 1 })
END_LESSON
my $inworker = lesson('inworker', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "Worker", devices = 2 }
local Model = rs.nn.Module("Model")
function Model:init() self.fc = rs.nn.Linear(2, 2) end
function Model:forward(x)
  if x.device == "device:1" then error("the odd one") end
  return self.fc(x)
end
rs.nn.DataParallel(Model():to("device:0"))(rs.ones(4, 2))
END_LESSON
refused('an error in a worker names the replica', ringside('run', $inworker), 2,
    qr/inworker\.lua:6: .*replica 1 on device 1.*\n  Original message: the odd one\n/);
is(ringside('run', lesson('fails', qq{local rs = require "ringside"\nrs.check("no", false)\n}))->{status}, 1,
    'a check that fails is status 1');
my $early = ringside('run', '--tap', lesson('early',
    qq{local rs = require "ringside"\nrs.check("yes", true)\nerror("stop")\n}));
unlike($early->{out}, qr/^1\.\./m, 'a lesson that ends in an error prints no plan');

# ---- traces ----

my $trace = folder() . '/good.trace';
ringside('run', '--trace', $trace, 'lessons/01-six-rows.lua');
my $bytes = slurp($trace);
my $whole = () = ringside('events', $trace)->{out} =~ /\n/g;
cmp_ok($whole, '>', 100, 'the whole trace has its events');
for my $words ([ 'events' ], [ 'view', '--print' ]) {
    my @command = @$words;
    refused("@command: no such file",   ringside(@command, '/no/such.trace'), 2, qr{/no/such\.trace});
    refused("@command: no trace",       ringside(@command, 'README.md'), 2, qr/README\.md/);
    mkdir folder() . '/bare';
    refused("@command: a folder without a trace", ringside(@command, folder() . '/bare'), 2, qr/bare: (?:is a folder|a folder)/);
    refused("@command: an empty file",  ringside(@command, folder() . '/empty'), 2, qr/empty/);
    refused("@command: an unknown option", ringside(@command, '--jsno', $trace), 2, qr/--jsno/);
}
refused('events without a trace',     ringside('events'), 2, qr/which trace/);
refused('events of an unknown kind',  ringside('events', $trace, 'dp.scater'), 2, qr/dp\.scater.*dp\.scatter/);
refused('events of half a filter',    ringside('events', $trace, 'rank ='), 2, qr/./);

# Cut short anywhere, and with bytes that are not its own: status 0 with a note, or 2 with a line; never more events
# than there were, never a crash.
my (@crashed, @silent, @more);
for my $i (0 .. 60) {
    my $length = $i < 20 ? $i * 40 : int(length($bytes) * ($i - 19) / 42);
    my $run    = ringside('events', spill(folder() . '/cut.trace', substr $bytes, 0, $length));
    my $held   = () = $run->{out} =~ /\n/g;
    push @crashed, $length if $run->{signal} || ($run->{status} != 0 && $run->{status} != 2);
    push @silent, $length if $run->{err} !~ /\A(?:ringside: [^\n]+\n)+\z/;
    push @more, $length if $held > $whole;
}
is("@crashed", '', 'a trace cut short crashes nothing');
is("@silent",  '', 'a trace cut short is told, with status 0 or 2');
is("@more",    '', 'and shows nothing that was not there');
(@crashed, @more) = ();
my $random = 12345;
for my $round (1 .. 40) {
    my $spoilt = $bytes;
    for (1 .. 30) {
        $random = ($random * 1103515245 + 12345) % 2147483648;
        my $at = $round % 2 ? $random % 4096 : $random % length $bytes;
        substr($spoilt, $at, 1) = chr($random >> 8 & 255);
    }
    my $path = spill(folder() . '/spoilt.trace', $spoilt);
    for my $command ([ 'events', $path ], [ 'events', $path, '--json' ], [ 'view', '--print', $path ]) {
        my $run = ringside(@$command);
        push @crashed, "$round @$command[0]" if $run->{signal} || ($run->{status} != 0 && $run->{status} != 2);
    }
}
is("@crashed", '', 'a trace with bytes that are not its own crashes nothing');
# A hook that starts a backward of its own meets itself: an error that tells, not a hang.
refused('backward inside of backward without end is told', ringside('run', lesson('nested', <<'END_LESSON')), 2, qr/inside of backward/);
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "nested", devices = 2 }
local Again = nn.Module("Again")
function Again:init() self.inner = nn.Linear(2, 2) end
function Again:forward(x)
  local y = self.inner(x)
  y:register_hook(function() rs.enable_grad(function() self(x):sum():backward() end) end)
  return y
end
nn.DataParallel(Again():to("device:0"))(rs.ones(4, 2)):sum():backward()
END_LESSON

done_testing();
