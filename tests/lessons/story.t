#!/usr/bin/perl
# A student who presses n and Enter and nothing else reads the whole of each lesson on 80x24 without colour: every sentence,
# every question with all its choices, why its answer is right, and every check; no answer, and nothing of what comes, is
# to be seen before. The states that are passed are the same forwards, backwards and from anywhere.
use strict;
use warnings;
use utf8;
use lib 'tests/cli';
use Encode qw(decode);
use JSON::PP qw(decode_json);
use Ringside;
use Test::More;

(my $viewer = program()) =~ s{ringside$}{trace_viewer};
my $long = $ENV{RINGSIDE_LONG};
my $shots = folder() . '/shot';
my $taken = 0;

# Presses the keys from event 0 on; in them a list [SIZE] stands for a picture. Answers the pictures.
sub pictures {
    my ($trace, $size, @keys) = @_;
    my ($pressed, @files) = ('');
    for (@keys) {
        $pressed .= $_, next unless ref;
        push @files, $shots . $taken++ . '.txt';
        $pressed .= ":frame $files[-1] $size<Enter>";
    }
    system("'$viewer' '$trace' --print --size $size --at 0 --keys '$pressed' >/dev/null") == 0 or return;
    return map { local (@ARGV, $/) = ($_); my $text = decode('UTF-8', <>); unlink $_; $text } @files;
}

sub bare {
    my ($text) = @_;
    $text =~ s/\s+/ /g;
    $text =~ s/^ | $//g;
    return $text;
}

# The words of the lesson's pane, whatever lines they are broken into.
sub words {
    my ($frame) = @_;
    my ($pane) = $frame =~ /^─.Lesson [^\n]*\n(.*?)^\S \d/ms or return '';
    return bare(join ' ', map { /^(.*?)(?:│|$)/ ? $1 : () } split /\n/, $pane);
}

# The words that the lesson has for its reader, each with the picture of the first stop at or behind it: there it must be.
sub read_story {
    my ($stops, @events) = @_;
    my ($presses, $told_to, @keys, @told, @asks) = (0, -1);
    for my $at (@$stops) {
        $presses++ if $at > 0;
        my @words = grep { $$_{kind} =~ /^lesson\.(?:say|check)$/ } @events[ $told_to + 1 .. $at ];
        my $event = $events[$at];
        $told_to = $at;
        next unless @words || $$event{kind} =~ /^lesson\./;
        push @keys, 'n' x $presses;
        $presses = 0;
        my $picture = grep { ref } @keys;
        push @told, [ $picture, bare(($$_{kind} eq 'lesson.say' ? '' : $$_{args}{ok} ? 'ok ' : 'NOT OK ') . $$_{args}{text}) ] for @words;
        push @asks, { at => $picture, %{ $$event{args} } } if $$event{kind} eq 'lesson.ask';
        push @keys, [], $$event{kind} eq 'lesson.ask' ? ('<Enter>', '<Enter>', []) : ();
    }
    return (\@keys, \@told, \@asks);
}

for my $path (glob 'lessons/*.lua') {
    my ($name) = $path =~ m{([^/]+)\.lua$};
    my $trace  = folder() . "/$name.trace";
    is(ringside('run', '--quiet', '--trace', $trace, $path)->{status}, 0, "$name runs");
    my @events = map { /^(\d+) (\S+) (\S+)/ ? { seq => $1, kind => $2, phase => $3 } : () } split /\n/, ringside('events', $trace)->{out};
    $events[ $$_{seq} ] = $_ for map { decode_json($_) } split /\n/, ringside('events', $trace, 'lesson', '--json')->{out};
    my @stops = map { /^\d+  (\d+)  / ? $1 : () } split /\n/, ringside('story', $trace)->{out};
    my ($keys, $told, $asks) = read_story(\@stops, @events);
    is(scalar @$asks, scalar(grep { $$_{kind} eq 'lesson.ask' } @events), "$name: n stops at each question");
    my @frames = pictures($trace, '80x24', @$keys);
    my @words  = map { words($_) } @frames;

    my @missing = grep { index(($words[ $$_[0] ] // '') =~ tr/ //dr, $$_[1] =~ tr/ //dr) < 0 } @$told; # long names break
    is_deeply([ map { $$_[1] } @missing ], [], "$name: all that is said and checked is read, on the way");
    for my $ask (@$asks) {
        my ($open, $shut) = @words[ $$ask{at}, $$ask{at} + 1 ];
        my $question = bare($$ask{question});
        like($open, qr/\Q? $question\E .*Enter: answer/, "$name: '" . substr($question, 0, 40) . "' with all choices and how to answer");
        like($shut, qr/\Q-> @{[ bare($$ask{answer}) ]} @{[ bare($$ask{why}) ]}\E/, "$name: and what it comes to");
    }
    my @early;
    for my $ask (@$asks) {
        for my $secret (grep { length > 11 } map { substr $_, 0, 24 } $$ask{why}, map { (split /\nwrong /)[1] // () } split /\nchoice /, $$ask{choices}) {
            push @early, grep { index($frames[$_], $secret) >= 0 } 0 .. $$ask{at};
        }
    }
    is_deeply(\@early, [], "$name: nothing of an answer is to be seen before it");
    my @total = grep { (split /\n/, $frames[$_])[0] =~ m{step \d+/\d} } 0 .. (@$asks ? $$asks[-1]{at} : -1);
    is_deeply(\@total, [], "$name: nor how long it will be");
    my ($end) = map { $$_{seq} } grep { $$_{kind} eq 'lesson.end' } @events;
    like($frames[-1], qr{ step $end/$#events .*^L $end lesson\.end}ms, "$name: it ends at the end");

    # Forwards, backwards, from anywhere; what is new since the last step is forgotten by going to where one stands.
    shift @stops; # where it begins
    my @at    = $long ? 0 .. $#stops - 2 : map { int($_ * $#stops / 3.3) } 0 .. 2;
    my @step  = (':reveal all<Enter>', map { my $at = $_; my $here = ":goto $stops[$at]<Enter>";
        (":goto 0<Enter>", 'n' x ($at + 1), $here, [], 'nnNN', [], "G$here", []) } @at);
    my @same  = pictures($trace, '200x60', @step);
    is(scalar(@same), 3 * @at, "$name: so many states are looked at");
    is_deeply([ grep { $same[ 3 * $_ ] ne $same[ 3 * $_ + 1 ] } 0 .. $#at ], [], "$name: a step forwards and back passes the same states");
    is_deeply([ grep { $same[ 3 * $_ ] ne $same[ 3 * $_ + 2 ] } 0 .. $#at ], [], "$name: and so it is from anywhere");
    unlink $trace;
}
done_testing();
