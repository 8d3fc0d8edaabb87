#!/usr/bin/perl
# A rank that is gone, at any point of a step of DistributedDataParallel with a hook, Join and SyncBatchNorm: the run ends by itself
# with status 3, and its report names the rank. Some points, spread evenly and moved by chance; RINGSIDE_LONG=1: all of them;
# RINGSIDE_SEED: the same ones again.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $lesson = 'tests/faults/uneven.lua';
my $seed   = $ENV{RINGSIDE_SEED} // time % 1e6;
srand $seed;
note("RINGSIDE_SEED=$seed");

# What is wrong with a run whose rank was killed at a point; '': nothing. undef: it had no such point.
sub fault_of {
    my ($run, $rank) = @_;
    return undef if "$run->{status} $run->{signal}" eq '0 0' && $run->{err} =~ /\Aringside: the fault '[^']*' did not strike/;
    return "status $run->{status}, signal $run->{signal}: $run->{err}" if $run->{status} != 3 || $run->{signal};
    my ($head) = $run->{err} =~ /\A((?:[^\n]*\n){1,2})/;
    return "it does not name the rank: $run->{err}" if $head !~ /rank $rank was killed/;
    return '';
}

for my $executor ('stepped', 'free') {
    for my $rank (0, 1) {
        my $strike = sub {
            my ($point) = @_;
            my @limit = $executor eq 'free' ? ('--timeout', 20) : ();
            return fault_of(ringside('run', '--quiet', '--executor', $executor, @limit, '--fault', "kill $rank at $point", $lesson), $rank);
        };
        # In free the count differs from run to run, by a few points of the comm tasks.
        my ($there, $past) = (0, 64);
        ($there, $past) = ($past, 2 * $past) while defined $strike->($past);
        while ($past - $there > 1) {
            my $middle = int(($there + $past) / 2);
            if (defined $strike->($middle)) { $there = $middle } else { $past = $middle }
        }
        cmp_ok($past, '>', 500, "rank $rank in $executor: the run has points ($past)");
        my $count = $ENV{RINGSIDE_LONG} ? $past : 25;
        my (@wrong, $struck);
        for my $share (0 .. $count - 1) {
            my $point = int(($share + ($ENV{RINGSIDE_LONG} ? 0 : rand)) * $past / $count);
            my $fault = $strike->($point);
            $struck++ if defined $fault;
            push @wrong, "at $point: $fault" if defined $fault && $fault ne '';
        }
        is("@wrong", '', "rank $rank in $executor: gone at any of $count points, it is named, and the run ends by itself");
        cmp_ok($struck, '>=', $count - 2, "rank $rank in $executor: so it was $struck times");
    }
}
done_testing();
