#!/usr/bin/perl
# On the smallest screen of a class, 80x24, each question of the course can be read where it is asked: its words and all
# choices before the answer; after it what was given, what is said of a wrong choice, the answer, and why.
use strict;
use warnings;
use utf8;
use lib 'tests/cli';
use Encode qw(decode);
use JSON::PP qw(decode_json);
use Ringside;
use Test::More;

(my $viewer = program()) =~ s{ringside$}{trace_viewer};

# The words of the lesson's pane, whatever lines they are broken into.
sub words {
    my ($trace, $seq, $keys) = @_;
    my $frame = decode('UTF-8', scalar `$viewer $trace --print --size 80x24 --at $seq --keys '$keys'`);
    my ($pane) = $frame =~ /^─ Lesson (.*?)^L \d/ms or return '';
    return bare(join ' ', map { /^(.*?)│/ ? $1 : () } split /\n/, $pane);
}

sub bare {
    my ($text) = @_;
    $text =~ s/\s+/ /g;
    $text =~ s/^ | $//g;
    return $text;
}

for my $path (glob 'lessons/*.lua') {
    my ($name) = $path =~ m{([^/]+)\.lua$};
    my $trace  = folder() . "/$name.trace";
    is(ringside('run', '--quiet', '--trace', $trace, $path)->{status}, 0, "$name runs");
    for my $ask (map { decode_json($_) } split /\n/, ringside('events', $trace, 'lesson.ask', '--json')->{out}) {
        my $args     = $ask->{args};
        my $question = bare($args->{question});
        my $open     = words($trace, $ask->{seq}, '');
        like($open, qr/\Q? $question\E/, "$name: '$question' can be read whole");
        my @choices = split /^choice /m, $args->{choices} // '';
        shift @choices; # what is hidden
        for my $i (0 .. $#choices) {
            my ($choice, $wrong) = split /\nwrong /, $choices[$i];
            my $told = words($trace, $ask->{seq}, chr(ord('a') + $i));
            my $said = bare(join ' ', "you: $choice", defined $wrong ? $wrong : (), "-> $args->{answer}", $args->{why} // '');
            like($told, qr/\Q$said\E/, "$name: and what is said when '" . bare($choice) . "' is the answer");
        }
    }
}
done_testing();
