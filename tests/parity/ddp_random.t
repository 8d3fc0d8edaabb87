#!/usr/bin/perl
# The rules of tests/programs/ddp_rules.lua are PyTorch's: random trainings under DistributedDataParallel end in 2.15,
# over gloo, as the rules say. PYTHON names another Python than this machine's. RINGSIDE_PROGRAMS and RINGSIDE_FIRST as
# for tests/programs/ddp.t.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my @pythons  = grep { defined } $ENV{PYTHON}, '/usr/bin/python3', 'python3';
my $enough   = 'import torch, torch.distributed as d; v = torch.__version__.split("."); '
    . 'exit(not (d.is_available() and (int(v[0]), int(v[1])) >= (2, 15)))';
my ($python) = grep { system("$_ -c '$enough' >/dev/null 2>&1") == 0 } @pythons;
plan skip_all => 'PyTorch 2.15 is not installed here' unless $python;
my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || ($ENV{RINGSIDE_LONG} ? 2000 : 30);
my $first    = $ENV{RINGSIDE_FIRST}    || ($ENV{RINGSIDE_LONG} ? 1 + int rand 1e9 : 1);
my $folder   = tempdir(CLEANUP => 1);
diag("RINGSIDE_FIRST=$first") if $ENV{RINGSIDE_LONG};

my $ran = system("'$ringside' run --trust --quiet tests/parity/ddp_random.lua -- first=$first count=$count"
    . " > '$folder/trainings'");
is($ran, 0, 'the rules are worked out');
my $told = `'$python' -B tests/parity/ddp_random_twin.py < '$folder/trainings' 2>&1`;
ok($? == 0 && $told =~ /^[1-9]\d* trainings, 0 differences$/m, 'PyTorch ends random trainings as they say')
    or diag(substr $told, -6000);
done_testing();
