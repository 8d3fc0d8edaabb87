#!/usr/bin/perl
# What the pools of devices keep unused does not stand in the way of what lies beside them: workspaces, other devices on
# the same GPU, cuBLAS. On the fake runtime (tests/cuda/fake/fake.h), whose GPU has just so much that it does, at first.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

plan skip_all => 'fake_cuda.so is not built: it needs the headers of CUDA'
    if !-e program() =~ s{/[^/]*$}{}r . '/fake_cuda.so';

# In `stepped` products are exact, our own kernels'.
my @cases = (
    [ workspace => 24, qr/^tensor\(\[2\., 4\.\], device='device:0'\)|^tensor\(\[2\., 4\.\]\)/, 'free', 'stepped' ],
    [ neighbour => 26, qr/^4194304(?:\.0)?$/, 'free', 'stepped' ],
    [ product   => 64, qr/^512(?:\.0)?$/, 'free' ],
);
for my $case (@cases) {
    my ($name, $mib, $says, @executors) = @$case;
    for my $executor (@executors) {
        my $run = ringside({ env => { RINGSIDE_FAKE_CUDA => "order=lazy,guard=off,memory=$mib" } }, 'run', '--quiet', '--trust',
            '--executor', $executor, '--device', 'cuda', 'tests/cuda/memory.lua', '--', $name);
        $run->{err} =~ s/^fake CUDA: ordering, lifetimes and error paths of host code; no device code ran\n//m;
        is("$run->{status} $run->{err}", '0 ', "$name, $executor: what is kept unused goes back");
        like($run->{out}, $says, "$name, $executor: the values are right");
    }
}
done_testing();
