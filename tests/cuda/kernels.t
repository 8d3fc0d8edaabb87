#!/usr/bin/env perl
# Each kernel for GPUs, emulated on the CPU, gives what the CPU's function gives: played by tests/cuda/play_kernels*.c;
# cases are in play_elementwise*.c, play_reduce*.c, play_rows*.c, play_pick*.c, play_products*.c, play_draw.c.
use strict;
use warnings;
use Test::More;

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
plan skip_all => "no CUDA headers where $out was built: install the toolkit, then run make tests"
    if !-x "$out/play_kernels";

# What is said before a line of its own belongs to it.
open my $player, '-|', "$out/play_kernels" or die "play_kernels: $!";
my ($planned, $seen, @said) = (undef, 0);
while (my $line = <$player>) {
    chomp $line;
    $planned = $1 if $line =~ /^1\.\.(\d+)$/;
    push @said, $line if $line =~ /^#|^Bail out/;
    next if $line !~ /^(not )?ok \d+ - (.*)$/;
    ok(!$1, $2) or diag(join "\n", @said);
    $seen++;
    @said = ();
}
close $player;
is($? & 127, 0, 'the player does not die') or diag(join "\n", @said);
is($planned, $seen, 'it plays all its cases');
cmp_ok($seen, '>', 9, 'there are cases beside the planted faults');
done_testing();
