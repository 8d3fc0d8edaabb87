#!/usr/bin/perl
# Faults on purpose, by a lesson (rs.faults), by --fault, in both executors: each does what its help says, is told with its
# rank and message, leaves nothing behind, and the same plan gives the same run.
use strict;
use warnings;
use lib 'tests/cli';
use JSON::PP qw(decode_json);
use Ringside;
use Test::More;
use Time::HiRes qw(time);

# Argument 1 is Lua that plans; three all-reduces of three ranks, then a send from 0 to 1.
my $three = lesson('three', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Three ranks", seed = 1 }
if rs.args[1] then load("local rs = ...; " .. rs.args[1])(rs) end
local before = rs.cuda.memory_allocated("cpu")
local ok, out = pcall(dist.spawn, function(rank)
  local t = rs.ones(tonumber(rs.args[2] or 12)) * (rank + 1)
  for i = 1, 3 do
    dist.all_reduce(t)
    rs.advance(10)
  end
  if rank == 0 then dist.send(t, 1) elseif rank == 1 then dist.recv(t, 0) end
  return t:sum():item()
end, { world = 3 })
collectgarbage()
print("memory", rs.cuda.memory_allocated("cpu") - before)
if not ok then error(out) end
print("sums", out[0], out[1], out[2])
END_LESSON

my @executors = ([], [qw(--executor free --timeout 1)]);
sub run_plan {
    my ($plan, @options) = @_;
    return ringside('run', @options, $three, '--', $plan);
}
sub in_both {
    my ($name, $plan, $status, $out, $err) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    for my $executor (@executors) {
        my $run   = run_plan($plan, @$executor);
        my $where = @$executor ? 'free' : 'stepped';
        is("$run->{status} $run->{signal}", "$status 0", "$name, $where: status $status") or diag($run->{err});
        like($run->{out}, qr/^memory\s+0(?:\.0)?$/m, "$name, $where: memory returns") or diag($run->{out})
            unless $status == 3 && @$executor; # several limits are reached at once: then nothing of the lesson goes on
        like($run->{out}, $out, "$name, $where: goes on") or diag($run->{out}) if defined $out;
        like($run->{err}, $err, "$name, $where: is told") if defined $err;
    }
}

my $right = qr/^sums\s+648\.0\s+648\.0\s+648\.0$/m;
in_both('without a fault', '', 0, $right);
in_both('a late rank', 'rs.faults.late(1, 5000)', 0, $right);
in_both('a delayed message', 'rs.faults.delay(0, 2, 5000, {message = 3})', 0, $right);
in_both('a doubled send', 'rs.faults.double(0, 1)', 0, $right);
in_both('a rank killed at once', 'rs.faults.kill(2)', 3, undef,
    qr/\Aringside: DeadlockError: (?:rank \d waits|ranks 0 and 1 wait) in init_process_group [^\n]*\n  cause: killed: rank 2 was killed at line 6/);
in_both('a rank killed on its way', 'rs.faults.kill(2, {at = 24})', 3, undef,
    qr/\Aringside: DeadlockError: [^\n]*all_reduce #\d [^\n]*\n  cause: killed: rank 2 was killed at line 9/);
in_both('a lost message', 'rs.faults.lose(0, 2, {message = 3})', 3, undef,
    qr/\A[^\n]*\n  cause: lost message: message 3 from rank 0 to rank 2 was lost\n/);
in_both('a lost send', 'rs.faults.lose(0, 1)', 3, undef,
    qr/\A[^\n]*rank 1 waits in recv from rank 0 \(line 12\)[^\n]*\n  cause: lost message: message 0 from rank 0 to rank 1 was lost\n/);
in_both('a cut link', 'rs.faults.cut(1, 0, {message = 1})', 3, undef, qr/\A[^\n]*\n  cause: lost message: the link from rank 1 to rank 0 is cut\n/);

# ---- in virtual time, to the microsecond ----

sub events {
    my ($plan, @options) = @_;
    my $trace = folder() . '/faults.trace';
    ringside('run', '--quiet', '--trace', $trace, @options, $three, '--', $plan);
    return map { decode_json($_) } split /\n/, ringside('events', $trace, '--json')->{out};
}
sub struck { return grep { $$_{kind} eq 'fault.injected' } @_ }
sub ends   { my %end; $end{ $$_{rank} } = $$_{t} for grep { $$_{kind} eq 'task.end' && defined $$_{rank} } @_; return \%end }

my @plain = events('');
is(scalar struck(@plain), 0, 'nothing strikes without a plan');
for my $row (
    [ 'late',   'rs.faults.late(1, 5000)',                     { kind => 'late',   rank => 1, at => 0 } ],
    [ 'kill',   'rs.faults.kill(2, {at = 24})',                { kind => 'kill',   rank => 2, at => 24 } ],
    [ 'lose',   'rs.faults.lose(0, 2, {message = 3})',         { kind => 'lose',   rank => 0, peer => 2, at => 3 } ],
    [ 'delay',  'rs.faults.delay(0, 2, 5000, {message = 3})',  { kind => 'delay',  rank => 0, peer => 2, at => 3 } ],
    [ 'double', 'rs.faults.double(0, 1)',                      { kind => 'double', rank => 0, peer => 1, at => 0 } ],
    [ 'cut',    'rs.faults.cut(1, 0, {message = 1})',          { kind => 'cut',    rank => 1, peer => 0, at => 1 } ],
    [ 'allocation', 'rs.faults.allocation()',                  { kind => 'allocation', at => 0 } ],
    ) {
    my ($name, $plan, $args) = @$row;
    my ($event, @more) = struck(events($plan));
    is(scalar @more, 0, "$name strikes once");
    my %got = map { ($_ => $$event{args}{$_}) } keys %$args;
    is_deeply(\%got, $args, "$name is an event that says which") or diag(explain($event));
}
my @late = events('rs.faults.late(1, 5000)');
is(sprintf('%.0f', ends(@late)->{0} - ends(@plain)->{0}), 5000_000, 'all come 5000 us later where one stands still so long');
my @delayed = events('rs.faults.delay(0, 1, 700)');
is(sprintf('%.0f', ends(@delayed)->{1} - ends(@plain)->{1}), 700_000, 'a send that comes 700 us later');

# ---- what is doubled is there twice ----

my $twice = lesson('twice', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Twice" }
rs.faults.double(0, 1)
local out = dist.spawn(function(rank)
  local t = rs.tensor { 1.0, 2.0 }
  if rank == 0 then
    dist.send(t, 1)
    dist.send(t * 10, 1)
    return 0
  end
  local got = {}
  for i = 1, 3 do
    dist.recv(t, 0)
    got[i] = t[1]:item()
  end
  return got
end, { world = 2 })
print(out[1][1], out[1][2], out[1][3])
END_LESSON
for my $executor (@executors) {
    my $run = ringside('run', @$executor, $twice);
    like($run->{out}, qr/^2\.0\s+2\.0\s+20\.0$/m, "@$executor: a doubled send is received twice, then the next")
        or diag($run->{err});
}
for my $executor (@executors) {
    my $run = run_plan('rs.faults.double(0, 2)', @$executor);
    is($run->{status}, 0, "@$executor: a repeated message of a collective goes unnoticed");
    unlike($run->{out}, $right, "@$executor: but for the numbers");
    my $seen = ringside('run', @$executor, $three, '--', 'rs.faults.double(0, 2)', 9);
    is("$seen->{status} $seen->{signal}", '3 0', "@$executor: unless its length differs from the next one's");
    like($seen->{err}, qr/MismatchError: .*rank 0 sent 16 bytes where rank 2 expects 4/, "@$executor: which is told")
        or diag($seen->{err});
    my ($sums) = $run->{out} =~ /^(sums.*)$/m;
    is($sums, (run_plan('rs.faults.double(0, 2)')->{out} =~ /^(sums.*)$/m)[0], "@$executor: which are the same each time");
}

# ---- at once, and uncatchable ----

my $catches = lesson('catches', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Catches" }
dist.spawn(function(rank)
  local t = rs.ones(4)
  if rank == 1 then
    pcall(function() rs.faults.kill(1) end)
    print("still there")
    local done = coroutine.wrap(function() return pcall(error, "x") end)()
    while true do pcall(rs.advance, 1) end
  end
  local ok, why = pcall(dist.all_reduce, t)
  print(rank, ok, why)
end, { world = 3 })
END_LESSON
for my $executor (@executors) {
    my $run = ringside('run', @$executor, $catches);
    is("$run->{status} $run->{signal}", '3 0', "@$executor: a rank that kills itself: status 3");
    unlike($run->{out}, qr/still there/, "@$executor: pcall does not catch it");
    like($run->{out}, qr/^0\s+false.*all_reduce #0 [^\n]*(?:\n[^\n]*cause: killed: rank 1 was killed|rank 1 was killed)/m,
        "@$executor: the others learn it, and may catch that") or diag($run->{out}, $run->{err});
}
my $other = lesson('other', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Another one" }
dist.spawn(function(rank)
  if rank == 0 then rs.sleep(2000) rs.faults.kill(2) return "did it" end
  if rank == 2 then while true do end end
end, { world = 3 })
END_LESSON
my $loops = ringside('run', '--executor', 'free', $other);
is("$loops->{status} $loops->{signal}", '3 0', 'a rank that loops for ever in Lua can be killed by another one, in free');
like($loops->{err}, qr/rank 2 was killed/, 'which is told');

# ---- while an error of its own travels up, which a pcall waits for ----

my $raises = lesson('raises', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Raises" }
dist.spawn(function(rank)
  if rank == 1 then
    local ok = pcall(function() return rs.nn.Linear(2, 2)(rs.ones(1, 3)) end)
    if ok then error("no error") end
  end
  dist.all_reduce(rs.ones(2))
end, { world = 2 })
END_LESSON
for my $executor (@executors) {
    my ($point, @silent) = (0);
    while ($point < 1000) {
        my $run = ringside('run', @$executor, '--fault', "kill 1 at $point", $raises);
        last if $run->{status} == 0;
        push @silent, "$point: $run->{err}" if $run->{status} != 3 || $run->{err} !~ /\A(?:[^\n]*\n)?[^\n]*rank 1 was killed/;
        $point++;
    }
    cmp_ok($point, '>', 20, "@$executor: a rank that raises an error and catches it has points");
    is("@silent", '', "@$executor: killed at any of them, that is what is told");
}

# ---- a second spawn ----

my $again = lesson('again', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Again" }
rs.faults[rs.args[1]](1, rs.args[1] == "cut" and 0 or nil)
local function f(rank)
  local t = rs.ones(3)
  dist.all_reduce(t)
  return t:sum():item()
end
print("first", (pcall(dist.spawn, f, { world = 2 })))
print("second", dist.spawn(f, { world = 2 })[1])
END_LESSON
for my $executor (@executors) {
    for my $fault ('kill', 'cut') {
        my $run = ringside('run', @$executor, $again, '--', $fault);
        like($run->{out}, qr/^first\s+false\nsecond\s+6\.0$/m, "@$executor: after a $fault the next spawn is whole")
            or diag($run->{out}, $run->{err});
    }
}

# ---- sleeping ----

my $sleeps = lesson('sleeps', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "Sleeps" }
rs.distributed.spawn(function(rank) rs.sleep(300000) end, { world = 2 })
rs.check("it slept", true)
END_LESSON
my $begin = time;
my @slept = map { decode_json($_) } split /\n/, do {
    my $trace = folder() . '/slept.trace';
    is(ringside('run', '--trace', $trace, $sleeps)->{status}, 0, 'rs.sleep in stepped');
    ringside('events', $trace, '--json')->{out};
};
is(sprintf('%.0f', ends(@slept)->{1}), 300_000_000, 'moves the virtual clock on by so much');
$begin = time;
is(ringside('run', '--executor', 'free', $sleeps)->{status}, 0, 'rs.sleep in free');
cmp_ok(time - $begin, '>=', 0.3, 'lets real time pass, of both ranks at once');
my $long = lesson('long', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "Sleeps long" }
rs.distributed.spawn(function(rank)
  if rank == 1 then rs.sleep(3e6) else rs.distributed.barrier() end
end, { world = 2 })
END_LESSON
$begin = time;
my $timed = ringside('run', '--executor', 'free', '--timeout', '1', $long);
is($timed->{status}, 3, 'who waits for a rank that sleeps is told in time');
like($timed->{err}, qr/rank 1 is still in sleep \(line 4\)/, 'that it sleeps, and where') or diag($timed->{err});

# ---- memory and disks ----

my @ended = map { [ $_, ringside('run', '--fault', "allocation $_", $three) ] } map { 9 * $_ } 0 .. 30;
my @wrong = grep { $$_[1]{signal} || ($$_[1]{status} != 0 && $$_[1]{status} != 3) } @ended;
is(scalar @wrong, 0, 'a request for memory that is refused: the run goes on or fails')
    or diag("allocation $wrong[0][0]: $wrong[0][1]{status}, $wrong[0][1]{signal}: $wrong[0][1]{err}");
my ($refused) = grep { $$_[1]{status} == 3 } @ended;
like($refused->[1]{err}, qr/MemoryError|out of memory/, 'some fail, and say so') or diag(explain(\@ended));
my $full = run_plan('rs.faults.write()');
is($full->{status}, 2, 'output that finds a full disk: status 2');
like($full->{err}, qr/cannot write standard output: No space left on device/, 'and a word');
my $store = lesson('store', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "A store" }
local store = rs.distributed.FileStore(rs.args[1], 1)
store:set("a", "1")
rs.faults.write()
local ok, why = pcall(store.set, store, "b", "2")
local saved, whynot
if rs.args[2] then
  rs.faults.write()
  saved, whynot = pcall(rs.save, { t = rs.ones(2) }, rs.args[2])
end
store:set("c", "3")
print(ok, why)
print(store:check { "b" }, store:get("c"), saved, whynot)
END_LESSON
my $kept = ringside('run', '--trust', $store, '--', folder() . '/keys', folder() . '/saved.safetensors');
like($kept->{out}, qr/^false\s+\S+ RuntimeError: cannot write to \S+keys: No space left on device\nfalse\s+3\s+false.*saved\S*: No space left/m,
    'a FileStore and rs.save that find a full disk say so, and go on') or diag($kept->{out}, $kept->{err});
ok(!-e folder() . '/saved.safetensors', 'nothing half written stays');
my $traced = ringside('run', '--fault', 'write 0', '--trace', folder() . '/short.trace', $three);
is($traced->{status}, 0, 'a trace that finds a full disk ends, the run does not') or diag($traced->{err});
like($traced->{err}, qr/the disk is full: the trace ends/, 'which is told');

# ---- on the command line ----

sub hash { return ringside('run', '--quiet', '--hash', @_)->{out} =~ /trace hash (\w+)/ ? $1 : 'none' }
for my $plan ('kill 2 at 24', 'late 1 at 9 by 12.5 us', 'lose 0 -> 2 message 3', 'delay 0 -> 2 message 3 by 70 us',
    'double 0 -> 2 message 1', 'cut 1 -> 0 message 0') {
    my @same = map { hash('--fault', $plan, $three) } 1 .. 2;
    is($same[0], $same[1], "$plan: the same plan gives the same run");
    isnt($same[0], hash($three), "$plan: and another than without");
}
my $two = ringside('run', '--fault', 'late 0 at 3 by 9 us', '--fault', 'kill 1 at 40', $three);
like($two->{err}, qr/rank 1 was killed/, 'several faults make a plan');
my $beyond = ringside('run', '--fault', 'kill 1 at 400000', '--fault', 'lose 0 -> 2 message 900', $three);
is($beyond->{status}, 0, 'faults beyond the end leave the run as it is');
like($beyond->{err}, qr/the fault 'kill 1 at 400000' did not strike: this run has \d+ points of rank 1, counted from 0\n/,
    'the plan says that the kill did not strike, and how many points there were');
like($beyond->{err}, qr/'lose 0 -> 2 message 900' did not strike: this run has \d+ messages from rank 0 to rank 2/, 'nor the loss');
my ($points) = $beyond->{err} =~ /has (\d+) points/;
is(ringside('run', '--fault', 'kill 1 at ' . ($points - 1), $three)->{err} =~ /did not strike/ ? 1 : 0, 0, 'the last of them is one that strikes');
is(ringside('run', '--fault', "kill 1 at $points", $three)->{err} =~ /did not strike/ ? 1 : 0, 1, 'the next one is not');
refused("'$_' is refused", ringside('run', '--fault', $_, $three), 2, qr/no 'FAULT' for --fault: it takes a fault/)
    for 'kill', 'kill 2 at', 'lose 1 -> 1 message 2', 'explode 3', '';
like(ringside('run', '--help')->{out}, qr/--fault 'FAULT'.*kill R at N.*lose A -> B message N/s, '--help lists them');
my @stepped = split /\n/, ringside('step', '--fault', 'late 1 at 9 by 5 us', '--batch', 'until fault.injected; where', $three)->{out};
like($stepped[-1], qr/^\d+ fault\.injected instant r1 .*kind=late rank=1 .*at=9/, 'step takes them, too');

# ---- what rs.faults refuses ----

for (
    [ 'rs.faults.kill(-1)',                 qr/ValueError: rank = -1/ ],
    [ 'rs.faults.kill(1024)',               qr/ValueError: rank = 1024/ ],
    [ 'rs.faults.kill()',                   qr/TypeError: argument 1 of kill/ ],
    [ 'rs.faults.lose(0, 0)',               qr/rank 0 sends itself no messages/ ],
    [ 'rs.faults.lose(0, 1, {message=-1})', qr/message = -1/ ],
    [ 'rs.faults.late(0, -5)',              qr/us = -5/ ],
    [ 'rs.faults.late(0, 0/0)',             qr/us = -?nan/ ],
    [ 'rs.faults.delay(0, 1)',              qr/TypeError: argument 3 of delay/ ],
    [ 'rs.faults.explode(1)',               qr/AttributeError/ ],
    [ 'rs.sleep(-1)',                       qr/us = -1/ ],
    ) {
    my $run = run_plan($$_[0]);
    is("$run->{status} $run->{signal}", '2 0', "$$_[0]: status 2");
    like($run->{err}, $$_[1], "$$_[0]: says why");
}
my $nobody = ringside('run', lesson('nobody', <<'END_LESSON'));
local rs = require "ringside"
rs.distributed.spawn(function(rank) if rank == 0 then rs.advance(100) rs.faults.kill(1) end end, { world = 2 })
END_LESSON
like($nobody->{err}, qr/no task of rank 1 lives/, 'who has ended cannot be killed');
done_testing();
