#!/usr/bin/perl
# What more steps of a lesson take from the system's allocator: nothing, once the first steps have found their blocks. In
# `stepped` every step counts; in `free` Lua's garbage waits for a collection that is worth it, so that only a long run
# has found them all.
use strict;
use warnings;
use lib 'tests/faults';
use Failing;
use Test::More;

plan skip_all => 'the counting allocator is for glibc on Linux' if $^O ne 'linux';
plan skip_all => 'sanitizers take each block from the system' if ($ENV{RINGSIDE_OUT} || '') =~ /asan|tsan/;
my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';

$ENV{FAIL_BLOCKS} = 1; # the trace is mapped as it grows
sub taken {
    my ($steps, $model, $optimizer, $source, @options) = @_;
    my @lesson  = ('tests/faults/steady.lua', '--', $model, $steps, $optimizer, $source);
    my ($count) = count_allocations($ringside, 'run', @options, @lesson);
    return $count;
}

for my $model (qw(embed mlp cnn lstm transformer)) {
    for my $optimizer (qw(SGD Adam)) {
        my $more = taken(60, $model, $optimizer, 'tensors') - taken(30, $model, $optimizer, 'tensors');
        is($more, 0, "$model with $optimizer: 30 more steps in stepped take nothing from the system");
    }
}
sub taken_by_devices {
    my ($count) = count_allocations($ringside, 'run', 'tests/faults/devices.lua', '--', @_);
    return $count;
}
is(taken_by_devices(60) - taken_by_devices(30), 0,
    'on a device with two streams: 30 more forwards in stepped take nothing from the system');
sub taken_in_parallel {
    my ($devices, $steps, @options) = @_;
    my ($count) = count_allocations($ringside, 'run', @options, 'tests/faults/steady_dp.lua', '--', $devices, $steps);
    return $count;
}
for my $devices (1, 3) {
    my $more = taken_in_parallel($devices, 150) - taken_in_parallel($devices, 90);
    is($more, 0, "DataParallel on $devices devices: 60 more steps in stepped take nothing from the system");
}
for my $devices (1, 3) {
    my @free    = ('--executor', 'free');
    my $threads = $devices == 1 ? 1 : 2 * $devices; # a thread for each replica and for each device's backward
    my $more    = taken_in_parallel($devices, 2500, @free) - taken_in_parallel($devices, 2000, @free);
    cmp_ok($more, '<', 500 * $threads + 250,
        "DataParallel on $devices devices in free: a step takes its $threads threads, nothing else ($more calls in 500)");
}
sub taken_by_ranks {
    my ($kind, $world, $steps, @options) = @_;
    my @lesson  = ('tests/faults/steady_ddp.lua', '--', $kind, $world, $steps);
    my ($count) = count_allocations($ringside, 'run', @options, @lesson);
    return $count;
}
for my $kind (qw(embed mlp buckets views norm unused skipped static batched accumulate)) {
    for my $world (1, 2, 4) {
        my $more = taken_by_ranks($kind, $world, 90) - taken_by_ranks($kind, $world, 60);
        is($more, 0, "DDP, $kind, world $world: 30 more steps in stepped take nothing from the system");
    }
}
for my $kind (qw(views norm unused)) {
    for my $world (1, 2) {
        my @free = ('--executor', 'free');
        my $more = taken_by_ranks($kind, $world, 4000, @free) - taken_by_ranks($kind, $world, 3000, @free);
        cmp_ok($more, '<', 100, "DDP, $kind, world $world in free: a step takes nothing ($more calls in 1000)");
    }
}
my $loader = taken(150, 'cnn', 'SGD', 'loader') - taken(90, 'cnn', 'SGD', 'loader');
is($loader, 0, 'cnn from a DataLoader: 60 more passes in stepped take nothing from the system');
for my $model (qw(embed cnn lstm)) {
    my @free = ('SGD', 'tensors', '--executor', 'free');
    my $more = taken(12000, $model, @free) - taken(10000, $model, @free);
    cmp_ok($more, '<', 20, "$model in free: a step takes nothing from the system ($more calls in 2000 more steps)");
}
done_testing();
