#!/usr/bin/perl
# kill -9, of each process of a run and of a session, at points of a run and at random moments (of a seed that is printed;
# RINGSIDE_SEED repeats it; RINGSIDE_LONG=1: a hundred kills). The trace opens each time and holds every event that was
# reported, the terminal is as it was, and the next start finds what was left and takes it away.
use strict;
use warnings;
use lib 'tests/cli';
use File::Temp qw(tempdir);
use POSIX qw(_exit);
use Ringside;
use Test::More;
use Time::HiRes qw(sleep time);

my $ringside = program();
my $folder   = tempdir(CLEANUP => 1);
my $kills    = $ENV{RINGSIDE_LONG} ? 100 : 12;
my $seed     = $ENV{RINGSIDE_SEED} // time % 1e6;
srand $seed;
note("seed $seed");
sub names { my ($in) = @_; opendir my $list, $in or die $!; return join ' ', sort grep { !/^\.\.?$/ } readdir $list }
sub held { my ($trace) = @_; my $count = () = ringside('events', $trace)->{out} =~ /\n/g; return $count }

# ---- a run, at points that it reports ----
my $endless = spill("$folder/endless.lua", <<'END');
local rs = require "ringside"
rs.lesson { title = "For ever", devices = 1 }
io.stdout:setvbuf("no")
local t = rs.zeros(4)
while true do
  t = t * 0.5 + 1
  io.write(rs.trace:seq(), "\n")
end
END
for my $point (1 .. 20) {
    my $trace = "$folder/$point.trace";
    my $pid   = open my $run, '-|', $ringside, 'run', '--trust', '--executor', 'free', '--trace', $trace, $endless;
    die "cannot start $ringside" unless $pid;
    my ($told, $lines) = (0, 0);
    while (my $line = <$run>) {
        next unless $line =~ /^(\d+)\n\z/;
        $told = $1;
        last if ++$lines >= $point * $point * 7;
    }
    kill 9, $pid;
    while (my $line = <$run>) { $told = $1 if $line =~ /^(\d+)\n\z/ }
    close $run;
    my $held = held($trace);
    ok($told > 0 && $held >= $told, "killed after $lines reports the trace holds all events")
        or diag("told $told, held $held");
}

# ---- a run, at any moment, its beginning too ----
my $short = lesson('short', qq{local rs = require "ringside"\nlocal t = rs.zeros(4)\nfor i = 1, 3000 do t:add_(1) end\n});
my $work  = tempdir(CLEANUP => 1);
my @wrong;
for my $try (1 .. $kills) {
    my $trace = "$work/a.trace";
    my $pid   = fork() // die $!;
    if ($pid == 0) {
        open STDOUT, '>', '/dev/null';
        { exec $ringside, 'run', '--trace', $trace, $short }
        _exit(99);
    }
    sleep rand($try % 2 ? 0.02 : 0.2);
    kill 9, $pid;
    waitpid $pid, 0;
    my $read = -e $trace ? ringside('events', $trace) : { status => 0 };
    push @wrong, "$try: the trace does not open: $read->{err}" if $read->{status} != 0;
    my $next = ringside('run', '--trace', $trace, $short);
    push @wrong, "$try: the next run: $next->{err}" if $next->{status} != 0;
    push @wrong, "$try: left " . names($work) if names($work) ne 'a.trace';
    unlink $trace if $try % 3 == 0;
}
is("@wrong", '', "$kills runs killed at any moment: what is there opens, the next run goes, nothing is left (seed $seed)");

