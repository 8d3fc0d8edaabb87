#!/usr/bin/perl
# The story of every lesson is short: who knows n comes to its end, meets what it is about on the way, and does not read
# the same line over and over.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my %most = (map({ $_ => 30 } '01', '15'));

# The key facts: [presses or "all", what the words match] by the lesson's number.
my %fact = map { /^(\d\d) (\d+|all) +(.*)/ ? ($1 => [ $2, $3 ]) : () } split /\n/, slurp('tests/lessons/key_facts.txt');

# Stops: what is told at each, and how many presses it takes to stand there, a letter and Enter at each question.
sub stops_of {
    my ($lesson) = @_;
    my ($presses, @stops) = (0);
    for (split /\n/, ringside('story', $lesson)->{out}) {
        my ($number, $told) = /^(\d+)  \d+  (.*)/ or next;
        $presses++ if $number > 0;
        push @stops, { presses => $presses, told => $told };
        $presses += 2 if $told =~ / a\) .* b\) /;
    }
    return @stops;
}

my %met;
for my $lesson (glob 'lessons/*.lua') {
    my ($name, $number) = $lesson =~ m{((\d\d)[^/]*)\.lua$};
    my ($stops, $questions, $alike) = ringside('story', '--count', $lesson)->{out} =~ /^(\d+) stops, (\d+) of .*; (\d+) in a row/
        or fail("$name: its story is counted"), next;
    cmp_ok($stops, '<=', $most{$number} // 60, "$name: so many stops");
    cmp_ok($alike, '<=', 6,                    "$name: so many in a row differ by numbers alone");

    $met{$number} = 1;
    my ($presses, $words) = @{ $fact{$number} // [ 0, '(?!)' ] };
    is($presses eq 'all' ? 'all' : 'few', $stops > 40 ? 'all' : 'few', "$name: the table gives it the presses that it has");
    my ($there) = grep { $$_{told} =~ $words } stops_of($lesson);
    ok(defined $there, "$name: the story tells its key fact") or next;
    cmp_ok($$there{presses}, '<=', $presses eq 'all' ? $stops + 2 * $questions : $presses, "$name: after so many presses");
}
is_deeply([ sort keys %fact ], [ sort keys %met ], 'each lesson has one key fact');
done_testing;
