#!/usr/bin/perl
# Processes that are ranks as a whole, as under torchrun: the numbers are those of ranks that are tasks, to the bit.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use Job;
use Ringside;
use Test::More;

need_gloo();
my $program = 'tests/processes/collectives.lua';

for my $count (2, 3, 4) {
    my $tasks = alone($program, '--', 'spawn', $count);
    is($tasks->{status}, 0, "$count ranks that are tasks run it") or diag($tasks->{err});
    my $ranks = launched($count, $program, '--', 'ranks');
    is($ranks->{status}, 0, "$count processes run it as ranks") or diag($ranks->{err});
    is($ranks->{out}, $tasks->{out}, "$count processes that are ranks compute what tasks do, to the bit");
    my $spawned = launched($count, $program, '--', 'spawn', $count);
    is($spawned->{out}, $tasks->{out}, "$count processes that a spawn uses do too") or diag($spawned->{err});
}
done_testing;
