#!/usr/bin/perl
# The logging data of DistributedDataParallel, its levels and its errors' names, in both executors.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../cli";
use Ringside;
use Test::More;

my $lesson = 'tests/data/ddp_logging.lua';
delete @ENV{qw(NCCL_TOPO_DUMP_FILE TORCH_DISTRIBUTED_DEBUG)};
my %env = (NCCL_ALGO => 'a value of its own');
for my $executor ('stepped', 'free') {
    my $run = ringside({ env => \%env }, 'run', '--tap', '--quiet', '--executor', $executor, $lesson, '--', $executor);
    is($run->{status}, 0, "$executor: the logging data say what was done and what went wrong")
        or diag($run->{err}, grep { !/^ok/ } map { "$_\n" } split /\n/, $run->{out});
    cmp_ok(scalar(() = $run->{out} =~ /^ok /mg), '>', 60, "$executor: all of them were looked at");
}
done_testing();
