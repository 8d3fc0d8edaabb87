#!/usr/bin/perl
# Random loaders with samplers, streams, workers and passes that go on, against a rule in plain Lua, in both executors;
# every interleaving of workers that a policy makes gives the same. RINGSIDE_LONG=1: many more; RINGSIDE_SEED: these again.
use strict;
use warnings;
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $seed     = $ENV{RINGSIDE_SEED} || time;
my $count    = $ENV{RINGSIDE_LONG} ? 2000 : 25;
note "RINGSIDE_SEED=$seed";

for my $how ('', '--policy random --seed 5', '--policy round-robin', '--executor free', '--executor free --exact') {
    my $out = `'$ringside' run --tap --trust $how tests/programs/loader.lua -- $seed $count 2>&1`;
    ok($? == 0 && $out =~ /^ok 1 /m, "the rule holds, " . ($how || 'stepped')) or diag("seed $seed\n", $out);
}
done_testing();
