#!/usr/bin/perl
# What `stage` stops at in whole lessons: every kind of stage is met, nothing twice, in few presses, and the same the other
# way round. The viewer of a recorded trace and `step --batch` have the same stops, of the other moves, too (of next:
# story.t).
use strict;
use warnings;
use lib 'tests/cli';
use JSON::PP qw(decode_json);
use Ringside;
use Test::More;

(my $viewer = program()) =~ s/ringside$/trace_viewer/;

sub batch {
    my ($commands, $lesson) = @_;
    my $run = ringside('step', '--batch', $commands, $lesson);
    is("$run->{status} $run->{signal} $run->{err}", '0 0 ', "$lesson is stepped");
    return grep { !/^story: / } split /\n/, $run->{out};
}

# The numbers in what `where` printed, below the sentences.
sub numbers { return map { /^(\d+) \S+ (?:begin|end|instant) / ? $1 : () } @_ }

# The events that so many presses of `command` stop at; the edge, where it says so, is the last.
sub stops {
    my ($command, $presses, $lesson, $before) = @_;
    my @told = batch(($before // '') . "$command; where; " x $presses, $lesson);
    shift @told if defined $before;
    my @stops;
    for (@told) {
        return (@stops, 'edge') if /^(?:the run has ended|start of the record)/;
        push @stops, numbers($_);
    }
    return @stops;
}

# Where the viewer stands after these keys: from the title of the frame.
sub viewer_stands {
    my ($trace, $at, $keys) = @_;
    my $frame = `'$viewer' '$trace' --print --size 100x30 --at $at --keys '$keys'`;
    return $frame =~ / step (\d+)\/[\d?]+/ ? $1 : "no frame: $frame";
}

sub is_stage {
    my ($event) = @_;
    return !$$event{args}{ok} if $$event{kind} eq 'lesson.check';
    return 1 if $$event{kind} =~ /^lesson\./;
    return 0 if $$event{kind} =~ /^c10d\.(?:store\.|rendezvous$)/;
    return $$event{phase} eq 'begin' && $$event{kind} =~ /^(?:dp|ddp|c10d|autograd|module|optim)\./;
}

my $trace = folder() . '/moves.trace';
for my $case ([ 'lessons/01-six-rows.lua', 80 ], [ 'lessons/11-ring-by-hand.lua', 150 ],
              [ 'lessons/15-hooks-and-order.lua', 250 ]) {
    my ($lesson, $most) = @$case;
    is(ringside('run', '--quiet', '--trace', $trace, $lesson)->{status}, 0, "$lesson runs");
    my @events = map { decode_json($_) } split /\n/, ringside('events', $trace, '--json')->{out};
    my @rule   = map { $$_{seq} } grep { is_stage($_) } @events;

    my @stops = stops('stage', 400, $lesson);
    cmp_ok(scalar @stops, '<=', $most, "$lesson: stage comes to the end in at most $most presses");
    is(pop @stops, 'edge', "$lesson: and says so");
    is(scalar(grep { $stops[$_] <= $stops[ $_ - 1 ] } 1 .. $#stops), 0, "$lesson: every press goes forwards");
    my %met   = map { $events[$_]{kind} => 1 } @stops;
    my %there = map { $$_{kind} => 1 } grep { is_stage($_) && $$_{kind} =~ /^(?:dp|ddp|c10d)\./ } @events;
    is_deeply([ grep { !$met{$_} } sort keys %there ], [], "$lesson: every kind of dp, ddp and c10d stage is met");
    is_deeply([ 0, @stops ], \@rule, "$lesson: the stops are those of the rule");
    my @back = stops('rstage', 400, $lesson, 'continue; ');
    is(pop @back, 'edge', "$lesson: rstage comes to the start");
    is_deeply([ reverse @back ], [ @rule[ 0 .. $#rule - 1 ] ], "$lesson: it passes the same stops backwards");

    # Enter twice shows the answer where a question holds one up, and zooms elsewhere.
    my @sample = grep { $_ < 4 || $_ % 5 == 0 || $_ > $#stops - 3 } 0 .. $#stops;
    is_deeply([ map { viewer_stands($trace, 0, 'm<Enter><Enter>' x ($_ + 1)) } @sample ], [ @stops[@sample] ],
        "$lesson: m in the viewer stops where stage does");
    pop @sample if $sample[-1] == $#back;
    is_deeply([ map { viewer_stands($trace, $stops[-1], 'M' x ($_ + 1)) } @sample ], [ @back[@sample] ],
        "$lesson: and M where rstage does");

    my @from = @rule[ grep { $_ % 11 == 3 } 0 .. $#rule - 1 ]; # behind the last there is no step
    for my $keys ([ 's', 'step', 'S', 'back' ], [ 'f', 'finish', 'F', 'rfinish' ]) {
        my ($key, $command, $back_key, $reverse) = @$keys;
        my @at    = grep { $command eq 'step' || $events[$_]{phase} eq 'begin' } @from;
        my @stood = numbers(batch(join('', map { "goto $_; $command; where; $reverse; where; " } @at), $lesson));
        my @shown = map { my $at = $_; map { viewer_stands($trace, $at, "<Enter><Enter>$_") } $key, "$key$back_key" } @at;
        is_deeply(\@shown, \@stood, "$lesson: $key and $back_key stop where $command and $reverse do");
        is_deeply([ @stood[ map { 2 * $_ + 1 } 0 .. $#at ] ], \@at, "$lesson: $reverse is the mirror of $command");
    }

    my $answered = join '', map { ":goto $$_{seq}<Enter><Enter><Enter>" } grep { $$_{kind} eq 'lesson.ask' } @events;
    my @found = numbers(
        batch('until bytes = 8 or bytes = 80; where; break c10d or optim or dp.gather; c; where; C; where', $lesson));
    my $find = "$answered:goto 0<Enter>:until bytes = 8 or bytes = 80<Enter>";
    is(viewer_stands($trace, 0, $find), $found[0], "$lesson: until stops at the same event");
    $find .= ':break c10d or optim or dp.gather<Enter>c';
    is(viewer_stands($trace, 0, $find), $found[1], "$lesson: and continue");
    is(viewer_stands($trace, 0, "${find}C"), $found[2], "$lesson: and rcontinue");
}

# A run that hangs: moves at the live edge make it go on, and what finds nothing stands at its end.
my $hangs = lesson('hangs', <<'END_LESSON');
local rs = require "ringside"
rs.distributed.spawn(function(rank) rs.distributed.recv(rs.ones(1), 1 - rank) end, { world = 2 })
END_LESSON
my $run  = ringside('step', '--batch', 'until fault; where; stage 99; where; until fault.race; where; rnext; next 99; where', $hangs);
my @told = grep { !/^story: / } split /\n/, $run->{out};
is($run->{status}, 3, 'a run that hangs fails when a move comes to its end');
like($told[0], qr/ fault\.deadlock /, 'a move meets the deadlock');
like($told[1], qr/^the run has failed \(exit status 3\) at event \d+$/, 'stage says that the run has failed');
like($told[3], qr/^no further event for which fault\.race: the run has failed \(exit status 3\) at event \d+$/,
    'and so does until');
is($told[4], $told[2], 'which stands at the end');
like($told[5], qr/^the run has failed \(exit status 3\) at event \d+$/, 'next says so, too');
is($told[6], $told[2], 'and stands there');

# A check that fails stops stage and next, one that holds does not.
my $checks = lesson('checks', <<'END_LESSON');
local rs = require "ringside"
rs.say "before"
rs.check("one is one", 1 == 1)
rs.check("one is two", 1 == 2)
rs.check("two is two", 2 == 2)
rs.say "after all"
END_LESSON
for my $move ('stage', 'next') {
    $run = ringside('step', '--batch', "$move; where; $move; where; r$move; where", $checks);
    is(join(', ', $run->{out} =~ /text="([^"]*)"/g), 'one is two, after all, one is two', "$move stops at the check that fails");
}

# A breakpoint that compares texts outlives the run that it was made in.
my $edits = lesson('edits', <<'END_LESSON');
local rs = require "ringside"
local net = rs.nn.Linear(2, 1)
rs.say "on"
rs.say "over"
END_LESSON
$run = ringside('step', '--batch', 'until lesson.say; break lesson.say if text ~ over; set net.bias[0] 1; goto 0; '
    . 'continue; where', $edits);
like($run->{out}, qr/1 edit undone: this is run 2\nstopped by 1: .*\nstory: over\n\d+ lesson\.say .*text=over/, 'a breakpoint holds in a run made anew');
done_testing();
