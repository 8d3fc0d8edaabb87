#!/usr/bin/env perl
# What `ringside devices` says of the back-ends between processes: there, not built, a library gone, of another version.
use strict;
use warnings;
use Test::More;
use FindBin;
use lib $FindBin::Bin;
use Ringside;

# The program in a folder of its own, with the plug-ins that a test puts beside it.
my $bin = folder() . '/bin';
mkdir $bin or die "$bin: $!";
system('cp', program(), "$bin/ringside") == 0 or die 'cp';

sub devices {
    my $answer = ringside({ program => "$bin/ringside" }, 'devices');
    is($answer->{status}, 0, 'devices ends with status 0') or diag($answer->{err});
    return $answer->{out};
}

sub devices_of {
    my ($setting) = @_;
    my $answer = ringside({ program => "$bin/ringside", env => { RINGSIDE_FAKE_CUDA => $setting } }, 'devices');
    is($answer->{status}, 0, "devices ends with status 0, $setting") or diag($answer->{err});
    return $answer->{out};
}

sub plugin {
    my ($text, @more) = @_;
    my $source = spill(folder() . '/plugin.c', $text);
    return system($ENV{CC} || 'cc', '-shared', '-fPIC', '-I', "$FindBin::Bin/../../src", '-o', "$bin/gloo.so", $source, @more) == 0;
}

my $out = devices();
like($out, qr/^  gloo   not built: install libgloo-dev and g\+\+, then run make$/m, 'gloo is not built: what to install');
like($out, qr/^  mpi    not built: install libopenmpi-dev and openmpi-bin, then run make$/m, 'mpi is not built: what to install');

spill("$bin/gloo.so", "no library\n");
like(devices(), qr/^  gloo   its plug-in cannot be opened \(.*\)$/m, 'a file that is no plug-in is said');

SKIP: {
    skip 'no C compiler that makes a plug-in', 8 if !plugin("int nothing;\n");
    my $other = qr/^  gloo   its plug-in belongs to another version of ringside: run make again$/m;
    like(devices(), $other, 'a plug-in without the symbol is of another version');
    plugin(qq{#include "c10d/transport.h"\nconst struct transport ringside_transport_1 = { TRANSPORT_ABI + 1, "gloo", "9" };\n});
    like(devices(), $other, 'and one with another number');
    plugin(qq{#include "c10d/transport.h"\nconst struct transport ringside_transport_1 = { TRANSPORT_ABI, "gloo", "9\\033[2J" };\n});
    like(devices(), qr/^  gloo   9\\x1b\[2J$|^  gloo   9[^\e]*$/m, 'what a plug-in says of itself is made visible');
    spill(folder() . '/gone.c', "int gone(void) { return 1; }\n");
    system($ENV{CC} || 'cc', '-shared', '-fPIC', '-Wl,-soname,libgone.so.1', '-o', folder() . '/libgone.so', folder() . '/gone.c');
    plugin("int gone(void); int here(void) { return gone(); }\n", '-L' . folder(), '-lgone');
    like(devices(), qr/^  gloo   libgone\.so\.1 is not on this machine: install libgloo0$/m, 'a library that is gone is named');
}

# ---- GPUs ----

my $lacks = qr/built without CUDA: install the CUDA toolkit \(nvcc\), then run make/;
unlink "$bin/gloo.so";
like(devices(), qr/^GPUs [^\n]*\n  cuda   $lacks$/m, 'the CUDA plug-in is not built: what to install');
like(devices(), qr/^  nccl   $lacks$/m, 'so is NCCL');
like(ringside({ program => "$bin/ringside" }, '--version')->{out}, qr/^  not built  cuda, nccl, gloo, mpi$/m, '--version lists what is not there');
spill("$bin/cuda.so", "no library\n");
like(devices(), qr/^  cuda   its plug-in cannot be opened \(.*\n(?: {9}.*\n)*$/m, 'a file that is no CUDA plug-in is said');
unlink "$bin/cuda.so";

my $fake = (program() =~ s{/[^/]*$}{}r) . '/fake_cuda.so';
SKIP: {
    skip 'fake_cuda.so is not built: it needs the headers of CUDA', 16 if !-e $fake;
    symlink $fake, "$bin/fake_cuda.so" or die "symlink: $!";
    my $told = devices_of('devices=2');
    like($told, qr/^  fake   RINGSIDE_FAKE_CUDA is set: what follows is no GPU/m, 'a fake GPU is told as one');
    like($told, qr/^  cuda   runtime \d+\.\d+, driver \d+\.\d+; \d+ kernels, for \S/m, 'versions, and what was built');
    like($told, qr/^  gpu $_  Fake GPU $_: 1\.0 GiB, 4 SMs, compute capability \d\.\d$/m, "gpu $_: its name, memory, SMs, capability") for 0, 1;
    like($told, qr/^ {9}copies between GPUs go straight/m, 'which way bytes take between them');
    like($told, qr/^ {9}products: /m, 'what multiplies');
    like($told, qr/^ {9}timelines: /m, 'what tells the time');
    like($told, qr/^  nccl   .*up to 2 ranks here/ms, 'how many ranks NCCL can have');
    my %why = ('fail=no-driver' => 'no NVIDIA driver', 'fail=no-gpu' => 'GPU', 'fail=old-driver' => 'driver', 'fail=count:802' => 'fabric');
    for my $fail (sort keys %why) {
        my $out = devices_of($fail);
        like($out, qr/^  cuda   runtime .*\n(?: {9}.*\n)*? {9}.*$why{$fail}/m, "$fail: the sentence that says why there is none");
        unlike($out, qr/^  gpu /m, "$fail: and no GPU");
    }
}

# Where `make install` lays them.
my $built = (program() =~ s{/[^/]*$}{}r) . '/gloo.so';
SKIP: {
    skip 'the Gloo plug-in is not built', 2 if !-e $built;
    unlink "$bin/gloo.so";
    mkdir folder() . '/lib';
    mkdir folder() . '/lib/ringside';
    system('cp', $built, folder() . '/lib/ringside/gloo.so') == 0 or die 'cp';
    like(devices(), qr/^  gloo   Gloo \d+\.\d+\.\d+$/m, 'the installed plug-in is found, and its library has a version');
}
done_testing();