# ---- a session on a terminal ----
SKIP: {
    skip 'tmux is not installed', 1 if system('command -v tmux >/dev/null 2>&1') != 0;
    my $tmp  = "$folder/tmp";
    mkdir $tmp;
    my @tmux = ('env', '-u', 'TMUX', '-u', 'NO_COLOR', 'TERM=xterm-256color', 'LC_ALL=C.UTF-8',
                'tmux', '-S', "$folder/tmux", '-f', '/dev/null', '-u');
    system(@tmux, 'new-session', '-d', '-s', 'v', '-x', '80', '-y', '24', 'env PS1=ready: sh') == 0 or die 'no tmux';
    my $screen = sub {
        open my $in, '-|', @tmux, 'capture-pane', '-p', '-t', 'v' or return '';
        local $/;
        return <$in> // '';
    };
    my $shows = sub {
        my ($pattern) = @_;
        my $until = time + 20;
        while (time < $until) {
            return 1 if $screen->() =~ $pattern;
            sleep 0.02;
        }
        return 0;
    };
    my $type = sub { system(@tmux, 'send-keys', '-t', 'v', @_) };
    my $line = sub { system(@tmux, 'send-keys', '-t', 'v', '-l', $_[0]); $type->('Enter') };
    my $tty  = `@tmux display-message -p -t v '#{pane_tty}'`;
    $tty =~ s{^/dev/|\n}{}g;
    my $processes = sub {
        my %found;
        for (`ps -t $tty -o pid=,ppid=,comm=`) {
            push @{ $found{$3} }, [$1, $2] if /^\s*(\d+)\s+(\d+)\s+(ringside|trace_viewer)/;
        }
        my %is;    # of two with one name the child is the inner one
        for ([ringside => qw(session engine)], [trace_viewer => qw(guardian viewer)]) {
            my ($name, $outer, $inner) = @$_;
            my @two = @{ $found{$name} || [] };
            my %own = map { $_->[0] => 1 } @two;
            $is{ $own{ $_->[1] } ? $inner : $outer } = $_->[0] for @two;
        }
        return %is;
    };
    my $start = "env TMPDIR=$tmp XDG_RUNTIME_DIR=$tmp $ringside step --trace $folder/step.trace $short";
    my @bad;
    push @bad, 'no shell' if !$shows->(qr/ready:/);
    $line->("stty -g > $folder/before");
    my @whom = qw(engine session viewer guardian);
    for my $try (1 .. $kills) {
        my $who = $whom[$try % 4];
        $line->("clear; $start; echo ended \$((1000+$try))");
        push @bad, "$try: the session does not open: " . $screen->() if !$shows->(qr/step 0\/\d+/);
        $type->(('s') x int rand 20) for 1 .. int rand 3;
        sleep rand 0.2;
        my $told = $screen->() =~ /step (\d+)\// ? $1 : 0;
        my %is   = $processes->();
        if (!$is{$who}) { push @bad, "$try: there is no $who"; }
        else            { kill 9, $is{$who}; }
        if ($who eq 'engine' || $who eq 'session') { sleep 0.1; $type->('Escape'); $type->('Q') }
        # The shell goes on at once when the guardian is gone: what it says may stand on the screen that the viewer leaves.
        push @bad, "$try: $who killed, not ended: " . $screen->() if $who ne 'guardian' && !$shows->(qr/ended @{[1000 + $try]}/);
        my $until = time + 10;
        while (time < $until) { my %left = $processes->(); last if !%left; sleep 0.02 }
        $line->("clear; stty -g | cmp - $folder/before && echo same\$((2000+$try))");
        push @bad, "$try: $who killed, the terminal: " . $screen->() if !$shows->(qr/^same@{[2000 + $try]}/m);
        my $held = held("$folder/step.trace");
        push @bad, "$try: $who killed at event $told, the record holds $held" if $held < $told;
    }
    my $run = ringside({ env => { TMPDIR => $tmp, XDG_RUNTIME_DIR => $tmp } }, 'step', '--batch', 'step', $short);
    push @bad, "the next session: $run->{err}" if $run->{status} != 0;
    push @bad, 'left ' . names($tmp) if names($tmp) ne '';
    is(join("\n", @bad), '', "$kills kills of engine, session, viewer and guardian (seed $seed)");
    system(@tmux, 'kill-server');
}
done_testing();
