#!/usr/bin/perl
# The capstone: its solution has 60 lines of code, and whoever takes one of its parts away is told which one it was.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $solution = slurp('lessons/solutions/32-capstone.lua');
my @code     = grep { !/^\s*(?:--|$)/ } split /\n/, $solution;
cmp_ok(scalar @code, '<=', 60, 'the solution has at most 60 lines');

# What is replaced by what; the check that has to fail.
my @parts = (
    [ 'the broadcast of parameters', '{ module:parameters(), module:buffers() }', '{ module:buffers() }',
        qr/^not ok \d+ - 32-capstone\/all ranks begin with rank 0's parameters/m ],
    [ 'the broadcast of buffers', '{ module:parameters(), module:buffers() }', '{ module:parameters() }',
        qr/^not ok \d+ - 32-capstone\/and with rank 0's buffers/m ],
    [ 'the division', '.grad / dist.get_world_size()', '.grad * 1', qr/^not ok \d+ - \S+two ranks: every weight/m ],
    [ 'the copy back', 'one.tensor.grad:copy_(one.place)', 'one.begun = true', qr/^not ok \d+ - \S+two ranks: every weight/m ],
    [ 'the cap', 'bucket.count * 4 >= cap', 'false', qr/^not ok \d+ - \S+each step all-reduces these buckets/m ],
    [ 'what is asynchronous', 'bucket.work = dist.all_reduce(bucket.flat, { async_op = true })',
        'bucket.work = dist.all_reduce(bucket.flat, { async_op = true }) bucket.work:wait()',
        qr/^not ok \d+ - \S+and nobody waits for it before then/m ],
    [ 'the order of buckets', 'while self.next <= #self.buckets and self.buckets[self.next].left == 0 do
    local bucket = self.buckets[self.next]', 'if one.bucket.left == 0 then
    local bucket = one.bucket', qr/^not ok \d+ - \S+layers that are ready in another order/m ],
    [ 'what no_sync holds back', ' and not self.held', '', qr/^not ok \d+ - \S+no_sync: nothing is all-reduced inside/m ],
    [ 'the grad mode', 'rs.is_grad_enabled() and not', 'not', qr/^not ok \d+ - \S+a forward without gradients/m ],
    [ 'the error', '#missing > 0', '#missing > 9', qr/^not ok \d+ - \S+a layer that was not used/m ],
    [ 'the names', 'table.insert(missing, one.name)', 'table.insert(missing, "one")', qr/^not ok \d+ - \S+it names that layer's weight/m ],
);
for my $part (@parts) {
    my ($name, $from, $to, $told) = @$part;
    my $at = index $solution, $from;
    die "no '$from' in the solution" if $at < 0;
    my $changed = $solution;
    substr($changed, $at, length $from) = $to;
    my $file = spill(folder() . '/mine.lua', $changed);
    for my $executor ('stepped', 'free') {
        my $run = ringside('run', '--tap', '--executor', $executor, 'lessons/checks/32-capstone.lua', '--', $file);
        next if $executor eq 'free' && $name eq 'what is asynchronous'; # that check is of virtual time
        is("$run->{status} $run->{err}", '1 ', "without $name, $executor: checks fail, and all come to the end");
        like($run->{out}, $told, "without $name, $executor: the one that asks for it does");
    }
}
done_testing();
