#!/usr/bin/perl
# dist.spawn in a job: each process runs its own rank; results and errors are the same in all, only the first one narrates.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use Job;
use Ringside;
use Test::More;

need_gloo();

my $head = <<'LUA';
local rs = require "ringside"
local dist = rs.distributed
local process = "process " .. (os.getenv("RANK") or "-") .. " has "
local function show(...) io.stderr:write(process, table.concat({ ... }, " "), "\n") end
LUA

# What each process has, told on stderr by lessons with --trust; without their own lines.
sub shows {
    my ($count, $text, @words) = @_;
    my @runs = by_hand($count, {}, '--trust', @words, lesson('shows', $head . $text));
    $_->{shown} = join '', map { "$_\n" } $_->{err} =~ /^process \d+ has (.*)/mg for @runs;
    return @runs;
}

# The status of all, and that all have shown the same.
sub all_have {
    my ($name, $runs, $status, $shown) = @_;
    for my $rank (0 .. $#$runs) {
        my $run = $runs->[$rank];
        ok($run->{status} == $status && $run->{shown} eq $shown, "$name, in process $rank")
            or diag("status $run->{status}, has\n$run->{shown}instead of\n$shown$run->{err}");
    }
    return;
}

my @runs = shows(3, <<'LUA');
local told = dist.spawn(function(rank)
  local sum = rs.ones(2) * rank
  dist.all_reduce(sum)
  return { rank = rank, sum = sum, text = ("x"):rep(rank), nested = { rs.none, { true } }, where = os.getenv("RANK") }
end, { world = 3 })
for rank = 0, 2 do
  local r = told[rank]
  show(r.rank, r.sum[1]:item(), r.text, tostring(r.nested[1] == rs.none and r.nested[2][1]), r.where)
end
LUA
all_have('what ranks return', \@runs, 0, "0 3.0  true 0\n1 3.0 x true 1\n2 3.0 xx true 2\n");

@runs = shows(3, <<'LUA');
local told = dist.spawn(function(rank) return rank + 10, "second" end, { world = 2 })
show(told[0][1], told[1][1], told[1][2], tostring(told[2]))
show(tostring(dist.spawn(function() end, { world = 1 })[0]))
show(dist.spawn(function(rank, a, b) return a + b + rank end, { world = 2, args = { 1, 2 } })[1])
LUA
all_have('fewer ranks than processes', \@runs, 0, "10 11 second nil\nnil\n4\n");

@runs = shows(2, <<'LUA');
local ok, why = pcall(dist.spawn, function(rank)
  if rank == 1 then error("boom") end
  dist.barrier()
end, { world = 2 })
show(tostring(ok), why.kind, why.line, (tostring(why):match("[^\n]*boom")))
ok, why = pcall(dist.spawn, function(rank) return rank == 1 and rs.ones(2):view(3) end, { world = 2 })
show(tostring(ok), why.kind, why.line, (why.message:match("^rank 1: ")))
show(dist.spawn(function(rank) return rank end, { world = 2 })[1])
LUA
all_have('a rank\'s error, which the lesson catches', \@runs, 0,
    "false LuaError 6 shows.lua:6: rank 1: boom\nfalse RuntimeError 10 rank 1: \n1\n");

@runs = shows(2, "dist.spawn(function(rank)\n  if rank == 1 then error('boom') end\nend, { world = 2 })\n");
all_have('a rank\'s error, which nobody catches', \@runs, 2, '');
like($runs[0]{err}, qr/\Aringside: \S*shows\.lua:6: rank 1: boom\n\z/, 'the first process tells it');
is($runs[1]{err}, '', 'the others are silent, since it is the same');

@runs = shows(2, "show(1)\nlocal x = nil + 1\n");
all_have('the lesson\'s own error, without ranks', \@runs, 2, "1\n");

