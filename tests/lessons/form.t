#!/usr/bin/perl
# The form of lessons: all sentences of a file stand in its one table `text`, so a translation is one table; exercises hold no
# checks. And what rs.ask, rs.exercise and rs.vary refuse.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

# A file without its comments and without what stands in its table `text`.
sub code_of {
    my ($path) = @_;
    my $code = slurp($path);
    $code =~ s/^local text = \{.*?^\}$/local text/ms;
    $code =~ s/--.*$//mg;
    return $code;
}
my $speaks = qr/\brs\.(?:say|ask|check|close|skip|hint|teacher)\b/;
for my $path (glob('lessons/*.lua'), glob('lessons/checks/*.lua')) {
    my $code    = code_of($path);
    my @literal = $code =~ /^(.*$speaks *\(? *(?:["'{]|\[\[).*)$/mg;
    is("@literal", '', "$path: what is said is a field of text");
    like($code, qr/^local text$/m, "$path: there is one such table");
}
for my $path (glob('lessons/exercises/*.lua'), glob('lessons/solutions/*.lua')) {
    my $code = code_of($path);
    unlike($code, qr/\brs\.(?:lesson|say|ask|check|close|skip|hint|teacher|exercise)\b/, "$path: no check, no word");
    like($code, qr/^return \{/m, "$path: it returns its answers");
}
for my $path (glob 'lessons/*.lua') {
    my $text = slurp($path);
    my $asks = () = $text =~ /^    question = /mg;
    my $wrong = () = $text =~ /^    wrong = /mg;
    is($wrong, $asks, "$path: each question says what is wrong with the other choices");
}

# ---- what is refused, with the lesson's line ----

my $count = 0;
sub refuses {
    my ($what, $told, $text, @words) = @_;
    my $path = lesson('form' . ++$count, "local rs = require 'ringside'\nrs.lesson { title = 'x' }\n$text\n");
    my $run  = ringside('run', $path, @words);
    is($run->{status}, 2, "$what: refused") or diag($run->{out});
    like($run->{err}, qr/^ringside: \S+form\d+\.lua:3: .*$told/, "$what: told, with its line");
}
my $ask = 'rs.ask { question = "q", choices = { "4", "3" }, answer = "3"';
refuses('an unknown field', qr/unknown option 'hide': did you mean 'hides'\?/, "$ask, hide = 'dp' }");
refuses('wrong about no choice', qr/wrong's "5" is none of the choices: "4", "3"/, "$ask, wrong = { ['5'] = 'no' } }");
refuses('wrong about the answer', qr/wrong's "3" is the answer/, "$ask, wrong = { [3] = 'no' } }");
refuses('wrong without choices', qr/none of the choices: there are none/, "rs.ask { 'q', answer = '1', wrong = { ['2'] = 'no' } }");
refuses('wrong that is no text', qr/expected/, "$ask, wrong = { ['4'] = {} } }");
refuses('a kind that is none', qr/hides names no kind of event: "dp\.scater"; did you mean dp\.scatter\?/,
    "$ask, hides = { 'dp', 'dp.scater' } }");
refuses('half a word of a kind', qr/hides names no kind/, "$ask, hides = 'dp.scat' }");
refuses('an answer that is no choice', qr/the answer "2" is none of the choices: "4", "3"/,
    'rs.ask { "q", choices = { "4", "3" }, answer = "2" }');
refuses('hints that are no list', qr/TypeError/, 'rs.check("a", true, { hints = "h" })');
refuses('an exercise of a lesson that is no checks', qr/which exercise\?/, 'rs.exercise()');
refuses('an empty list of others', qr/the list of other values is empty/, 'rs.vary(4, {})');
refuses('a range the wrong way round', qr/from the smaller to the larger/, 'rs.variant_random(3, 2)');
refuses('a rank that varies', qr/rs\.vary belongs to the lesson itself, but rank 0 called it/,
    'rs.distributed.spawn(function() rs.vary(1, { 2 }) end, { world = 1 })');

my $vary = lesson('vary', <<'END');
local rs = require "ringside"
rs.lesson { title = "x" }
rs.say(rs.variant, rs.vary(4, { 5, 6, 7 }), rs.variant_random(10, 99), rs.vary("a", { "b" }), math.random(1000))
END
is(ringside('run', $vary)->{out} =~ s/ \d+$//mr, "0 4 10 a\n", 'variant 0 is what is written');
my %drawn = map { ringside('run', $vary, '--variant', $_)->{out} => 1 } 1 .. 12;
cmp_ok(scalar keys %drawn, '>', 6, 'variants differ');
is(scalar(grep { !/^\d+ [567] [1-9]\d b \d+$/ } keys %drawn), 0, 'and draw from the list');
is(scalar(keys %{ { map { (split)[4] => 1 } keys %drawn } }), 1, 'they draw nothing else');
is(ringside('run', $vary, '--variant', 5, '--seed', 9)->{out} =~ s/ \d+$//mr,
    ringside('run', $vary, '--variant', 5)->{out} =~ s/ \d+$//mr, 'whatever the seed');

# In a lesson a failed check tells both numbers, among checks of an exercise neither.
my $close = "local rs = require 'ringside'\nrs.lesson { title = 'x' }\n%slocal t = rs.tensor\n" . join "\n", map { "rs.close('c', $_)" }
    '7, 5', '3, 5', '0/0, 5', '"5", 5', '{ 3, 2, 1 }, { 1, 2, 3 }', '{ 1, 2 }, { 1, 2, 3 }', '{ 1, { 2, 9 } }, { 1, { 2, 3 } }',
    't { 1, 2 }, t { 1, 2, 3 }', 't { 1, 9, 9 }, t { 1, 2, 3 }', 't { 2, 1 }, t { 1, 2 }', 'true, false', 'nil, { 1 }', 'nil, t { 1 }', 't { 1 }, 5', '{ 1 }, t { 1 }', '5, t(5)', 'nil, t(5)', '"x", "y"';
mkdir folder() . '/checks' or die $!;
mkdir folder() . '/exercises' or die $!;
spill(folder() . '/exercises/how.lua', 'return {}');
my $run = ringside('run', spill(folder() . '/checks/how.lua', sprintf $close, "rs.exercise()\n"));
is(join("\n", $run->{out} =~ /^#   (.*)$/mg), <<'END' =~ s/\n\z//r, 'how a value is wrong');
too large
too small
nan
another type: a text instead of a number
another order: the elements are right
another shape: too few elements
at [2][2]: too large
another shape: yours is [2]
2 of 3 elements differ; element 1 is too large
another order: the elements are right
another value
another type: nothing instead of a table
another type: nothing instead of a tensor
another type: a tensor instead of a number: t:item() makes one
another type: nothing instead of a number
another value
END
$run = ringside('run', lesson('how', sprintf $close, ''));
like($run->{out}, qr/got 7, expected 5/, 'a lesson tells the numbers');
done_testing();
