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
done_testing;
