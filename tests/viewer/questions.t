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

my @pages = ('Source', 'Event', 'Tensor', 'Tasks', 'Hints', 'Notes');
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
    like($shown, qr/step @{[ $asks[$n - 1] ]}\/[\d?]+/, "question $n: one stands at it");
    $shown =~ s/-> ANSWER-8//g if $n == 9; # the pane's words tell it since it was asked first
    my @told = grep { $shown =~ /(?:ANSWER|WHY|NOTE)-$_/ } sort keys %open;
    is("@told", '', "question $n: no open one tells its secrets");
    $so_far .= '<Enter><Enter>';
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
like(frame('200x60', 'G'), qr/step @{[ $asks[0] ]}\/\?.*first a question/s, 'nobody stands behind a question that was not asked yet');
my $end = frame('200x60', "${so_far}G");
like($end, qr/answer = "ANSWER-7"/, 'once all are answered the record has an end, and all are shown');
unlike($end, qr/\/\?|hidden/, 'and nothing is hidden any more');
like(frame('200x60', "${so_far}Gg"), qr/answer = "ANSWER-1"/, 'who goes back has still answered');
my $late = decode('UTF-8', scalar `$viewer $trace --print --size 200x60`);
like($late, qr/answer = "ANSWER-7"/, 'a picture of the end has all of it: who names an event has come there');

# ---- what passes for a check ----
my $checked = frame('80x40', ':reveal all<Enter>G');
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
sub step_of { return frame('80x24', $_[0]) =~ m{ step (\d+)/} ? $1 : 'none' }
sub found { return frame('80x24', $_[0] . '/dp.scatter.chunk<Enter>') =~ m{/dp\.scatter\.chunk +(\d+/\d+)(.*)} ? "$1$2" : 'none' }

