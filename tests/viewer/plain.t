#!/usr/bin/env perl
# The plain mode: commands a line each, a paragraph a step, always in the same order; for screen readers and braille.
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
my $trace  = "$folder/13.trace";
my ($lesson) = glob 'lessons/13-*.lua';
is(system("$ringside run --quiet --trace $trace $lesson >/dev/null 2>&1"), 0, 'lesson 13 makes a trace');

# Where rank 0 ends the op inside its backward's TBackward0.
my $inside = (map { /^(\d+) / } `$ringside events $trace 'phase = end and op = t and rank 0'`)[-1];

# What is typed, what is told: paragraphs.
sub told {
    my ($command, @lines) = @_;
    open my $typed, '>', "$folder/typed" or die $!;
    print $typed map { "$_\n" } @lines;
    close $typed or die $!;
    my $text = decode('UTF-8', scalar `$command <$folder/typed 2>&1`);
    is($? >> 8, 0, "@lines: ends with status 0");
    unlike($text, qr/[\x00-\x09\x0b-\x1f\x{2500}-\x{25ff}]/, "@lines: no control character, no line, no box");
    return split /\n\n/, $text;
}

my ($begin, $say, $ask, $held, @rest) = told("$viewer $trace --plain", 'n', 'n', 'n', 'quit');
like($begin, qr/\Astory: .*\nstep: 0 of (?:\d+|[?]), iteration 0, 0 ns\nrank: none, lane main\nwhat: 0 lesson\.begin /, 'it begins with where one stands');
like($say, qr/^what: 1 lesson\.say .*\nwhere: \S+:\d+ lesson_say; lesson line \d+/m, 'a step tells what and where, in this order');
like($ask, qr/^question: .*\?\nchoice a: .*\nchoice b: .*\nchoice c: /m, 'a question comes with its choices');
unlike($ask, qr{answer=|-> }, 'and not with its answer');
unlike($held, qr/^step:/m, 'who is asked does not go on');
like($held, qr/answer/, 'and is told why');

my ($first, $second, $same) = told("$viewer $trace --plain --at $inside", 's', '', 'look');
like($first, qr/^inside: backward > TBackward0$/m, 'what is open around the event is told');
like($second, qr/^step: \d+ .*^changed: Tasks: r0 main +runs +backward/ms, 'what a step changed is told');
isnt($same, $second, 'an empty line repeats the last command');

my (undef, $lanes, $rank, $tasks, $wrong, $unknown) = told("$viewer $trace --plain --at $inside",
    'look lanes', 'look rank 1', 'look tasks', 'look nonsense', 'foo');
like($lanes, qr/^r0 main: backward > TBackward0$/m, 'look lanes tells what each lane does');
is((grep { !/^r1 / } split /\n/, $rank), 0, 'look rank 1 tells of rank 1 alone');
like($tasks, qr/\ATasks:\n.*r0 main/s, 'look PANE tells its lines');
like($wrong, qr/look at what\? lanes, rank R, or a pane's name/, 'what cannot be looked at is said');
like($unknown, qr/no command is called 'foo'/, 'so is an unknown command');

my @live = told("$ringside step --plain $lesson", 's', 's', 'where', 'look lanes', 'quit');
like($live[0], qr/\Astory: Equal from the first step\nstep: 0 of /, 'step --plain runs the lesson without a terminal');
like(join("\n\n", @live), qr/^step: 2 of /m, 'and steps it');
done_testing;
