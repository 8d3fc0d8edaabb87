#!/usr/bin/env perl
# The Gloo plug-in between processes, played by tests/transport/play*.c: worlds of 1 to 4, each part with processes of its own.
use strict;
use warnings;
use Test::More;

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
plan skip_all => 'the Gloo plug-in is not built: install libgloo-dev and g++, then run make' if !-e "$out/gloo.so";
plan skip_all => "make $out/play" if !-x "$out/play";

# A part says ok or not ok; what it says before that belongs to it.
# Calls of unequal sizes end Gloo's own programs.
for my $words ([1], [2], [3], [4], [ 3, 'unequal' ]) {
    my $world = $words->[0];
    open my $player, '-|', "$out/play", "$out/gloo.so", @$words or die "play: $!";
    my ($planned, $seen, @said) = (0, 0);
    while (my $line = <$player>) {
        chomp $line;
        $planned = $1 if $line =~ /^1\.\.(\d+)$/;
        push @said, $line if $line =~ /^#|^Bail out|Sanitizer|^\s+#\d/;
        next if $line !~ /^(not )?ok \d+ - (.*?)(?: # SKIP (.*))?$/;
        my ($wrong, $sentence, $skipped) = ($1, $2, $3);
        $seen++;
        ok(!$wrong, $sentence . ($skipped ? ": $skipped" : '')) or diag(join "\n", @said);
        @said = ();
    }
    close $player;
    is($?, 0, "the player of $world ends with status 0") or diag(join "\n", @said);
    is($seen, $planned, "it plays all its parts");
}
done_testing();
