#!/usr/bin/env perl
# The viewer on a real terminal, by tmux: it opens, follows resizes, suspends, ends on signals, and leaves the terminal
# as it was, each time.
use strict;
use warnings;
use Test::More;
use File::Temp qw(tempdir);
use FindBin;
use Time::HiRes qw(sleep time);
chdir "$FindBin::Bin/../.." or die "no root: $!";

plan skip_all => 'tmux is not installed' if system('command -v tmux >/dev/null 2>&1') != 0;

my $out    = $ENV{RINGSIDE_OUT} || 'build/release';
my $viewer = ($out =~ m{^/} ? '' : "$FindBin::Bin/../../") . "$out/trace_viewer";
my $folder = tempdir(CLEANUP => 1);
my $trace  = "$folder/01.trace";
is(system("$out/ringside run --quiet --trace $trace lessons/01-six-rows.lua >/dev/null 2>&1"), 0, 'lesson 01 makes a trace');

my @tmux = ('env', '-u', 'TMUX', '-u', 'NO_COLOR', 'TERM=xterm-256color', 'LC_ALL=C.UTF-8',
            'tmux', '-S', "$folder/tmux", '-f', '/dev/null', '-u');
sub tmux { system(@tmux, @_) == 0 }

sub screen {
    open my $in, '-|', @tmux, 'capture-pane', '-p', '-t', 'v' or return '';
    local $/;
    my $text = <$in>;
    close $in;
    return $text // '';
}

sub shows {    # polls, at most ten seconds
    my ($pattern, $name) = @_;
    my $until = time + 10;
    my $text  = '';
    while (time < $until) {
        $text = screen();
        last if $text =~ $pattern;
        sleep 0.02;
    }
    like($text, $pattern, $name);
}
sub type { tmux('send-keys', '-t', 'v', @_) }
sub line { tmux('send-keys', '-t', 'v', '-l', $_[0]); type('Enter') }

ok(tmux('new-session', '-d', '-s', 'v', '-x', '80', '-y', '24', 'env PS1=ready: sh'), 'a terminal of 80x24')
    or BAIL_OUT('tmux does not start');
shows(qr/ready:/, 'with a shell');
line("cd $folder; stty -g > before; alias v=$viewer");

my $round = 0;
sub left {
    my ($status, $name) = @_;
    $round++;
    shows(qr/ended $status\b.*round $round/s, "$name: status $status");
    line("stty -g | cmp - before && echo same\$((40+$round))");
    shows(qr/^same@{[40 + $round]}/m, "$name: the terminal is as it was");
    unlike(screen(), qr/n next\s+m stage/, "$name: the main screen is back");
}

sub open_viewer {
    line("clear; $viewer 01.trace; echo ended \$? round " . ($round + 1));
    shows(qr/step 0\/[\d?]+/, 'the viewer opens');
}

open_viewer();
type('s');
shows(qr/step 1\/[\d?]+/, 's steps');
type('S');
shows(qr/step 0\/[\d?]+/, 'S steps back');
type('?');
shows(qr/six keys are enough/, '? says which keys are enough');
type('?');
shows(qr/go on by one event/, '? lists the keys');
shows(qr/line 1 of \d+/, 'and says where in it one is');
type('NPage');
shows(qr/line 2[0-9] of \d+/, 'PageDown pages it');
type('s', 'PPage');
shows(qr/line 1 of \d+/, 'PageUp pages it back');
type('q');
shows(qr/step 0\/[\d?]+/, 'q closes the list, and no key acted beneath it');
for my $size ([120, 40], [40, 8], [10, 3], [1, 1], [200, 60], [80, 24]) {
    tmux('resize-window', '-t', 'v', '-x', $size->[0], '-y', $size->[1]);
}
shows(qr/^ Where do six.*step 0\/[\d?]+.*\n.*\n(.*\n){21} n next/, 'a burst of resizes ends in a whole frame');
type('q');
left(0, 'q');

# ^Z stops the viewer and its guardian; fg goes on where it was.
line("clear; set -m; $viewer 01.trace");
shows(qr/step 0\/[\d?]+/, 'the viewer opens');
type('s');
shows(qr/step 1\/[\d?]+/, 's steps');
type('C-z');
shows(qr/ready:/, '^Z gives the shell back');
line('fg; echo ended $? round ' . ($round + 1));
shows(qr/step 1\/[\d?]+/, 'fg shows the frame again');
type('Q');
left(0, 'Q');

# With a live engine: what is typed faster than it answers is done all the same, in its order.
(my $ringside = $viewer) =~ s/trace_viewer$/ringside/;
mkdir "$folder/live";
line("clear; XDG_RUNTIME_DIR=$folder/live $ringside step $FindBin::Bin/../../lessons/01-six-rows.lua; echo ended \$? round " . ($round + 1));
shows(qr/step 0\/[\d?]+/, 'a live run waits at its first event');
my $moves = 'step; step; step; step; back; where; next; next; next; where; rnext; where; step; where';
my @at    = `$ringside step --batch '$moves' $FindBin::Bin/../../lessons/01-six-rows.lua` =~ /^(\d+) /mg;
is(scalar @at, 4, 'a batch says where it is');
type('s', 's', 's', 's', 'S');
shows(qr/step $at[0]\/[\d?]+/, 'five keys in one burst all count');
type('n', 'n', 'n');
shows(qr/step $at[1]\/[\d?]+/, 'n stops where it does in a batch');
type('N');
shows(qr/step $at[2]\/[\d?]+/, 'and N goes back there');
my ($socket) = grep { -S } glob "$folder/live/*/*";
my $second = `echo where | timeout 10 $viewer --attach $socket --plain 2>&1`;
is($? >> 8, 0, 'a second screen looks at the same session');
like($second, qr/^step: $at[2] of /m, 'and stands where it stands');
`printf 's\\ns\\n' | timeout 10 $viewer --attach $socket --plain`;
my $moved = (`$ringside step --batch '$moves; step; where' $FindBin::Bin/../../lessons/01-six-rows.lua` =~ /^(\d+) /mg)[-1];
shows(qr/step $moved\/[\d?]+/, 'what the second does the first shows');
type('S', 'S');
shows(qr/step $at[2]\/[\d?]+/, 'and goes on from there when the second has left');
type('s');
shows(qr/step $at[3]\/[\d?]+/, 'the first viewer goes on');
type('c');
shows(qr/\? How many of the four/, 'a live run stops at a question');
type('=');
shows(qr/ \d+ lesson\.ask .*\n a-d choose  Enter answer  Esc later/, '= says where one is');
unlike(screen(), qr/answer = "3"|answer=3|chunk takes/, 'and nobody tells the answer');
type('Enter', 'Enter');
shows(qr/-> 3  chunk takes pieces/, 'Enter shows it, and why');
type('Q');
left(0, 'Q of a live run');

