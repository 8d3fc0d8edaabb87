#!/usr/bin/perl
# The happens-before checker: a missing wait is reported with both places, whatever the clock did; with the wait, and in
# the engine itself, there is nothing to report.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

# Two streams of one device: the second reads what the first writes. `wait` stands between them, on line 8.
sub streams {
    my ($name, $wait, $last) = @_;
    return lesson($name, <<"END_LESSON");
local rs = require "ringside"
rs.lesson { title = "Two streams", devices = 2 }
local one, two = rs.cuda.Stream("device:0"), rs.cuda.Stream("device:0")
local x = rs.ones(1000):to("device:0")
rs.cuda.synchronize()
local y, z
rs.cuda.stream(one, function() y = x * 2 end)
$wait
rs.cuda.stream(two, function() z = y + 1 end)
${ \($last // 'rs.cuda.synchronize()') }
rs.close("the numbers", z:sum():item(), 3000)
END_LESSON
}

my %waits = (
    'an event'             => 'two:wait_event(one:record_event())',
    'wait_stream'          => 'two:wait_stream(one)',
    'an event by hand'     => 'local e = rs.cuda.Event() e:record(one) e:wait(two)',
    'the host on a stream' => 'one:synchronize()',
    'the host on an event' => 'one:record_event():synchronize()',
    'the host on a device' => 'rs.cuda.synchronize("device:0")',
);
for my $name (sort keys %waits) {
    my $run = ringside('run', '--tap', streams('waits', $waits{$name}));
    is("$run->{status} $run->{err}", '0 ', "waiting through $name is no race") or diag($run->{out});
}

# Every wait that does not order the two is a missing one.
my %missing = (
    'no wait at all'                     => '',
    'the wrong stream waits'             => 'one:wait_event(two:record_event())',
    'a wait for an older event'          => 'local e = rs.cuda.Event() two:wait_event(e) e:record(one)',
    'the other device is synchronised'   => 'rs.cuda.synchronize("device:1")',
    'time passes, but nobody waits'      => 'rs.advance(100000)',
    'an event recorded in another stream' =>
        'local three = rs.cuda.Stream("device:0") two:wait_event(three:record_event())',
);
for my $name (sort keys %missing) {
    my $run = ringside('run', '--tap', streams('missing', $missing{$name}));
    refused("$name: a race, status 3, one line", $run, 3, qr/[Rr]ace/);
    like($run->{err}, qr/line 7\b|:7\b/, "$name: the place of the write is told") or diag($run->{err});
    like($run->{err}, qr/line 9\b|:9\b/, "$name: and that of the read");
}

my $trace = folder() . '/race.trace';
my $race  = ringside('run', '--trace', $trace, streams('missing', ''));
my $event = ringside('events', $trace, 'fault.race');
like($event->{out}, qr/^\d+ fault\.race instant [^\n]*report="/m, 'the race is an event of the trace');
is(ringside('run', streams('missing', ''))->{err}, $race->{err}, 'it is told in the same words every time');
for my $seed (1 .. 4) {
    my $run = ringside('run', '--policy', 'random', '--seed', $seed, streams('missing', ''));
    is($run->{status}, 3, "whoever goes first (seed $seed)");
}
my $anti = lesson('anti', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "Write after read", devices = 1 }
local one, two = rs.cuda.Stream("device:0"), rs.cuda.Stream("device:0")
local x = rs.ones(1000):to("device:0")
rs.cuda.synchronize()
local y
rs.cuda.stream(one, function() y = x * 2 end)
rs.cuda.stream(two, function() x:add_(1) end)
rs.cuda.synchronize()
END_LESSON
refused('a write that does not wait for a reader is one too', ringside('run', $anti), 3, qr/[Rr]ace/);
is(ringside('run', lesson('readers', <<'END_LESSON'))->{status}, 0, 'two readers are none');
local rs = require "ringside"
rs.lesson { title = "Two readers", devices = 1 }
local one, two = rs.cuda.Stream("device:0"), rs.cuda.Stream("device:0")
local x = rs.ones(1000):to("device:0")
rs.cuda.synchronize()
local y, z
rs.cuda.stream(one, function() y = x * 2 end)
rs.cuda.stream(two, function() z = x * 3 end)
rs.cuda.synchronize()
END_LESSON

# The engine under its own checker, in several orders of its tasks; others, by chance, with RINGSIDE_LONG.
my $seed = $ENV{RINGSIDE_LONG} ? int rand 1e6 : 0; # in some orders a lesson's own check of a time fails
for my $lesson (glob 'lessons/[0-9]*.lua') {
    my @policies = ([], [ '--policy', 'round-robin' ], map { [ '--policy', 'random', '--seed', $seed + $_ ] } 1 .. ($ENV{RINGSIDE_LONG} ? 20 : 2));
    @policies = $policies[2] if $lesson =~ /12-three/; # it moves gigabytes
    for my $policy (@policies) {
        my $run = ringside('run', '--check-races', @$policy, '--trace', $trace, $lesson);
        is("$run->{status} $run->{err}", '0 ', "$lesson @$policy: no race");
        # Lessons 10, 19, 24 and 37 show deadlocks and go on.
        my $faults = $lesson =~ /10-rendezvous|19-join|24-hang|37-who/ ? 'fault.race' : 'fault.race or fault.deadlock';
        is(ringside('events', $trace, $faults)->{out}, '', "$lesson @$policy: none in the trace");
    }
}
done_testing();
