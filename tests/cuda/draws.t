#!/usr/bin/perl
# Random numbers on devices (draws.lua): in `free` real ones draw from Philox, in any order in which their queues run; in
# `stepped`, and on virtual ones, the host draws for all. On the fake runtime (tests/cuda/fake/fake.h).
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
plan skip_all => "CUDA's headers are not here: install the toolkit, then run make tests" if !-e "$out/fake_cuda.so";

sub play {
    my ($setting, @words) = @_;
    my $run = ringside({ env => { RINGSIDE_FAKE_CUDA => $setting } }, 'run', '--trust', @words);
    return $run;
}

sub checked {
    my ($run, $sentence) = @_;
    is("$run->{status} $run->{signal}", '0 0', $sentence) or diag($run->{out}, $run->{err});
    unlike($run->{err}, qr/misuse|differ at element/, "$sentence: the runtime has nothing to say");
}

for my $setting ('devices=2,order=lazy', 'devices=2,order=eager', 'devices=1,order=seed:3') {
    checked(play($setting, qw(--executor free --device cuda tests/cuda/draws.lua -- executor=free)),
            "devices draw by the rule, $setting");
}
checked(play('devices=2', qw(--device cuda tests/cuda/draws.lua -- executor=stepped)), 'the host draws in stepped');
checked(play('', qw(--executor free --device cpu tests/cuda/draws.lua -- executor=stepped)), 'and for virtual devices');
done_testing();
