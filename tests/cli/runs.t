#!/usr/bin/perl
# The runs of a session: a change of the past makes another run, the one that was there is kept with its record; one goes
# to any event of any of them, and on from there; how many are kept has a limit, which is told.
use strict;
use warnings;
use lib 'tests/cli';
use File::Basename qw(dirname);
use Ringside;
use Test::More;

my $ring = 'lessons/11-ring-by-hand.lua';
my ($last) = ringside('step', '--batch', 'continue; where', $ring)->{out} =~ /^(\d+) lesson\.end/m;
my $whole  = $last + 1;

sub batch {
    my ($commands, $lesson, @options) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $run = ringside('step', @options, '--batch', $commands, $lesson);
    diag("$commands: status $run->{status}, signal $run->{signal}, $run->{err}") if $run->{signal} != 0 || $run->{status} == 2;
    return grep { !/^story: / } split /\n/, $run->{out};
}

# ---- another order ----

my @lines = batch('runs', $ring);
is($lines[0], '* 1: as the lesson is; 1 events, not at its end', 'a session begins with one run');
@lines = batch('goto 75; switch 2; continue; runs', $ring);
like($lines[-1], qr/^\* 1: from the beginning, at event \d+: switch 2; \d+ events, finished$/,
    'a change at the end of what was recorded is that run\'s own');
is(scalar(grep { /run 2/ } @lines), 0, 'and makes no other');

my $changed = 'until comm.hop; back; switch 2; break comm.hop; continue; where; delete 1; continue';
my $there   = 'continue; goto 0';
@lines = batch("$there; $changed; runs; run 1; until comm.hop; where; run 2; where; runs", $ring);
like((grep { /comm\.hop/ && /^\d/ } @lines)[0], qr/^\d+ comm\.hop begin r2 /, 'changed in the past: rank 2 goes first');
my ($told) = grep { /this is run 2 now/ } @lines;
like($told, qr/^this is run 2 now, from event \d+ on; runs lists them$/, 'which is told');
my ($event) = $told =~ /event (\d+)/;
is((grep { /^  1: / } @lines)[0], "  1: as the lesson is; $whole events, finished", 'the run that was there is kept');
like((grep { /^\* 2: / } @lines)[0], qr/^\* 2: as run 1, at event $event: switch 2; \d+ events, finished$/,
    'beside the new one');
like($lines[-5], qr/^\d+ comm\.hop begin r0 /, 'in run 1 rank 0 still goes first') or diag(join "\n", @lines);
like($lines[-3], qr/\blesson\.end\b/, 'and in run 2 one stands where one last looked') or diag(join "\n", @lines);

@lines = batch("$there; $changed; goto 3; runs; run 2; where; step; where; runs", $ring);
is((grep { /undone/ } @lines)[0], '1 edit undone: this is run 1', 'going back past the change leads to the run without it');
like((grep { /^\* 1/ } @lines)[0], qr/^\* 1: as the lesson is; $whole events/, 'which was kept, and is whole');
like($lines[-1], qr/^\* 2: /, 'and run 2 leads back') or diag(join "\n", @lines);

@lines = batch('goto 75; delay 1 5; continue; goto 3; continue; runs', $ring);
like($lines[-2], qr/^  1: from the beginning, at event 75: delay 1 5; /, 'a run that was changed at its end is kept, too');
like($lines[-1], qr/^\* 2: as run 1, without its later edits; $whole events, finished$/, 'when one goes back past that')
    or diag(join "\n", @lines);

# ---- several futures of one event ----

@lines = batch("$there; until comm.hop; where; switch 2; continue; run 1; runtil comm.hop; rnext; goto 75; delay 1 100; continue; "
    . 'run 1; goto 75; kill 2; continue; runs; run 3; run 4; run 2; rcontinue; where', $ring);
