#!/usr/bin/perl
# A training step with its n-th allocation failing, under the address sanitizer: whatever fails, nothing is left behind.
use strict;
use warnings;
use lib 'tests/faults';
use Failing;
use Fcntl qw(LOCK_EX);
use Test::More;

plan skip_all => 'the failing allocator is for glibc on Linux' if $^O ne 'linux';
mkdir 'build';
open my $lock, '>', 'build/.lock' or die "build/.lock: $!";
flock $lock, LOCK_EX or die "flock: $!";
my $log = `make -s -j2 CC=gcc BUILD=asan all 2>&1`;
is($?, 0, 'BUILD=asan builds') or diag($log);
close $lock;

my @training = ('tests/faults/training.lua', '--');
for my $case ([ 'stepped', 100 ], [ 'free', 60, '--exact' ]) {
    my ($executor, $points, @more) = @$case;
    my @words    = ('--executor', $executor, @more, @training);
    my ($before) = count_allocations('build/asan/ringside', @words, 'nothing');
    fail_each("a training step in $executor", 'build/asan/ringside', $points, $before - 50, @words);
}
done_testing();
