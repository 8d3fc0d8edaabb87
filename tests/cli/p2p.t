#!/usr/bin/perl
# Sends and receives that cannot meet, buffers that are changed too early, and what the trace shows of messages: told with
# ranks, tags, groups and lines, in both executors.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my %run = (stepped => [ 'run' ], free => [ 'run', '--executor', 'free', '--timeout', 3 ]);

# A lesson of three lines and then these, so that the first of them is line 4.
sub spawn {
    my ($name, $world, @lines) = @_;
    return lesson($name, join "\n", 'local rs = require "ringside"', 'local dist = rs.distributed',
        'dist.spawn(function(rank)', @lines, "end, { world = $world })", '');
}

# Status 3 and one line, with each of the patterns in it.
sub lost {
    my ($name, $lesson, @patterns) = @_;
    for my $executor (sort keys %run) {
        my $run = ringside(@{ $run{$executor} }, $lesson);
        refused("$name: one line and status 3 in $executor", $run, 3, qr/./);
        like($run->{err}, $_, "$name: $executor says $_") for @patterns;
    }
    return;
}

lost('all send first', spawn('circle', 3, 'dist.send(rs.zeros(2), (rank + 1) % 3)', 'dist.recv(rs.zeros(2))'),
    qr/each waits for the next in send: 0 -> 1 -> 2 -> 0/, qr/crossed sends: ranks 0-2 all send first \(line 4\)/);
lost('two of four wait for each other', spawn('inner', 4,
    'if rank == 0 then dist.recv(rs.zeros(1), 2) elseif rank == 3 then dist.recv(rs.zeros(1), 1)',
    'elseif rank == 1 then dist.recv(rs.zeros(1), 3, nil, 7) else dist.recv(rs.zeros(1), 3) end'),
    qr/rank 1 (?:waits )?in recv from rank 3, rank 3 in recv from rank 1/, qr/recv from rank 3, tag 7/, qr/1 -> 3 -> 1\b/);
lost('another tag in a group', spawn('tag', 3, 'local pair = dist.new_group { 0, 2 }',
    'if rank == 0 then dist.send(rs.zeros(1), 2, pair, 5) elseif rank == 2 then dist.recv(rs.zeros(1), 0, pair, 6) end'),
    qr/rank 0 (?:waits )?in send to rank 2, rank 2 in recv from rank 0/,
    qr/tag: rank 0 sends tag 5 \(line 5\), rank 2 receives tag 6 \(line 5\)/);
lost('from any rank', spawn('any', 2, 'if rank == 1 then dist.recv(rs.zeros(1), { tag = 4 }) end'),
    qr/rank 1 waits in recv .*\(line 4\)/, qr/tag 4/);
lost('a sender whose receiver has ended', spawn('gone', 2, 'local pair = dist.new_group { 0, 1 }',
    'if rank == 0 then dist.isend(rs.zeros(1), 1, pair):wait() end'),
    qr/rank 0 waits in i?send to rank 1 .*\(line 5\)/, qr/rank 1 does not receive what rank 0 sends \(line 5\)/);
lost('two sizes', spawn('sizes', 2, 'if rank == 0 then dist.send(rs.zeros(2), 1)', 'else dist.recv(rs.zeros(3)) end'),
    qr/MismatchError: rank 0 sends float32 \[2\] \(line 4\) where rank 1 receives float32 \[3\] \(line 5\)/);

# ---- what is refused before anything moves ----

my $refused = ringside(@{ $run{stepped} }, '--tap', lesson('refused', <<'END_LESSON'));
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Refused" }
local function kind(...)
  local ok, err = pcall(...)
  return ok and "fine" or err.kind
