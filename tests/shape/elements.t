#!/usr/bin/perl
# Who touches the elements of a tensor: a few files, which tell storage.h of each access before it happens, so that a
# missing wait is seen wherever somebody reads. All others go through these: tensor_read, tensor_show, the ops.
use strict;
use warnings;
use Test::More;
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

# Files that touch elements after they have asked.
my %asks = map { $_ => 1 } qw(src/tensor/compute.c src/tensor/copy.c src/tensor/lstm.c src/tensor/print.c
    src/tensor/philox.c src/tensor/tensor.c src/tensor/update.c src/data/batch.c src/c10d/post.c src/c10d/reduce.c
    src/c10d/all_reduce.c src/c10d/alltoall.c src/c10d/gather.c src/c10d/reduce_scatter.c src/c10d/ring.c src/c10d/tree.c);

# Files that do so without asking, and why nobody minds.
my %free = (
    'src/c10d/nccl_run.c'      => 'a part of a collective, which has asked',
    'src/c10d/fused.c'         => 'a part of a collective, which has asked',
    'src/lua/names.c'          => 'the debugger\'s eye and hand',
    'src/lua/objects.c'        => 'bytes of its own, which it has waited for',
    'src/c10d/hop.c'           => 'a part of a collective, which has asked',
    'src/c10d/shared.c'        => 'a part of a collective, which has asked',
    'src/c10d/remote.c'        => 'a part of a collective, which has asked',
    'src/c10d/remote_post.c'   => 'a part of a send or receive, which has asked',
    'src/c10d/reuse.c'         => 'looks whether somebody has changed what is on its way',
    'src/cli/bench_allreduce.c' => 'tensors of its own, which no lesson knows',
    'src/cli/bench_world.c'     => 'tensors of its own, which no lesson knows',
    'src/cli/bench_ddp.c'       => 'weights and gradients of its own models',
);

my $touches = qr/storage->data\b|\btensor_(?:raw|look|elements|print)\(/;
my $tells   = qr/\b(?:storage_access(?:es)?_by\w*|tensor_touch|stream_launch)\(/;
my (%seen, %tells);
for my $file (glob 'src/*/*.c') {
    next if $file =~ m{^src/device/};                # where storages and streams are made
    open my $in, '<', $file or die "$file: $!";
    local $/;
    my $text = <$in>;
    $text =~ s{/\*.*?\*/}{}gs;
    $seen{$file}  = 1 if $text =~ $touches;
    $tells{$file} = 1 if $text =~ $tells;
}
is_deeply([ grep { !$asks{$_} && !$free{$_} } sort keys %seen ], [], 'nobody else touches elements');
is_deeply([ grep { !$seen{$_} } sort keys %asks, keys %free ], [], 'each of these does');
is_deeply([ grep { !$tells{$_} } sort keys %asks ], [], 'and those that ask do ask');
done_testing();
