#!/usr/bin/perl
# The mistakes that people make with GPUs (planted.lua) are found where a script can make them, with the places that
# belong to them; the corrected version of each is silent. In `stepped`, where finding is no matter of luck: on virtual
# devices, and behind --device cuda on the fake runtime (tests/cuda/fake/fake.h), whatever order its queues run in. The
# words are the same.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $race = 'RaceError: (?:rank \d: )?race on storage \d+: ';
my $order = 'while nothing orders it after';
# Each fault: its status, what is told of it, a sentence; where it is no error but an event of the trace: that kind.
my @faults = (
    [ bucket_early => 3, qr/${race}all-reduce by r\d comm .*$order copy by device:\d stream/,
        'a bucket that is reduced before the gradient is in it' ],
    [ no_wait => 3, qr/${race}mul_scalar by device:0 stream 2 .*$order mul_scalar by device:0 compute/,
        'a stream that does not wait' ],
    [ no_wait_back => 3, qr/${race}add_scalar by device:0 compute .*$order mul_scalar by device:0 stream 2/,
        'nobody waits for its result' ],
    [ chunk_freed => 3, qr/${race}fill by device:0 stream 2 .*$order mul_scalar by device:0 compute .*t:record_stream\(s\)/,
        "a chunk's memory that is used again while another stream reads it" ],
    [ never_recorded => 3, qr/${race}add_scalar by .*$order mul_scalar by/, 'a wait for an event that was never recorded' ],
    [ recorded_early => 3, qr/${race}add_scalar by .*$order mul_scalar by/,
        'a wait for an event that was recorded before the work' ],
    [ no_work_wait => 3, qr/RaceError: rank \d reads t \(sum, line \d+\) while all_reduce #0 of line \d+ may still be /,
        'a result that nobody has waited for' ],
    [ refilled => 0, qr/rank 0 changed the tensor of its isend to rank 1 \(line \d+\) before it waited/,
        'a buffer that is refilled while it is being sent', 'fault.buffer_reuse' ],
    [ two_communicators => 3, qr/DeadlockError: .*rank 1 calls all_reduce \(line \d+\) in group 2, rank 0 in group 1/s,
        'two communicators in another order' ],
    [ uneven_steps => 3, qr/DeadlockError: rank 1 waits in all_reduce #\d+ .*ended early: rank 0 returned/s,
        'ranks with other numbers of steps' ],
    [ unused_parameters => 2, qr/RuntimeError: rank \d: Expected to have finished reduction .*find_unused_parameters=true/,
        'parameters that a forward leaves out' ],
    [ bucket_order => 3, qr/MismatchError: ranks 0 and 1 called all_reduce .*\[\d+\] on rank 1, \[\d+\] on rank 0/s,
        'buckets that are cut at other places' ],
    [ one_handles_timeout => 3, qr/MismatchError: .*(?:broadcast.*all_reduce|all_reduce.*broadcast)/s,
        'a time-out that one rank handles alone' ],
    [ bad_index => 2, qr/IndexError: index 12 is out of range: there are 10 rows \(found by a kernel on device:0\)/,
        "a kernel's wrong index, at the next wait" ],
);
my @orders = (undef, 'lazy', 'eager', map { "seed:$_" } 1 .. 3);
@orders = (undef) if !-e program() =~ s{/[^/]*$}{}r . '/fake_cuda.so';
note 'fake_cuda.so is not built: virtual devices alone' if @orders == 1;
my $fake = qr/^fake CUDA: ordering, lifetimes and error paths of host code; no device code ran\n/m;
my $trace = folder() . '/planted.trace';

sub play {
    my ($order, @words) = @_;
    my %env = (RINGSIDE_FAKE_CUDA => 'order=' . ($order // 'lazy'));
    my $run = ringside({ env => \%env }, 'run', '--quiet', '--trace', $trace, '--device', defined $order ? 'cuda' : 'cpu',
        'tests/cuda/planted.lua', '--', @words);
    $run->{err} =~ s/$fake//;
    $run->{told} = ringside('events', $trace, 'fault')->{out};
    return $run;
}

for my $fault (@faults) {
    my ($name, $status, $told, $sentence, $kind) = @$fault;
    my $words;
    for my $order (@orders) {
        my $where = defined $order ? "cuda, $order" : 'virtual devices';
        my $run   = play($order, $name);
        my $said  = $kind ? $run->{told} =~ s/^\d+ //mr : $run->{err};
        is("$run->{status} $run->{signal}", "$status 0", "$sentence, $where: ends with status $status") or diag($run->{err});
        like($said, $told, "$sentence, $where: is told");
        like($said, qr/\b\Q$kind\E\b/, "$sentence, $where: as an event") if $kind;
        $words //= $said;
        is($said, $words, "$sentence, $where: in the same words");
        $run = play($order, $name, 'right');
        is("$run->{status} $run->{err}$run->{told}", '0 ', "$sentence, $where: corrected it is silent");
    }
}

# A loss that is read each step is no error: it costs, and the trace shows it. (A script cannot read a loss without a
# wait: item() is one.)
for my $order (@orders) {
    my $where = defined $order ? "cuda, $order" : 'virtual devices';
    for my $how ('each step', 'right') {
        my $run = play($order, 'read_each_step', $how);
        my ($from, $till) = $run->{out} =~ /from (\d+)\ntill (\d+)/ or BAIL_OUT("no numbers: $run->{out}$run->{err}");
        is("$run->{status} $run->{err}$run->{told}", '0 ', "losses that are read ($how), $where: the training runs");
        my $syncs = "stream.synchronize and phase = begin and seq >= $from and seq < $till";
        is(scalar(() = ringside('events', $trace, $syncs)->{out} =~ /\n/g), $how eq 'right' ? 0 : 4,
            $how eq 'right' ? "losses that are read at the end, $where: no step waits" : "read each step, $where: four waits");
    }
}
done_testing();
