#!/usr/bin/perl
# ringside run and its neighbours from outside: what they print, what they answer, how they fail.
use strict;
use warnings;
use lib 'tests/cli';
use File::Temp qw(tempdir);
use Ringside ();
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $folder   = tempdir(CLEANUP => 1);

sub lesson {
    my ($name, $text) = @_;
    open my $file, '>', "$folder/$name" or die $!;
    print $file $text;
    close $file;
    return "$folder/$name";
}

# Standard output, standard error, exit status.
sub ringside {
    my (@arguments) = @_;
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>', "$folder/out" or die $!;
        open STDERR, '>', "$folder/err" or die $!;
        alarm 120;
        exec $ringside, @arguments;
        die "exec: $!";
    }
    waitpid $pid, 0;
    my $status = $? & 127 ? 'signal ' . ($? & 127) : $? >> 8;
    my @text = map { local $/; open my $f, '<', "$folder/$_" or die $!; my $t = <$f>; defined $t ? $t : '' } 'out', 'err';
    return (@text, $status);
}

sub refused {
    my ($pattern, $name, @arguments) = @_;
    my ($out, $err, $status) = ringside(@arguments);
    is($status, 2, "$name: status 2");
    like($err, $pattern, "$name: says why");
    is(($err =~ tr/\n//), 1, "$name: in one line");
}

# ---- the command line ----
refused(qr/did you mean 'run'/,           'a subcommand misspelt',   'runn');
refused(qr/did you mean --policy/,        'an option misspelt',      'run', '--polcy', 'order', 'x.lua');
refused(qr/unknown policy 'fast'/,        'an unknown policy',       'run', '--policy', 'fast', 'x.lua');
refused(qr/is no N for --seed/,           'a seed that is no number', 'run', '--seed', 'seven', 'x.lua');
refused(qr/takes a value/,                'an option without value', 'run', 'x.lua', '--seed');
refused(qr/takes no value/,               'a flag with a value',     'run', '--tap=1', 'x.lua');
refused(qr/which lesson/,                 'no lesson',               'run');
refused(qr/--backend nccl moves what lies on GPUs: it needs --device cuda/, 'a backend that moves what lies on GPUs', 'run', '--backend', 'nccl', 'x.lua');
refused(qr/--device rocm: there are cpu/,  'a device that is not there', 'run', '--device', 'rocm', 'x.lua');
refused(qr/did you mean dgx-h100/,        'hardware misspelt',       'run', '--hardware', 'dgx-h10', 'x.lua');
refused(qr/no such file|No such file/,    'a lesson that is not there', 'run', 'nowhere.lua');
refused(qr/--policy orders the stepped/,  'a policy in free',        'run', '--executor', 'free', '--policy', 'random', 'x.lua');
for my $command (qw(run step view events explore devices lessons bench)) {
    my ($out, $err, $status) = ringside($command, '--help');
    is($status, 0, "$command --help: status 0");
    like($out, qr/ringside $command|trace_viewer/, "$command --help: says how it is called");
}
my ($version) = ringside('--version');
like($version, qr/^ringside \d+\.\d+\.\d+\n.*stepped, free/s, '--version says what was built in');
my ($devices) = ringside('devices');
like($devices, qr/^GPUs .*^  cuda .*^  classroom .*^  nccl /ms, 'devices: GPUs, hardware, back-ends, or why there is none');
my ($lessons) = ringside('lessons', 'lessons');
like($lessons, qr/^01-six-rows +20 min  Where do six indices go\?/m, 'lessons: number, minutes, title');

# ---- a lesson ----
my $whole = lesson('whole.lua', <<'LUA');
local rs = require "ringside"
rs.lesson { title = "Whole", devices = 1, seed = 1 }
rs.say "two\nlines"
rs.teacher "only for teachers"
rs.hint "not shown yet"
local answer = rs.ask { "How many?", choices = { 1, 2 }, answer = 2, why = "because" }
rs.check("the answer is the question's own", answer == "2")
rs.close("nearly", 1.0000001, 1)
rs.close("tables", { 1, { x = 2.5 } }, { 1, { x = 2.5 } })
rs.close("tensors", rs.ones { 2, 2 }, { { 1, 1 }, { 1, 1 } })
rs.check("a # in a name", true)
rs.skip("not here", "no GPU")
rs.advance(10)
rs.say "later"
rs.check("time passes", rs.trace:last().t >= 10000, { virtual = true })
LUA
my ($out, $err, $status) = ringside('run', $whole);
is($status, 0, 'checks that hold: status 0');
like($out, qr/^two\nlines\n\? How many\?  a\) 1   b\) 2\n  -> 2\n     because\nok 1 - whole\/the answer/, 'narration, question, check');
unlike($out, qr/teachers|not shown/, 'no notes for teachers, no hint');
like((ringside('run', '--teacher', $whole))[0], qr/\[teacher\] only for teachers/, '--teacher shows them');
($out) = ringside('run', '--tap', $whole);
like($out, qr/^# two\n# lines\n# \? How many/, '--tap: narration as comments');
like($out, qr/^ok 5 - whole\/a \\# in a name$/m, 'a # is no directive');
like($out, qr/^ok 6 - whole\/not here # SKIP no GPU$/m, 'a skip has its reason');
like($out, qr/^ok 7 - whole\/time passes$/m, 'virtual time passes');
like($out, qr/\n1\.\.7\n\z/, 'the plan at the end');
is((ringside('run', '--tap', $whole))[0], $out, 'a second run prints the same');
like((ringside('run', '--tap', '--executor', 'free', $whole))[0], qr/time passes # SKIP times are wall times/, 'free skips virtual times');
like((ringside('run', '--tap', '--hardware', 'pcie-3', $whole))[0], qr/time passes # SKIP priced by other/, 'so does other hardware');
is((ringside('run', '--quiet', $whole))[0], '', '--quiet: nothing to say when all holds');

my $failing = lesson('failing.lua', <<'LUA');
local rs = require "ringside"
rs.lesson { title = "Failing" }
rs.close("nearly", { 1, { 2, 3 } }, { 1, { 2, 4 } })
rs.hint "look at the second list"
rs.check("nothing", nil)
LUA
($out, $err, $status) = ringside('run', $failing);
is($status, 1, 'a check that fails: status 1');
like($out, qr/^not ok 1 - failing\/nearly\n#   line 3 of the lesson\n#   at \[2\]\[2\]: got 3, expected 4\n\[hint\] look/, 'what was got and expected');
like($out, qr/2 of 2 checks failed/, 'the sum');

# ---- errors ----
sub fails {
    my ($name, $expected, $pattern, $text, @options) = @_;
    my $path = lesson("$name.lua", $text);
    my ($o, $e, $s) = ringside('run', @options, $path);
    is($s, $expected, "$name: status $expected");
    like($e, $pattern, "$name: the message");
    unlike($e, qr/\.c:\d|0x[0-9a-f]{6}/, "$name: no C place, no address");
}
fails('syntax', 2, qr/syntax\.lua:1: unexpected symbol/, 'local x = = 1');
fails('index', 2, qr/index\.lua:2: IndexError: index 7 is out of bounds/, qq{local rs = require "ringside"\nlocal x = rs.ones { 3 }[7]\n});
fails('raise', 2, qr/raise\.lua:1: boom$/m, 'error "boom"');
fails('loop', 2, qr/BudgetError.*--trust lifts/, 'while true do end');
fails('a loop that nobody waits for yet', 3, qr/cause: stuck outside: rank 1 is busy at line \d+\n/,
    'local rs = require "ringside" rs.distributed.spawn(function(rank) if rank == 1 then while true do end end
     rs.distributed.all_reduce(rs.ones(1)) end, { world = 3 })');
for my $case (['einsum', 'rs.einsum("i,j->ij", a, a)'], ['tensordot', 'rs.tensordot(a, a, 0)'],
              ['one_hot', 'rs.nn.functional.one_hot(a:long(), 1 << 24)'],
              ['one_hot by its largest', 'rs.nn.functional.one_hot(rs.tensor { 1 << 40 })']) {
    fails($case->[0], 2, qr/BudgetError.*--trust/,
        qq{local rs = require "ringside"\nlocal a = rs.zeros({ 1 }):expand { 1000000 }\n$case->[1]\n});
}
fails('memory', 2, qr/BudgetError/, 'local t = {} while true do t[#t + 1] = ("x"):rep(1000) .. #t end');
fails('twice', 2, qr/rs\.lesson is called once/, qq{local rs = require "ringside"\nrs.lesson { title = "a" }\nrs.lesson { title = "b" }\n});
fails('unknown', 2, qr/devcies/, qq{local rs = require "ringside"\nrs.lesson { title = "a", devcies = 2 }\n});
fails('hardware', 2, qr/unknown hardware 'dgx'/, qq{local rs = require "ringside"\nrs.lesson { title = "a", hardware = "dgx" }\n});
fails('kind', 2, qr/dp\.sctter.*did you mean/, qq{local rs = require "ringside"\nprint(rs.trace:count { kind = "dp.sctter" })\n});

my $head = qq{local rs = require "ringside"\nlocal dist = rs.distributed\nrs.lesson { title = "ranks" }\n};
fails('rank', 3, qr/rank\.lua:4: rank 1: boom/, $head . 'dist.spawn(function(rank) if rank == 1 then error "boom" end dist.barrier() end, { world = 3 })');
fails('deadlock', 3, qr/DeadlockError: rank 0 (?:waits )?in send to rank 1, rank 1 in send to rank 0/,
    $head . 'dist.spawn(function(rank) local t = rs.ones { 1 } dist.send(t, 1 - rank) dist.recv(t, 1 - rank) end, { world = 2 })');
fails('mismatch', 3, qr/MismatchError: .*rank 1 (?:waits )?in barrier #0.*\n  cause: .*#0 \(line 4\) is barrier on rank 1, broadcast on rank 0/,
    $head . 'dist.spawn(function(rank) if rank == 0 then dist.broadcast(rs.ones { 1 }, 0) else dist.barrier() end end, { world = 2 })');
fails('timeout', 3, qr/TimeoutError/, $head . 'dist.spawn(function(rank) local t = rs.ones { 1 } dist.send(t, 1 - rank) end, { world = 2 })',
    '--executor', 'free', '--timeout', '0.3');
fails('coroutine', 2, qr/a coroutine cannot be copied.*'co'/,
    $head . "local co = coroutine.create(function() end)\ndist.spawn(function() return co end, { world = 1 })");
fails('outside', 2, qr/there are no ranks here/, $head . 'dist.get_rank()');

# ---- copies ----
my $copies = lesson('copies.lua', $head . <<'LUA');
local nn = rs.nn
local shared = { 1, { y = "z" } }
shared.me = shared
local counter = 0
local function add() counter = counter + 1 end
local function get() return counter end
local Point = {}
Point.__index = Point
function Point:double() return 2 * self.x end
local p = setmetatable({ x = 21 }, Point)
function helper(a) return a + offset end
offset = 100
local M = nn.Module("M")
function M:init(k) self.fc = nn.Linear(2, 2) self.k = k end
function M:forward(x) return self.fc(x) * self.k end
local m, w = M(3), rs.randn { 2, 3 }
local here = m(rs.ones { 1, 2 }):tolist()
local r = dist.spawn(function(rank, a, b)
  add() add()
  shared[2].y = "changed"
  return { count = get(), same = shared.me == shared, twice = p:double(), helped = helper(1), a = a, b = b, w = w,
    out = m(rs.ones { 1, 2 }):tolist(), rank = dist.get_rank(), world = dist.get_world_size(), m = m,
    text = string.format("%d", rank), seed = rs.rand { 2 }:tolist() }
end, { world = 2, args = { "A", { 7 } } })
rs.check("what a rank changes stays there", counter == 0 and shared[2].y == "z")
for rank = 0, 1 do
  local q = r[rank]
  rs.check("upvalues that two functions share stay shared", q.count == 2)
  rs.check("cycles are kept", q.same)
  rs.check("metatables come along", q.twice == 42)
  rs.check("so do the lesson's globals", q.helped == 101)
  rs.check("arguments", q.a == "A" and q.b[1] == 7)
  rs.close("tensors", q.w, w)
  rs.close("modules compute the same", q.out, here)
  rs.close("and come back", q.m(rs.ones { 1, 2 }), here)
  rs.check("rs is the rank's own", q.rank == rank and q.world == 2 and q.text == tostring(rank))
end
local several = dist.spawn(function(rank) return rank, "b" end, { world = 2 })
rs.check("several results are a list", several[1][1] == 1 and several[0][2] == "b")
local own = dist.spawn(function()
  local schedules = rs.optim.lr_scheduler
  local first = schedules.StepLR
  schedules.StepLR = function() end
  return first
end, { world = 1 })
local opt = rs.optim.SGD({ rs.zeros({ 1 }, { requires_grad = true }) }, { lr = 1 })
rs.check("a function of the engine outlives the rank that answers it", own[0](opt, 2).step_size == 2)
dist.spawn(function(rank)
  rs.say "here"
  rs.check("late", true)
  rs.check("early", rank < 2)
  dist.store:add("k", rank)
  dist.barrier()
  rs.check("the store is shared", dist.store:get("k") == "3")
end, { world = 3 })
LUA
for my $executor ('stepped', 'free') {
    ($out, $err, $status) = ringside('run', '--tap', '--executor', $executor, $copies);
    is($status, 1, "$executor: one rank's check fails");
    my @failed = $out =~ /^not ok \d+ - (.*)$/mg;
    is("@failed", 'copies/r2: early', "$executor: just that one");
    like($out, qr/^# r0: here$/m, "$executor: narration of a rank has its number in front");
    like($out, qr/r0: late\n.*r0: early\n.*r0: the store.*r1: late\n.*r1: early/s, "$executor: checks of ranks by rank and line");
    is($err, '', "$executor: nothing on stderr");
}

# ---- the trace ----
($out, $err, $status) = ringside('run', '--quiet', '--trace', "$folder/a.trace", '--hash', 'lessons/01-six-rows.lua');
is($status, 0, 'a run with a trace');
my ($hash) = $out =~ /^trace hash ([0-9a-f]{6})$/m;
ok(defined $hash, '--hash prints six digits');
ringside('run', '--quiet', '--trace', "$folder/b.trace", 'lessons/01-six-rows.lua');
is(system('cmp', '-s', "$folder/a.trace", "$folder/b.trace"), 0, 'two runs write the same file');
($out) = ringside('events', "$folder/a.trace", 'dp.scatter.chunk');
is(($out =~ tr/\n//), 3, 'events finds the three chunks');
refused(qr/cannot create/, 'a trace that cannot be written', 'run', '--trace', "$folder/no/where.trace", 'lessons/01-six-rows.lua');

# ---- standard output ----
SKIP: {
    skip '/dev/full is for Linux', 2 unless -e '/dev/full';
    my $code = system("'$ringside' run lessons/01-six-rows.lua > /dev/full 2> '$folder/err'") >> 8;
    is($code, 2, 'a full disk behind stdout: status 2');
    open my $f, '<', "$folder/err" or die $!;
    like(<$f>, qr/cannot write standard output/, 'and it says so');
}
is(system("'$ringside' run lessons/01-six-rows.lua 2>&1 | head -1 > /dev/null") >> 8, 0, 'a reader that leaves early is no fault');

# ---- stopping ----
my $endless = lesson('endless.lua', 'while true do end');
my $pid = fork() // die $!;
if ($pid == 0) {
    open STDOUT, '>', "$folder/out";
    open STDERR, '>', "$folder/err";
    Ringside::hear_signals();
    exec $ringside, 'run', '--trust', '--trace', "$folder/stopped.trace", $endless;
}
select undef, undef, undef, 0.5;
kill 'INT', $pid;
waitpid $pid, 0;
is($? & 127 ? "signal $?" : $? >> 8, 3, 'an interrupt stops the run: status 3');
is((ringside('events', "$folder/stopped.trace"))[2], 0, 'and its trace is whole');

{
    my ($out, $err, $status) = ringside('run', 'lessons/exercises/03-autograd-graph.lua');
    is($status, 0, "an exercise's file run by itself: status 0");
    like($err, qr/^ringside: 03-autograd-graph is an exercise's file.*'ringside exercise 03' checks them$/, 'says what checks it');
    ($out, $err, $status) = ringside('run', lesson('quiet.lua', "return {}\n"));
    is($err, '', 'another file that only returns a table has no such word');
    ($out, $err, $status) = ringside('run', lesson('hook.lua', "print(1)\n"));
    is($err, '', "nor has one whose name is a part of a lesson's");
}
done_testing();
