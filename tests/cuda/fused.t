#!/usr/bin/perl
# All-reduces of ranks on one GPU go by its kernel, with the host's bits; on several GPUs through the host, as ever
# (fused.lua). On the fake runtime (tests/cuda/fake/fake.h).
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
plan skip_all => "CUDA's headers are not here: install the toolkit, then run make tests" if !-e "$out/fake_cuda.so";
my $trace = folder() . '/fused.trace';

sub play {
    my ($setting, @words) = @_;
    return ringside({ env => { RINGSIDE_FAKE_CUDA => $setting } }, qw(run --trust --executor free --trace), $trace,
        '--device', $setting eq '' ? 'cpu' : 'cuda', 'tests/cuda/fused.lua', '--', @words);
}

# How many kernels have added.
sub kernels {
    my @lines = grep { /\ball_reduce\b/ } split /\n/, ringside('events', $trace, 'kernel')->{out};
    return scalar @lines;
}

sub right {
    my ($run, $sentence) = @_;
    is("$run->{status} $run->{signal}", '0 0', $sentence) or diag($run->{out}, $run->{err});
    unlike($run->{err}, qr/misuse|differ at element/, "$sentence: the runtime has nothing to say");
}

for my $case ([ 2, 'order=lazy' ], [ 4, 'order=eager' ], [ 8, 'order=seed:5' ]) {
    my ($world, $order) = @$case;
    right(play("devices=1,$order", "world=$world"), "$world ranks on one GPU, $order");
    cmp_ok(kernels(), '>', 100, "$world ranks on one GPU: its kernel adds");
}
right(play('devices=1', 'world=4', 'what=mixed'), 'tensors on the GPU and in the host\'s memory');
cmp_ok(kernels(), '>', 0, 'where all lie on the GPU its kernel adds again');
right(play('devices=2', 'world=4'), '4 ranks on two GPUs');
is(kernels(), 0, '4 ranks on two GPUs: the host adds');

for my $case ([ absent => qr/rank 1\s.*returned/ ], [ failing => qr/rank 1: rank 1 has had enough/ ]) {
    my ($what, $why) = @$case;
    my ($near, $far) = map { play($_, 'world=3', "what=$what") } '', 'devices=1';
    is("$far->{status} $far->{signal}", "$near->{status} $near->{signal}", "$what: ends as on virtual devices");
    for my $run ($near, $far) {
        isnt($run->{status}, 0, "$what: is an error");
        like($run->{err}, qr/rank \d waits in all_reduce #0 .*for ranks? .*\b1\b/, "$what: who waits is told");
        like($run->{err}, $why, "$what: and why") or diag($run->{err});
    }
}

my $refused = play('devices=1,fail=launch:40', 'world=2');
isnt($refused->{status}, 0, 'a kernel that cannot be launched is an error');
is($refused->{signal}, 0, 'and nobody waits for ever');
done_testing();
