#!/usr/bin/perl
# One process of a job goes, at ten moments of a training and in many ways: all the others end at once, each saying who it was,
# how it went and what it was in, and nobody is left behind. RINGSIDE_LONG=1: at all moments in all worlds.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use Job;
use Ringside;
use Scene;
use Test::More;

need_gloo();
@ENV{qw(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM)} = (1, 1);
my $long   = $ENV{RINGSIDE_LONG};
my $lesson = 'tests/processes/dying.lua';

# What the one that is killed was in, or had been in last. Where others have to come for it to go on, somebody else kills it there:
# on a busy machine maybe a little before it is in.
my @moments = (
    [ before    => qr/(?!)/, 'before it joins' ],
    [ init      => qr/in init_process_group/, 'in init_process_group' ],
    [ after_init => qr/after init_process_group/, 'behind it' ],
    [ forward   => qr/after broadcast #\d+/, 'in the forward' ],
    [ backward  => qr/after broadcast #\d+/, 'in the backward' ],
    [ reduce    => qr/(?:in|after) (?:all_reduce|broadcast) #\d+/, 'in a gradient\'s all-reduce' ],
    [ between   => qr/after all_reduce #\d+/, 'between two steps' ],
    [ buffers   => qr/(?:in broadcast|after all_reduce|in all_reduce) #\d+/, 'while buffers are broadcast' ],
    [ recv      => qr/in recv from rank \d|after all_reduce #\d+/, 'in a receive' ],
    [ new_group => qr/in new_group|after (?:recv|send|all_reduce)/, 'in new_group' ],
    [ destroy   => qr/after barrier #0 of group 1/, 'at the end' ],
);
my %place = map { $_->[0] => $_->[1] } @moments;
my %words = map { $_->[0] => $_->[2] } @moments;

sub launch_words {
    my ($world, $options, @args) = @_;
    return (program(), qw(launch --backend gloo --trust), '--nproc', $world, @$options, $lesson, '--', @args);
}

# Of a launch it is known how a process went.
sub by_launch {
    my ($world, $victim, $moment) = @_;
    my $fate  = "rank $victim was killed by signal 9 \\(Killed\\)";
    my $place = $moment eq 'before' ? '' : " $place{$moment}";
    my @all   = map { [ $_, qr/cause: killed: $fate$place\n/ ] } grep { $_ != $victim } 0 .. $world - 1;
    my $last  = $moment eq 'destroy' ? qr/ended without an error/ : qr/failed after it/;
    $place .= ' \(line \d+\)' if $place ne '';
    return sub {
        return [ begin({}, launch_words($world, [ '--timeout', 60 ], $moment, $victim, 'kill')), sub {
            has_all("launch: rank $victim of $world is killed $words{$moment}", $_[0], 3,
                qr/^ringside launch: $fate$place; ranks? [\d, ]+ $last\n\z/m, $moment eq 'destroy' ? () : @all);
        } ];
    };
}

# mpirun tells of it itself, and gives the others a second or two. Who has never joined is known to nobody else.
sub by_mpi {
    my ($world, $victim, $moment) = @_;
    my $alone = grep { $moment eq $_ } qw(before init destroy);
    my @told  = qr/process rank $victim with PID \d+ on node \S+ exited on signal 9/;
    push @told, qr/cause: killed: rank $victim ended without a word(?: $place{$moment}| after init_process_group)?\n/ unless $alone;
    return sub {
        return [ begin({}, mpirun($world), program(), qw(run --backend mpi --trust --timeout 60), $lesson, '--', $moment, $victim, 'kill'),
            sub { has_all("mpirun: rank $victim of $world is killed $words{$moment}", $_[0], 137, @told) } ];
    };
}

# ---- which of them ----

my (@launched, @by_mpi);
my @all = map { $_->[0] } @moments;
if ($long) {
    for my $world (2, 4) {
        for my $victim (0, $world - 1) {
            push @launched, map { by_launch($world, $victim, $_) } @all;
            push @by_mpi, map { by_mpi($world, $victim, $_) } @all;
        }
    }
} else {
    @launched = ((map { by_launch(2, 1, $_) } @all), (map { by_launch(2, 0, $_) } qw(before recv destroy)),
        by_launch(4, 0, 'reduce'), by_launch(4, 3, 'new_group'), by_launch(4, 2, 'forward'));
    @by_mpi = (by_mpi(2, 1, 'before'), by_mpi(2, 0, 'new_group'), by_mpi(2, 1, 'backward'), by_mpi(4, 0, 'reduce'));
}

# ---- other ways to go ----

sub goes {
    my ($name, $victim, $how, $options, $status, @patterns) = @_;
    return sub {
        return [ begin({}, launch_words(2, [ '--timeout', 60, @$options ], 'between', $victim, $how)),
            sub { has_all($name, $_[0], $status, @patterns) } ];
    };
}

my $after = qr/after all_reduce #\d+/;
my @ways = (
    goes('a rank that stands still is named when the time-out has passed', 1, 'stop', [qw(--timeout 1 --grace 0.3)], 3,
        [ 0, qr/TimeoutError: rank 0 waits in \w+ #\d+ \(line \d+\) for rank 1\n.*cause: [\w ]+: rank 1 (?:does not answer|ended without a word)/s ],
        qr/^ringside launch: rank 0 ended with status 3 in \w+ #\d+: TimeoutError at line \d+; rank 1 .*\n\z/m),
    goes('a rank in an endless loop is named with its line', 1, 'loop', [qw(--timeout 1 --grace 0.3)], 3,
        [ 0, qr/cause: stuck outside: rank 1 has been at line \d+ for/ ], qr/^ringside launch: rank 0 ended .*; rank 1 .*\n\z/m),
    goes('a rank that aborts', 1, 'abort', [], 3, [ 0, qr/cause: killed: rank 1 was killed by signal 6 \(Aborted\) $after\n/ ],
        qr/^ringside launch: rank 1 was killed by signal 6 \(Aborted\) $after \(line \d+\); rank 0 failed after it\n\z/m),
    goes('a rank that calls os.exit', 1, 'exit', [], 7, [ 0, qr/cause: killed: rank 1 ended with status 7 without a word $after\n/ ],
        qr/^ringside launch: rank 1 ended with status 7 $after \(line \d+\); rank 0 failed after it\n\z/m),
    goes('a rank that leaves as if all were well', 0, 'leave', [], 3, [ 1, qr/cause: killed: rank 0 ended with status 0 without a word $after\n/ ],
        qr/^ringside launch: rank 1 ended with status 3 in \w+ #\d+: DeadlockError at line \d+; rank 0 ended without an error\n\z/m),
    goes('a rank that throws', 1, 'error', [], 2, [ 1, qr/^ringside: \S+:\d+: rank 1: I give up\n/m ],
        [ 0, qr/cause: threw: rank 1 threw at line \d+: I give up\n/ ],
        qr/^ringside launch: rank 1 ended with status 2 $after: LuaError at line \d+; rank 0 failed after it\n\z/m),
);

in_turn(3, $ways[0], $ways[1], @launched, @ways[2 .. $#ways]);
SKIP: {
    skip 'the Open MPI plug-in is not built, or its mpirun is missing', scalar @by_mpi unless mpirun(2);
    in_turn(2, @by_mpi);
}
done_testing();
