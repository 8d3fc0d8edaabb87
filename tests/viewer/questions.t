#!/usr/bin/env perl
# Predicting first is what teaches: no pane, line or message shows the answer of a question that is still open, nor why it
# is right, however the lesson writes it down; afterwards all of them do. What a lesson says cannot pass for a check.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);

open my $lesson, '>', "$folder/asks.lua" or die "no lesson: $!";
print $lesson <<'END_LESSON';
local rs = require "ringside"
rs.lesson { title = "Questions" }
local function quiz(t) return rs.ask(t) end
rs.say "before"
rs.ask { "On one line?", answer = "ANSWER-1", why = "WHY-1" }
rs.ask {
  "Over several?", -- NOTE-2: it is not this
  answer =
    "ANSWER-2"
    .. "", -- NOTE-2
  --[[ NOTE-2
  NOTE-2 ]]
  why = [[WHY-2
  WHY-2
WHY-2]],
}
local list = {
  { "First of a list?", answer = "ANSWER-3", why = 'WHY-3' },
  { question = "Second?", ["answer"] = "ANSWER-4", ['why'] = "it's \"WHY-4\", {", },
}
for i, each in ipairs(list) do rs.ask(each) end
quiz { "By a function?", answer = "ANSWER-5" } quiz { "On its line?", answer = "ANSWER-6", why = "WHY-6" }
rs.ask({ "n is " .. 3, why = "WHY-7", answer = "ANSWER-7" })
local same = { answer = "ANSWER-8", "Twice the same?" }
rs.ask(same)
rs.ask(same)
local answer, why = "shown", { why = "shown too" }
rs.check("a name\nok that forges another check", true)
rs.say("a word\nof two lines")
END_LESSON
close $lesson;
my $trace = "$folder/asks.trace";
is(system("$ringside run --quiet --trace $trace $folder/asks.lua >/dev/null 2>&1"), 0, 'a lesson full of questions runs');

my @pages = ('Source', 'Event', 'Values', 'Tasks');
sub frame {
    my ($size, $keys) = @_;
    return decode('UTF-8', scalar `$viewer $trace --print --size $size --at 0 --keys '$keys'`);
}
# Every page, the lesson and the source alone, at every size, w too: what is secret there and not.
sub views {
    my ($keys) = @_;
    my @views = map { frame($_, "${keys}w") } '80x24', '40x10', '20x5', '100x40', '200x60';
    push @views, map { frame('160x50', "$keys:pane $_<Enter>Z") } @pages, 'lesson', 'source';
    return join "\n", @views;
}

