#!/usr/bin/perl
# Random modules and nests of inputs through DataParallel on 1 to 8 devices: what mathematics says of outputs, gradients and
# buffers holds, to the bit where the run is exact. RINGSIDE_PROGRAMS=20000 RINGSIDE_FIRST=7 for a longer run over other seeds;
# with RINGSIDE_LONG set it is such a run.
use strict;
use warnings;
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || ($ENV{RINGSIDE_LONG} ? 10_000 : 500);
my $first    = $ENV{RINGSIDE_FIRST}    || ($ENV{RINGSIDE_LONG} ? 1 + int rand 1e9 : 1);
my $share    = 500;    # programs of one process
diag("RINGSIDE_FIRST=$first") if $ENV{RINGSIDE_LONG};

# The lines of `count` programs, in several processes; whether all ended well.
sub programs {
    my ($how, $bits) = @_;
    my ($good, $lines, $done) = (1, '', 0);
    for (my $at = 0; $at < $count; $at += $share) {
        my $some = $count - $at < $share ? $count - $at : $share;
        my $from = $first + $at;
        my $out  = `'$ringside' run --trust --quiet --executor $how tests/programs/parallel.lua -- first=$from count=$some bits=$bits 2>&1`;
        $done += $1 if $out =~ /^# (\d+) programs$/m;
        next if $? == 0;
        $good = 0;
        $out .= `'$ringside' run --trust --quiet --executor $how tests/programs/parallel.lua -- first=$from count=$some bits=$bits announce=1 2>&1`
            =~ s/.*(^-- seed)/$1/msr if $? & 127;
        $lines .= $out;
    }
    return ($good, $lines, $done);
}

for my $how (['stepped', 1], ['free --exact', 1], ['free', 0]) {
    my ($good, $lines, $done) = programs(@$how);
    ok($good, "$how->[0]: several devices answer as their parts by hand and as one device" . ($how->[1] ? ', to the bit' : ''))
        or diag(substr $lines, 0, 6000);
    is($done, $count, "$how->[0]: all programs were run");
    diag("$how->[0]: $done programs") if $ENV{RINGSIDE_LONG};
}
done_testing();
