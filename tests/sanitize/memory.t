#!/usr/bin/perl
# Commands with their n-th allocation failing, for some n by chance, under the address sanitizer: whatever fails, nothing is left
# behind. RINGSIDE_LONG=1: more n; RINGSIDE_SEED: the same n again.
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

my $seed = $ENV{RINGSIDE_SEED} || time;
srand $seed;
note "RINGSIDE_SEED=$seed";
my $more     = $ENV{RINGSIDE_LONG} ? 20 : 1;
my $program  = 'build/asan/ringside';
for my $case ([ 'training', 'stepped', 60 ], [ 'training', 'free', 40, '--exact' ], [ 'replicas', 'free', 40, '--exact' ],
    [ 'collectives', 'stepped', 40 ], [ 'collectives', 'free', 40, '--exact' ], [ 'uneven', 'stepped', 60 ],
    [ 'uneven', 'free', 40, '--exact' ]) {
    my ($lesson, $executor, $points, @more) = @$case;
    my @words    = ($program, 'run', '--executor', $executor, @more, '--tap', "tests/faults/$lesson.lua", '--');
    my ($before) = count_allocations(@words, 'nothing');
    fail_each("$lesson in $executor", { points => $points * $more, from => $before - 50 }, @words);
}
for my $executor (qw(stepped free)) {
    my @how      = ('--executor', $executor, $executor eq 'free' ? '--exact' : ());
    my @words    = ($program, 'run', @how, '--timeout', 60, '--tap', 'tests/faults/p2p.lua', '--');
    my ($before) = count_allocations(@words, 'nothing');
    fail_each("p2p in $executor", { points => 20 * $more, from => $before - 50 }, @words);
}
my @all = ($program, 'run', '--tap', 'tests/faults/everything.lua');
# Once: for ever Lua could not even call what lets its objects go, since here each of its blocks is the system's.
fail_each('a little of everything', { points => 40 * $more }, @all);
fail_each('help', { points => 10 * $more, on => 1 }, $program, 'help', 'nn.Linear');
done_testing();