end
dist.spawn(function(rank)
  local t, other = rs.zeros(2), 1 - rank
  local alone = dist.new_group { 0 }
  local pair = dist.new_group { 0, 1 }
  rs.check("a rank that is not there", kind(dist.send, t, 2) == "ValueError" and kind(dist.irecv, t, -1) == "ValueError"
           and kind(dist.send, t, { group = pair, group_dst = 2 }) == "ValueError")
  rs.check("two peers, or none", kind(dist.send, t, other, { group_dst = other }) == "ValueError"
           and kind(dist.isend, t) == "ValueError" and kind(dist.P2POp, dist.isend, t) == "ValueError")
  rs.check("oneself", kind(dist.recv, t, rank) == "ValueError" and kind(dist.isend, t, rank) == "ValueError")
  rs.check("a negative tag", kind(dist.send, t, other, nil, -1) == "RuntimeError")
  rs.check("a rank that is no member", kind(dist.send, t, 1, alone) == (rank == 0 and "ValueError" or "fine"))
  rs.check("what has gaps", kind(dist.irecv, rs.zeros(3, 3):t(), other) == "RuntimeError")
  local good = dist.P2POp(dist.isend, t, other)
  rs.check("two groups in one batch, of which nothing is sent",
           kind(dist.batch_isend_irecv, { good, dist.P2POp(dist.isend, t, other, pair) }) == "ValueError")
  rs.check("a batch with one tensor that cannot go, of which nothing is sent",
           kind(dist.batch_isend_irecv, { good, dist.P2POp(dist.isend, rs.zeros(2, 2):t(), other) }) == "RuntimeError")
end, { world = 2 })
rs.check("no message travelled", rs.trace:count { kind = "c10d.send" } == 0)
END_LESSON
is($refused->{status}, 0, 'wrong arguments are told before anything moves') or diag($refused->{out}, $refused->{err});

# ---- buffers in use ----

# How often it was told, how often it was warned of, and what the lesson printed.
sub reuse {
    my ($name, $executor, $lesson) = @_;
    my $trace = folder() . "/$name-$executor.trace";
    my $run   = ringside(@{ $run{$executor} }, '--trace', $trace, $lesson);
    is($run->{status}, 0, "$name: status 0 in $executor") or diag($run->{err});
    my $events = ringside('events', $trace, 'fault.buffer_reuse');
    my $told   = () = $events->{out} =~ /fault\.buffer_reuse instant/g;
    my $said   = $run->{out} . $run->{err};
    my $warned = () = $said =~ /\[warning\]/g;
    return ($told, $warned, $events->{out}, $run->{out});
}

my $changed = spawn('changed', 2, 'local t = rs.ones(3)', 'if rank == 0 then', '  local work = dist.isend(t, 1)',
    '  t:fill_(9)', '  t:add_(1)', '  work:wait()', 'else', '  dist.recv(t, 0)', '  print(t[0]:item())', 'end');
for my $executor (sort keys %run) {
    my ($told, $warned, $event, $out) = reuse('changed', $executor, $changed);
    is($told,   1, "$executor: a sent tensor that is changed twice before the wait is told once");
    is($warned, 1, "$executor: and warned of once");
    like($event, qr/ r0 .*storage=\d+ peer=1 line=6 report="rank 0 changed the tensor of its isend to rank 1 \(line 6\)/,
        "$executor: with rank, peer and line");
    like($out, qr/^(?:1|9|10)\.0$/m, "$executor: what arrives is what was there when the message left");
}

# The receiver comes later than the change, so an unbuffered transfer reads the new numbers.
my $late = spawn('late', 2, 'local t = rs.ones(3)', 'if rank == 0 then', '  local work = dist.isend(t, 1)', '  t:fill_(9)',
    '  dist.barrier()', '  work:wait()', 'else', '  dist.barrier()', '  dist.recv(t, 0)', '  print(t[0]:item())', 'end');
for my $executor (sort keys %run) {
    my ($told, $warned, $event, $out) = reuse('late', $executor, $late);
    is("$told $warned", '1 1', "$executor: told once where the change came before the message left");
    like($out, qr/^9\.0$/m, "$executor: then the new numbers arrive");
}