my @runs = grep { /^[ *] \d: / } @lines;
is(scalar @runs, 4, 'four futures') or diag(join "\n", @lines);
like($runs[1], qr/: switch 2; .*finished/, 'another order');
like($runs[2], qr/at event 75: delay 1 100; $whole events, /, 'a delay');
like($runs[3], qr/^\* 4: as run 1, at event 75: kill 2; \d+ events, failed \(exit status 3\)$/, 'a killed rank');

# ---- a rank is killed ----

my $killed = ringside('step', '--batch', 'until comm.hop; kill 2; continue; where', $ring);
is($killed->{status}, 3, 'who kills a rank ends with status 3');
like($killed->{err}, qr/rank 2 was killed/, 'and learns why') or diag($killed->{err});
like($killed->{out}, qr/^rank 2 was killed$/m, 'the command says what it did');
refused("'$$_[0]' is refused", ringside('step', '--batch', $$_[0], $ring), 2, $$_[1]) for (
    [ 'kill 2',              qr/no rank 2 now/ ],
    [ 'kill',                qr/needs RANK/ ],
    [ 'until comm.hop; kill 9', qr/no rank 9 now/ ],
    [ 'run',                 qr/needs N/ ],
    [ 'run 2',               qr/no run 2/ ],
    [ 'run 0',               qr/no run 0/ ],
    [ 'run 99999999999',     qr/no run 99999999999/ ],
    [ 'runs 1',              qr/no arguments/ ],
);

# ---- looking at a run that was left ----

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
@lines = batch("$to_y; runtil lesson.say; set net.weight[0,1] 3; $to_y; print net.weight; run 1; print net.weight; $to_y; "
    . "run 2; where; print net.weight; step; runs", $net);
like($lines[-7], qr/tensor\(\[\[1\., 1\.\]\]/, 'print in a run that was left shows its own values') or diag(join "\n", @lines);
like($lines[-6], qr/y = 11\.0/, 'as its record does');
like($lines[-4], qr/y = 31\.0/, 'and the other its own');
like($lines[-3], qr/tensor\(\[\[1\., 3\.\]\]/, 'also printed');
like($lines[-1], qr/^\* 2: .* not at its end$/, 'a run that was left goes on where it stood') or diag(join "\n", @lines);

# ---- a named record ----

my $named = folder() . '/named.trace';
@lines = batch("continue; goto 75; switch 2; until comm.hop; run 1; where; continue; where; run 2; continue; where", $ring,
    '--trace', $named);
is(scalar(grep { /^$last lesson\.end/ } @lines), 2, 'with --trace every run keeps its record') or diag(join "\n", @lines);
like(ringside('events', $named)->{out}, qr/^$last lesson\.end/m, 'and the newest is in the file');

# ---- how many ----

my $many = join '; ', 'continue', map { "run 1; goto 80; delay 1 $_" } 1 .. 34;
@lines = batch("$many; runs", $ring);
is(scalar(grep { /^[ *] +\d+: / } @lines), 32, 'at most 32 runs are kept') or diag(join "\n", @lines[ -40 .. -1 ]);
is(join(' ', map { /^run (\d+) was dropped: 32 runs are kept/ ? $1 : () } @lines), '2 3 4', 'the oldest that no other came from go')
    or diag(join "\n", @lines);
like((grep { /^  1: / } @lines)[0], qr/$whole events/, 'and the first stays');

# ---- nothing is left behind ----

my $rooms = folder() . '/rooms';
mkdir $rooms;
{
    local $ENV{TMPDIR} = $rooms;
    local $ENV{XDG_RUNTIME_DIR} = $rooms;
    ringside('step', '--batch', 'continue; goto 80; switch 1; continue; run 1; print rank 1 t', $ring);
    ringside('step', '--batch', 'continue; goto 80; switch 1; continue; run 1', '--trace', $named, $ring);
}
is(join(' ', glob "$rooms/*"), '', 'a session takes its records away');
done_testing();