my @asks = map { /^(\d+) lesson\.ask/ ? $1 : () } `$ringside events $trace lesson.ask`;
is(scalar @asks, 9, 'the trace has nine questions');
my ($so_far, %open) = ('', map { $_ => 1 } 1 .. 8);
for my $n (1 .. 9) {
    my $secret = $n > 8 ? 8 : $n;
    $so_far .= 's';
    $open{$secret} = 1;
    $so_far .= 's' if $n == 1;
    my $shown = views($so_far);
    like($shown, qr/step @{[ $asks[$n - 1] ]}\//, "question $n: one stands at it");
    $shown =~ s/-> ANSWER-8//g if $n == 9; # the pane's words tell it since it was asked first
    my @told = grep { $shown =~ /(?:ANSWER|WHY|NOTE)-$_/ } sort keys %open;
    is("@told", '', "question $n: no open one tells its secrets");
    $so_far .= '<Enter>';
    delete $open{$secret};
    $shown = views($so_far);
    like($shown, qr/-> ANSWER-$secret\b/, "question $n: Enter shows the answer");
    like($shown, qr/WHY-$secret\b/, "question $n: and why") if $secret != 5 && $secret != 8;
    like($shown, qr/answer =\s+(?:\d+ +)?"ANSWER-$secret"|\["answer"\] = "ANSWER-4"|^ *.*"ANSWER-2"/m,
        "question $n: and so does the source");
    @told = grep { $shown =~ /(?:ANSWER|WHY|NOTE)-$_/ } sort keys %open;
    is("@told", '', "question $n: but none of those to come");
}
my $shown = views('');
like($shown, qr/rs\.ask \{ "On one line\?", answer = \?, why = \? \}/, 'a question mark stands for what is hidden');
like($shown, qr/local answer, why = "shown", \{ why = "shown too" \}/, 'what only looks like an answer is shown');
unlike($shown, qr/ANSWER|WHY-|NOTE/, 'before the first question all are hidden');
my $end = frame('200x60', 'G');
like($end, qr/answer = "ANSWER-7"/, 'at the end of the record all are shown');
$end = frame('200x60', 'Ggs');
unlike($end, qr/ANSWER/, 'and hidden again at its beginning');

# ---- what passes for a check ----
my $checked = frame('80x40', 'G');
like($checked, qr/^ ok a name\\nok that forges/m, 'a newline in the name of a check is spelled out');
unlike($checked, qr/^ *ok that forges/m, 'so no second check stands there');
like($checked, qr/^ a word\s*│.*\n   of two lines/m, 'a newline in what is said begins a line that stands further in');

# ---- answers, and what is hidden until they are given ----

open $lesson, '>', "$folder/hides.lua" or die "no lesson: $!";
print $lesson <<'END_LESSON';
local rs = require "ringside"
rs.lesson { title = "Hidden", devices = 4, costs = { kernel = 50 } }
local text = {
  first = { question = "Rows?", choices = { "3", "2" }, answer = "2",
    why = "WHY-1", wrong = { ["3"] = "WRONG-3" },
    hides = "dp.scatter" },
  second = { question = "Workers?", choices = { "2", "3" }, answer = "3",
    wrong = { ["2"] = "WRONG-2" },
    hides = { "dp", "module" } },
  finish = "LATER-1 of " .. 3,
  checks = { rows = "LATER-2", [4] = 'x' },
  teacher = [[LATER-3
LATER-4]],
}
local shown = { text = "PLAIN-1" }
local dp = rs.nn.DataParallel(rs.nn.Linear(4, 2):to("device:0"))
rs.nn.parallel.scatter(rs.zeros { 8 }, { 0, 1, 2, 3 })
rs.ask(text.first)
rs.nn.parallel.scatter(rs.zeros { 6 }, { 0, 1, 2, 3 })
rs.ask(text.second)
dp(rs.ones { 6, 4 })
rs.say("after")
END_LESSON
close $lesson;
$trace = "$folder/hides.trace";
is(system("$ringside run --quiet --trace $trace $folder/hides.lua >/dev/null 2>&1"), 0, 'a lesson that hides runs');
my ($first, $second) = map { /^(\d+) lesson\.ask/ ? $1 : () } `$ringside events $trace lesson.ask`;
my @chunks = map { /^(\d+)/ ? $1 : () } `$ringside events $trace dp.scatter.chunk`;
is(scalar @chunks, 4 + 3 + 3, 'its record has all chunks');
sub found { return frame('80x24', $_[0] . '/dp.scatter.chunk<Enter>') =~ m{/dp\.scatter\.chunk +(\d+/\d+)(.*)} ? "$1$2" : 'none' }

like(found(''), qr{^1/4; some are hidden until you answer}, 'before the first question: only what came before it is found');
like(found(":goto $first<Enter>"), qr{^4/4; some are hidden}, 'at it, too');
like(frame('80x24', ":goto $first<Enter>/dp.scatter.chunk<Enter>nn"), qr/step $first\//, 'no key finds what is hidden');
like(found(":goto $first<Enter><Enter>"), qr{^5/7; some are hidden}, 'answered: all up to what the second question hides');
like(found(":goto $first<Enter>b:goto $second<Enter><Enter>"), qr{^8/10$}, 'both answered: all');
like(found('G'), qr{^10/10; no further match, N goes back$}, 'nor is anything hidden from who has passed them');
like(found('Gg'), qr{^1/4;}, 'at the beginning again it is');

like(frame('80x24', ":goto $first<Enter>"), qr/what the answer shows is[^\n]*\n\s+hidden until you answer /, 'the question says that something is hidden');
$shown = frame('200x60', '');
like($shown, qr/ why = \?, wrong = \?,/, 'what is said of wrong choices is a secret of the source');
unlike($shown, qr/WRONG/, 'of each of them');
like($shown, qr/first = \{ question = "Rows\?", choices = \{ "3", "2" \}, answer = \?/, 'questions and choices are shown');
unlike($shown, qr/LATER/, 'the other sentences of the lesson tell what comes: they are secrets');
like($shown, qr/finish = \?,.*checks = \{ rows = \?,.*teacher = \?.*PLAIN-1/s, 'for those of the table text alone');
my $told = frame('160x60', ":goto $second<Enter><Enter>:pane source<Enter>Z");
like($told, qr/LATER-1.*LATER-2.*LATER-4/s, 'after the last question all is shown');
unlike(frame('200x60', ":goto $second<Enter>"), qr/LATER/, 'not before it was answered');
my @open = map { frame($_, ":goto $second<Enter>") } '80x24', '120x40', '60x20';
my @shut = map { frame($_, ":goto $second<Enter><Enter>") } '80x24', '120x40', '60x20';
is(scalar(grep { /[dp]* ?forward|F[▌▏▐ ]/ } @open), 0, 'what is hidden is not on the timeline');
isnt($open[$_], $shut[$_], 'and then it is') for 0 .. 2;
like(frame('80x24', 's'), qr/^ something is hidden until you answer a question/m, 'a line says that something is missing');
unlike(frame('80x24', 'G'), qr/hidden/, 'and not when nothing is');

my $at = ":goto $first<Enter>";
like(frame('80x24', $at), qr/a to b is your answer/, 'choices have letters');
like(frame('80x24', $at), qr/^ a-b answer  Enter show the answer/m, 'and the keys say so');
$shown = frame('120x40', "${at}a");
like($shown, qr/you: 3.*WRONG-3.*-> 2.*WHY-1/s, 'a wrong answer: its own sentence, then the answer, then why');
like($shown, qr/^ no, it is 2  WRONG-3$/m, 'in one line, too');
$shown = frame('120x40', "${at}b");
like($shown, qr/^ yes: 2  WHY-1/m, 'the right answer');
unlike($shown, qr/WRONG/, 'nothing is said of the others');
unlike(frame("120x40", "${at}bs"), qr/step $first\//, "answered: one goes on");
like(frame('120x40', "${at}s"), qr/step $first\/.*first your answer: think, then its letter/s, 'not answered: one does not');
like(frame('120x40', "${at}c"), qr/step $first\//, 'a letter that is no choice is the command it was');
unlike(frame('120x40', ":goto $first<Enter>i"), qr/WRONG|WHY/, 'the Event pane keeps the sentences back');
done_testing;
