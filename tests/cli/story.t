#!/usr/bin/perl
# How a lesson is told: `ringside story` prints the stops of `next`, and `next` and `rnext` have those stops in a run that
# is stepped, in a batch and in the viewer of a saved trace alike.
use strict;
use warnings;
use lib 'tests/cli';
use JSON::PP qw(decode_json);
use Ringside;
use Test::More;

(my $viewer = program()) =~ s/ringside$/trace_viewer/;
my $trace = folder() . '/story.trace';

# Stops as [number, event, sentence]; what ran as before stands on a line above one.
sub stops {
    my ($told) = @_;
    return map { /^(\d+)  (\d+)  (.+)$/ ? [ $1, $2, $3 ] : () } split /\n/, $told;
}

sub told {
    my (@words) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $run = ringside('story', @words);
    is("$run->{status} $run->{signal} $run->{err}", '0 0 ', "story @words goes well");
    return $run->{out};
}

# What `where` printed: the events, and where the record's edge was told.
sub stood {
    my ($run) = @_;
    return map { /^(?:the run has |start of the record)/ ? 'edge' : /^(\d+) \S+ (?:begin|end|instant) / ? $1 : () } split /\n/, $run->{out};
}

# Where the viewer stands after each of these lines. It is told in words; who reads ahead is asked nothing.
sub viewer_stands {
    my ($trace, $at, @lines) = @_;
    spill(folder() . '/lines', join '', map { "$_\n" } 'reveal all', @lines, 'quit');
    my $told = `'$viewer' '$trace' --plain --at $at < '${\folder()}/lines'`;
    my (undef, @stood) = $told =~ /^step: (\d+) of/mg; # the first is where it began
    return @stood;
}

# ---- lesson 15, to the letter ----

