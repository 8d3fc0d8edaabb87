#!/usr/bin/perl
# Missing waits: between an asynchronous call and the wait for it nobody reads or changes what it changes. Each way of
# reading, beside each operation, on the CPU and on devices, in both executors, is told with rank, operation, number and
# both lines, status 3; with the wait the same programs say nothing.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my %executor = (stepped => [ 'run' ], free => [ 'run', '--executor', 'free', '--timeout', 20 ]);

# What gives the reader a tensor `x` and a work `w`: the name in the message, the reader's rank, what comes before and,
# on line 6, the call. The group has had two collectives: this is number 2.
my @operations = (
    [ 'all_reduce', 0, 'local x = rs.ones(4, on)', 'local w = dist.all_reduce(x, later)' ],
    [ 'all_reduce', 1, 'local x = rs.ones({ 4, 2 }, on):t()[0]', 'local w = dist.all_reduce(x, later)' ],
    [ 'broadcast', 1, 'local x = rs.ones(4, on)', 'local w = dist.broadcast(x, 0, later)' ],
    [ 'reduce', 0, 'local x = rs.ones(4, on)', 'local w = dist.reduce(x, 0, later)' ],
    [ 'all_gather', 1, 'local l = { rs.zeros(4, on), rs.zeros(4, on) } local x = l[1]',
        'local w = dist.all_gather(l, rs.ones(4, on), later)' ],
    [ 'all_gather', 0, 'local x = rs.zeros(8, on)',
        'local w = dist.all_gather_into_tensor(x, rs.ones(4, on), later)' ],
    [ 'gather', 0, 'local l = rank == 0 and { rs.zeros(4, on), rs.zeros(4, on) } or nil local x = l and l[2]',
        'local w = dist.gather(rs.ones(4, on), l, 0, later)' ],
    [ 'scatter', 1, 'local l = rank == 0 and { rs.zeros(4, on), rs.zeros(4, on) } or nil local x = rs.ones(4, on)',
        'local w = dist.scatter(x, l, 0, later)' ],
    [ 'reduce_scatter', 0, 'local x = rs.zeros(4, on)',
        'local w = dist.reduce_scatter(x, { rs.ones(4, on), rs.ones(4, on) }, later)' ],
    [ 'reduce_scatter', 1, 'local x = rs.zeros(4, on)', 'local w = dist.reduce_scatter_tensor(x, rs.ones(8, on), later)' ],
    [ 'all_to_all', 1, 'local l = { rs.zeros(4, on), rs.zeros(4, on) } local x = l[1]',
        'local w = dist.all_to_all(l, { rs.ones(4, on), rs.ones(4, on) }, later)' ],
    [ 'all_to_all', 0, 'local x = rs.zeros(4, on)', 'local w = dist.all_to_all_single(x, rs.ones(4, on), later)' ],
    [ 'all_reduce', 0, 'local x = rs.ones(4, on)', 'local w = dist.all_reduce_coalesced({ rs.ones(2, on), x }, later)' ],
    [ 'irecv', 1, 'local x = rs.ones(4, on)',
        'local w = rank == 0 and dist.isend(rs.ones(4, on), 1) or dist.irecv(x, 0)' ],
);

# All ways to elements; each on a line of its own, from line 8 on. `w` marks those that only write.
my @reads = (
    'print(x)', 'tostring(x)', 'x:tolist()', 'x[1]:item()', 'x:sum():item()', 'x:eq(x)', 'x:clone()', 'local y = x + 1',
    'rs.equal(x, x)', 'rs.allclose(x, x)', 'rs.close("x", x, { 1, 1, 1, 1 })', 'x:to("cpu"):tolist()',
    'x:to("device:1")', 'x:double()', 'rs.zeros(#x:tolist(), on):copy_(x)', 'if x:sum():item() > 0 then end',
    'rs.cuda.stream(rs.cuda.Stream("device:0"), function() return x * 2 end)', 'dist.all_reduce(x, { group = pair })',
    'dist.isend(x, 1 - rank)', 'rs.save(x, file)', 'dist.broadcast_object_list({ x }, rank)',
    'rs.tensor(x)', 'rs.cat({ x, x })', 'x[x:gt(0)]', 'local c = rs.copy.deepcopy({ x })',
);
