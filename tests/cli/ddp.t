#!/usr/bin/perl
# What DistributedDataParallel says of its options: a word for those that are out of use, beside what the ranks say.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

sub wrapped {
    my ($name, $options) = @_;
    return ringside('run', lesson($name, <<"END_LESSON"));
local rs = require "ringside"
local nn = rs.nn
rs.distributed.spawn(function(rank)
  local net = nn.BatchNorm1d(1)
  net.running_mean:fill_(rank + 1)
  nn.parallel.DistributedDataParallel(net, $options)
  print("mean of " .. rank, net.running_mean:item())
end, { world = 2 })
END_LESSON
}

my $none = wrapped('none', '{}');
is("$none->{status} $none->{err}", '0 ', 'a wrapper without options is made');
unlike($none->{out}, qr/warning/, 'without a warning');
my $older = wrapped('older', '{ broadcast_buffers = false }');
is($older->{status}, 0, 'broadcast_buffers is still understood');
like($older->{out}, qr/^r$_: \[warning\] broadcast_buffers is deprecated, use forward_sync_buffers/m,
    "rank $_ is told what to write instead") for 0, 1;
like($older->{out}, qr/^mean of 1\s+2\.0$/m, 'and it leaves the buffers as they are');
my $newer = wrapped('newer', '{ forward_sync_buffers = false }');
unlike($newer->{out}, qr/warning/, 'forward_sync_buffers is in use');
like($newer->{out}, qr/^mean of 1\s+1\.0$/m, 'and the construction syncs buffers all the same');
my $both = wrapped('both', '{ broadcast_buffers = false, forward_sync_buffers = true }');
like($both->{out}, qr/\[warning\] .*its value ignored/, 'who gives both is told which one counts');
like($both->{out}, qr/^mean of 1\s+1\.0$/m, 'and that one does');
done_testing();
