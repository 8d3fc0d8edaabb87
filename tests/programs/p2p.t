#!/usr/bin/perl
# Random programs of sends and receives on 2 to 5 ranks: every message arrives as it was sent, where it was to, in the order
# of its sender, and nobody waits for ever. RINGSIDE_PROGRAMS=20000 RINGSIDE_FIRST=7 for a longer run over other seeds;
# with RINGSIDE_LONG set it is such a run.
use strict;
use warnings;
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || ($ENV{RINGSIDE_LONG} ? 10_000 : 200);
my $first    = $ENV{RINGSIDE_FIRST}    || ($ENV{RINGSIDE_LONG} ? 1 + int rand 1e9 : 1);
my $share    = 200;    # programs of one process
diag("RINGSIDE_FIRST=$first") if $ENV{RINGSIDE_LONG};

# What it printed, and its last lines where it failed.
sub programs {
    my ($name, @how) = @_;
    my ($lines, $done) = ('', 0);
    for (my $at = 0; $at < $count; $at += $share) {
        my $some = $count - $at < $share ? $count - $at : $share;
        my $from = $first + $at;
        my $out  = `'$ringside' run --trust --quiet --timeout 60 @how tests/programs/p2p.lua -- first=$from count=$some 2>&1`;
        $done += $1 if $out =~ /^# (\d+) programs$/m;
        is($?, 0, "$name: programs from seed $from on end well") or diag(substr $out, -3000);
        $lines .= $out;
    }
    is($done, $count, "$name: all programs were run");
    return $lines;
}

my $stepped = programs('stepped');
is(programs('stepped again'), $stepped, 'in stepped any source is the same one in every run');
programs('free', '--executor', 'free');
cmp_ok(scalar(() = $stepped =~ /^\d+ .*\d \d/mg), '>', $count / 4, 'many programs receive from any source');
done_testing();
