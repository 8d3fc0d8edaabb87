#!/usr/bin/perl
# DistributedDataParallel as PyTorch's: models of ddp_matrix.lua, wrapped as ddp_options.txt says, on worlds of 2, 3 and
# 4 ranks. Losses, gradients, weights, buffers, sizes of buckets, orders of hooks. A world is a pair of twins in ddp/,
# which twins.t compares; one start of PyTorch tells all of a world.
#
#   PYTHON=.../python tests/parity/ddp_matrix.t --make world2 world3 world4     makes the .expected anew
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);

my $here = dirname(abs_path($0));
$ENV{TWINS} = "$here/ddp";
exec "$here/twins.t", @ARGV or die "twins.t: $!";
