#!/usr/bin/perl
# Ranks that do not agree, or that wait for one who never comes: known at once, told in one paragraph, status 3. In the
# free executor too, where the clock is the wall's and --timeout bounds what nobody can know.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my @stepped = ('run');
my @free    = ('run', '--executor', 'free', '--timeout', 5);

# A lesson of three lines and then these, so that the first of them is line 4.
sub spawn {
    my ($name, $world, @lines) = @_;
    return lesson($name, join "\n", 'local rs = require "ringside"', 'local dist = rs.distributed',
        'dist.spawn(function(rank)', @lines, "end, { world = $world })", '');
}

# Both executors: status 3, one line, each of the patterns in it.
sub explained {
    my ($name, $lesson, @patterns) = @_;
    for my $way ([ stepped => @stepped ], [ free => @free ]) {
        my ($executor, @words) = @$way;
        my $run = ringside(@words, $lesson);
        refused("$name: one line and status 3 in $executor", $run, 3, qr/./);
        like($run->{err}, $_, "$name: $executor says $_") for @patterns;
    }
    my $once  = ringside(@stepped, $lesson)->{err};
    my $again = ringside(@stepped, $lesson)->{err};
    is($again, $once, "$name: stepped says it in the same words every time");
}

my $mixed = spawn('mixed', 2, 'local t = rs.zeros(2)', 'dist.all_reduce(t)', 'if rank == 0 then', '  dist.barrier()',
    'else', '  dist.broadcast(t, 0)', 'end');
explained('barrier against broadcast', $mixed, qr/rank 0 calls barrier/, qr/rank 1 calls broadcast/, qr/#1\b/,
    qr/line 7\b/, qr/line 9\b/);

explained('two shapes', spawn('shapes', 2, 'dist.all_reduce(rs.zeros(2 + rank))'), qr/rank 0\b/, qr/rank 1\b/, qr/#0\b/,
    qr/\[2\]/, qr/\[3\]/, qr/line 4\b/);
explained('two dtypes', spawn('dtypes', 2,
    'dist.all_reduce(rs.zeros(2, { dtype = rank == 0 and "float32" or "int64" }))'),
    qr/float32/, qr/int64/, qr/allreduce/);
explained('two roots', spawn('roots', 2, 'dist.broadcast(rs.zeros(2), rank)'), qr/from rank 0/, qr/from rank 1/);
explained('two reductions', spawn('ops', 2, 'dist.all_reduce(rs.zeros(2), { op = rank == 0 and "sum" or "max" })'),
    qr/sum/, qr/max/);

explained('a rank that returns early', spawn('early', 3, 'if rank == 2 then return end',
    'dist.all_reduce(rs.zeros(4))'),
    qr/\brank 0\b|\brank 1\b/, qr/allreduce/, qr/#0\b/, qr/rank 2\b/, qr/line 5\b/);
explained('one rank that calls once more', spawn('more', 2, 'dist.barrier()', 'if rank == 1 then dist.barrier() end'),
    qr/rank 1\b/, qr/barrier/, qr/#1\b/, qr/line 5\b/);

my $cycle = spawn('cycle', 3, 'local t = rs.zeros(2)', 'dist.send(t, (rank + 1) % 3)', 'dist.recv(t, (rank + 2) % 3)');
explained('three sends', $cycle, qr/send/, qr/line 5\b/);
my $told = ringside(@stepped, $cycle)->{err};
like($told, qr/rank $_ waits in send[^;]* for rank @{[ ($_ + 1) % 3 ]}\b/, "three sends: the cycle is told, rank $_")
    for 0 .. 2;

my $nobody = ringside(@stepped, spawn('nobody', 2, 'if rank == 0 then dist.recv(rs.zeros(2), 1) end'));
refused('a recv that nobody sends to ends with status 3', $nobody, 3, qr/recv/);
like($nobody->{err}, qr/rank 0\b/, 'it names who waits');
like($nobody->{err}, qr/rank 1\b/, 'and for whom');
refused('in free too', ringside(@free, folder() . '/nobody.lua'), 3, qr/recv/);

my $key = spawn('key', 2, 'if rank == 0 then dist.store:get("never") end');
my $store = ringside(@stepped, $key);
refused('a key that nobody sets ends with status 3', $store, 3, qr/never/) or diag("\n", slurp($key));

# A rank that fails while the others wait for it: its own error is told, not that the others wait.
for my $way ([ stepped => @stepped ], [ free => @free ]) {
    my ($executor, @words) = @$way;
    my $run = ringside(@words, spawn('fails', 3, 'if rank == 1 then error("I give up") end',
        'dist.all_reduce(rs.zeros(2))'));
    is($run->{signal}, 0, "$executor: a rank that fails while others wait crashes nobody");
    like($run->{err}, qr/\Aringside: [^\n]*rank 1\b[^\n]*I give up[^\n]*\n\z/,
        "$executor: it names the rank and its error");
    like($run->{err}, qr/fails\.lua:4\b/, "$executor: and the line");
    isnt($run->{status}, 0, "$executor: with a status other than 0");
}

# What was wrong stays in the trace, where the viewer and events find it.
for my $case ([ mixed => 'fault.mismatch' ], [ cycle => 'fault.deadlock' ]) {
    my ($name, $kind) = @$case;
    my $trace = folder() . "/$name.trace";
    ringside(@stepped, '--trace', $trace, folder() . "/$name.lua");
    my $events = ringside('events', $trace, $kind);
    is($events->{status}, 0, "$name: the trace can be read");
    like($events->{out}, qr/^\d+ \Q$kind\E instant [^\n]*report="[^\n]*rank 0[^\n]*"/m,
        "$name: $kind is an event that says it");
}

# A lesson may catch it and go on.
my $caught = ringside(@stepped, '--tap', lesson('caught', <<'END_LESSON'));
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Caught" }
local ok, err = pcall(dist.spawn, function(rank)
  if rank == 0 then dist.barrier() else dist.all_reduce(rs.zeros(1)) end
end, { world = 2 })
rs.check("the spawn fails", not ok)
rs.check("its error has a message", type(err) == "table" and err.message:find("barrier", 1, true) ~= nil)
local sums = dist.spawn(function(rank)
  local t = rs.ones(1)
  dist.all_reduce(t)
  return t:item()
end, { world = 3 })
rs.close("another spawn works", sums[2], 3)
END_LESSON
is($caught->{status}, 0, 'a lesson may catch a mismatch and go on') or diag($caught->{out}, $caught->{err});
done_testing();