my $first_at = ":goto $first<Enter>";
my ($shows, $later) = ('<Enter><Enter>', '<Enter><Esc>');
my $second_at = "$first_at$shows:goto $second<Enter>";
like(found(''), qr{^1/4; more is hidden until you answer}, 'before the first question: only what came before it is found');
like(found($first_at), qr{^1/4  from the start again; more is hidden}, 'at it, too');
like(frame('80x24', "$first_at/dp.scatter.chunk<Enter>" . 'n' x $_), qr/step @{[$chunks[$_ % 4]]}\//, "no key finds what is hidden: n $_ times")
    for 0 .. 4;
like(found("$first_at$shows"), qr{^5/7; more is hidden}, 'answered: all up to the second question');
like(found("$second_at$shows"), qr{^8/10$}, 'both answered: all');
like(found("$first_at$later"), qr{^1/4  from the start again; more is hidden}, 'put off: what it hides stays hidden');
like(found("$first_at$later:goto $second<Enter>"), qr{^1/4  from the start again; more is hidden}, 'from the second question, too');
like(found("$first_at${later}G$shows"), qr{^1/4  from the start again; more is hidden}, 'and when that is answered');
like(frame('80x24', "$first_at${later}sssss"), qr/step (?!$first)\d+\//, 'put off: one goes on');
like(frame('80x24', "$first_at${later}n" . '/dp.scatter.chunk<Enter>'), qr/more is hidden/, 'past what is hidden');
unlike(frame('160x50', "$first_at$later" . 's' x $_), qr/^. \d+ dp\.scatter|main +dp\.scatter/m, 'no step shows it') for 1, 3, 9;
like(frame('80x24', "$first_at${later}ssss:question<Enter>"), qr/step $first\/.*Enter: answer  n: go on/s, ':question comes back');
like(found("$first_at${later}ssss:question<Enter>$shows"), qr{^5/7; more}, 'and once it is answered nothing of it is hidden');
like(frame('120x40', "$first_at$later:pane hints<Enter>"), qr/put off.*\? Rows\?  \(event $first\)/s, 'a list has those that were put off');
like(frame('80x24', "$first_at<Esc>n"), qr/step (?!$first)\d+\//, 'Esc puts off before Enter, too');
like(frame('80x24', $first_at), qr{step $first/\? }, 'how long it will be is not told');
like(frame('80x24', "$second_at$shows"), qr{step $second/\d+}, 'behind the last question it is');
like(found(":reveal all<Enter>"), qr{^1/10$}, ':reveal all gives all of it up');
like(found(":goto $first<Enter>:reveal<Enter>"), qr{^5/7}, ':reveal the answer here');
my $teacher = decode('UTF-8', scalar `$viewer $trace --print --teacher --size 200x60 --at 0 --keys ':pane notes<Enter>'`);
like($teacher, qr/answer = "2".*LATER-3\n?.*LATER-4/s, '--teacher has all answers, and the notes');
unlike(frame('200x60', ':pane notes<Enter>'), qr/LATER-3/, 'nobody else has them');
like(frame('200x60', ':pane notes<Enter>'), qr/for teachers: --teacher/, 'and is told so');

$shown = frame('200x60', '');
like($shown, qr/ why = \?, wrong = \?,/, 'what is said of wrong choices is a secret of the source');
unlike($shown, qr/WRONG/, 'of each of them');
like($shown, qr/first = \{ question = "Rows\?", choices = \{ "3", "2" \}, answer = \?/, 'questions and choices are shown');
unlike($shown, qr/LATER/, 'the other sentences of the lesson tell what comes: they are secrets');
like($shown, qr/finish = \?,.*checks = \{ rows = \?,.*teacher = \?.*PLAIN-1/s, 'for those of the table text alone');
my $told = frame('160x60', "$second_at$shows:pane source<Enter>Z");
like($told, qr/LATER-1.*LATER-2.*LATER-4/s, 'after the last question all is shown');
unlike(frame('200x60', $second_at), qr/LATER/, 'not before it was answered');
my @open = map { frame($_, $second_at) } '80x24', '120x40', '60x20';
my @shut = map { frame($_, "$second_at$shows") } '80x24', '120x40', '60x20';
is(scalar(grep { /[dp]* ?forward|F[▌▏▐ ]/ } @open), 0, 'what is hidden is not on the timeline');
isnt($open[$_], $shut[$_], 'and then it is') for 0 .. 2;
my $by_yours = qr/^ hidden by your question: Enter answers it, Esc again shows the answer/m;
like(frame('80x24', "$first_at${later}s"), $by_yours, 'the first stop that is hidden is one, and says whose it is');
like(frame('80x24', "$first_at${later}n"), $by_yours, 'for n as for s');
like(frame('80x24', "$first_at${later}9s"), qr/step @{[ step_of("$first_at${later}s") ]}\/.*$by_yours/s, 'a count does not jump over it');
is(step_of("$first_at${later}sssss"), step_of("$first_at$shows" . 'sssss'), 'one comes to the same stops as who has answered');
is(step_of("$first_at${later}nnn"), step_of("$first_at${shows}nnn"), 'so with n');
is(step_of("$first_at${later}:break dp.scatter<Enter>:continue<Enter>"), step_of("$first_at$shows:break dp.scatter<Enter>:continue<Enter>"), 'and with breakpoints');
unlike(frame('160x50', "$first_at${later}:break dp.scatter<Enter>:continue<Enter>"), qr/stopped by|chunks/, 'which do not tell it');
unlike(frame('160x50', "$first_at${later}s"), qr/\w\.c:\d/, 'nor does the place in the source');
like(frame('80x24', "$first_at${later}s<Enter>"), qr/step $first\/.*a-c choose  Enter show it/s, 'Enter there goes back and answers');
$shown = frame('120x40', "$first_at${later}ss<Esc>");
like($shown, qr/^ -> 2  WHY-1/m, 'Esc there shows the answer');
like($shown, qr/dp\.scatter/, 'and what stands there');
is(step_of("$first_at${later}ss<Esc>"), step_of("$first_at${later}ss"), 'where one stays');
like(frame('80x24', "$first_at<Esc><Esc>"), qr/step $first\/.*^ -> 2  WHY-1/ms, 'two Esc show it');
like(frame('80x24', "$first_at<Enter><Esc><Esc>"), qr/step $first\/.*^ -> 2  WHY-1/ms, 'after Enter, too');
like(found("$first_at<Esc><Esc>"), qr{^5/7; more}, 'and nothing of it is hidden any more');
like(frame('80x24', "$first_at<Esc>"), qr/^ put off: n goes on, Esc again shows the answer/m, 'as the first one says');
like(frame('80x24', "$first_at${later}S"), qr/^ something is hidden until you answer: :question/m, 'elsewhere a line says that something is missing');
unlike(frame('80x24', "$second_at${shows}s"), qr/hidden/, 'and not when nothing is');

# ---- how one answers ----
$shown = frame('80x24', $first_at);
like($shown, qr/\? Rows\?.*^   a\) 3 .*^   b\) 2 .*^ Enter: answer  Esc: later/ms, 'the question, its choices and how it is answered');
like($shown, qr/^ a-c choose  Enter answer  Esc later  S back/m, 'and the keys say so');
for my $key ('a', 'b', 'c') {
    is(frame('80x24', "$first_at$key"), frame('80x24', "$first_at<Enter>$key"), "$key chooses at once");
}
unlike(frame('80x24', "${first_at}d"), qr/►.[abc]\)|you:/, 'd keeps its meaning');
like(frame('80x24', "$first_at$later:break dp.scatter<Enter><Tab>d"), qr/step $first\//, 'a pane keeps its keys');
like(frame('80x24', "${first_at}b<Enter>"), qr/^ yes: 2  WHY-1/m, 'a letter and Enter answer');
like(frame('80x24', "$first_at<Esc>a<Enter>"), qr/^ no, it is 2/m, 'a question that was put off, too');
like(frame('80x24', "$first_at<Enter>"), qr/^ a-c choose  Enter show it  Esc later/m, 'Enter: the keys are the question\'s');
like(frame('80x24', "$first_at<Enter>a"), qr/^ ► a\) 3 .*^   b\) 2 .*^   c\) I do not know .*^ a-c choose  Enter confirm  Esc later/ms, 'a letter chooses');
like(frame('80x24', "$first_at<Enter>$_"), qr/^ ► b\) 2 /m, "$_ chooses") for 'b', '<Down><Down>', '<Up><Up>', '<Down><Up><Up>', 'ab', 'a<Down>';
is(frame('80x24', "$first_at<Enter><Up><Down>"), frame('80x24', "$first_at<Enter>a"), 'arrows go round');
like(frame('80x24', "$first_at<Enter>d"), qr/step $first\/.*a to c choose, Enter confirms/s, 'a letter that is no choice is told the others');
my $bold = `$viewer $trace --print=ansi --no-color --size 80x24 --at 0 --keys '$first_at<Enter>b'`;
like($bold, qr/\e\[[0-9;]*1m[^\e]*b\) 2|\e\[1m *b\) 2/, 'without colour the chosen one is bold');
like(decode('UTF-8', scalar `$viewer $trace --print --ascii --size 80x24 --at 0 --keys '$first_at<Enter>b'`), qr/^ > b\) 2 /m, 'and marked in ASCII');
$shown = frame('120x40', "$first_at<Enter>a<Enter>");
like($shown, qr/you: 3.*WRONG-3.*-> 2.*WHY-1/s, 'a wrong answer: its own sentence, then the answer, then why');
like($shown, qr/^ no, it is 2  WRONG-3$/m, 'in one line, too');
$shown = frame('120x40', "$first_at<Enter>b<Enter>");
like($shown, qr/^ yes: 2  WHY-1/m, 'the right answer');
unlike($shown, qr/WRONG/, 'nothing is said of the others');
unlike(frame('120x40', "$first_at<Enter>b<Enter>s"), qr/step $first\//, 'answered: one goes on');
for my $key ('s', 'n', 'f', ':continue<Enter>', ':until dp<Enter>', '<F10>', '<Space>') {
    like(frame('120x40', "$first_at$key"), qr/step $first\/.*first your answer: a to c choose, Enter confirms; Esc puts it off/s, "not answered: $key does not");
}
like(frame('120x40', "${first_at}c"), qr/► c\) I do not know/, 'I do not know is the last choice');
$shown = frame('120x40', "${first_at}c<Enter>");
like($shown, qr/you: I do not know.*-> 2.*WHY-1/s, 'it shows the answer, and why');
like($shown, qr/^ it is 2  WHY-1/m, 'and is neither right nor wrong');
unlike($shown, qr/WRONG|c\) I do not know/, 'nothing is said of other choices');
like(frame('120x40', "$first_at:answer I do not know<Enter>"), qr/^ it is 2  WHY-1/m, 'in words, too');
my $answers = sub { return frame('200x60', "$first_at$_[0]:goto $second<Enter>$_[1]G") =~ /your answers: (.*?) *(?:│|$)/m ? $1 : 'none' };
is($answers->('b<Enter>', 'a<Enter>'), '1 right, 1 wrong', 'at the end the answers are counted');
is($answers->('c<Enter>', 'a<Enter>'), '1 wrong, 1 I do not know', 'what one does not know apart');
is($answers->('<Esc>', '<Enter><Enter>'), '1 shown, 1 put off', 'and so is what was shown or put off');
is($answers->('c<Enter>', 'c<Enter>'), '2 I do not know', 'as often as it was said');
unlike(decode('UTF-8', scalar `$viewer $trace --print --size 120x40`), qr/your answers/, 'who has answered nothing is told nothing');
my $offer = qr/^ :predict on asks you before each stop/m;
like(frame('40x12', "${first_at}b<Enter>s"), $offer, 'after the first answer more questions are offered');
unlike(frame('120x40', "${first_at}b<Enter>ss"), $offer, 'there alone');
unlike(frame('120x40', "${first_at}b<Enter>:goto $second<Enter>b<Enter>s"), $offer, 'and once');
unlike(frame('120x40', "${first_at}$_"), $offer, "not after '$_'") for '', 'b<Enter>', '<Esc>s', ':predict on<Enter>b<Enter>s';
like(frame('120x40', "$first_at<Enter><Space>"), qr/step $first\/.*Enter confirms or shows it/s, 'nor while it is being answered');
unlike(frame('120x40', "$first_at<Enter>S"), qr/step $first\//, 'back one goes at any time');
like(frame('80x24', "$first_at<Enter>??"), qr/Every command is a : line/, 'help is there, too');
unlike(frame('120x40', "$first_at:pane event<Enter>"), qr/WRONG|WHY/, 'the Event pane keeps the sentences back');

# ---- the same in words ----
my $words = sub {
    open my $typed, '>', "$folder/typed" or die $!;
    print $typed map { "$_\n" } @_;
    close $typed or die $!;
    return decode('UTF-8', scalar `$ringside step --plain $folder/hides.lua <$folder/typed 2>&1`);
};
my @told = split /\n\n/, $words->("until dp.scatter", 'continue', 'later', 'step', 'step', 'look lanes', 'reveal', 'where', 'leave');
like($told[2], qr/^choice b: 2\nchoice c: I do not know$/m, 'live: one is asked, with all choices');
like($told[$_], qr/^what: \d+ \? hidden.*^hidden by your question: question goes back to it, reveal shows the answer$/ms, 'a stop that is hidden is one') for 4, 5;
unlike(join(' ', @told[ 4 .. 6 ]), qr/scatter|chunk/, 'and tells nothing, nor do the lanes');
like($told[7], qr/-> 2  WHY-1/, 'the answer is shown there');
like($told[8], qr/dp\.scatter/, 'with what stood there');
like($words->('continue', 'answer c', 'step', 'leave'), qr/^it is 2  WHY-1\n.*^to be asked before each stop: predict on$/ms, 'one may not know it, and more is offered');

# ---- answers that are typed ----
open $lesson, '>', "$folder/free.lua" or die "no lesson: $!";
print $lesson <<'END_LESSON';
local rs = require "ringside"
rs.lesson { title = "Free" }
rs.ask { "How much is half of 1?", answer = "0.5", why = "WHY-1" }
rs.ask { "What adds them?", answer = "The ring", why = "WHY-2" }
rs.say "done"
END_LESSON
close $lesson;
$trace = "$folder/free.trace";
is(system("$ringside run --quiet --trace $trace $folder/free.lua >/dev/null 2>&1"), 0, 'a lesson without choices runs');
sub answered { return frame('80x24', "s<Enter>$_[0]<Enter>") =~ /^ (yes|no, it is|->)/m ? $1 : 'nothing' }
is(answered($_), 'yes', "'$_' is the number 0.5") for '0.5', '.5', '0.50', ' 5e-1', '1.5<Backspace><Backspace><Backspace>0.5';
is(answered($_), 'no, it is', "'$_' is not") for '0.51', 'half', '5', '0.5x';
is(answered(''), '->', 'nothing typed: it is shown');
my $on = 's<Enter><Enter>s<Enter>';
like(frame('80x24', "${on}i do not know<Enter>"), qr/^ it is The ring/m, 'one may not know it here, too');
like(frame('80x24', "$on$_<Enter>"), qr/^ yes: The ring/m, "'$_' are the words") for 'The ring', 'the  RING', ' The ring ';
like(frame('80x24', "${on}The tree<Enter>"), qr/^ no, it is The ring/m, 'other words are not');
like(frame('80x24', "${on}q?:1"), qr/^ > q\?:1_/m, 'what is typed is letters, whatever they do elsewhere');
like(frame('80x24', "${on}The tree<Enter>"), qr/you: The tree/, 'and is kept beside the answer');
like(frame('80x24', $on), qr/^ type your answer .*^ Enter show it  Esc later/ms, 'how is said');
done_testing;