@runs = shows(2, "dist.spawn(function() end, { world = 2 })\nshow(1)\nlocal x = nil + 1\n");
all_have('the lesson\'s own error', \@runs, 2, "1\n");
is((join '', map { $_->{err} =~ s/^process.*\n//mgr } @runs) =~ tr/\n//, 1, 'it is told once');

@runs = shows(2, <<'LUA');
local ok, why = pcall(dist.spawn, function(rank)
  if rank == 1 then dist.barrier() end
end, { world = 2 })
show(tostring(ok), why.kind, (tostring(why):match("rank 1 waits in barrier")))
LUA
all_have('a wait in vain', \@runs, 0, "false DeadlockError rank 1 waits in barrier\n");

@runs = shows(2, <<'LUA');
local ok, why = pcall(dist.spawn, function() return print end, { world = 2 })
show(tostring(ok), why.kind, (tostring(why):match("cannot pickle a function")))
LUA
all_have('what cannot travel between processes', \@runs, 0, "false TypeError cannot pickle a function\n");

@runs = shows(2, <<'LUA');
local told = dist.spawn(function(rank)
  rs.check("at most three", rank < 3)
  local x = rs.ones(1)
  dist.all_reduce(x)
  return x:item()
end, { world = 4 })
show(told[0], told[3])
local ok, why = pcall(dist.spawn, function(rank) if rank == 3 then error("late") end end, { world = 4 })
show(tostring(ok), (tostring(why):match("rank 3: late")))
LUA
all_have('more ranks than processes: the first has them as tasks', \@runs, 1, "4.0 4.0\nfalse rank 3: late\n");
like($runs[0]{out}, qr/\[note\] 4 ranks are more than this job's 2 processes: they run as tasks of the first/,
    'it says so');
is($runs[1]{out}, '', 'the other says nothing');

my $few = "dist.spawn(function() end, { world = 2 })\ndist.spawn(function() end, { world = 1 })\n";
@runs = shows(4, $few);
is($runs[0]{out}, "[note] 2 ranks: processes 2 and 3 of this job have no part\n", 'fewer ranks than processes: said once');
is(join('', map { $_->{out} } @runs[1 .. 3]), '', 'by the first');
@runs = shows(2, "dist.spawn(function() end, { world = 1 })\n");
is($runs[0]{out}, "[note] 1 rank: process 1 of this job has no part\n", 'of one');
@runs = shows(4, "dist.spawn(function() end, { world = 1 })\n");
is($runs[0]{out}, "[note] 1 rank: processes 1 to 3 of this job have no part\n", 'of many');

@runs = shows(2, <<'LUA');
local told = dist.spawn(function(rank)
  local before = dist.is_initialized()
  dist.init_process_group("gloo")
  local backend, size = dist.get_backend(), dist.get_world_size()
  dist.destroy_process_group()
  return tostring(before) .. " " .. backend .. " " .. size .. " " .. tostring(dist.is_initialized())
end, { world = 2, init = false })
show(told[1])
LUA
all_have('ranks that meet by themselves', \@runs, 0, "false gloo 2 false\n");

@runs = shows(2, <<'LUA', '--timeout', '2');
if os.getenv("RANK") == "1" then os.exit(0, false) end
dist.spawn(function() end, { world = 2 })
LUA
is($runs[0]{status}, 3, 'a process that never comes fails the others');
like($runs[0]{err}, qr/waited 2 s for rank 1 of this job of 2 processes, which has not come/, 'it is named');

@runs = (launched(2, '--trust', lesson('early', $head . <<'LUA')));
if os.getenv("RANK") == "1" then os.exit(4, false) end
dist.spawn(function() end, { world = 2 })
LUA
is($runs[0]{status}, 4, 'the launcher knows that it has ended');
like($runs[0]{err}, qr/rank 1 .*status 4/, 'and says so') or diag($runs[0]{err});

@runs = shows(3, <<'LUA');
local ok, why = pcall(dist.spawn, function(rank)
  if rank == 1 then os.exit(5, false) end
  dist.barrier()
end, { world = 3 })
show(tostring(ok), (tostring(why):match("rank %d waits in barrier")) or why)
LUA
is($runs[1]{status}, 5, 'a process ends in the middle of a spawn');
is($runs[0]{shown}, $runs[2]{shown}, 'the others have the same of it');
like($runs[0]{shown}, qr/\Afalse .*rank/, 'an error that names ranks') or diag($runs[0]{err});

@runs = shows(2, "dist.spawn(function() end, { world = tonumber(os.getenv('RANK')) + 1 })\n");
isnt($_->{status}, 0, 'processes that go different ways fail') for @runs;
like($runs[0]{err}, qr/go different ways: .*spawns? 1 rank, in process 1 it spawns 2/, 'it is said how');

done_testing;
