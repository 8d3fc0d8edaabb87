#!/usr/bin/perl
# The debugger without a screen: each command of the table does what its help says, forwards and back, edits change the
# future and are undone by going back past them, and no order of commands brings it down.
use strict;
use warnings;
use lib 'tests/cli';
use JSON::PP qw(decode_json);
use Ringside;
use Test::More;

my $six  = 'lessons/01-six-rows.lua';
my $ring = 'lessons/11-ring-by-hand.lua';
my $ddp  = 'lessons/15-hooks-and-order.lua';

# What the commands print, line by line; the run must be a good one.
sub batch {
    my ($commands, $lesson, @options) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $run = ringside('step', @options, '--batch', $commands, $lesson);
    diag("$commands: status $run->{status}, signal $run->{signal}, $run->{err}")
        if $run->{status} != 0 || $run->{signal} != 0 || $run->{err} ne '';
    return grep { !/^story: / } split /\n/, $run->{out};
}

# Every event of a lesson's run, as `events --json` tells it.
sub events {
    my ($lesson) = @_;
    my $trace = folder() . '/events.trace';
    ringside('run', '--quiet', '--trace', $trace, $lesson);
    return map { decode_json($_) } split /\n/, ringside('events', $trace, '--json')->{out};
}

sub number { return $_[0] =~ /^(\d+) / ? $1 : -1 }

# ---- data ----

my @lines = batch('stage; where; stage; where', lesson('batches', <<'LUA'));
local rs = require "ringside"
for x in rs.utils.data.DataLoader(rs.arange(4), { batch_size = 2 }) do end
LUA
like("@lines", qr/ data\.index .*indices="0 1".* data\.index .*indices="2 3"/, 'stage goes from one batch to the next');

# ---- there and back ----

@lines = batch('step 20; where; back; where; step; where', $six);
is(scalar @lines, 3, 'three wheres print three lines');
is($lines[2], $lines[0], 'step 20; back; step: the third where equals the first');
is($lines[1], (batch('step 19; where', $six))[0], 'the second is step 19\'s');
my @shown = map { $$_{seq} } grep { $$_{kind} !~ /^(?:memory|lock)\./ } events($six);
is_deeply([ map { number($_) } @lines ], [ @shown[ 20, 19, 20 ] ], 'step counts what is no memory and no lock event');
is_deeply([ map { number($_) } batch('show all; s 20; w; show locks; s 3; w; show none; back; w; S; w', $six) ],
    [ -1, 20, -1, (grep { $_ > 20 } @shown)[2], -1, (grep { $_ > 20 } @shown)[ 1, 0 ] ], 'unless they are shown');
is_deeply([ batch('s 20; w; S; w; s; w', $six) ], \@lines, 'keys name the same commands');

@lines = batch('break dp.gather; continue; where; print rnn.weight; rcontinue; where', $six);
like($lines[0], qr/^breakpoint 1: dp\.gather$/, 'break names its breakpoint');
like($lines[1], qr/^stopped by 1: dp\.gather$/, 'continue says which breakpoint stopped it');
like($lines[2], qr/^\d+ dp\.gather begin [\d.]+ us .*replicas=3.* src\/parallel\/\w+\.c:\d+$/,
    'where prints number, kind, phase, virtual time, arguments and place');
