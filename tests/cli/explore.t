#!/usr/bin/perl
# ringside explore: other interleavings. It finds what the usual order hides, the schedule that it makes short does it
# again, and an exhaustive search completes each class of equivalent interleavings once.
use strict;
use warnings;
use lib 'tests/cli';
use Cwd qw(abs_path getcwd);
use File::Temp qw(tempdir);
use POSIX qw(WNOHANG);
use Ringside;
use Test::More;

my $root   = getcwd();
my $folder = tempdir(CLEANUP => 1);
my $long   = $ENV{RINGSIDE_LONG};

sub explore { return ringside({ in_folder => $folder }, 'explore', @_) }

# "1000 schedules, 892 of them different, seeds 0 to 999" and what follows.
sub numbers { my ($text) = @_; return [ $text =~ /^(\d+) schedules, (\d+) of them different, seeds (\d+) to (\d+)/m ] }

# ---- faults that depend on the order, each hidden by the usual one ----

# By lesson: its kind, what is said of it, and what the schedule's run shows: its status, and its output or error.
my %planted = (
    wildcard => [ 'differ', qr/usually: weights\\t10\.0\\tbias\\t20\.0\n +here:    weights\\t20\.0\\tbias\\t10\.0\n/,
        0, qr/^weights\t20\.0\tbias\t10\.0$/m ],
    polled => [ 'hang', qr/^ +MismatchError: .*\n +cause: .*rank \d left out barrier #1 \(line 12\)/m, 3,
        qr/left out barrier #1/ ],
    leader => [ 'hang', qr/^ +DeadlockError: .*\n +cause: (?:crossed sends|unmatched): /m, 3, qr/in send to rank \d/ ],
    unset  => [ 'hang', qr/^ +MismatchError: .*\n +cause: shape: all_reduce #0 \(line 14\) gets \[\d\]/m, 3,
        qr/cause: shape: all_reduce #0/ ],
    groups => [ 'hang', qr/^ +DeadlockError: each waits for the next in all_reduce: 0 -> 1 -> 2 -> 0\n/m, 3,
        qr/who waits for whom: 0 -> 1 -> 2 -> 0/ ],
    replicas => [ 'differ', qr/usually: .*device:1\n +here:    .*device:0\n/,       0, qr/^written last by\tdevice:0$/m ],
);
for my $name (sort keys %planted) {
    my ($kind, $cause, $status, $shows) = @{ $planted{$name} };
    my $lesson = "$root/tests/explore/$name.lua";
    my $usual  = ringside('run', $lesson);
    is($usual->{status}, 0, "$name: the usual order hides it") or diag($usual->{err});
    unlike($usual->{out}, $shows, "$name: and shows nothing of it");
    for my $policy ($long ? qw(random pct) : qw(pct)) {
        my $run = explore('--policy', $policy, '--schedules', $long ? 1000 : 250, $lesson);
        is($run->{status}, 3, "$name: $policy finds it") or diag($run->{out}, $run->{err});
        like($run->{out}, qr/^\d+ ${kind}s? \(seeds?(?: \d+,?)+(?: \.\.\.)?\)$/m, "$name: $policy: the seeds");
        like($run->{out}, $cause, "$name: $policy: the cause");
        like($run->{out}, qr/shrunk to [1-6] switch(?:es)?:\n.*see it: ringside step --policy $name\.schedule /s,
            "$name: $policy: a short schedule");
        my $again = ringside({ in_folder => $folder }, 'run', '--hash', '--policy', "$name.schedule", $lesson);
        is($again->{status}, $status, "$name: $policy: the schedule does it again") or diag($again->{err});
        like($again->{out} . $again->{err}, qr/$shows/m, "$name: $policy: and shows it");
        unlike($again->{err}, qr/does not fit/, "$name: $policy: it fits");
        my $third = ringside({ in_folder => $folder }, 'run', '--hash', '--policy', "$name.schedule", $lesson);
        is($third->{out}, $again->{out}, "$name: $policy: and again the same");
    }
}

my $step  = ringside({ in_folder => $folder }, 'step', '--policy', 'groups.schedule', '--batch', 'continue',
    "$root/tests/explore/groups.lua");
is($step->{status}, 3, 'step follows a schedule') or diag($step->{out}, $step->{err});
like($step->{err}, qr/each waits for the next in all_reduce: 0 -> 1 -> 2 -> 0/, 'and ends where it ends');

# ---- the same seed finds the same: again, and in another build ----

my $lesson = "$root/tests/explore/leader.lua";
my $first  = explore('--seed', 30, '--schedules', 60, $lesson);
is_deeply(numbers($first->{out})->[0], 60, 'as many schedules as were asked for');
is_deeply([ @{ numbers($first->{out}) }[2, 3] ], [ 30, 89 ], 'from the seed on');
is(explore('--seed', 30, '--schedules', 60, $lesson)->{out}, $first->{out}, 'the same seeds find the same');
my ($seed) = $first->{out} =~ /^\d+ hangs? \(seeds? (\d+)/m;
my $alone = explore('--seed', $seed, '--schedules', 1, $lesson);
is($alone->{status}, 3, 'a seed alone finds it') or diag($alone->{out});
my ($newest) = sort { $b <=> $a } map { (stat)[9] } glob 'src/*.def src/*/*.[chS] src/*/*.def src/*/*/*.[ch]';
my @others = grep { -x && abs_path($_) ne abs_path(program()) && (stat)[9] >= $newest }
    map { "build/$_/ringside" } qw(release debug clang asan);
SKIP: {
    skip 'no other build of these sources is here', 1 unless @others;
    for my $other (@others) {
        my $run = ringside({ in_folder => $folder, program => abs_path($other) }, 'explore', '--seed', 30,
            '--schedules', 60, $lesson);
        is($run->{out}, $first->{out}, "$other finds the same");
    }
}

# ---- every class once ----

sub ranks {
    my ($name, $world, $body) = @_;
    return lesson($name, <<"END_LESSON");
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "$name" }
dist.spawn(function(rank)
  local t = rs.tensor { rank }
  $body
end, { world = $world })
END_LESSON
}

# How many classes there are, worked out by hand.
my @classes = (
    # Who receives says from whom: the order in which the two send means nothing.
    [ 1, 'directed', 3, 'if rank == 2 then dist.recv(t, 0) dist.recv(t, 1) else dist.send(t, 2) end' ],
    [ 1, 'crossed', 3, 'if rank == 2 then dist.recv(t, 1) dist.recv(t, 0) else dist.send(t, 2) end' ],
    # Two senders, a receive from any source: 2!
    [ 2, 'any of two', 3, 'if rank == 2 then dist.recv(t) dist.recv(t) else dist.send(t, 2) end' ],
    [ 2, 'isend', 3, 'if rank == 2 then dist.recv(t) dist.recv(t) else dist.isend(t, 2):wait() end' ],
    # Three: 3!
    [ 6, 'any of three', 4, 'if rank == 3 then for i = 1, 3 do dist.recv(t) end else dist.send(t, 3) end' ],
    # Two messages of each of two senders, whose own stay in order: 4! / (2! 2!)
    [ 6, 'two each', 3, 'if rank == 2 then for i = 1, 4 do dist.recv(t) end else dist.send(t, 2) dist.send(t, 2) end' ],
    # Two tags are two lines: nobody takes from any source where two senders meet.
    [ 1, 'tags', 3, 'if rank == 2 then dist.recv(t, nil, nil, 1) dist.recv(t, nil, nil, 2)
                     else dist.send(t, 2, nil, rank + 1) end' ],
    # A ring of directed messages: each waits for the one before.
    [ 1, 'ring', 3, 'if rank == 0 then dist.send(t, 1) dist.recv(t, 2)
                     else dist.recv(t, rank - 1) dist.send(t, (rank + 1) % 3) end' ],
    # Each of the two asks, and is answered before the other one: still 2!
    [ 2, 'answered', 3, 'if rank == 0 then for i = 1, 2 do dist.send(t, dist.recv(t)) end
                         else dist.send(t, 0) dist.recv(t, 0) end' ],
    # Two receivers, who take from both senders: 2! each, whatever the other one sees.
    [ 4, 'two receivers', 4, 'if rank < 2 then dist.send(t, 2) dist.send(t, 3) else dist.recv(t) dist.recv(t) end' ],
    # Three add to one key: 3!; twice each: 6! / (2! 2! 2!); two pairs at a key each: 2! 2!
    [ 6,  'add', 3, 'dist.store:add("n", 1)' ],
    [ 90, 'add twice', 3, 'dist.store:add("n", 1) dist.store:add("n", 1)' ],
    [ 4,  'two keys', 4, 'dist.store:add(rank < 2 and "a" or "b", 1)' ],
    # One sets, two look whether it is set: each before or after that; the two looks commute.
    [ 4, 'looks', 3, 'if rank == 0 then dist.store:set("k", "1") else dist.store:check { "k" } end' ],
    # Who gets waits until it is set.
    [ 1, 'gets', 3, 'if rank == 0 then dist.store:set("k", "1") else dist.store:get("k") end' ],
    # Who counts the keys does so before, between or after the two sets, which commute: 2 + 2, as "between" has two.
    [ 4, 'counts', 3, 'if rank == 0 then dist.store:num_keys() else dist.store:set("k" .. rank, "1") end' ],
    # Collectives meet by their number, not by their order.
    [ 1, 'collectives', 3, 'dist.all_reduce(t) dist.barrier() dist.new_group { 0, 1 } dist.broadcast(t, 1)' ],
    # Asked whether it has ended: before its end or after.
    [ 2, 'polls', 2, 'local work = dist.all_reduce(t, { async_op = true })
                      if rank == 0 then work:is_completed() end work:wait()' ],
);
for my $case (@classes) {
    my ($count, $name, $world, $body) = @$case;
    my $run = explore('--exhaustive', ranks($name =~ tr/ /-/r, $world, $body));
    my $classes = $count == 1 ? '1 class' : "$count classes";
    like($run->{out}, qr/^complete: $classes of interleavings, \d+ blocked prefix(?:es)?, \d+ runs?: all end as usual\n$/,
        "$name: $classes") or diag($run->{err});
    is($run->{status}, 0, "$name: and nothing is found");
}

# Where each class prints its order each but the usual one says something else, and that one comes once.
for my $case (
    [ 6, 'sums', 3, 'print(rank, dist.store:add("n", 1))' ],
    [ 6, 'order', 4, 'if rank < 3 then dist.send(t, 3) else
                        for i = 1, 3 do print(i, dist.recv(t)) end end' ],
    [ 20, 'three each', 3, 'if rank < 2 then for i = 1, 3 do dist.send(t, 2) end else
                             for i = 1, 6 do print(i, dist.recv(t)) end end' ],
) {
    my ($count, $name, $world, $body) = @$case;
    my $run = explore('--exhaustive', ranks($name =~ tr/ /-/r, $world, $body));
    like($run->{out}, qr/^complete: $count classes of interleavings, \d+ blocked prefixes, \d+ runs$/m, "$name: $count orders");
    is(eval { my $all = 0; $all += $1 while $run->{out} =~ /^(\d+) differs?/mg; $all }, $count - 1,
        "$name: each other than the usual one says something else");
    is($run->{status}, 3, "$name: which is found");
}

# What is exhaustive finds the fault, too, with its schedule.
my $all = explore('--exhaustive', "$root/tests/explore/leader.lua");
is($all->{status}, 3, 'exhaustive finds two leaders') or diag($all->{out}, $all->{err});
like($all->{out}, qr/^complete: \d+ classes of interleavings, \d+ blocked prefixes, \d+ runs$/m, 'and comes to an end');
is(ringside({ in_folder => $folder }, 'run', '--policy', 'leader.schedule', $lesson)->{status}, 3, 'its schedule does it again');
my $part = explore('--exhaustive', '--schedules', 20, ranks('many', 3, 'dist.store:add("n", 1) dist.store:add("n", 1)'));
like($part->{out}, qr/^incomplete: \d+ classes of interleavings, \d+ blocked prefix(?:es)?, 20 runs/, 'it says where it ends early');

# ---- faults ----

my $late = lesson('late', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "late" }
dist.spawn(function(rank)
  if rank == 0 then dist.store:wait({ "ready" }, 0.001) else dist.store:set("ready", "1") end
  dist.all_reduce(rs.ones(4))
end, { world = 2 })
END_LESSON
my $delayed = explore('--faults', 'late', '--schedules', 300, $late);
is($delayed->{status}, 3, 'a late rank is found that ends a wait') or diag($delayed->{out}, $delayed->{err});
like($delayed->{out}, qr/DistStoreError: .*'ready'.*shrunk to 0 switches and 1 fault:\n +fault: late 1 at \d+ by /s,
    'and needs that fault alone');
my $late_again = ringside({ in_folder => $folder }, 'run', '--policy', 'late.schedule', $late);
like($late_again->{err}, qr/'ready'/, 'its schedule does it again');

my $ring = ranks('faulty', 3, 'for i = 1, 3 do dist.all_reduce(t) end');
my $struck = explore('--faults', 'all', '--schedules', $long ? 2000 : 300, $ring);
is($struck->{status}, 0, 'whatever goes wrong on purpose: the run ends, by name, and gives back what it took')
    or diag($struck->{out}, $struck->{err});
like($struck->{out}, qr/^\d+ of them failed as their faults want it/m, 'and some failed');

# ---- what a run may come to ----

my $spins = lesson('spins', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "spins" }
dist.spawn(function(rank)
  if rank == 0 then dist.store:set("k", "1") return end
  rs.advance(10)
  if not dist.store:check { "k" } then while true do end end
end, { world = 2 })
END_LESSON
my $endless = explore('--policy', 'pct', '--schedules', 6, $spins);
like($endless->{out}, qr/^\d+ do(?:es)? not end \(/m, 'a run without an end is ended, the others go on')
    or diag($endless->{err});
is(numbers($endless->{out})->[0], 6, 'all of them');

my $races = lesson('races', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "races", devices = 1 }
dist.spawn(function(rank)
  local t = rs.tensor { rank }
  if rank < 2 then dist.send(t, 2) return end
  local first = dist.recv(t)
  dist.recv(t)
  local one, two = rs.cuda.Stream("device:0"), rs.cuda.Stream("device:0")
  local x = rs.ones(1000):to("device:0")
  rs.cuda.synchronize()
  local y, z
  rs.cuda.stream(one, function() y = x * 2 end)
  if first == 0 then two:wait_stream(one) end
  rs.cuda.stream(two, function() z = y + 1 end)
  rs.cuda.synchronize()
end, { world = 3 })
END_LESSON
like(explore('--schedules', 60, $races)->{out}, qr/^\d+ races? \(.*\n +RaceError: /m, 'a race of another order is found');

my $raises = ranks('raises', 2, 'rs.advance(10 * rank) if dist.store:add("n", 1) ~= rank + 1 then error("out of turn") end');
like(explore('--schedules', 100, $raises)->{out}, qr/^\d+ fails? \(.*\n.*out of turn/m, 'an error of another order is found');

my $hangs = explore('--schedules', 20, ranks('hangs', 2, 'if rank == 0 then dist.recv(t, 1) end'));
like($hangs->{out}, qr/^already the usual order hangs:\n +DeadlockError: rank 0 waits in recv .*\n +cause: .*\n20 schedules.*all end as usual/s,
    'a lesson that always hangs is told so, and no other order as a find');

# ---- schedules as files ----

my $wild = "$root/tests/explore/wildcard.lua";
spill("$folder/empty.schedule", "ringside schedule 1\nlesson wildcard\n# nothing\n\n");
ringside('run', '--trace', "$folder/$_->[0].trace", @{ $_->[1] }, $wild)
    for [ 'usual', [] ], [ 'empty', [ '--policy', "$folder/empty.schedule" ] ];
is(ringside('events', "$folder/empty.trace")->{out}, ringside('events', "$folder/usual.trace")->{out},
    'a schedule without a switch is the usual order');
spill("$folder/other.schedule", "ringside schedule 1\nlesson other\n");
refused('another lesson\'s schedule', ringside('run', '--policy', "$folder/other.schedule", $wild), 2,
    qr/is a schedule of the lesson other, not of wildcard/);
spill("$folder/bad.schedule", "ringside schedule 1\nlesson wildcard\nat once of \"r0 main\" run \"r1 main\"\n");
refused('a line that is none', ringside('run', '--policy', "$folder/bad.schedule", $wild), 2, qr/its line 3 is none of a schedule/);
refused('no schedule', ringside('run', '--policy', $wild, $wild), 2, qr/its first line is not 'ringside schedule 1'/);
refused('no file', ringside('run', '--policy', './none', $wild), 2, qr/none: no such file/);
refused('no policy', ringside('run', '--policy', 'chance', $wild), 2, qr/unknown policy 'chance'; there are order, random/);
for my $misfit (qq(at 3 of "r7 main" run "r1 main"), qq(at 1 of "r0 main" run "r9 main")) {
    spill("$folder/misfit.schedule", "ringside schedule 1\nlesson wildcard\n$misfit\n");
    my $run = ringside('run', '--policy', "$folder/misfit.schedule", $wild);
    like($run->{err}, qr/misfit\.schedule does not fit this lesson: /, "a schedule that does not fit: $misfit");
}

# ---- the command line ----

refused('exhaustive has no seed', explore('--exhaustive', '--seed', 1, $wild), 2, qr/--exhaustive takes every order/);
refused('a policy of run\'s', explore('--policy', 'order', $wild), 2, qr/unknown policy 'order'; there are random and pct/);
refused('a fault that is none', explore('--faults', 'late,flood', $wild), 2, qr/'flood' is no kind of fault; --faults takes all/);
refused('no schedules', explore('--schedules', 0, $wild), 2, qr/'0' is no N for --schedules/);
refused('no lesson', explore(), 2, qr/explore: which lesson\?/);
like(ringside('explore', '--help')->{out}, qr/--exhaustive .*--faults KINDS.*Exit status/s, 'help');
spill("$folder/wildcard.schedule", "my own\n");
like(explore('--schedules', 100, $wild)->{out}, qr/--policy wildcard-2\.schedule/, 'what is no schedule is not written over');
is(slurp("$folder/wildcard.schedule"), "my own\n", 'but stays');

# ---- what is no difference, and what is told of one ----

my $timed = ranks('timed', 2, 'dist.set_timeout(1) dist.send(t, 1 - rank) dist.recv(t, 1 - rank)');
like(explore('--schedules', 4, $timed)->{out},
    qr/\Aalready the usual order hangs:\n +DeadlockError: .*\n +cause: crossed sends: .*\n4 schedules, .*: all end as usual\n\z/,
    'who waits with a limit is stuck at once, as in run');
my $numbered = ranks('numbered', 3, 'rs.check("rank " .. rank, true)');
like(explore('--schedules', 100, $numbered)->{out}, qr/all end as usual/, 'the number of a check is no difference');
my $check = ranks('late check', 3, 'if rank == 2 then dist.recv(t) rs.check("rank 0 comes first", t:item() == 0) dist.recv(t)
    else dist.send(t, 2) end');
like(explore('--schedules', 100, $check)->{out}, qr/ here:    not ok - .*rank 0 comes first$/m, 'the check that fails is told');

# ---- an interrupt ----

sub start {
    my ($interrupt, @words) = @_;
    local $SIG{INT} = $interrupt;    # before the fork, so that none comes too early
    my $pid = fork() // die "fork: $!";
    return $pid if $pid > 0;
    chdir $folder or die "chdir: $!";
    open STDOUT, '>', "$folder/stopped" or die "stdout: $!";
    hear_signals() if $interrupt eq 'DEFAULT';
    exec program(), 'explore', @words or die "exec: $!";
}
my $calm = ranks('calm', 2, 'dist.all_reduce(t)');
my $pid  = start('DEFAULT', '--schedules', 1000000, $calm);
sleep 1;
kill INT => $pid;
my $waited = 0;
while (waitpid($pid, WNOHANG) == 0 && $waited < 100) { select undef, undef, undef, 0.1; $waited++ }
cmp_ok($waited, '<', 100, 'an interrupt ends it');
is($? >> 8, 130, 'with the status of one, where nothing was found');
like(slurp("$folder/stopped"), qr/^stopped after \d+ schedules, \d+ of them different/, 'and it says how far it came');

$pid = start('IGNORE', '--schedules', 200, $calm);
while (waitpid($pid, WNOHANG) == 0) { kill INT => $pid; select undef, undef, undef, 0.01 }
is($?, 0, 'one that was to be ignored, as in a background job, does not');
like(slurp("$folder/stopped"), qr/^200 schedules, .*: all end as usual/m, 'and all schedules are tried');

done_testing();