my $filled = spawn('filled', 2, 'local t = rs.ones(3)', 'if rank == 0 then', '  local work = dist.irecv(t, 1)', '  t:zero_()',
    '  work:wait()', 'else', '  dist.send(t, 0)', 'end');
for my $executor (sort keys %run) {
    my ($told, $warned) = reuse('filled', $executor, $filled);
    is("$told $warned", '1 1', "$executor: a tensor that waits for a message and is changed is told once");
}

my $rows = spawn('rows', 3, 'local m, works = rs.zeros(3, 4), {}', 'm[rank]:fill_(rank)', 'for other = 0, 2 do',
    '  if other ~= rank then', '    works[#works + 1] = dist.isend(m[rank], other)',
    '    works[#works + 1] = dist.irecv(m[other], other)', '  end', 'end', 'for _, work in ipairs(works) do work:wait() end',
    'print(m:sum():item())');
for my $executor (sort keys %run) {
    my ($told, $warned, undef, $out) = reuse('rows', $executor, $rows);
    is("$told $warned", '0 0', "$executor: rows of one matrix, each with its own message, are not told");
    is(scalar(() = $out =~ /^12\.0$/mg), 3, "$executor: and all arrive");
}

my $fine = spawn('fine', 2, 'local t = rs.ones(3)', 'if rank == 0 then', '  local work = dist.isend(t, 1)', '  local sum = t:sum()',
    '  work:wait()', '  t:fill_(9)', 'else', '  local work = dist.irecv(t, 0)', '  work:wait()', '  t:fill_(9)', 'end');
for my $executor (sort keys %run) {
    my ($told, $warned) = reuse('fine', $executor, $fine);
    is("$told $warned", '0 0', "$executor: who reads what is sent, and changes it after the wait, hears nothing");
}

# ---- messages in the trace ----

my $ring = lesson('ring', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Ring", costs = { host = 0, kernel = 0 } }
for world = 2, 5 do
  dist.spawn(function(rank)
    local length = 2 * world
    local t, got = rs.arange(length * 1.0) + rank, rs.zeros(2)
    local function chunk(i) return t[{ rs.slice(i % world * 2, i % world * 2 + 2) }] end
    local next, previous = (rank + 1) % world, (rank + world - 1) % world
    dist.barrier()
    for step = 0, world - 2 do
      local work = dist.isend(chunk(rank - step), next)
      dist.recv(got, previous)
      chunk(rank - step - 1):add_(got)
      work:wait()
    end
    for step = 0, world - 2 do
      local work = dist.isend(chunk(rank + 1 - step), next)
      dist.recv(chunk(rank - step), previous)
      work:wait()
    end
    rs.check("the sum of all ranks' " .. world,
             rs.equal(t, rs.arange(length * 1.0) * world + world * (world - 1) / 2))
  end, { world = world })
end
END_LESSON
my $trace = folder() . '/ring.trace';
is(ringside(@{ $run{stepped} }, '--trace', $trace, $ring)->{status}, 0, 'a ring of isend and recv adds up');
my $hops = ringside('events', $trace, 'comm.hop')->{out};
my @begun = $hops =~ /^\d+ comm\.hop begin r0 ([\d.]+) us chunk=0 bytes=8 peer=1 reduce=false/mg;
is(scalar @begun, 2 + 4 + 6 + 8, 'rank 0 takes 2 (N - 1) hops in a ring of N');
my ($at, $wrong) = (0, '');
for my $world (2 .. 5) {
    my $steps = 2 * ($world - 1);
    my $took  = sprintf '%.4f', $begun[ $at + $steps - 1 ] - $begun[$at];
    my $price = sprintf '%.4f', ($steps - 1) * (10 + 8 / 10_000);
    $wrong .= "world $world: $took us instead of $price; " if $took ne $price;
    $at += $steps;
}
is($wrong, '', 'one after the other, each in latency and bytes by bandwidth');
done_testing();
