#!/usr/bin/perl
# Algorithms by name, the prices of nodes, and hops above 64 ranks: on the command line and in a lesson.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

# ---- hops: told up to 64 ranks, above only if asked for ----

sub ring_of {
    my ($name, $world, $options) = @_;
    return lesson($name, <<"END");
local rs = require "ringside"
rs.lesson { title = "hops", world = $world $options }
rs.distributed.spawn(function(rank)
  local t = rs.full({ $world * 20 }, rank + 1.0)
  rs.distributed.all_reduce(t, { algorithm = "ring" })
end)
print(rs.trace:count { kind = "comm.hop" }, rs.trace:count { kind = "comm.numbers" })
END
}

sub hops_of {
    my ($lesson, @words) = @_;
    my $run = ringside('run', @words, $lesson);
    is($run->{status}, 0, 'it runs') or diag($run->{err});
    return $run->{out} =~ /^(\d+)\t(\d+)$/m ? "$1 $2" : $run->{out};
}

my ($small, $large) = (2 * 64 * 63, 2 * 65 * 64);
is(hops_of(ring_of('small', 64, '')), "$small $small", '64 ranks tell their hops');
is(hops_of(ring_of('large', 65, '')), '0 0', '65 do not');
is(hops_of(ring_of('large', 65, ''), '--hops'), "$large $large", 'but with --hops');
is(hops_of(ring_of('asked', 65, ', hops = true')), "$large $large", 'and in a lesson with hops = true');

my $kept = folder() . '/hops.trace';
is(hops_of(ring_of('large', 65, ''), '--hops', '--trace', $kept), "$large $large", '--hops with --trace');
my $events = ringside('events', $kept, 'comm.numbers');
my @told   = $events->{out} =~ /^(.*comm\.numbers.*)$/mg;
is(scalar @told, $large, 'each hop has its numbers in the trace');
is((grep { /elements=20\b/ && /checksum=\d+/ } @told) + 0, $large, 'with how many there are, and a checksum');

# ---- nodes ----

my $nodes = 'ranks_per_node = 8, intra = { latency = 5, bandwidth = 102.4 }, inter = { latency = 25, bandwidth = 10.24 }';

sub time_of {
    my ($world, $algorithm) = @_;
    my $run = ringside('run', lesson("time$world$algorithm", <<"END"));
local rs = require "ringside"
rs.lesson { title = "nodes", world = $world, costs = { host = 0, kernel = 0 }, topology = { $nodes } }
rs.distributed.spawn(function(rank)
  rs.distributed.all_reduce(rs.zeros { 25600 }, { algorithm = "$algorithm" })
end)
local most = 0
for rank = 0, $world - 1 do
  most = math.max(most, rs.trace:duration { kind = "c10d.allreduce", rank = rank })
end
print(most)
END
    is($run->{status}, 0, "$algorithm of $world: it runs") or diag($run->{err});
    return $run->{out} =~ /^([\d.]+)$/m ? $1 + 0 : $run->{out};
}

cmp_ok(time_of(8,   'ring'),         '==', 1820,      '8 ranks of a node');
cmp_ok(time_of(256, 'ring'),         '==', 32671.875, 'one ring over 32 nodes');
cmp_ok(time_of(256, 'hierarchical'), '==', 22745,     'two levels');

# ---- auto is as fast as the best ----

my $sizes = lesson('auto', <<'END');
local rs = require "ringside"
local dist = rs.distributed
local names = { "auto", "ring", "tree", "double_tree", "halving_doubling" }
rs.lesson { title = "auto", hardware = "classroom", costs = { host = 0, kernel = 0 } }
local before = {}
for _, elements in ipairs { 3, 5000, 70000, 400000, 1500000 } do
  for _, name in ipairs(names) do
    dist.spawn(function(rank) dist.all_reduce(rs.ones(elements), { algorithm = name }) end, { world = tonumber((...)) })
    local most = 0
    for _, event in ipairs(rs.trace:events { kind = "c10d.allreduce" }) do
      if not before[event.seq] then most = math.max(most, rs.trace:duration(event)) end
      before[event.seq] = true
    end
    print("took", elements, name, most)
  end
end
END

for my $world (3, 4, 5, 8) {
    my ($run, %took) = (ringside('run', $sizes, '--', $world));
    $took{$1}{$2} = $3 while $run->{out} =~ /^took\t(\d+)\t(\w+)\t([\d.]+)$/mg;
    is(scalar keys %took, 5, "$world ranks: five sizes");
    for my $elements (sort { $a <=> $b } keys %took) {
        my $auto = delete $took{$elements}{auto};
        my ($best) = sort { $a <=> $b } values %{ $took{$elements} };
        cmp_ok($auto, '<=', 1.02 * $best, "$world ranks, $elements elements: auto takes no longer than the best");
    }
}

# ---- what is refused ----

sub told {
    my ($name, $options, $call, $want) = @_;
    refused($name, ringside('run', lesson($name, <<"END")), 2, $want);
local rs = require "ringside"
rs.lesson { title = "x" $options }
rs.distributed.spawn(function(rank) rs.distributed.all_reduce(rs.zeros { 2 }, { $call }) end, { world = 2 })
END
}

told('star', '', 'algorithm = "star"',
    qr/unknown all-reduce algorithm 'star': there are naive, ring, tree, double_tree, halving_doubling, /);
told('nobody', '', 'algorithm = "star"', qr/and auto; dist\.register_algorithm, called on each rank, adds others$/m);
told('split', '', 'op = "sum" }) rs.distributed.all_to_all_single(rs.zeros(2), rs.zeros(2), { 0.5, 1.5 }, { 1, 1',
    qr/element 0 of output_split_sizes is 0\.5, not an integer/);
told('forward_tree', '', 'algorithm = "tree", direction = "forward"', qr/"forward" is the ring's/);
told('no_nodes', ', topology = { inter = { latency = 1 } }', '', qr/topology needs ranks_per_node/);
told('no_band', ', topology = { ranks_per_node = 2, inter = { bandwidth = 0 } }', '', qr/bandwidth more than 0/);
told('no_link', ', topology = { ranks_per_node = 2, outer = {} }', '', qr/outer/);

done_testing();
