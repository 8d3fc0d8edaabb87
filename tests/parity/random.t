#!/usr/bin/perl
# Random programs give what the PyTorch of this machine gives: values, shapes, dtypes, gradients, and errors where it has
# errors. PYTHON names another one than this machine's, such as one with PyTorch 2.15, the reference; of what the programs
# use nothing is different in older ones, down to 1.13. RINGSIDE_PROGRAMS and RINGSIDE_FIRST as for tests/programs/random.t.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my @pythons  = grep { defined } $ENV{PYTHON}, '/usr/bin/python3', 'python3';
my ($python) = grep { system("$_ -c 'import torch' >/dev/null 2>&1") == 0 } @pythons;
plan skip_all => 'PyTorch is not installed here' unless $python;
my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || 300;
my $first    = $ENV{RINGSIDE_FIRST}    || 1;
my $folder   = tempdir(CLEANUP => 1);
my $version  = `'$python' -c 'import torch; print(torch.__version__, end="")'`;

for my $case ([ 'arguments that fit', '' ], [ 'arguments that need not fit', 'wild=1' ]) {
    my ($name, $words) = @$case;
    my $ran = system("'$ringside' run --trust --quiet --exact tests/parity/random.lua -- first=$first count=$count $words"
        . " > '$folder/programs'");
    is($ran, 0, "programs with $name run");
    my $told = `'$python' tests/parity/random_twin.py < '$folder/programs' 2>&1`;
    ok($? == 0 && $told =~ /^$count programs, [1-9]\d* steps, 0 differences$/m, "programs with $name are those of PyTorch $version")
        or diag(substr $told, -6000);
}
done_testing();
