#!/usr/bin/perl
# Who speaks in a job: the first process for the lesson, each for its own ranks; checks are gathered and numbered once.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use Job;
use Ringside;
use Test::More;

need_gloo();

my $spawns = lesson('spawns', <<'LUA');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Who speaks" }
rs.say "The lesson says."
print("The lesson prints.")
local answer = rs.ask { "How many?", choices = { "2", "3" }, answer = "2" }
rs.check("the answer comes in all processes", answer == "2")
dist.spawn(function(rank)
  rs.say("said")
  print("printed by " .. rank)
  rs.check("a check of a rank", true)
  rs.check("one that only rank 0 holds", rank == 0)
  rs.skip("one that is not made", "no reason")
end, { world = 2 })
rs.hint("A hint.")
rs.check("the last", true)
LUA

my @runs = by_hand(3, {}, $spawns);
is($runs[0]{out}, <<'END', 'the first process speaks for the lesson and for rank 0');
The lesson says.
The lesson prints.
? How many?  a) 2   b) 3
  -> 2
ok 1 - spawns/the answer comes in all processes
[note] 2 ranks: process 2 of this job has no part
r0: said
printed by 0
ok 2 - spawns/r0: a check of a rank
ok 3 - spawns/r0: one that only rank 0 holds
ok 4 - spawns/r0: one that is not made # SKIP no reason
ok 5 - spawns/r1: a check of a rank
not ok 6 - spawns/r1: one that only rank 0 holds
#   line 12 of the lesson
ok 7 - spawns/r1: one that is not made # SKIP no reason
[hint] A hint.
ok 8 - spawns/the last
1 of 8 checks failed
END
is($runs[1]{out}, "r1: said\nprinted by 1\n", 'the second for rank 1');
is($runs[2]{out}, '', 'the third has no rank and says nothing');
is(join(' ', map { $_->{status} } @runs), '1 1 1', 'a check that fails anywhere fails all of them');
is(join('', map { $_->{err} } @runs), '', 'nobody warns of anything');

my $tap = ringside({}, 'run', '--executor', 'free', '--tap', $spawns);
my @tap = by_hand(2, {}, '--tap', $spawns);
is((join "\n", grep { !/^#/ } split /\n/, $tap[0]{out}), (join "\n", grep { !/^#/ } split /\n/, $tap->{out}),
    'the TAP of a job is that of one process');
unlike($tap[1]{out}, qr/^(?!#)/m, 'the other processes add comments alone');

my $ranks = lesson('ranks', <<'LUA');
local rs = require "ringside"
local dist = rs.distributed
rs.say "Before."
rs.check("before there are ranks", true)
dist.init_process_group()
local rank = dist.get_rank()
rs.say("Said by " .. rank)
rs.ask { "Who?", answer = "all" }
print("two\nlines of " .. rank)
rs.check("there are three", dist.get_world_size() == 3)
if rank > 0 then rs.check("not the first", true) end
rs.check("not the last", rank < 2)
LUA
@runs = by_hand(3, {}, '--tap', $ranks);
is($runs[0]{out}, <<'END', 'ranks as under torchrun: the first says, asks, and numbers the checks of all');
# Before.
ok 1 - ranks/before there are ranks
# Said by 0
# ? Who?
#   -> all
# two
# lines of 0
ok 2 - ranks/there are three
ok 3 - ranks/not the last
ok 4 - ranks/r1: there are three
ok 5 - ranks/r1: not the first
ok 6 - ranks/r1: not the last
ok 7 - ranks/r2: there are three
ok 8 - ranks/r2: not the first
not ok 9 - ranks/r2: not the last
#   line 12 of the lesson
1..9
END
is($runs[$_]{out}, "# rank $_: two\n# rank $_: lines of $_\n", "rank $_ prints, behind its name") for 1, 2;
is(join(' ', map { $_->{status} } @runs), '1 0 1', 'who fails a check, and the first, end with 1');

@runs = by_hand(2, {}, lesson('fails', <<'LUA'));
local rs = require "ringside"
local dist = rs.distributed
dist.init_process_group()
rs.check("before it", true)
if dist.get_rank() == 1 then error("boom") end
LUA
like($runs[1]{err}, qr/\Aringside: \S*fails\.lua:5: rank 1: (?:fails\.lua:5: )?boom\n\z/, 'a rank that fails names itself');
is($runs[1]{status}, 2, 'with the status of its error');
like($runs[0]{out}, qr/\Aok 1 - fails\/before it\nok 2 - fails\/r1: before it\n/, 'what it had checked is not lost');

my $run = launched(2, '--tap', $spawns);
is((join "\n", grep { /^(?:ok|not ok|1\.\.)/ } split /\n/, $run->{out}),
    (join "\n", grep { /^(?:ok|not ok|1\.\.)/ } split /\n/, $tap->{out}), 'under the launcher, too');
is($run->{status}, 1, 'with the status of its checks');

# What the others print before it is known whether the script is a rank.
my $early = lesson('early', <<'LUA');
local rs = require "ringside"
local dist = rs.distributed
print("early\nlines")
rs.say "Said."
dist.init_process_group()
print("later")
LUA
@runs = by_hand(2, {}, $early);
is($runs[0]{out}, "early\nlines\nSaid.\nlater\n", 'the first prints at once');
is($runs[1]{out}, "rank 1: early\nrank 1: lines\nrank 1: later\n", 'the others when they are ranks');
@runs = by_hand(2, {}, lesson('never', qq(print("a", 1)\nprint("")\nprint("b"))));
is($runs[1]{out}, "rank 1: a\t1\nrank 1: \nrank 1: b\n", 'or at the end of a program that never becomes one');
@runs = by_hand(2, {}, lesson('dies', qq(print("a")\nerror("boom"))));
is($runs[1]{out}, "rank 1: a\n", 'or that fails');
@runs = by_hand(2, {}, lesson('both', <<'LUA'));
local dist = require "ringside".distributed
print("for the lesson")
dist.spawn(function() end, { world = 2 })
print("for the lesson, too")
dist.init_process_group()
print("a rank")
LUA
is($runs[0]{out}, "for the lesson\nfor the lesson, too\na rank\n", 'the first speaks for a lesson that spawns');
is($runs[1]{out}, "rank 1: a rank\n", 'the others do not, until they are ranks');
@runs = by_hand(2, {}, lesson('much', qq(for i = 1, 10000 do print("line " .. i) end)));
like($runs[1]{out}, qr/\A(?:rank 1: line \d+\n)+rank 1: \[note\] \d+ bytes more were printed: 65536 are kept [^\n]*\n\z/,
    'whole lines of it are kept, so many, and what is lost is told');

$run = launched(3, '--tap', $ranks);
is((join "\n", sort grep { /^\[/ } split /\n/, $run->{out}),
    "[1] # lines of 1\n[1] # two\n[2] # lines of 2\n[2] # two", 'and it alone says whose lines they are');
done_testing;
