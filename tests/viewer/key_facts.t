#!/usr/bin/env perl
# Who knows n, Enter and the letters of a question alone reads what a lesson is about, on a real terminal of 80x24 without
# colour, after no more presses than tests/lessons/key_facts.txt gives. Three lessons; all of them with RINGSIDE_LONG.
use strict;
use warnings;
use utf8;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
use Test::More;
use Time::HiRes qw(sleep);
binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output);
chdir "$FindBin::Bin/../.." or die "no root: $!";

plan skip_all => 'tmux is not installed' if system('command -v tmux >/dev/null 2>&1') != 0;

my $out    = $ENV{RINGSIDE_OUT} || 'build/release';
my $folder = tempdir(CLEANUP => 1);
my @tmux   = ('env', '-u', 'TMUX', 'NO_COLOR=1', 'TERM=xterm-256color', 'LC_ALL=C.UTF-8', "XDG_RUNTIME_DIR=$folder",
              'tmux', '-S', "$folder/tmux", '-f', '/dev/null', '-u');
sub tmux { system(@tmux, @_) == 0 }

sub screen {
    open my $in, '-|', @tmux, 'capture-pane', '-p', '-t', 'v' or return '';
    local $/;
    return decode('UTF-8', <$in> // '');
}

# The frame once it stands still, and is another one than before: a press may also change nothing.
sub frame_after {
    my ($before) = @_;
    my ($last, $still) = ('', 0);
    for (1 .. 200) {
        my $now = screen();
        $still = $now eq $last && $now =~ /\S/ ? $still + 1 : 0;
        last if $still >= ($now eq $before ? 20 : 3);
        $last = $now;
        sleep 0.02;
    }
    return $last;
}

sub press {
    my ($before, $key) = @_;
    tmux('send-keys', '-t', 'v', $key);
    return frame_after($before);
}

# The Lesson pane's words as one line.
sub words {
    my ($frame) = @_;
    my ($pane) = $frame =~ /^─.Lesson [^\n]*\n(.*?)^\S \d/ms or return '';
    my $words = join ' ', map { /^(.*?)(?:│|$)/ ? $1 : () } split /\n/, $pane;
    return $words =~ s/\s+/ /gr;
}

# Whether a question is open: behind the last answer.
sub asks { return words($_[0]) =~ s/.* -> //r =~ /\? .* a\) .* b\) / }

# A bar of a rank's all-reduce under that of its backward, which still runs.
sub is_under_backward {
    my ($frame) = @_;
    my (%lane, $rank, $comm);
    for (split /\n/, $frame) {
        last if /^─/;
        ($rank, $comm) = ($1, 0) if /^.(r\d) main/;
        $comm = 1 if /^. +comm/;
        push @{ $lane{$rank}[$comm] }, substr $_, 13 if $rank && /^.(?:r\d main|   comm|   └)/;
    }
    for my $rows (values %lane) {
        for my $row (@{ $$rows[0] }) {
            my ($bar) = $row =~ /▐([^▌]*(?:backw|Addmm)[^▌]*)▌?[ │┊]*$/ or next;
            return 1 if grep { substr($_ . ' ' x 80, $-[1], length $bar) =~ /═/ } @{ $$rows[1] };
        }
    }
    return 0;
}

# How many presses it took, and the frame; undef: it is not there.
sub walk {
    my ($lesson, $most, $words) = @_;
    my $ringside = ($out =~ m{^/} ? '' : "$FindBin::Bin/../../") . "$out/ringside";
    tmux('new-session', '-d', '-s', 'v', '-x', '80', '-y', '24', "$ringside step $lesson; cat") or BAIL_OUT('tmux does not start');
    my ($presses, $frame, $found) = (0, frame_after(''));
    while (1) {
        $found = words($frame) =~ $words;
        last if $found || $presses >= $most;
        my @keys = asks($frame) ? ('a', 'Enter', 'n') : 'n';
        for my $key (@keys) {
            $frame = press($frame, $key);
            $presses++;
            last if ($found = words($frame) =~ $words);
        }
    }
    tmux('kill-session', '-t', 'v');
    return ($found ? $presses : undef, $frame);
}

open my $table, '<:encoding(UTF-8)', 'tests/lessons/key_facts.txt' or die "no table: $!";
while (<$table>) {
    my ($number, $given, $words) = /^(\d\d) (\d+|all) +(.*)/ or next;
    next unless $ENV{RINGSIDE_LONG} || $number =~ /^(?:01|04|15)$/;
    my ($lesson) = glob "lessons/$number-*.lua";
    my ($stops, $asks) = `$out/ringside story --count $lesson` =~ /^(\d+) stops, (\d+)/ or die "$lesson has no story";
    my ($presses, $frame) = walk($lesson, $given eq 'all' ? $stops + 2 * $asks : $given, $words);
    ok(defined $presses, "$number: '$words' is on the screen" . (defined $presses ? " after $presses presses" : '')) or diag($frame);
    ok(is_under_backward($frame), '15: and an all-reduce is drawn under a running backward') or diag($frame) if $number eq '15';
}
done_testing;
