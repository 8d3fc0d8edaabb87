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
