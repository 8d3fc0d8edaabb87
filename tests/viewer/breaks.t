#!/usr/bin/env perl
# Breakpoints: made, listed with their keys, turned off, counted, let pass; over a recorded trace, in a batch and in a
# running session alike; every stop says why.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
use Time::HiRes qw(sleep time);
chdir "$FindBin::Bin/../.." or die "no root: $!";

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);
my $lesson = 'tests/viewer/causes/fewer_batches.lua';
system("$ringside run --quiet --trace $folder/t.trace $lesson >/dev/null 2>&1");
is($? >> 8, 3, 'a run of two ranks');

sub frame { decode('UTF-8', scalar `$viewer $folder/t.trace --print --at 0 --keys '$_[0]'`) }
sub batch { scalar `$ringside step --batch '$_[0]' $lesson 2>&1` }

my $made = ':break c10d.issue rank 1<Enter>:break bytes > 3000<Enter>';
like(frame("${made}cB"), qr/│.\s?1 ■ on  hit 1    c10d\.issue rank 1\s*$/m, 'B lists them: number, on, hits, condition');
like(frame("${made}c"), qr/^ stopped by 1: c10d\.issue rank 1 \(r1\)/m, 'a stop says why, and which rank');
like(frame("${made}BjSpace") =~ s/Space//r, qr/Breaks/, 'they are a pane');
like(frame("${made}Bj "), qr/│.\s?2 □ off hit 0    bytes > 3000\s*$/m, 'Space turns the chosen one off');
like(frame("${made}Bj  "), qr/│.\s?2 ■ on  hit 0    bytes > 3000\s*$/m, 'and on');
unlike(frame("${made}Bjd"), qr/bytes > 3000/, 'd deletes it');
like(frame("${made}Bo"), qr/│.\s?1 ■ on  hit 0    c10d\.issue rank 1  once\s*$/m, 'o: once');
like(frame("${made}Boc"), qr/│.\s?1 □ off hit 1    c10d\.issue rank 1  once\s*$/m, 'which is off after it has stopped');
like(frame("${made}Bje"), qr/^ :condition 2 bytes > 3000/m, 'e types its condition');
like(frame("${made}Bje0<Enter>"), qr/│.\s?2 ■ on  hit 0    bytes > 30000\s*$/m, 'and Enter sets it');
like(frame("${made}Bje and bogus ><Enter>"), qr/│.\s?2 ■ on  hit 0    bytes > 3000\s.*bogus/ms, 'a bad condition is refused when it is set');
like(frame("${made}:ignore 1 3<Enter>B"), qr/lets 3 pass/, ':ignore N COUNT');
my ($first)  = frame("${made}:disable 2<Enter>c") =~ m{step (\d+)/};
my ($fourth) = frame("${made}:disable 2<Enter>:ignore 1 3<Enter>c") =~ m{step (\d+)/};
my ($counted) = frame("${made}:disable 2<Enter>cccc") =~ m{step (\d+)/};
isnt($first, $fourth, 'it lets pass');
is($fourth, $counted, 'three times, and stops the fourth');
like(frame('B'), qr/no breakpoints: b makes one/, 'without any B says how to make one');
unlike(frame('BB'), qr/► Breaks/, 'B again leaves the pane');

is(batch('break c10d.issue rank 1; ignore 1 3; continue; where; info breaks') =~ /^1: c10d\.issue rank 1, stopped 1 times$/m ? 1 : 0, 1,
    'a batch has them, too');
like(batch('break c10d.issue rank 1; ignore 1 3; continue'), qr/^stopped by 1: c10d\.issue rank 1 \(r1\)$/m, 'and says why it stopped');
like(batch('break c10d.issue; once 1; continue; info breaks'), qr/^1: c10d\.issue, stopped 1 times, off, once$/m, 'once');
like(batch('break c10d.issue; disable 1; enable 1; continue'), qr/stopped by 1/, 'disable and enable');
like(batch('break c10d.issue; condition 1 bytes >'), qr/condition 1 bytes >/, 'a bad condition fails');
like(batch("enable $_"), qr/no breakpoint $_/, "enable $_ without one fails") for 7;
like(batch('break c10d.issue; ignore 1 few'), qr/ignore takes/, 'ignore wants a number');
like(batch('once x'), qr/once/, 'once wants one, too');

SKIP: {
    skip 'tmux is not installed', 6 if system('command -v tmux >/dev/null 2>&1') != 0;
    my $whole = ($ringside =~ m{^/} ? '' : "$FindBin::Bin/../../") . $ringside;
    my @tmux = ('env', '-u', 'TMUX', '-u', 'NO_COLOR', 'TERM=xterm-256color', 'LC_ALL=C.UTF-8',
                'tmux', '-S', "$folder/tmux", '-f', '/dev/null', '-u');
    my $type = sub { system(@tmux, 'send-keys', '-t', 'v', @_) };
    my $line = sub { system(@tmux, 'send-keys', '-t', 'v', '-l', $_[0]); $type->('Enter') };
    my $shows = sub {
        my ($pattern, $name) = @_;
        my ($until, $text) = (time + 10, '');
        while (time < $until) {
            $text = decode('UTF-8', scalar `@tmux capture-pane -p -t v`);
            last if $text =~ $pattern;
            sleep 0.02;
        }
        like($text, $pattern, $name);
    };
    system(@tmux, 'new-session', '-d', '-s', 'v', '-x', '160', '-y', '40', 'env PS1=ready: sh');
    $line->("TMPDIR=$folder XDG_RUNTIME_DIR=$folder $whole step $FindBin::Bin/causes/fewer_batches.lua");
    $shows->(qr/step 0\/\d+.*paused/, 'a live run');
    $line->(':break c10d.issue rank 1');
    $type->('c');
    $shows->(qr/stopped by 1: c10d\.issue rank 1 \(r1\)/, 'its session stops, and says why');
    $type->('B');
    $shows->(qr/1 ■ on  hit 1    c10d\.iss/, "B shows the session's breakpoints");
    $type->('Space');
    $shows->(qr/1 □ off hit 1    c10d\.iss/, 'which the keys change');
    $type->('B', 'x');
    $shows->(qr/Which rank runs first.*\n.*r0 .*\n.*r1 /, 'x: the ranks, of which one may run first');
    $shows->(qr/^ 0-9 choose a rank  Enter let it go first  Esc close$/m, 'and the last row has its keys');
    $type->('1');
    $shows->(qr/rank 1 goes first among equals|rank 1 cannot run now/, 'a digit chooses one, and the engine says what came of it');
    system(@tmux, 'kill-server');
}
like(frame('x'), qr/switch needs the running engine/, 'over a recorded trace x says what it needs');

done_testing;
