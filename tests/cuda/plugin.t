#!/usr/bin/env perl
# The CUDA plug-in without the engine: its table on the fake runtime, with faults on demand; the fake runtime itself; and the
# real plug-in, on a GPU if one is here. Played by tests/cuda/play_plugin.c and play_runtime.c.
use strict;
use warnings;
use Test::More;

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
plan skip_all => "CUDA's headers are not here: install the toolkit, then run make tests" if !-e "$out/fake_cuda.so";
delete @ENV{qw(RINGSIDE_FAKE_CUDA RINGSIDE_CUDA_TIMELINE)};

# Where a player's lines begin with "#", they belong to the test that comes next.
sub play {
    my ($of, @words) = @_;
    open my $player, '-|', @words or die "$words[0]: $!";
    my ($planned, $seen, @said) = (0, 0);
    while (my $line = <$player>) {
        chomp $line;
        $planned = $1 if $line =~ /^1\.\.(\d+)$/;
        push @said, $line if $line =~ /^#|^Bail out/;
        next if $line !~ /^(not )?ok \d+ - (.*)$/;
        $seen++;
        ok(!$1, "$of: $2") or diag(join "\n", @said);
        @said = ();
    }
    close $player;
    is($?, 0, "$of: the player ends with status 0") or diag(join "\n", @said);
    is($seen, $planned, "$of: it plays all its parts");
}
play('the plug-in on the fake runtime', "$out/play_plugin", "$out/fake_cuda.so");
play('the fake runtime', "$out/play_runtime");
play('the plug-in on the real runtime', "$out/play_plugin", "$out/cuda.so") if -e "$out/cuda.so";

# One process tells when each of its copies has run.
sub drawn {
    local $ENV{RINGSIDE_FAKE_CUDA} = "order=seed:$_[0]";
    return `$out/play_runtime drawn 2>/dev/null`;
}
is(drawn(11), drawn(11), 'a seed draws the same points again');
isnt(drawn(11), drawn(12), 'another seed draws others');
done_testing();
