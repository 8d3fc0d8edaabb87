#!/usr/bin/perl
# On the smallest screen of a class, 80x24, each question of the course can be read where it is asked: its words and all
# choices before the answer; after it what was given, what is said of a wrong choice, the answer, and why. On a smaller
# one, 40x12, too: the question at once, what is said to the answer with Tab and k.
use strict;
use warnings;
use utf8;
use lib 'tests/cli';
use Encode qw(decode);
use JSON::PP qw(decode_json);
use Ringside;
use Test::More;

(my $viewer = program()) =~ s{ringside$}{trace_viewer};

sub frame {
    my ($trace, $size, $seq, $keys) = @_;
    return decode('UTF-8', scalar `$viewer $trace --print --size $size --at $seq --keys '$keys'`);
}

# The rows of the lesson's pane.
sub rows {
    my ($pane) = frame(@_) =~ /^─.Lesson [^\n]*\n(.*?)^[L!] \d/ms or return;
    return map { /^(.*?)(?:│|$)/ ? $1 : () } split /\n/, $pane;
}

# Its words, whatever lines they are broken into.
sub words { return bare(join ' ', rows(@_)) }

# Its words where it is scrolled up by one row after another until all was seen.
sub scrolled {
    my ($trace, $size, $seq, $keys) = @_;
    my @all = rows($trace, $size, $seq, $keys);
    for my $up (1 .. 20) {
        my @here = rows($trace, $size, $seq, "$keys<Tab>" . 'k' x $up);
        last if !@here || $here[1] ne $all[0];
        unshift @all, $here[0];
    }
    return bare(join ' ', @all);
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
        my $open     = words($trace, '80x24', $ask->{seq}, '');
        like($open, qr/\Q? $question\E/, "$name: '$question' can be read whole");
        like(words($trace, '40x12', $ask->{seq}, ''), qr/\Q? $question\E/, "$name: on 40x12, too");
        unlike(join("\n", rows($trace, $_, $ask->{seq}, '')), qr/ [a-z]\)\s*$/m, "$name: $_: a letter stands with its choice")
            for '80x24', '40x12', '120x40';
        my @choices = split /^choice /m, $args->{choices} // '';
        shift @choices; # what is hidden
        my $keys = @choices > 1 ? qr/^ a-@{[ chr(ord('a') + @choices) ]} choose  / : qr/^ /;
        like((split /\n/, frame($trace, '40x12', $ask->{seq}, ''))[11], qr/${keys}Enter answer  Esc later\b/, "$name: with the keys that answer");
        like((split /\n/, frame($trace, '40x12', $ask->{seq}, '<Enter>'))[11], qr/${keys}Enter show it  Esc later\b/, "$name: and show it");
        my @stops = map { frame($trace, '80x24', $ask->{seq}, $_) =~ m{ step (\d+)/} } '<Enter><Enter>nn', '<Esc>nn', '<Esc>2n';
        is($stops[1], $stops[0], "$name: and who puts it off comes to the same stops");
        cmp_ok($stops[2], '<=', $stops[0], "$name: and a count jumps over none");
        for my $i (0 .. $#choices) {
            my ($choice, $wrong) = split /\nwrong /, $choices[$i];
            my $answer = chr(ord('a') + $i) . '<Enter>';
            my $told = words($trace, '80x24', $ask->{seq}, $answer);
            my $said = bare(join ' ', "you: $choice", defined $wrong ? $wrong : (), "-> $args->{answer}", $args->{why} // '');
            like($told, qr/\Q$said\E/, "$name: and what is said when '" . bare($choice) . "' is the answer");
            $told = scrolled($trace, '40x12', $ask->{seq}, $answer);
            like($told, qr/\Q$said\E/, "$name: on 40x12, too");
        }
        if (@choices) {
            my $unknown = words($trace, '80x24', $ask->{seq}, chr(ord('a') + @choices) . '<Enter>');
            my $said = bare("you: I do not know -> $args->{answer} " . ($args->{why} // ''));
            like($unknown, qr/\Q$said\E/, "$name: and what is said to who does not know");
        }
    }
}
done_testing();
