#!/usr/bin/perl
# Random nets with SyncBatchNorm under DistributedDataParallel on 1 to 4 ranks with batches of unequal length, some empty:
# they train as one process does with BatchNorm on all rows, every rank issues its collectives in the same order, and both
# executors have the same bits. RINGSIDE_PROGRAMS=20000 RINGSIDE_FIRST=7 for a longer run over other seeds; with
# RINGSIDE_LONG set it is such a run.
use strict;
use warnings;
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || ($ENV{RINGSIDE_LONG} ? 5_000 : 40);
my $first    = $ENV{RINGSIDE_FIRST}    || ($ENV{RINGSIDE_LONG} ? 1 + int rand 1e9 : 1);
my $share    = 20;     # programs of one process, which searches all of its record for what they issued
diag("RINGSIDE_FIRST=$first") if $ENV{RINGSIDE_LONG};

# What `count` programs print, in several processes, and whether all ended well.
sub programs {
    my ($how) = @_;
    my ($good, $lines) = (1, '');
    for (my $at = 0; $at < $count; $at += $share) {
        my $some = $count - $at < $share ? $count - $at : $share;
        my $from = $first + $at;
        my $run  = "'$ringside' run --trust --quiet $how tests/programs/syncbn.lua";
        $lines .= `timeout 600 $run -- first=$from count=$some 2>&1`;
        $good = 0 if $? != 0;
    }
    return ($good, $lines);
}

my %seeds;
for my $how ('--executor stepped', '--executor stepped --policy random --seed 3', '--executor free --exact') {
    my ($good, $lines) = programs($how);
    my @seeds = $lines =~ /^(seed \d+ world \d+: [0-9a-f]{16})$/mg;
    ok($good, "$how: every net trains as one process does, all ranks in one order")
        or diag(substr join("\n", grep { !/^seed/ } split /\n/, $lines), 0, 6000);
    is(scalar @seeds, $count, "$how: all programs were run");
    $seeds{$how} = \@seeds;
    if ($how eq '--executor stepped') {
        my %world = map { $_ => 1 } map { /world (\d)/ } @seeds;
        is(join(' ', sort keys %world), '1 2 3 4', 'worlds of one to four ranks') if $count >= 40;
        my $empty = 0;
        $empty += $_ for $lines =~ /^# (\d+) batches without rows$/mg;
        cmp_ok($empty, '>', $count / 4, 'many batches have no rows');
    }
}
is_deeply($seeds{'--executor free --exact'}, $seeds{'--executor stepped'}, 'both executors have the same bits');
done_testing();
