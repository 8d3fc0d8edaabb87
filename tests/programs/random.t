#!/usr/bin/perl
# Random programs of tensors: integers agree with Lua's, float32 agrees with float64, gradients with differences, nothing leaks, and every bit is
# the same in both executors. RINGSIDE_PROGRAMS=20000 RINGSIDE_FIRST=7 for a longer run over other seeds;
# with RINGSIDE_LONG set it is such a run.
use strict;
use warnings;
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || ($ENV{RINGSIDE_LONG} ? 200_000 : 2000);
my $first    = $ENV{RINGSIDE_FIRST}    || ($ENV{RINGSIDE_LONG} ? 1 + int rand 1e9 : 1);
diag("RINGSIDE_FIRST=$first") if $ENV{RINGSIDE_LONG};

sub programs {
    my ($script, $executor, @words) = @_;
    my $out = `'$ringside' run --trust --quiet --executor $executor --exact tests/programs/$script -- @words 2>&1`;
    return ($? == 0, $? & 127, $out);
}

# The seeds whose lines differ.
sub different {
    my %seen;
    for my $text (@_) {
        while ($text =~ /^(\d+) ([0-9a-f]{16}.*)$/mg) { $seen{$1}{$2}++ }
    }
    my $runs = @_;
    return sort { $a <=> $b } grep { my @bits = values %{ $seen{$_} }; @bits != 1 || $bits[0] != $runs } keys %seen;
}

sub holds {
    my ($name, $script, $executor, @words) = @_;
    my ($ok, $signal, $out) = programs($script, $executor, @words);
    ok($ok, $name) or diag(substr $out, -6000);
    # Killed: the last program that was begun is told.
    diag((programs($script, $executor, @words, 'announce=1'))[2] =~ /.*(^-- seed.*)/ms) if $signal;
    return $out;
}

holds("float32 agrees with float64, gradients with differences, and nothing leaks",
    'random.lua', 'stepped', "first=$first", "count=$count");
holds("integers agree with Lua's integers", 'integers.lua', 'stepped', "first=$first", "count=$count");
my $some = int($count / 2);
my @bits = map { holds("$_: programs run", 'random.lua', $_, "first=$first", "count=$some", 'mode=bits') } 'stepped', 'free';
my @wrong = different(@bits);
is("@wrong[0 .. ($#wrong < 9 ? $#wrong : 9)]", '', 'outputs and gradients have the same bits in stepped and in free');
@bits  = map { holds("$_: programs of integers run", 'integers.lua', $_, "first=$first", "count=$some", 'mode=bits') } 'stepped', 'free';
@wrong = different(@bits);
is("@wrong[0 .. ($#wrong < 9 ? $#wrong : 9)]", '', 'integers have the same bits in stepped and in free');
cmp_ok(scalar(() = $bits[0] =~ /^\d+ [0-9a-f]{16}/mg), '==', $some, 'every seed makes a program');
done_testing();
