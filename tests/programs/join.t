#!/usr/bin/perl
# Random trainings with uneven inputs under Join on 2 to 5 ranks: none hangs, each ends with what its rules give in plain
# numbers, and both executors have the same bits. RINGSIDE_PROGRAMS=20000 RINGSIDE_FIRST=7 for a longer run over other
# seeds; with RINGSIDE_LONG set it is such a run.
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
    my ($how) = @_;
    my ($good, $lines) = (1, '');
    for (my $at = 0; $at < $count; $at += $share) {
        my $some = $count - $at < $share ? $count - $at : $share;
        my $from = $first + $at;
        my $run  = "'$ringside' run --trust --quiet $how tests/programs/join.lua";
        $lines .= `timeout 600 $run -- first=$from count=$some 2>&1`;
        $good = 0 if $? != 0;
    }
    return ($good, $lines);
}

my %seeds;
for my $how ('--executor stepped', '--executor stepped --policy random --seed 3', '--executor free --exact') {
    my ($good, $lines) = programs($how);
    my @seeds = $lines =~ /^(seed \d+ world \d+: .*)$/mg;
    my @wrong = grep { /^# +(?:seed|\{)/ } split /\n/, $lines;
    ok($good, "$how: every training ends as the rules say") or diag(substr join("\n", @wrong), 0, 6000);
    is(scalar @seeds, $count, "$how: all programs were run");
    $seeds{$how} = \@seeds;
}
is_deeply($seeds{'--executor free --exact'}, $seeds{'--executor stepped'}, 'both executors have the same bits');
is_deeply($seeds{'--executor stepped --policy random --seed 3'}, $seeds{'--executor stepped'}, 'so has another schedule');
my %checksums = map { /: (\w+)$/ ? ($1 => 1) : () } @{ $seeds{'--executor stepped'} };
cmp_ok(scalar keys %checksums, '>', $count * 0.8, 'and programs differ');
done_testing();
