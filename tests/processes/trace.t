#!/usr/bin/perl
# rs.trace in a job: the first process reads the traces of all as one and answers for all.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use Job;
use Ringside;
use Test::More;

need_gloo();

my $asks = lesson('asks', <<'LUA');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "What all did", devices = 2 }
local function work(rank)
  local x = rs.ones(4)
  dist.all_reduce(x)
  rs.say("done")
  return rs.trace:count { kind = "c10d.allreduce", rank = rank }
end
local function show(...)
  local words = table.pack(...)
  for i = 1, words.n do words[i] = tostring(words[i]) end
  io.stderr:write("has ", table.concat(words, " "), "\n")
end
local made = rs.trace:seq()
rs.say "before"
for round = 1, 3 do
  local own = dist.spawn(work, { world = 2 })
  local here = rs.trace:seq()
  show(round, own[0], own[1], rs.trace:count { kind = "c10d.allreduce" }, rs.trace:count("c10d.allreduce and seq >= " .. made),
    rs.trace:count { kind = "lesson.say", rank = 1 }, rs.trace:count { kind = "lesson.say" },
    rs.trace:sum { kind = "c10d.allreduce", rank = 1 }, here > made)
  made = here
end
local sends = rs.trace:events { kind = "c10d.allreduce", rank = 1 }
show(#sends, sends[3].seq > sends[1].seq, sends[3].args.bytes, sends[3].place.lesson_line)
show(rs.trace:order { { kind = "c10d.allreduce", rank = 0 }, { kind = "lesson.say", rank = 0 } })
show(rs.trace:duration { kind = "c10d.allreduce", rank = 1 } > 0, rs.trace:first { kind = "dp.scatter" }, rs.trace:last { kind = "lesson.say" }.rank ~= nil)
show(rs.trace:memory("device:1").allocated >= 0)
show(pcall(function() return rs.trace:count { kind = "no such kind!" } end))
LUA
sub has { return join '', grep { /^has / } split /^/m, $_[0] }

my $tasks = ringside('run', '--executor', 'free', '--trust', $asks);
is($tasks->{status}, 0, 'tasks') or diag($tasks->{err});
my @runs = by_hand(2, {}, '--trust', $asks);
is(has($runs[$_]{err}), has($tasks->{err}), "process $_ of two has what tasks have") for 0, 1;
@runs = by_hand(4, {}, '--trust', $asks);
is(has($runs[$_]{err}), has($tasks->{err}), "process $_ of four has what tasks have") for 0 .. 3;
is($_->{status}, 0, 'and ends well') or diag($_->{err}) for @runs;

my $ranks = lesson('ranks', <<'LUA');
local rs = require "ringside"
local dist = rs.distributed
dist.init_process_group()
dist.all_reduce(rs.ones(4))
dist.barrier()
if dist.get_rank() == 0 then
  local of = {}
  for _, event in ipairs(rs.trace:events { kind = "c10d.allreduce" }) do of[#of + 1] = event.rank end
  table.sort(of)
  print(table.concat(of, " "))
else
  print(rs.trace:count { kind = "c10d.allreduce" })
end
dist.barrier()
LUA
@runs = by_hand(3, {}, $ranks);
is($runs[0]{out}, "0 1 2\n", 'the first of ranks as under torchrun sees all') or diag($runs[0]{err});
is($runs[2]{out}, "rank 2: 1\n", 'others see themselves') or diag($runs[2]{err});

my $folder = folder() . '/traces';
mkdir $folder;
@runs = by_hand(2, {}, '--trace', $folder, $ranks);
ok(-s "$folder/rank0.trace" && -s "$folder/rank1.trace", 'each process keeps its trace in a folder that is named');
ok(!glob("$ENV{TMPDIR}/ringside*/run-trace"), 'and none elsewhere') if $ENV{TMPDIR};
done_testing;
