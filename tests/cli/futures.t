#!/usr/bin/perl
# All-reduces and comm hooks that a lesson writes (own_all_reduce.lua) in both executors; their traces; timeouts.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $lesson = 'tests/cli/own_all_reduce.lua';
for my $executor (qw(stepped free)) {
    my $run   = ringside('run', '--tap', '--executor', $executor, $lesson);
    my @wrong = $run->{out} =~ /^(not ok .*)$/mg;
    is($run->{status}, 0, "$executor: it ends well") or diag($run->{err});
    is(join("\n", @wrong), '', "$executor: every check holds");
    like($run->{out}, qr/^1\.\.[1-9]\d+$/m, "$executor: all of them were made");
}

# ---- what a trace shows ----

sub spawn { return lesson($_[0], join "\n", 'local rs = require "ringside"', 'local dist, futures = rs.distributed, rs.futures',
        'dist.spawn(function(rank)', @_[ 2 .. $#_ ], "end, { world = $_[1] })", '') }

my $chain = spawn('chain', 2, 'local fut = dist.all_reduce(rs.ones(3), { async_op = true }):get_future()',
    'local last = fut:then_(function(f) return f:value()[1] * 2 end)', 'last:wait()');
my $trace = folder() . '/chain.trace';
is(ringside('run', '--trace', $trace, $chain)->{status}, 0, 'a chain runs');
my $events = ringside('events', $trace)->{out};
like($events, qr/task\.start .*name="r0 futures".*\n(?:.*\n)*?.*c10d\.future\.then begin r0 .*future=0/,
    'a callback of a work is seen, on a task of its own');
like($events, qr/c10d\.future\.wait begin r1 .*future=1/, 'and who waits for what it makes');
is(ringside('events', '--hash', $trace)->{out}, do {
        ringside('run', '--trace', "$trace.2", $chain);
        ringside('events', '--hash', "$trace.2")->{out};
    }, 'in stepped each run is the same');

my $own = spawn('own', 3, 'dist.register_algorithm("line", function(t, op)',
    '  local r, got = dist.get_rank(), rs.empty_like(t)',
    '  if r > 0 then dist.recv(got, r - 1) t:add_(got) end',
    '  if r < 2 then dist.send(t, r + 1) dist.recv(t, r + 1) end',
    '  if r > 0 then dist.send(t, r - 1) end',
    'end)', 'dist.all_reduce(rs.ones(2), { algorithm = "line" })');
is(ringside('run', '--trace', $trace, $own)->{status}, 0, 'an algorithm of sends and receives runs');
$events = ringside('events', $trace)->{out};
like($events, qr/c10d\.allreduce begin r1 .*\n(?:.*\n)*?.*c10d\.recv begin r1 .*tag=-1\b(?:.*\n)*?.*c10d\.allreduce end r1 /,
    'it runs inside of the collective, with tags that are no tags of the rank');

# ---- who waits in vain ----

my $late = ringside('run', '--executor', 'free', spawn('late', 2, 'if rank == 0 then',
    '  local work = dist.all_reduce(rs.ones(3), { async_op = true })',
    '  local ok, e = pcall(work.wait, work, 0.2)', '  assert(not ok and e.kind == "TimeoutError", tostring(e))',
    '  assert(not work:is_completed())', '  dist.store:set("go", "1")', '  work:wait()', 'else', '  dist.store:get("go")',
    '  dist.all_reduce(rs.ones(3))', 'end'));
is($late->{status}, 0, 'free: a wait of two tenths of a second ends, the work goes on') or diag($late->{err});
refused('a future that nobody completes is a deadlock', ringside('run', spawn('vain', 2, 'futures.Future():wait()')), 3,
    qr/waits in a future/);
my $mutual = spawn('mutual', 2, 'dist.register_algorithm("deaf", function(t) dist.recv(t, 1 - rank) end)',
    'dist.all_reduce(rs.ones(1), { algorithm = "deaf" })');
refused('an algorithm whose ranks all receive is one, too', ringside('run', $mutual), 3, qr/rank 0.*recv/s);

# ---- the end of a group ----

my $swap = q{dist.register_algorithm("swap", function(t, op, group) local got, peer = rs.empty_like(t), 1 - dist.get_rank()
  for i = 1, 9 do local w = dist.isend(t:clone(), peer, { group = group }) dist.recv(got, peer, { group = group }) w:wait() end
  t:add_(got) end)};
for my $executor (qw(stepped free)) {
    my $end = ringside('run', '--executor', $executor, spawn('end', 2, $swap, 'local t = rs.full({ 3 }, rank + 1.0)',
        'local work = dist.all_reduce(t, { async_op = true, algorithm = "swap" })', 'dist.destroy_process_group()',
        'work:wait()', 'assert(t[{ 0 }]:item() == 3)', 'assert(not dist.is_initialized())'));
    is($end->{status}, 0, "$executor: an algorithm under way ends well before its group does") or diag($end->{err});
    refused("$executor: an algorithm cannot destroy its own group", ringside('run', '--executor', $executor,
            spawn('inside', 2, 'dist.register_algorithm("last", function() dist.destroy_process_group() end)',
            'dist.all_reduce(rs.ones(1), { algorithm = "last" })')), 2, qr/would wait for itself/);
}
done_testing();
