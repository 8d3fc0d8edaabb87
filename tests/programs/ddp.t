#!/usr/bin/perl
# Random trainings under DistributedDataParallel on 2 to 5 ranks: gradients, weights and buffers are what its rules give
# in one process, or the error is, and both executors have the same bits. RINGSIDE_PROGRAMS=20000 RINGSIDE_FIRST=7 for a
# longer run over other seeds; with RINGSIDE_LONG set it is such a run.
use strict;
use warnings;
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || ($ENV{RINGSIDE_LONG} ? 10_000 : 300);
my $first    = $ENV{RINGSIDE_FIRST}    || ($ENV{RINGSIDE_LONG} ? 1 + int rand 1e9 : 1);
my $share    = 100;    # programs of one process
diag("RINGSIDE_FIRST=$first") if $ENV{RINGSIDE_LONG};

# What `count` programs print, in several processes, and whether all ended well.
sub programs {
    my ($how, $count) = @_;
    my ($good, $lines) = (1, '');
    for (my $at = 0; $at < $count; $at += $share) {
        my $some = $count - $at < $share ? $count - $at : $share;
        my $from = $first + $at;
        my $run  = "'$ringside' run --trust --quiet $how tests/programs/ddp.lua";
        $lines .= `timeout 600 $run -- first=$from count=$some 2>&1`;
        $good = 0 if $? != 0;
    }
    return ($good, $lines);
}

# Seeds with what they ended in, and all other lines.
sub parted {
    my ($lines) = @_;
    my (@seeds, @others);
    push @{ /^seed \d+ world \d+: / ? \@seeds : \@others }, $_ for split /\n/, $lines;
    return (\@seeds, \@others);
}

my %seeds;
for my $case ([ '--executor stepped', $count ], [ '--executor stepped --policy random --seed 3', int($count / 3) ],
    [ '--executor free --exact', $count ]) {
    my ($how, $programs) = @$case;
    my ($good, $lines) = programs($how, $programs);
    my ($seeds, $others) = parted($lines);
    ok($good, "$how: every training ends as the rules say") or diag(substr join("\n", @$others), 0, 6000);
    is(scalar @$seeds, $programs, "$how: all programs were run");
    $seeds{$how} = $seeds;
}
is_deeply($seeds{'--executor free --exact'}, $seeds{'--executor stepped'}, 'both executors have the same bits');
my $fine = grep { /: [0-9a-f]{16}$/ } @{ $seeds{'--executor stepped'} };
cmp_ok($fine, '>', $count / 2, 'most trainings go well');
cmp_ok($fine, '<', $count * 0.95, 'and some fail') if $count >= 100;
done_testing();