like($lines[3], qr/^tensor\(\[\[ 0\.1653,/, 'print shows the weight as PyTorch prints it');
is($lines[-2], 'start of the record', 'rcontinue finds no breakpoint before the first');
is(number($lines[-1]), 0, 'and stands at the start');

@lines = batch('break dp.worker; c; w; c; w; c; w; c; w; C; w; C; w', $six);
my @stops = map { number($_) } grep { /^\d+ / } @lines;
is_deeply([ @stops[ 4, 5 ] ], [ @stops[ 2, 1 ] ], 'rcontinue finds the same stops backwards') 
    or diag(join "\n", @lines);
like($lines[7] // '', qr/the run has ended at event \d+/, 'continue without another stop ends the run and says so');
@lines = batch('break comm.hop rank 1 if chunk = 2; continue; where', $ring);
like($lines[-1], qr/comm\.hop begin r1 .*chunk=2 /, 'a breakpoint may have a rank and a condition');
@lines = batch('until dp.replicate; break; continue; where', $six);
like($lines[0], qr/breakpoint 1: dp\.replicate/, 'break alone stops at this kind');
@lines = batch('break dp.worker; break dp.gather; delete 1; info breaks; continue; where', $six);
like($lines[-1], qr/ dp\.gather begin /, 'a deleted breakpoint stops nobody');
like($lines[2], qr/^2: dp\.gather, stopped 0 times/, 'info breaks lists what is left');

# ---- by stages ----

@lines = batch('until dp.forward; w; finish; w; rfinish; w', $six);
like($lines[1], qr/ dp\.forward end /, 'finish goes to the end of the stage');
is($lines[2], $lines[0], 'rfinish to its beginning');
@lines = batch('until dp.scatter; w; stage; w; rstage; w', $six);
like($lines[1], qr/ dp\.replicate begin /, 'stage goes to the next stage that begins');
is($lines[2], $lines[0], 'rstage goes back to it');
@lines = batch('until dp.parallel_apply; stage 2; w; finish; w; stage; w', $six);
like($lines[0], qr/ module\.forward begin dev0 .*name=module /, 'stage goes into a stage, on whatever lane');
like($lines[1], qr/ module\.forward end dev0 .*name=module /, 'finish to its end, on its lane');
like($lines[2], qr/ dp\.gather begin /, 'and stage from there to what begins behind it') or diag(join "\n", @lines);
@lines = batch('until dp.scatter; rnext; w; next; w; rnext; w; rnext; w', $six);
like($lines[0], qr/ dp\.forward begin /, 'next tells that a part begins');
like($lines[1], qr/ dp\.scatter end .*chunks=3 /, 'and what lies in it once it has happened');
is($lines[2], $lines[0], 'rnext goes back to where it began');
like($lines[3], qr/^a question: How many rows /, 'and to the words before it');
for my $move ('stage', 'next') {
    @lines = batch("$move 99999; w; r$move 99999; w; ${move} 0; w; r$move; $move 1; w", $six);
    like($lines[0], qr/^the run has ended at event /, "$move with a count too many ends at the end and says so");
    is_deeply([ $lines[2], number($lines[3]) ], [ 'start of the record', 0 ], "r$move at the start");
    is($lines[4], $lines[-1], 'no count is one');
}
@lines = batch('stage; next; until bytes > 1e15; w; runtil bytes > 1e15; w', $six);
like($lines[0], qr/^no further event for which bytes > 1e15: the run has ended at event \d+$/,
    'until without a match says so, and that the run has ended');
like($lines[1], qr/ lesson\.end /, 'and stands there');
is($lines[2], 'no earlier event for which bytes > 1e15: start of the record', 'runtil as well');
is(number($lines[3]), 0, 'at the start');
refused('finish outside all stages is refused', ringside('step', '--batch', 'finish', $six), 2, qr/no stage surrounds/);
refused("show of '$_' is refused", ringside('step', '--batch', "show $_", $six), 2, qr/memory, locks, stores, all or none/)
    for 'kernels', 'memory locks';
@lines = batch('until dp.gather; w; runtil dp.scatter; w; until bytes > 40000 and dp; w', $six);
like($lines[1], qr/ dp\.scatter begin /, 'runtil goes back to the last event for which it holds');
cmp_ok(number($lines[1]), '<', number($lines[0]), 'which lies before');
like($lines[2], qr/ dp\.\S+ .*bytes=80880/, 'until takes a condition on an argument') or diag($lines[2]);
@lines = batch('goto 118; where; 7; where; goto 118; where', $six);
is_deeply([ map { number($_) } @lines ], [ 118, 7, 118 ], 'goto and a bare number go to the event of that number');
@lines = batch('goto 999999999; where', $six);
like($lines[0], qr/^the run has ended at event (\d+)$/, 'goto beyond the end stops at the end');
@lines = batch('c; where; back; where; back 999999; where', $six);
like($lines[1], qr/ lesson\.end /, 'continue goes to the end of the lesson');
cmp_ok(number($lines[2]), '==', number($lines[1]) - 1, 'back goes back from the end');
is_deeply([ $lines[3], number($lines[4]) ], [ 'start of the record', 0 ],
    'back too far stops at the start and says so');

# ---- looking ----

@lines = batch('until dp.worker; info tasks; info locks; info memory', $six);
like("@lines", qr/dp worker 0/, 'info tasks lists the workers');
like("@lines", qr/main waits/, 'and says who waits');
like("@lines", qr/device:0: \d+ B in \d+ blocks, peak \d+ B/, 'info memory lists the devices');
@lines = batch('break ddp.mark_bucket_ready rank 0; c; info buckets; c; finish; info buckets', $ddp);
like("@lines", qr/rank 0 bucket 0: parameters 0 1 2 3, 2101248 B/, 'info buckets shows one bucket in iteration 0');
like("@lines", qr/bucket 0: parameters 1 0, 1050624 B.*bucket 1: parameters 3 2, 1050624 B/,
    'and two after the rebuild');
@lines = batch('until dp.gather; print x; print model.rnn.bias; print rnn.bias[3]; print rnn.bias', $six);
like($lines[0], qr/tensor\(\[1, 2, 3, 4, 5, 6\]/, 'print shows a local of the lesson') or diag(join "\n", @lines);
@lines = batch('until comm.hop; print t', $ring);
like($lines[0], qr/tensor\(\[/, 'print shows a local of the rank that stands there');
@lines = batch('until comm.hop; print rank 3 t', $ring);
like($lines[0], qr/tensor\(\[ ?30\./, 'and with rank R another rank\'s');
@lines = batch('help', $six);
like("@lines", qr/\b\Q$_\E\b/, "help lists $_")
    for qw(step back next rnext stage rstage finish rfinish continue rcontinue until runtil goto break delete info where print set
        switch delay);

# ---- changing ----

my $net = lesson('net', <<'END_LESSON');
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "Change a weight", devices = 1 }
local net = nn.Linear(2, 1, { bias = false })
rs.no_grad(function() net.weight:fill_(1) end)
rs.say "ready"
local y = net(rs.tensor { { 1.0, 10.0 } })
rs.say("y = " .. y:item())
rs.say "over"
END_LESSON
my $to_y = 'until lesson.say and text ~ "y ="; where';
like((batch($to_y, $net))[0], qr/text="y = 11\.0"/, 'without an edit the result is 11');
@lines = batch("until lesson.say; set net.weight[0,1] 3; $to_y", $net);
like($lines[-1], qr/text="y = 31\.0"/, 'set changes a weight and the result') or diag(join "\n", @lines);
@lines = batch("until lesson.say; where; set net.weight[0,1] 3; where; $to_y; runtil lesson.say; where; back; where; "
    . $to_y, $net);
is($lines[2], $lines[0], 'set takes no event number');
like($lines[3], qr/y = 31\.0/, 'the edit holds');
is($lines[4], $lines[0], 'the way back leads past the same events');
like($lines[-1], qr/text="y = 11\.0"/, 'going back past the edit undoes it') or diag(join "\n", @lines);
@lines = batch("until lesson.say; set net.weight[0,1] 3; step 3; back 3; $to_y", $net);
like($lines[-1], qr/y = 31\.0/, 'going back to the edit keeps it') or diag(join "\n", @lines);
@lines = batch("until lesson.say; set net.weight[0,1] 3; set net.weight[0,0] 5; print net.weight; $to_y", $net);
like("@lines", qr/tensor\(\[\[5\., 3\.\]\].*y = 35\.0/, 'two edits at one event both hold') or diag(join "\n", @lines);
@lines = batch("$to_y; runtil lesson.say; set net.weight[0,0] 2; $to_y", $net);
like($lines[0] . $lines[-1], qr/y = 11\.0.*y = 12\.0/, 'one may go back and try another future');

# Every hop of lesson 11's first ring, as [rank, begin in us]; after what `first` does at the ranks' first hop.
sub hops {
    my ($first) = @_;
    my @told = batch("until comm.hop; back 1; $first; break comm.hop; " . 'continue; where; ' x 24, $ring);
    my @hops;
    for (@told) { push @hops, [ $1, $2 ] if /^\d+ comm\.hop begin r(\d) ([\d.]+) (?:ns|us)/ }
    return @hops;
}
my @plain = hops('where');
is(scalar @plain, 24, 'lesson 11 has 24 hops');
is(join(' ', map { $$_[0] } @plain[ 0 .. 3 ]), '0 1 2 3', 'the ranks begin in order');
my @late = hops('delay 1 100');
is(join(' ', map { $$_[0] } @late[ 0 .. 3 ]), '0 2 3 0', 'with rank 1 delayed the others go first')
    or diag(explain(\@late));
my (%plain, %late);
push @{ $plain{ $$_[0] } }, $$_[1] for @plain;
push @{ $late{ $$_[0] } }, $$_[1] for @late;
is(join(' ', map { sprintf '%.4f', $late{1}[$_] - $plain{1}[$_] } 0 .. 5), join(' ', ('100.0000') x 6),
    'each of rank 1\'s hops begins 100 us later');
for my $rank (0, 2, 3) {
    is(sprintf('%.4f', $late{$rank}[5] - $plain{$rank}[5]), '100.0000', "and so does rank $rank\'s last");
}
my @switched = hops('switch 2');
is($switched[0][0], 2, 'switch 2 lets rank 2 go first') or diag(explain(\@switched));
is(join(' ', sort { $a <=> $b } map { $$_[1] } @switched), join(' ', sort { $a <=> $b } map { $$_[1] } @plain),
    'and costs no time');

# ---- two runs of one session ----
my $compared = ringside('step', '--batch', 'until dp.gather; switch 0; continue; run 1; compare 1', $six);
refused('compare with a run that there is not', ringside('step', '--batch', 'compare 7', $six), 2, qr/there is no run 7: see runs/);
refused('compare needs a number', ringside('step', '--batch', 'compare', $six), 2, qr/compare needs N/);
my $same = ringside('step', '--batch', 'continue; compare 1', $six);
like($same->{out}, qr/^A is run 1, B this one, run 1: 0 differences$/m, 'a run does not differ from itself');
my ($three_ranks) = glob 'lessons/15-*.lua';
my $killed = ringside('step', '--batch', 'continue; back 300; where; kill 1; continue; compare 1', $three_ranks);
my ($from) = $killed->{out} =~ /^(\d+) \S+ (?:begin|end|instant)/m;
my ($first_difference) = $killed->{out} =~ /differences, in order:\n  (\d+) [AB]/;
cmp_ok($first_difference, '>', $from, 'two runs are the same up to where one was changed');
like($killed->{out}, qr/: only in [AB]$/m, 'then they differ');

# ---- what it refuses ----

refused("'$$_[0]' is refused", ringside('step', '--batch', $$_[0], $six), 2, $$_[1]) for (
    [ 'fly',                        qr/'fly'/ ],
    [ 'step x',                     qr/'x' is not a number/ ],
    [ 'back -1',                    qr/-1/ ],
    [ 'step 99999999999999999999',  qr/99999999999999999999/ ],
    [ 'goto',                       qr/PLACE/ ],
    [ 'until',                      qr/EXPR/ ],
    [ 'until (',                    qr/ends too early/ ],
    [ 'break nonsense',             qr/nonsense/ ],
    [ 'break dp.gather rank x',     qr/./ ],
    [ 'delete 7',                   qr/no breakpoint 7/ ],
    [ 'info weather',               qr/breaks, tasks, locks, buckets, memory, ring, graph or tensor/ ],
    [ 'print nothing_of_that_name', qr/nothing_of_that_name/ ],
    [ 'set rnn.weight[0,0]',        qr/set takes/ ],
    [ 'until dp.gather; set rnn.weight[99,0] 1', qr/outside/ ],
    [ 'until dp.gather; set rnn.weight 1',       qr/index/ ],
    [ 'until dp.gather; set x.y.z[0] 1',         qr/x\.y\.z/ ],
    [ 'switch 7',                   qr/rank 7/ ],
    [ 'delay 1',                    qr/microseconds/ ],
    [ 'delay 0 -5',                 qr/microseconds/ ],
    [ 'delay 0 1e99',               qr/microseconds/ ],
    [ 'zoom-in',                    qr/viewer/ ],
    [ 'where now',                  qr/no arguments/ ],
    [ 'print ' . 'x' x 3000,        qr/./ ],
);
my $stopped = ringside('step', '--batch', 'where; fly; where', $six);
is(() = $stopped->{out} =~ /^\d+ /mg, 1, 'the first command that fails ends the batch');
refused('an empty batch is refused', ringside('step', '--batch', '', $six), 2, qr/--batch/);
is(ringside('step', '--batch', ';;  ; # a comment; where', $six)->{status}, 0,
    'empty commands and comments do nothing');
my $broken = lesson('broken', "local = 3\n");
refused('a lesson with a syntax error cannot be stepped', ringside('step', '--batch', 'continue', $broken), 2,
    qr/broken\.lua:1: /);
my $dead = ringside('step', '--batch', 'continue; where', lesson('deadlock', <<'END_LESSON'));
local rs = require "ringside"
rs.distributed.spawn(function(rank) if rank == 0 then rs.distributed.barrier() end end, { world = 2 })
END_LESSON
is("$dead->{status} $dead->{signal}", '3 0', 'a lesson that hangs ends the batch with status 3');
like($dead->{err}, qr/\Aringside: DeadlockError: rank 0 waits in barrier #0 \(line 2\) for rank 1\n  cause: ended early/, 'and says why in two lines');
like($dead->{out}, qr/the run has failed \(exit status 3\) at event \d+/, 'and continue says that the run has failed');

# ---- any order of commands ----

# A thousand sequences in a hundred sessions: after each sequence `where` must answer.
my $small = lesson('small', <<'END_LESSON');
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "Small", devices = 2, seed = 1 }
local net = nn.Linear(2, 2):to("device:0")
local out = nn.DataParallel(net)(rs.ones(4, 2))
out:sum():backward()
dist.spawn(function(rank)
  local t = rs.ones(2)
  dist.all_reduce(t)
end, { world = 2 })
rs.say "over"
END_LESSON
my $state = 2718;
sub draw {
    my ($count) = @_;
    $state = ($state * 1103515245 + 12345) % 2147483648;
    return ($state >> 12) % $count;
}
my @commands = (
    sub { 'step' },      sub { 'step ' . draw(60) }, sub { 'back' },     sub { 'back ' . draw(80) },
    sub { 'next' },      sub { 'rnext' },            sub { 'next ' . (1 + draw(4)) }, sub { 'continue' },
    sub { 'stage' },     sub { 'rstage' },           sub { 'stage ' . (1 + draw(9)) }, sub { 'rnext ' . (1 + draw(4)) },
    sub { 'rcontinue' }, sub { 'until comm.hop' },   sub { 'runtil dp' }, sub { 'goto ' . draw(400) },
    sub { draw(300) },   sub { 'break comm.hop' },   sub { 'break op if bytes > ' . draw(50) }, sub { 'info breaks' },
    sub { 'info tasks' }, sub { 'info locks' },      sub { 'info memory' }, sub { 'where' }, sub { 'help' },
    sub { 'goto 0; until dp.gather; set net.weight[' . draw(2) . ',0] ' . draw(9) },
    sub { 'goto 0; until dp.scatter; print net.weight' },
    sub { 'goto 0; until c10d.allreduce; delay ' . draw(2) . ' ' . draw(90) },
    sub { 'goto 0; until dp.gather; finish; rfinish' },
);
my @bad;
for my $session (1 .. 100) {
    my @sequences = map { join '; ', map { $commands[ draw(scalar @commands) ]->() } 1 .. 4 } 1 .. 10;
    my $commands  = join '; ', map { "$_; where" } @sequences;
    my $run       = ringside('step', '--batch', $commands, $small);
    my $wheres    = () = $run->{out} =~ /^\d+ [a-z0-9._]+ (?:begin|end|instant) /mg;
    push @bad, "$commands\n-> status $run->{status}, signal $run->{signal}, $wheres wheres: $run->{err}"
        if $run->{signal} || $run->{status} != 0 || $wheres < 10;
}
is(scalar @bad, 0, 'a thousand random sequences of commands: each is answered') or diag($bad[0]);
sub noise { return join '', map { chr(32 + draw(95)) } 1 .. draw(12) }
my @hostile = map { join '; ', map { $commands[ draw(scalar @commands) ]->() . ' ' . noise() } 1 .. 3 } 1 .. 60;
my @strange = grep {
    my $run = ringside('step', '--batch', $_, $small);
    $run->{signal} || ($run->{status} != 0 && ($run->{status} != 2 || $run->{err} !~ /\Aringside: [^\n]+\n\z/));
} @hostile;
is(scalar @strange, 0, 'nor do words that are no commands bring it down') or diag($strange[0]);
done_testing();
