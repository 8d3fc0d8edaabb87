#!/usr/bin/perl
# Random programs of collectives on 1 to 8 ranks: every tensor holds, to the bit, what plain Lua works out of everybody's
# numbers, and both executors print the same. RINGSIDE_PROGRAMS=20000 RINGSIDE_FIRST=7 for a longer run over other
# seeds; with RINGSIDE_LONG set it is such a run.
use strict;
use warnings;
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || ($ENV{RINGSIDE_LONG} ? 10_000 : 400);
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
        $lines .= `timeout 600 '$ringside' run --trust --quiet $how tests/programs/collectives.lua -- first=$from count=$some 2>&1`;
        $good = 0 if $? != 0;
    }
    return ($good, $lines);
}

my %lines;
for my $how ('--executor stepped', '--executor stepped --policy random --seed 3', '--executor free') {
    my ($good, $lines) = programs($how);
    ok($good, "$how: every tensor is what plain Lua says") or diag(substr join("\n", grep { !/^seed/ } split /\n/, $lines), 0, 6000);
    $lines{$how} = $lines;
    my $done = () = $lines =~ /^seed \d+ world \d+: [0-9a-f]{12}$/mg;
    is($done, $count, "$how: all programs were run");
}
is($lines{'--executor free'}, $lines{'--executor stepped'}, 'both executors have the same bits');
done_testing();
