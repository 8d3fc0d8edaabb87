#!/usr/bin/env perl
# An engine that is interrupted, in a real terminal: killed, an assertion, a bad address, an exit in the middle, no
# memory. Each leaves the viewer alive with all that was recorded until then, and a sentence that says what happened.
use strict;
use warnings;
use Test::More;
use File::Temp qw(tempdir);
use FindBin;
use Time::HiRes qw(sleep time);
chdir "$FindBin::Bin/../.." or die "no root: $!";

plan skip_all => 'tmux is not installed' if system('command -v tmux >/dev/null 2>&1') != 0;

my $out      = $ENV{RINGSIDE_OUT} || 'build/release';
my $ringside = ($out =~ m{^/} ? '' : "$FindBin::Bin/../../") . "$out/ringside";
my $folder   = tempdir(CLEANUP => 1);

my @tmux = ('env', '-u', 'TMUX', '-u', 'NO_COLOR', 'TERM=xterm-256color', 'LC_ALL=C.UTF-8',
            'tmux', '-S', "$folder/tmux", '-f', '/dev/null', '-u');
sub tmux { system(@tmux, @_) == 0 }
END { tmux('kill-server') if @tmux && -S "$folder/tmux" }

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
    return $text =~ $pattern;
}
sub type { tmux('send-keys', '-t', 'v', @_) }
sub line { tmux('send-keys', '-t', 'v', '-l', $_[0]); tmux('send-keys', '-t', 'v', 'Enter') }

# The viewer is the shell's child, the session the viewer's, the engine the session's.
sub children {
    my ($pid) = @_;
    open my $in, '-|', 'ps', '-o', 'pid=', '--ppid', $pid or return;
    my @pids = map { /(\d+)/ ? $1 : () } <$in>;
    close $in;
    return @pids;
}
sub engine {
    my ($shell) = `@tmux display-message -p -t v '#{pane_pid}'` =~ /(\d+)/;
    my ($viewer) = children($shell);
    my ($session) = children($viewer);
    return (children($session))[0];
}

my $lesson = "$folder/long.lua";
open my $file, '>', $lesson or die "no lesson: $!";
print $file <<'END_LESSON';
local rs = require "ringside"
rs.lesson { title = "Long", seed = 1 }
local x = rs.ones(8)
for i = 1, 100000000 do x = x + 1 end
END_LESSON
close $file;
open $file, '>', "$folder/leaves.lua" or die "no lesson: $!";
print $file <<'END_LESSON';
local rs = require "ringside"
rs.lesson { title = "Leaves", seed = 1 }
local x = rs.ones(8) + 1
os.exit(3)
END_LESSON
close $file;

ok(tmux('new-session', '-d', '-s', 'v', '-x', '100', '-y', '30', 'env PS1=ready: sh'), 'a terminal of 100x30')
    or BAIL_OUT('tmux does not start');
shows(qr/ready:/, 'with a shell');
line("cd $folder; export TMPDIR=$folder XDG_RUNTIME_DIR=$folder");

my $round = 0;
sub begin {
    my ($words) = @_;
    $round++;
    line("clear; $ringside step $words; echo ended \$? round $round");
    shows(qr/step 0\/\d+.*paused/, "$words: a live run");
}
sub goes_on_without {
    my ($name) = @_;
    my ($end)  = screen() =~ /after event (\d+)/;
    like(screen(), qr/engine gone  seed/, "$name: the title says so, too");
    type('S');
    shows(qr/step (?!$end\b)\d+\/$end\b/, "$name: all that was recorded is there, and can be stepped in");
    like(screen(), qr/engine gone \(/, "$name: the sentence stays");
    type('g');
    shows(qr/step 0\/$end\b/, "$name: to its first event");
    type('Q');
    shows(qr/ended 0 round $round\b/, "$name: the viewer leaves as ever");
}

for my $case ([ 'KILL', 9, 'signal 9' ], [ 'ABRT', 6, 'signal 6, an assertion' ], [ 'SEGV', 11, 'signal 11' ]) {
    my ($signal, $number, $says) = @$case;
    begin('long.lua');
    type('s');
    my $engine = engine();
    ok(defined $engine && kill($signal, $engine), "SIG$signal to the engine, which waits");
    type('c');
    shows(qr/^ ?engine gone \(\Q$says\E\) after event \d+/m, "SIG$signal: a sentence says it");
    goes_on_without("SIG$signal");
}
begin('long.lua');
type('c');
shows(qr/running/, 'the engine runs');
my $engine = engine();
ok(defined $engine && kill('KILL', $engine), 'killed in the middle of it');
shows(qr/^ ?engine gone \(signal 9\) after event \d{3,}/m, 'a run that is killed: a sentence says it at once');
goes_on_without('killed in the middle');

SKIP: {
    skip 'prlimit is not installed', 2 if system('command -v prlimit >/dev/null 2>&1') != 0;
    begin('long.lua');
    my $poor = engine();
    is(system('prlimit', "--pid=$poor", '--as=1000000'), 0, 'the engine gets no memory any more');
    type('c');
    shows(qr/^ ?(?:engine gone \(|out of memory|the run has failed \(exit status \d+\) at event \d+)/m, 'no memory: a sentence says it');
    like(screen(), qr/step \d+\/\d+/, 'and the viewer is there');
    type('Q');
    shows(qr/ended 0 round $round\b/, 'and leaves as ever');
}

begin('--trust leaves.lua');
type('c');
shows(qr/^ ?engine gone \(exit status 3\) after event \d+/m, 'exit 3 in the middle: a sentence says it');
goes_on_without('exit 3');

done_testing;
