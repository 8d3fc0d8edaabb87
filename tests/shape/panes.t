#!/usr/bin/perl
# A pane that asks the state says so (.of_state), for the state of ten million events is worked out in slices: until it is
# there the frame says that it is not, and no pane shows what was so somewhere on the way.
use strict;
use warnings;
use Test::More;
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

for my $file (sort glob 'trace_viewer/pane_*.c') {
    open my $in, '<', $file or die "$file: $!";
    local $/;
    my $text = <$in>;
    my $asks = $text =~ /->state\b/;
    ok(!$asks || $text =~ /\.of_state\s*=\s*true/, $asks ? "$file asks the state and says so" : "$file asks no state");
}
done_testing();