for my $case (['TERM', 143], ['HUP', 129], ['INT', 130], ['QUIT', 143]) {
    open_viewer();
    my ($guard) = viewers();
    ok($guard, 'the viewer has a process');
    kill $case->[0], $guard;
    left($case->[1], "SIG$case->[0]");
}
open_viewer();
my (undef, $child) = viewers();
kill 'KILL', $child;
left(137, 'SIGKILL');

line("TERM=dumb $viewer 01.trace; echo dumb \$?");
shows(qr/--print.*--plain.*\ndumb 2/s, 'TERM=dumb: one line names --print and --plain, status 2');
line("TERM=nobodys $viewer 01.trace; echo unknown \$?");
shows(qr/--print.*--plain.*\nunknown 2/s, 'an unknown TERM, too');
line("NO_COLOR=1 $viewer 01.trace; echo plain \$?");
shows(qr/step 0\/[\d?]+/, 'NO_COLOR opens too');
type('q');
shows(qr/plain 0/, 'and quits');

# A session ends with its viewer, also while the engine runs and when the whole terminal goes; its folders go with it.
# Where a question holds one back, the engine's own whereabouts are not told.
line("clear; $ringside step $FindBin::Bin/../../lessons/01-six-rows.lua; echo ended \$? round " . ($round + 1));
shows(qr/step 0\/[\d?]+/, 'a live run of a lesson with questions');
type(':');
line('break dp.gather');
shows(qr/breakpoint 1: dp\.gather/, 'a breakpoint behind a question');
type('c');
shows(qr/^ \? How many of the four/m, 'the question stops c, and is what the screen says');
unlike(screen(), qr/stopped by 1|has ended/, 'not where the engine stopped');
type('q');
shows(qr/the run is not over: s stops it, d detaches from it, Esc stays/, 'q asks before it ends a live run');
shows(qr/^ s stop it  d detach  Esc stay$/m, 'the last row has what the keys do then, no other');
type('Escape');
shows(qr/^ \? How many of the four|^ Where do six/m, 'Esc stays');
type('q');
shows(qr/the run is not over/, 'q asks again');
type('d');
left(0, 'q and d at a question');
(my $told = screen()) =~ s/\n//g;
my ($control) = $told =~ m{the run waits for a screen: trace_viewer --attach (/\S+?/control)};
ok($control && -S $control, 'd leaves the run, and says where it is') or diag($told);
line("clear; $viewer --attach $control; echo ended \$? round " . ($round + 1));
shows(qr/^ \? How many of the four|step \d+\//m, 'another screen finds it where it was');
type('q');
shows(qr/the run is not over/, 'q asks there, too');
type('s');
left(0, 'q and s');

mkdir "$folder/own";
open my $lesson, '>', "$folder/long.lua" or die "no lesson: $!";
print $lesson qq{local rs = require "ringside"\nrs.say "on"\nlocal t = rs.ones { 4 }\nwhile true do t = t + 1 end\n};
close $lesson;
for my $end ('q', 'TERM', 'terminal') {
    line("clear; TMPDIR=$folder/own XDG_RUNTIME_DIR=$folder/own $ringside step long.lua; echo ended \$? round "
         . ($round + 1));
    shows(qr/step 0\/[\d?]+/, 'a session opens');
    isnt(join(' ', glob "$folder/own/*"), '', 'it has folders');
    if ($end eq 'q') {
        type('n', 'n');
        shows(qr/running/, 'n lets the engine run to a stop that never comes');
        type('C-c');
        shows(qr/paused at event \d+/, '^C pauses it');
    }
    type('c');
    shows(qr/running/, 'the engine runs');
    type('q', 's') if $end eq 'q';
    kill 'TERM', (viewers())[0] if $end eq 'TERM';
    tmux('kill-session', '-t', 'v') if $end eq 'terminal';
    left($end eq 'q' ? 0 : 143, "$end while the engine runs") if $end ne 'terminal';
    my $until = time + 10;
    sleep 0.02 while (() = glob "$folder/own/*") && time < $until;
    is(join(' ', glob "$folder/own/*"), '', "$end: nothing is left");
}
done_testing;

# The processes of the viewer on this terminal, the guardian first.
sub viewers {
    my $tty = `@tmux display-message -p -t v '#{pane_tty}'`;
    chomp $tty;
    $tty =~ s{^/dev/}{};
    my @found;
    for (1 .. 200) {
        @found = map { /^\s*(\d+)\s+trace_viewer/ ? $1 : () } `ps -t $tty -o pid=,comm=`;
        last if @found == 2;
        sleep 0.02;
    }
    return sort { $a <=> $b } @found;
}