my $fifteen = told('15');
my @fifteen = stops($fifteen);
is_deeply([ map { $$_[0] } @fifteen ], [ 0 .. $#fifteen ], 'stops are counted from 0: so many presses of n lead there');
is($fifteen[0][1], 0, 'the first is where one begins');
is($fifteen[0][2], 'Hooks and order', 'with the title');
is(scalar(grep { $fifteen[$_][1] <= $fifteen[ $_ - 1 ][1] } 1 .. $#fifteen), 0, 'each lies behind the one before');
is(ringside('run', '--quiet', '--trace', $trace, '15')->{status}, 0, 'lesson 15 makes a trace');
my @events = map { decode_json($_) } split /\n/, ringside('events', $trace, '--json')->{out};
my ($over) = grep { $fifteen[$_][2] =~ /^Bucket 0's all-reduce is over: 1 MiB/ } 0 .. $#fifteen;
(my $full, $over) = @fifteen[ $over - 1, $over ];
like($$full[2], qr/^Bucket 0 is full on r0, r1 \(a\.bias, a\.weight, 1 MiB\): its all-reduce starts\.$/, 'the bucket is full');
is("$events[ $$full[1] ]{kind} $events[ $$full[1] ]{phase}", 'ddp.mark_bucket_ready begin', 'at the begin of what it starts');
is($$over[2], "Bucket 0's all-reduce is over: 1 MiB, summed over 2 ranks.", 'at the next stop its all-reduce is over');
is("$events[ $$over[1] ]{kind} $events[ $$over[1] ]{phase}", 'c10d.allreduce end', 'where it ends');
my %open;
for my $event (@events[ 0 .. $$over[1] ]) {
    next if $$event{kind} ne 'autograd.backward';
    $open{ $$event{lane} } += $$event{phase} eq 'begin' ? 1 : -1;
}
is_deeply([ sort values %open ], [ 1, 1 ], 'and the backward still runs on both ranks: they overlap');
like($fifteen, qr/^Iteration 1 runs as iteration 0 up to here\.\n\d+  \d+  Buckets were cut again/m, 'what ran as before is one sentence above the next stop');
my %kinds;
$kinds{ $events[ $$_[1] ]{kind} }++ for @fifteen;
is($kinds{$_}, 1, "$_ is told once, for both ranks and both iterations") for qw(ddp.init ddp.forward autograd.backward optim.step);
is($kinds{'ddp.mark_bucket_ready'}, 3, 'each bucket of both cuts is told');
is($kinds{'lesson.ask'}, scalar(grep { $$_{kind} eq 'lesson.ask' } @events), 'and every question of the lesson');

# ---- a trace gives what its lesson gives ----

is(told($trace), $fifteen, 'the trace of lesson 15 is told as the lesson is');
is(told($trace, '--count'), told('15', '--count'), 'and counted alike');

# ---- figures ----

my $one = lesson('one', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "One layer", seed = 1 }
rs.say "A step."
rs.say "It is small."
rs.ask { "How many gradients?", choices = { "one", "two" }, answer = "two", why = "weight and bias" }
local net = rs.nn.Linear(2, 1)
local opt = rs.optim.SGD(net:parameters(), { lr = 0.1 })
for i = 1, 4 do
  opt:zero_grad()
  net(rs.ones(3, 2)):sum():backward()
  opt:step()
end
rs.check("it holds", true)
END_LESSON
my @one = stops(told($one));
is(join('|', map { $$_[2] } @one[ 0 .. 2 ]), 'One layer|It is small.|How many gradients?  a) two   b) one',
    'neighbouring words are one stop, at the last; a question is one');
is($one[-1][2], 'The lesson ends: 1 check holds.', 'and so is the end; a check that holds is none');
for my $lesson ($one, '01', '11', '15') {
    my $figures = told($lesson, '--count');
    my $count   = () = stops(told($lesson));
    like($figures, qr/\A$count stops, /, "$lesson: --count counts the stops");
    my ($asked) = $figures =~ /, (\d+) of them questions/;
    is(ringside('run', '--quiet', '--trace', "$trace.c", $lesson)->{status}, 0, "$lesson runs");
    is($asked, scalar(() = ringside('events', "$trace.c", 'lesson.ask')->{out} =~ /^\d+ lesson\.ask/mg), "$lesson: and the questions");
    like($figures, qr/; [1-6] in a row differ by numbers alone at most$/m, "$lesson: few in a row are alike");
    like($figures, qr/^0 acts and scenes without a stop, 0 details that lie in none$/m, "$lesson: everything is told");
}

# ---- a run, a batch and a saved trace have the same stops ----

my $hangs = lesson('hangs', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "One never comes", devices = 3 }
rs.distributed.spawn(function(rank)
  local t = rs.ones(4)
  rs.distributed.all_reduce(t)
  if rank < 2 then rs.distributed.all_reduce(t) end
end, { world = 3 })
END_LESSON
for my $case ([ '15', 0 ], [ '01', 0 ], [ '11', 0 ], [ '16', 0 ], [ $hangs, 3 ]) {
    my ($lesson, $status) = @$case;
    my $run = ringside('run', '--quiet', '--trace', $trace, $lesson);
    is($run->{status}, $status, "$lesson ends as it should");
    my @at      = map { $$_[1] } stops(told($trace));
    my $presses = @at + 3;
    my @stops   = stood(ringside('step', '--batch', 'next; where; ' x $presses, $lesson));
    splice @stops, 1 + (grep { $stops[$_] eq 'edge' } 0 .. $#stops)[0]; # further presses stay there
    is(pop @stops, 'edge', "$lesson: next comes to the end, and says so");
    is_deeply([ 0, @stops ], \@at, "$lesson: next stops where story says");
    my @back = stood(ringside('step', '--batch', "continue; goto $at[-1]; " . 'rnext; where; ' x $presses, $lesson));
    shift @back while @back && $back[0] eq 'edge'; # continue's
    is_deeply([ reverse grep { $_ ne 'edge' } @back[ 0 .. $#at - 1 ] ], [ @at[ 0 .. $#at - 1 ] ], "$lesson: rnext stops there, too, backwards");
    is_deeply([ viewer_stands($trace, 0, ('n') x $#at) ], [ @at[ 1 .. $#at ] ], "$lesson: n in the viewer of its trace");
    is_deeply([ viewer_stands($trace, $at[-1], ('N') x $#at) ], [ reverse @at[ 0 .. $#at - 1 ] ], "$lesson: and N");
    is_deeply([ viewer_stands($trace, 0, 'goto ' . ($at[4] - 1), 'next 3', 'rnext 2') ], [ $at[4] - 1, @at[ 6, 4 ] ],
        "$lesson: from between two stops, and several at once");
}

# ---- a lesson that fails is told up to there, and ends as its run does ----

my $raises = lesson('raises', qq{local rs = require "ringside"\nrs.say "on"\nrs.error("ValueError", "enough")\n});
my $failed = ringside('story', $raises);
refused('a lesson that raises an error', $failed, 2, qr/raises\.lua:3: ValueError: enough$/);
is(join('|', map { $$_[2] } stops($failed->{out})), 'on|ValueError on main: enough.|The lesson ends.', 'with its words and the error as stops');
$failed = ringside('story', $hangs);
is("$failed->{status} " . (split /\n/, $failed->{err})[0], '3 ' . (split /\n/, ringside('run', '--quiet', $hangs)->{err})[0],
    'one that hangs has the status and the report of its run');
is(scalar(stops($failed->{out})), scalar(stops(told($trace))), 'and the stops of its trace');
is(ringside('story', lesson('untrue', qq{local rs = require "ringside"\nrs.check("no", false)\n}))->{status}, 1,
    'a check that fails is status 1');

# ---- a record that breaks off ----

is(ringside('run', '--quiet', '--trace', $trace, '15')->{status}, 0, 'lesson 15 makes a trace again');
my ($whole, $some) = (slurp($trace), 0);
for my $part (100, 97, 94, 91, 88) {
    my $cut   = spill(folder() . '/cut.trace', substr $whole, 0, int(length($whole) * $part / 100));
    my $run   = ringside('story', $cut);
    my @stops = stops($run->{out});
    my $most  = @stops < 2 ? 0 : @stops - 2; # at its end rounds are over that went on
    is("$run->{status} $run->{signal}", '0 0', "$part % of a trace is told");
    like($run->{err}, $part == 100 ? qr/^$/ : qr/\Aringside: \S+cut\.trace: cut short at event \d+: [^\n]+\n\z/, 'it is said where it breaks off');
    is_deeply([ @stops[ 0 .. $most - 1 ] ], [ @fifteen[ 0 .. $most - 1 ] ], 'and up to there it is told as the whole');
    $some++ if $most > 10 && $most < @fifteen - 2;
}
cmp_ok($some, '>', 0, 'some of them break off in the middle');

# ---- the sentence comes first ----

my $where = ringside('step', '--batch', "goto $$over[1]; where; goto $$full[1]; where", '15');
is_deeply([ $where->{out} =~ /^story: (.*)/mg ], [ $$over[2], "What lies between ran as before. $$full[2]" ],
    'where says first what the story says of the event, below what ran as before')
    or diag $where->{out};
spill(folder() . '/lines', "reveal all\ngoto $$over[1]\nquit\n");
like(`'$viewer' '$trace' --plain < '${\folder()}/lines'`, qr/^story: \Q$$over[2]\E\nstep: $$over[1] of/m, 'and so does --plain');

# ---- what cannot be told ----

my ($made_of) = lesson('nonsense', "local x =\n");
refused("story $$_[0] is refused", ringside('story', @{ $$_[1] }), 2, $$_[2])
    for [ 'of nothing', [], qr/story: which lesson\?/ ], [ 'of no lesson', ['nonsense'], qr/story: no lesson 'nonsense'/ ],
    [ 'of what is no Lua', [$made_of], qr/nonsense\.lua:2: unexpected symbol/ ],
    [ 'of two', [ '15', '16' ], qr/story: one lesson at a time/ ], [ 'with another option', [ '15', '--jsn' ], qr/story: no option --jsn/ ],
    [ 'of a folder', [ folder() ], qr/is a (?:folder|directory)|no lesson/ ],
    [ 'of what is no trace', [ spill(folder() . '/no.trace', 'x' x 100) ], qr/no\.trace: not a Ringside trace$/ ], [ 'with --count and nonsense', [ '--count', 'nonsense' ], qr/no lesson 'nonsense'/ ];
done_testing();
