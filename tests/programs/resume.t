#!/usr/bin/perl
# Random trainings that are stopped after a drawn step and go on from their state: the same bits as in one go, in both
# executors, by a file or from one spawn into the next. RINGSIDE_PROGRAMS=20000 RINGSIDE_FIRST=7 for a longer run over other
# seeds; with RINGSIDE_LONG set it is such a run.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside qw(folder);
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || ($ENV{RINGSIDE_LONG} ? 4000 : 25);
my $first    = $ENV{RINGSIDE_FIRST}    || ($ENV{RINGSIDE_LONG} ? 1 + int rand 1e9 : 1);
my $share    = 50;    # programs of one process
diag("RINGSIDE_FIRST=$first") if $ENV{RINGSIDE_LONG};
my $file = folder() . '/state.safetensors';

sub programs {
    my ($how, $number, @more) = @_;
    my ($good, @lines) = (1);
    for (my $at = 0; $at < $number; $at += $share) {
        my $some = $number - $at < $share ? $number - $at : $share;
        my $from = $first + $at;
        push @lines, split /\n/, `'$ringside' run --trust --quiet $how tests/programs/resume.lua -- first=$from count=$some file='$file' @more 2>&1`;
        $good = 0 if $? != 0;
    }
    return ($good, \@lines);
}

my %lines;
for my $how ('--executor stepped', '--executor free --exact') {
    (my $good, $lines{$how}) = programs($how, $count);
    ok($good, "$how: every training goes on as if it had never stopped")
        or diag(join "\n", grep { !/^seed \d+: [0-9a-f]{16}$/ } @{ $lines{$how} });
    is(scalar(grep { /^seed \d+: [0-9a-f]{16}$/ } @{ $lines{$how} }), $count, "$how: all programs were run");
}
is_deeply($lines{'--executor free --exact'}, $lines{'--executor stepped'}, 'both executors have the same bits');
for my $part ('opt', 'schedule', 'loader', 'rng') {
    my (undef, $told) = programs('', 12, "without=$part");
    like($told->[-1], qr/^[1-9]\d* of 12 differ$/, "who leaves out $part goes another way");
}
done_testing();
