#!/usr/bin/perl
# Runs that stop, under the sanitizers: each plant of the hang clinic and a swarm of programs in which ranks make mistakes or
# are struck by faults, and a training step that loses a rank. Nothing is left behind, and no thread touches what another one changes.
use strict;
use warnings;
use Fcntl qw(LOCK_EX);
use Test::More;

my $seed = $ENV{RINGSIDE_SEED} || time;
srand $seed;
note "RINGSIDE_SEED=$seed";
local $ENV{ASAN_OPTIONS} = 'allocator_may_return_null=1:detect_stack_use_after_return=0';
local $ENV{TSAN_OPTIONS} = 'halt_on_error=0';

sub build {
    my ($kind) = @_;
    mkdir 'build';
    open my $lock, '>', 'build/.lock' or die "build/.lock: $!";
    flock $lock, LOCK_EX or die "flock: $!";
    my $log = `make -s -j2 CC=gcc BUILD=$kind all 2>&1`;
    diag($log) if $? != 0;
    return $? == 0;
}

sub clean {
    my ($name, $status, $command) = @_;
    my $out = `timeout 300 $command 2>&1`;
    my $got = $? >> 8;
    ok($out !~ /Sanitizer|runtime error:/ && $got =~ /^(?:$status)$/, $name) or diag("status $got: " . substr $out, -3000);
}

my $clinic = 'lessons/examples/hang_clinic.lua';
my $swarm  = 'tests/programs/swarm.lua';
my $count  = $ENV{RINGSIDE_LONG} ? 1000 : 60;
for my $case ([ 'asan', 'stepped' ], [ 'asan', 'free' ], [ 'tsan', 'free' ]) {
    my ($kind, $executor) = @$case;
    ok(build($kind), "BUILD=$kind builds");
    my $program = "build/$kind/ringside run --quiet --executor $executor";
    my @plants  = map { /^ *\d+  (\S+) / ? $1 : () } `build/$kind/ringside run $clinic`;
    cmp_ok(scalar @plants, '>=', 20, "$kind: there are plants");
    my $limits = $executor eq 'free' ? '--timeout 2 --limit-seconds 10' : '--limit-seconds 5';
    clean("$_ is clean under $kind in $executor", 3, "$program $limits $clinic -- $_") for @plants;
    my $limit = $executor eq 'free' ? 'limit=1' : '';
    clean("the swarm is clean under $kind in $executor", 0, "$program --timeout 60 --trust $swarm -- first=1 count=$count $limit");
    for my $fault ('kill 1 at 90', 'lose 0 -> 1 message 2', 'double 1 -> 0 message 1', 'cut 0 -> 1 message 1', 'allocation 5') {
        my ($what) = split / /, $fault;
        clean("with the fault '$fault', too", '0|1|2|3', "$program --timeout 1 --trust --fault '$fault' $swarm -- first=$_ count=1 plants=0 fault=$what rank=1")
            for 3, 5;
    }
    # A step with a hook, Join and SyncBatchNorm: whole, and with a rank lost on its way.
    my $uneven = 'tests/faults/uneven.lua';
    clean("$uneven is clean under $kind in $executor", 0, "$program $uneven");
    for my $share (0 .. ($ENV{RINGSIDE_LONG} ? 399 : 19)) {
        my ($rank, $point) = ($share % 2, int(1500 * ($share + rand) / ($ENV{RINGSIDE_LONG} ? 400 : 20)));
        clean("with 'kill $rank at $point', too", 3, "$program --timeout 60 --fault 'kill $rank at $point' $uneven");
    }
}
done_testing();
