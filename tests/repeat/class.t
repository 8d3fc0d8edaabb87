#!/usr/bin/perl
# A class compares hashes: whoever did the same has the same one, whatever the file is called and how it is commented;
# whoever did anything else has another.
use strict;
use warnings;
use lib 'tests/cli';
use File::Path qw(make_path);
use Ringside;
use Test::More;

my $lesson = <<'END_LESSON';
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "Whose is it?", devices = 2, seed = 3 }
local net = nn.Linear(3, 2)
rs.say("two layers")
local ok, why = pcall(function() return rs.zeros(2, 3):matmul(rs.zeros(2, 3)) end)
rs.say(tostring(why))
local ok, again = pcall(function() error("boom") end)
rs.say("said: " .. tostring(again))
local ok, told = pcall(function() local x = nil; return x.y end)
rs.say(tostring(told))
rs.say(debug.traceback("here"))
rs.check("it adds up", net(rs.ones(4, 3)):sum():item() ~= 0)
local a, b = rs.ones(2), rs.ones(2)
a:add_(b)
b:mul_(2)
END_LESSON

# The hash that a run of this text prints, under this name.
my $number = 0;
sub hash_of {
    my ($text, %where) = @_;
    my $folder = folder() . '/' . ($where{folder} || 'class' . $number++);
    make_path($folder);
    my $file = spill("$folder/" . ($where{name} || 'lesson.lua'), $text);
    my $run  = ringside('run', '--quiet', '--hash', '--trace', "$folder/run.trace", @{ $where{options} || [] }, $file);
    my ($hash) = $run->{out} =~ /^trace hash ([0-9a-f]{6})$/m;
    my $read = ringside('events', "$folder/run.trace", '--hash')->{out};
    is($read, "trace hash $hash\n", 'the file has the hash that the run said') if defined $hash;
    return defined $hash ? $hash : "none: $run->{out}$run->{err}";
}

# The same text with a piece of it replaced, which must be there.
sub but {
    my ($old, $new) = @_;
    my $text = $lesson;
    $text =~ s/\Q$old\E/$new/ or die "no '$old' in the lesson";
    return $text;
}

my $hash = hash_of($lesson);
like($hash, qr/^[0-9a-f]{6}$/, 'a lesson has a hash');

# ---- the same ----
my $commented = "-- by me\n\n--[[ over\nthree\nlines ]]\n$lesson";
is(hash_of($lesson),                                      $hash, 'a second run has the same');
is(hash_of($lesson, name => 'mine.lua'),                  $hash, 'a renamed file has the same');
is(hash_of($lesson, name => 'lesson 2 of anna.lua'),      $hash, 'so has one with blanks and digits in its name');
is(hash_of($lesson, name => 'anna'),                      $hash, 'so has one without an ending');
is(hash_of($lesson, name => 'Ü' x 3 . ' a name of mine that is longer than what messages of Lua show of it.lua'),
    $hash, 'so has one whose name Lua cuts');
is(hash_of($lesson, folder => 'a folder/below another'),  $hash, 'so has one in another folder');
is(hash_of($commented),                                   $hash, 'comments and blank lines above change nothing');
is(hash_of(but('rs.say("two', "\n\n-- now\nrs.say(\"two")), $hash, 'nor do those in the middle');
is(hash_of("$lesson\n-- the end"),                        $hash, 'nor a comment at the end');
is(hash_of($lesson =~ s/^/    /gmr),                      $hash, 'nor another indentation');
is(hash_of($commented, name => 'anna.lua'),               $hash, 'nor all at once');
my $filler = join '', map { "-- line $_ of a long comment that fills the trace's first chunk of records\n" } 1 .. 2500;
is(hash_of($filler . $lesson),                            $hash, 'nor a comment that moves every record to another place');
my ($mine, $other) = map { slurp(folder() . "/class$_/run.trace") } 0, 6;
isnt($mine, $other, 'the trace itself keeps the lesson as it is written');

# ---- another ----
my @others = (
    [ 'another seed',               but('seed = 3', 'seed = 4') ],
    [ 'another title',              but('Whose is it?', 'Whose was it?') ],
    [ 'another number of devices',  but('devices = 2', 'devices = 3') ],
    [ 'another size',               but('rs.ones(4, 3)', 'rs.ones(5, 3)') ],
    [ 'another op',                 but('b:mul_(2)', 'b:add_(2)') ],
    [ 'one op more',                but('b:mul_(2)', 'b:mul_(2) b:mul_(2)') ],
    [ 'one op less',                but('b:mul_(2)', '') ],
    [ 'another order',              but("a:add_(b)\nb:mul_(2)", "b:mul_(2)\na:add_(b)") ],
    [ 'other words',                but('two layers', 'one layer') ],
    [ 'another number in words',    but('two layers', '2 layers, line 3: x.lua') ],
    [ 'another error',              but('error("boom")', 'error("bang")') ],
    [ 'another name of a check',    but('it adds up', 'it adds') ],
    [ 'a check that fails',         but(':item() ~= 0', ':item() == 0') ],
    [ 'one more line of traceback', but('rs.say(debug.traceback("here"))', '(function() rs.say(debug.traceback("here")) end)()') ],
);
my %seen = ($hash => 'the lesson');
for my $other (@others) {
    my ($name, $text) = @$other;
    my $its = hash_of($text);
    like($its, qr/^[0-9a-f]{6}$/, "$name: a hash");
    ok(!$seen{$its}, "$name: its own");
    $seen{$its} = $name;
}
isnt(hash_of(but('two layers', "at $_"), name => 'a.lua'), hash_of(but('two layers', "at 4$_"), name => 'a.lua'),
    "a number after '$_' counts") for 'line 1', 'b:1', '(line 1', '12:1', 'a.lua 1';
isnt(hash_of($lesson, options => [ '--policy', 'random' ]), $hash, 'another policy has another');

# ---- lines in the engine's own reports ----
my $stuck = <<'END_LESSON';
local rs = require "ringside"
rs.lesson { title = "Stuck", devices = 2 }
local ok, why = pcall(rs.distributed.spawn, function(rank)
  if rank == 0 then rs.distributed.all_reduce(rs.ones(2)) end
end, { world = 2 })
rs.say(tostring(why))
END_LESSON
my $stuck_hash = hash_of($stuck);
like($stuck_hash, qr/^[0-9a-f]{6}$/, 'a lesson that meets a lost rank has a hash');
is(hash_of("\n\n-- above\n$stuck", name => 'b.lua'), $stuck_hash, 'a report that names lines has the same when they move');
my $race = <<'END_LESSON';
local rs = require "ringside"
rs.lesson { title = "Race", devices = 2 }
local x, side = rs.ones({ 8 }, { device = "device:0" }), rs.cuda.Stream("device:0")
local ok, why = pcall(rs.cuda.stream, side, function() x:add_(1) end)
rs.say(tostring(why))
END_LESSON
my $race_hash = hash_of($race);
my $reported  = ringside('run', lesson('race', $race))->{out};
like($reported, qr/RaceError.*line 3\)/, 'a race is reported with its lines');
is(hash_of("\n\n-- above\n$race", name => 'b.lua'), $race_hash, 'and has the same hash when they move');

# ---- free ----
my $free = ringside('run', '--quiet', '--executor', 'free', '--hash', '--trace', folder() . '/free.trace',
    lesson('free', $lesson));
like($free->{out}, qr/^trace hash [0-9a-f]{6} \(.*does not repeat\)$/m, 'the hash of a free run says that it does not repeat');
is(ringside('events', '--hash', folder() . '/free.trace')->{out}, $free->{out}, 'so does that of its trace');

done_testing();
