#!/usr/bin/perl
# The lessons about ranks hold over processes as they do with tasks: the same checks, the same numbers.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use Job;
use Ringside;
use Test::More;

need_gloo();

sub checks { return join "\n", grep { /^(?:ok|not ok|1\.\.)/ } split /\n/, $_[0]{out} }

for my $lesson (qw(11 13 14 15 16 17 19 22), 'lessons/examples/train_digits.lua') {
    my $tasks = alone('--tap', $lesson);
    is($tasks->{status}, 0, "$lesson: tasks");
    for my $count (2, 4) {
        my $run = launched($count, '--tap', $lesson);
        ok($run->{status} == 0 && checks($run) eq checks($tasks), "$lesson: $count processes")
            or diag("status $run->{status}\n", (grep { /^not ok|^#   / } split /^/m, $run->{out}), $run->{err});
    }
}
done_testing;
