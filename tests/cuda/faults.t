#!/usr/bin/perl
# A GPU that fails for good ends the run, with a sentence and in time: also the ranks that wait for one that met it and
# call nothing of the GPU themselves. On the fake runtime (tests/cuda/fake/fake.h), at kernels all over a training of two
# ranks, whose all-reduces are made by a kernel of one GPU and, of two GPUs, by the host. And one that never ends.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

plan skip_all => 'fake_cuda.so is not built: it needs the headers of CUDA'
    if !-e program() =~ s{/[^/]*$}{}r . '/fake_cuda.so';

for my $setting ('devices=1', 'devices=2') {
    for my $executor ('free', 'stepped') {
        for my $kernel (1, 20, 41, 64, 66, 68, 70, 72) {
            my %env = (RINGSIDE_FAKE_CUDA => "order=lazy,guard=off,check=off,fail=illegal:$kernel,$setting");
            my $run = ringside({ env => \%env }, 'run', '--quiet', '--timeout', 20, '--executor', $executor, '--device', 'cuda',
                'lessons/30-on-a-gpu.lua');
            is($run->{status}, 3, "$setting, $executor: kernel $kernel touches what it must not: status 3");
            like($run->{err}, qr/StoppedError: .*the GPU failed for good, seen when .*cudaErrorIllegalAddress \(700\)/,
                'and the sentence') or diag($run->{err});
        }
    }
}

# What never ends is waited for as long as anything is, and not once more at the end. In `stepped` there are no such waits.
for my $mark (32, 90) {
    my %env = (RINGSIDE_FAKE_CUDA => "order=lazy,guard=off,check=off,fail=never:$mark");
    my $run = ringside({ env => \%env }, 'run', '--quiet', '--timeout', 2, '--executor', 'free', '--device', 'cuda',
        'lessons/07-dp-backward.lua');
    is($run->{status}, 3, "mark $mark is never reached: status 3");
    like($run->{err}, qr/TimeoutError: .*timed out after 2 s: device:\d \w+ has not done what was launched/, 'and the sentence')
        or diag($run->{err});
    unlike($run->{err}, qr/a call waits for an event that is never reached/, 'nothing waits for it by a call that never returns')
        or diag($run->{err});
}
done_testing();
