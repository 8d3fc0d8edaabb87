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
explained('barrier against broadcast', $mixed, qr/rank 0 in barrier #1|rank 0 waits in barrier #1/, qr/rank 1 in broadcast #1|rank 1 waits in broadcast #1/,
    qr/line 7\b/, qr/line 9\b/);

explained('two shapes', spawn('shapes', 2, 'dist.all_reduce(rs.zeros(2 + rank))'), qr/rank 0\b/, qr/rank 1\b/, qr/#0\b/,
    qr/\[2\]/, qr/\[3\]/, qr/line 4\b/);
explained('two dtypes', spawn('dtypes', 2,
    'dist.all_reduce(rs.zeros(2, { dtype = rank == 0 and "float32" or "int64" }))'),
    qr/float32/, qr/int64/, qr/all_reduce/);
explained('two roots', spawn('roots', 2, 'dist.broadcast(rs.zeros(2), rank)'), qr/\broot 0 on rank 0/, qr/\broot 1 on rank 1/);
explained('two reductions', spawn('ops', 2, 'dist.all_reduce(rs.zeros(2), { op = rank == 0 and "sum" or "max" })'),
    qr/sum/, qr/max/);

# Lengths: lists that agree may hold any; those that do not are told.
my $own = 'local n = ({ 2, 5, 4 })[rank + 1]';
explained('a gather of lengths that differ', spawn('lengths', 3, $own, 'dist.all_gather({}, rs.ones(n))'),
    qr/shape: all_gather #0 .*\[[25]\] on rank [01]/, qr/\[[54]\] on rank [12]/, qr/line 5\b/);
explained('two lists of lengths', spawn('lists', 2, 'local l = { rs.zeros(2), rs.zeros(3 + rank) }',
    'dist.all_gather(l, rs.ones(rank == 0 and 2 or 4))'), qr/rank 0's list has 3 elements for rank 1, whose\s+tensor has 4/, qr/line 5\b/);
explained('a list against one tensor', spawn('single', 2, 'local t = rs.zeros(2)',
    'if rank == 0 then dist.reduce_scatter(t, { t:clone(), t:clone() })', 'else dist.reduce_scatter_tensor(t, rs.zeros(4)) end'),
    qr/reduce_scatter/, qr/in one tensor/, qr/line 5\b/, qr/line 6\b/);
explained('splits that do not meet', spawn('splits', 3, 'local to = rank == 0 and { 2, 1, 1 } or { 1, 1, 1 }',
    'local sum = rank == 0 and 4 or 3', 'dist.all_to_all_single(rs.zeros(4), rs.ones(sum), { 2, 1, 1 }, to)'),
    qr/rank \d sent \d+ bytes where rank \d expects \d+/);
for my $way ([ stepped => @stepped ], [ free => @free ]) {
    my ($executor, @words) = @$way;
    my $run = ringside(@words, spawn('monitored', 4,
        'if rank % 2 == 0 then dist.monitored_barrier { timeout = 2, wait_all_ranks = true } end'));
    like($run->{err}, qr/ranks 1, 3 failed to pass monitored_barrier/, "$executor: monitored_barrier names all that are missing");
    $run = ringside(@words, spawn('monitored', 4, 'if rank ~= 2 then dist.monitored_barrier() end'));
    like($run->{err}, qr/rank 2 failed to pass monitored_barrier/, "$executor: or the first");
}

# What one rank can see alone is refused before it counts as a call: the others meet it at its next one.
my $local = ringside(@stepped, '--tap', lesson('refused', <<'END_LESSON'));
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Refused", prefix = "" }
local function kind_of(f, ...)
  local ok, err = pcall(f, ...)
  return ok and "nothing" or err.kind
end
dist.spawn(function(rank)
  local t, two = rs.zeros(2), { rs.zeros(2), rs.zeros(2) }
  local rows = {
    { "a root that is not there", "RuntimeError", dist.broadcast, t, 7 },
    { "no root", "ValueError", dist.broadcast, t },
    { "two roots", "ValueError", dist.broadcast, t, { src = 0, group_src = 0 } },
    { "no root of a reduce", "ValueError", dist.reduce, t },
    { "a short list", "RuntimeError", dist.all_gather, { t }, t },
    { "outputs of another shape", "RuntimeError", dist.all_gather, { rs.zeros(3), rs.zeros(3) }, t },
    { "outputs of another dtype", "ValueError", dist.all_gather, { rs.zeros({ 2 }, { dtype = "int64" }), t }, t },
    { "a list that is none", "TypeError", dist.all_gather, 3, t },
    { "a gather without a list", "ValueError", dist.gather, t, { dst = rank } },
    { "a gather with one elsewhere", "ValueError", dist.gather, t, two, 1 - rank },
    { "a scatter without a list", "ValueError", dist.scatter, t, { src = rank } },
    { "a scatter with one elsewhere", "ValueError", dist.scatter, t, two, 1 - rank },
    { "a scatter of another shape", "RuntimeError", dist.scatter, rs.zeros(3), two, rank },
    { "a short reduce_scatter", "RuntimeError", dist.reduce_scatter, t, { t } },
    { "a reduce_scatter of another shape", "RuntimeError", dist.reduce_scatter, rs.zeros(3), two },
    { "a tensor that is too long", "RuntimeError", dist.reduce_scatter_tensor, t, rs.zeros(5) },
    { "a gather into one too short", "RuntimeError", dist.all_gather_into_tensor, rs.zeros(3), t },
    { "a short all_to_all", "RuntimeError", dist.all_to_all, { t }, { t } },
    { "what does not divide", "RuntimeError", dist.all_to_all_single, rs.zeros(3), rs.zeros(3) },
    { "splits that are too few", "RuntimeError", dist.all_to_all_single, t, t, { 2 }, { 2 } },
    { "splits that are too many rows", "RuntimeError", dist.all_to_all_single, t, t, { 1, 1 }, { 1, 2 } },
    { "several dtypes at once", "ValueError", dist.all_reduce_coalesced, { t, rs.zeros({ 2 }, { dtype = "int64" }) } },
    { "an empty list", "NotImplementedError", dist.all_reduce_coalesced, {} },
    { "a mean of integers", "RuntimeError", dist.all_reduce, rs.tensor { 1, 2 }, "avg" },
    { "bits of fractions", "RuntimeError", dist.all_reduce, t, "bxor" },
    { "PREMUL_SUM without a factor", "RuntimeError", dist.all_reduce, t, dist.ReduceOp.PREMUL_SUM },
    { "an unknown operation", "ValueError", dist.all_reduce, t, "norm" },
    { "an unknown option", "TypeError", dist.all_reduce, t, { foo = 1 } },
    { "another way through a coalescing manager", "ValueError", dist._coalescing_manager, function()
      dist.all_reduce(t)
      dist.all_reduce(t, "max")
    end },
  }
  for _, row in ipairs(rows) do
    local got = kind_of(table.unpack(row, 3))
    if got ~= row[2] then print("# " .. got) end
    rs.check(row[1] .. ": " .. row[2], got == row[2])
  end
  dist.all_reduce(t:fill_(1))
  rs.check("and nothing was lost", t:sum():item() == 4)
end, { world = 2 })
END_LESSON
is($local->{status}, 0, 'what a rank can see alone is refused there') or diag($local->{out}, $local->{err});

explained('a rank that returns early', spawn('early', 3, 'if rank == 2 then return end',
    'dist.all_reduce(rs.zeros(4))'),
    qr/ranks? [01]\b.* in all_reduce #0.* for ranks? .*2/, qr/ended early: rank 2 returned/);
explained('one rank that calls once more', spawn('more', 2, 'dist.barrier()', 'if rank == 1 then dist.barrier() end'),
    qr/rank 1\b/, qr/barrier/, qr/#1\b/, qr/line 5\b/);

my $cycle = spawn('cycle', 3, 'local t = rs.zeros(2)', 'dist.send(t, (rank + 1) % 3)', 'dist.recv(t, (rank + 2) % 3)');
explained('three sends', $cycle, qr/each waits for the next in send: 0 -> 1 -> 2 -> 0/, qr/crossed sends: ranks 0-2 all send first \(line 5\)/);

my $nobody = ringside(@stepped, spawn('nobody', 2, 'if rank == 0 then dist.recv(rs.zeros(2), 1) end'));
refused('a recv that nobody sends to ends with status 3', $nobody, 3, qr/recv/);
like($nobody->{err}, qr/rank 0\b/, 'it names who waits');
like($nobody->{err}, qr/rank 1\b/, 'and for whom');
refused('in free too', ringside(@free, folder() . '/nobody.lua'), 3, qr/recv/);

my $key = spawn('key', 2, 'if rank == 0 then dist.store:get("never") end');
my $store = ringside(@stepped, $key);
refused('a key that nobody sets ends with status 3', $store, 3, qr/never/) or diag("\n", slurp($key));

# A rank that fails while the others wait for it: its own error is told first, then who waits for it.
for my $way ([ stepped => @stepped ], [ free => @free ]) {
    my ($executor, @words) = @$way;
    my $run = ringside(@words, spawn('fails', 3, 'if rank == 1 then error("I give up") end',
        'dist.all_reduce(rs.zeros(2))'));
    is($run->{signal}, 0, "$executor: a rank that fails while others wait crashes nobody");
    like($run->{err}, qr/\Aringside: [^\n]*rank 1\b[^\n]*I give up\n  [^\n]*all_reduce #0(?: \(line 5\))? for ranks? [^\n]*\b1\b/,
        "$executor: it names the rank and its error");
    like($run->{err}, qr/fails\.lua:4\b/, "$executor: and the line");
    is($run->{status}, 3, "$executor: with the status of a run that failed");
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
# ---- tensors that share elements ----

my $shared = spawn('shared', 3, 'local t, list, same = rs.zeros(5), {}, rs.zeros(3)',
    'for i = 0, 2 do list[i + 1] = t[{ rs.slice(i, i + 3) }] end', 'dist.all_gather(list, rs.full({ 3 }, rank + 1.0))',
    'assert(rs.equal(t, rs.tensor { 1.0, 2, 3, 3, 3 }), tostring(t))',
    'dist.all_gather({ same, same, same }, rs.full({ 3 }, rank + 1.0))', 'assert(same:sum():item() == 9)',
    'local own = rs.arange(6.0) + 100 * rank', 'dist.all_to_all_single(own, own)',
    'assert(own:sum():item() == 603 + 12 * rank, tostring(own))');
for my $way ([ stepped => @stepped ], [ free => @free ]) {
    my ($executor, @words) = @$way;
    my $run = ringside(@words, $shared);
    is($run->{status}, 0, "$executor: the last output stays, and what is sent is read before it changes") or diag($run->{err});
}

# What a lesson has caught is over once its ranks call again: the next hang has a report of its own.
my $twice = spawn('caught', 2, 'pcall(dist.recv, rs.zeros(1), 1 - rank, { tag = 7 })',
    'dist.barrier()', 'if rank == 0 then dist.all_reduce(rs.ones(4)) else dist.broadcast(rs.ones(1), 0) end');
for my $way ([ stepped => @stepped ], [ free => 'run', '--executor', 'free', '--timeout', 1 ]) {
    my ($executor, @words) = @$way;
    my $run = ringside(@words, $twice);
    refused("$executor: two hangs, one of them caught", $run, 3, qr/rank 0 in all_reduce #1|rank 1 in broadcast #1/);
    unlike($run->{err}, qr/crossed sends/, "$executor: nothing is said of the one that was caught");
}

# Numbers of groups and calls begin again with each init_process_group.
my $again = spawn('again', 2, 'for _ = 1, 3 do dist.all_reduce(rs.ones(2)) end', 'dist.destroy_process_group()',
    'dist.init_process_group("local")', 'dist.all_reduce(rs.ones(1))',
    'if rank == 0 then dist.broadcast(rs.ones(4), 0) end', 'dist.barrier()');
my $second = ringside(@stepped, $again);
refused('a second init_process_group: its own calls are compared', $second, 3, qr/left out broadcast #1 \(line 8\)/);

# One throws, and the others go on for longer than anybody has to wait: the run says why it was stopped.
my $straggler = ringside('run', '--executor', 'free', '--timeout', 1, spawn('straggler', 2, 'dist.barrier()',
    'if rank == 0 then error("boom") end', 'rs.sleep(4e6)'));
refused('free: a rank that throws is named where another does not end', $straggler, 3, qr/rank 0: boom/);
done_testing();
