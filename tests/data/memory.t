#!/usr/bin/perl
# What tensors cost on their devices, to the byte, and what the trace says each byte is for.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../cli";
use Ringside;
use Test::More;

for my $executor ('stepped', 'free') {
    my $run = ringside('run', '--tap', '--quiet', '--executor', $executor, 'tests/data/memory.lua');
    is($run->{status}, 0, "$executor: allocated and reserved bytes are those of the allocator's rules")
        or diag(grep { !/^ok/ } map { "$_\n" } split /\n/, $run->{out});
    cmp_ok(scalar(() = $run->{out} =~ /^ok /mg), '>', 40, "$executor: all of them were looked at");
}
done_testing();
