#!/usr/bin/perl
# DistributedDataParallel's all-reduces overlap with the backward: on the virtual wire by what the cost model says, to
# the picosecond, for drawn worlds, layers, delays and buckets; between threads whatever they do. RINGSIDE_PROGRAMS=1000
# RINGSIDE_FIRST=7 for a longer run over other seeds; with RINGSIDE_LONG set it is such a run.
use strict;
use warnings;
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || ($ENV{RINGSIDE_LONG} ? 2_000 : 40);
my $first    = $ENV{RINGSIDE_FIRST}    || ($ENV{RINGSIDE_LONG} ? 1 + int rand 1e9 : 1);
diag("RINGSIDE_FIRST=$first") if $ENV{RINGSIDE_LONG};

my (@wrong, %worlds, %buckets, $gains);
for my $seed ($first .. $first + $count - 1) {
    my $out = `'$ringside' run --trust --tap tests/programs/overlap.lua -- $seed 2>&1`;
    my ($world, $several, $gain) = $out =~ /^# # world (\d+), .* (\d+) buckets, .*: gain (\d+) ps$/m;
    push @wrong, "seed $seed:\n$out" if $? != 0 || !defined $gain || $out !~ /^ok 3 /m;
    $worlds{ $world // 'none' }++;
    $buckets{ $several // 'none' }++;
    $gains++ if $gain;
}
is(substr(join('', @wrong), 0, 4000), '', "$count backwards end when the cost model says, with overlap and without");
cmp_ok(scalar keys %worlds,  '>=', 5, 'in several worlds');
cmp_ok(scalar keys %buckets, '>=', 5, 'with several numbers of buckets');
cmp_ok($gains, '>', $count / 3, 'and often the overlap gains something');

for my $case ([1, 3, 1], [2, 2, 1], [2, 6, 1], [2, 6, 4], [3, 5, 2], [4, 4, 1], [4, 7, 3]) {
    my $out = `'$ringside' run --executor free --tap tests/programs/overlap_free.lua -- @$case 2>&1`;
    my ($world, $layers, $cap) = @$case;
    is($?, 0, "world $world, $layers layers, $cap in a bucket: buckets travel while threads compute") or diag($out);
}
done_testing();
