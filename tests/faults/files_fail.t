#!/usr/bin/perl
# Commands with their n-th call on files failing (no room, a broken disk, half a write; once, or from then on): an error
# in one line (of each process) or the right answer, never a crash, a hang or something left behind. Some n, spread
# evenly; RINGSIDE_LONG=1: all.
use strict;
use warnings;
use lib 'tests/cli';
use Errno qw(ENOSPC EIO);
use File::Temp qw(tempdir);
use POSIX qw(_exit);
use Ringside;
use Test::More;

plan skip_all => 'the failing calls are for glibc on Linux' if $^O ne 'linux';
plan skip_all => 'sanitizers have calls of their own' if ($ENV{RINGSIDE_OUT} || '') =~ /asan|tsan/;
my $folder = tempdir(CLEANUP => 1);
my $plug   = "$folder/failing_files.so";
is(system("cc -O1 -shared -fPIC -o '$plug' tests/faults/failing_files.c -ldl"), 0, 'the failing calls are built');
my $lesson = lesson('small', <<'END');
local rs = require "ringside"
local t = rs.zeros(4)
for i = 1, 2000 do t:add_(1) end
print(t:sum():item(), rs.trace:count { kind = "op" } > 1000)
END
mkdir "$folder/made";
mkdir "$folder/tmp";
my $trace = "$folder/given.trace";
is(ringside('run', '--trace', $trace, $lesson)->{status}, 0, 'a trace to read');
sub names { my ($in) = @_; opendir my $list, $in or die $!; return join ' ', sort grep { !/^\.\.?$/ } readdir $list }

# Answers { status, signal, out, err }; the n-th call fails by this errno.
sub failing {
    my ($n, $how, @words) = @_;
    my %env = (LD_PRELOAD => $plug, FAIL_AT => $n, FAIL_ERRNO => $how->[0], FAIL_ON => $how->[1],
               TMPDIR => "$folder/tmp", XDG_RUNTIME_DIR => "$folder/tmp");
    $env{FAIL_CHILDREN} = 1 if $words[0] eq 'step';    # the engine too, at its own n-th
    $env{FAIL_COUNT} = "$folder/count" if $n == 0;
    unlink glob "$folder/made/*";
    my $pid = fork() // die $!;
    if ($pid == 0) {
        %ENV = (%ENV, %env);
        open STDIN,  '<', '/dev/null'    or die $!;
        open STDOUT, '>', "$folder/out"  or die $!;
        open STDERR, '>', "$folder/err"  or die $!;
        alarm 60;
        { exec program(), @words }
        _exit(99);
    }
    waitpid $pid, 0;
    return { status => $? >> 8, signal => $? & 127, out => slurp("$folder/out"), err => slurp("$folder/err") };
}

# '': as it should be.
sub fault_of {
    my ($run, $right) = @_;
    return "signal $run->{signal}" if $run->{signal};
    my $left = names("$folder/tmp");
    return "left $left" if $left ne '';
    my $made = names("$folder/made");
    return "beside: $made" if $made !~ /\A(?:new\.trace)?\z/;
    return $run->{out} eq $right || $run->{err} ne '' ? '' : "a wrong answer: " . substr $run->{out}, 0, 200 if $run->{status} == 0;
    return "status $run->{status}: $run->{err}" if $run->{status} > 3;
    return $run->{err} =~ /\A(?:(?:ringside|trace_viewer): [^\n]*\n){1,3}\z/ ? '' : "stderr: '$run->{err}'";
}

my @hows = ([ENOSPC, 0], [ENOSPC, 1], [EIO, 0], [EIO, 1], [0, 0]);
my %commands = (
    'run'          => ['run', '--hash', $lesson],
    'run --trace'  => ['run', '--hash', '--trace', "$folder/made/new.trace", $lesson],
    'step --batch' => ['step', '--batch', 'step; next; info tasks', $lesson],
    'step --trace' => ['step', '--trace', "$folder/made/new.trace", '--batch', 'step; continue', $lesson],
    'events'       => ['events', $trace, 'op'],
    'events --hash' => ['events', $trace, '--hash'],
    'view --print' => ['view', '--print', $trace],
);
for my $name (sort keys %commands) {
    my @words = @{ $commands{$name} };
    my $whole = failing(0, [0, 0], @words);
    my $count = 0 + slurp("$folder/count");
    is($whole->{status}, 0, "$name: without a failure it works ($count calls)") or diag($whole->{err});
    my $nowhere = system("'@{[program()]}' " . join(' ', map { "'$_'" } @words) . " >/dev/full 2>'$folder/err'");
    ok($nowhere >> 8 == 2 && slurp("$folder/err") =~ /\A[^\n]*\n\z/, "$name: a standard output without room is told")
        or diag(slurp("$folder/err"));
    my $points = $ENV{RINGSIDE_LONG} || $count < 12 ? $count : 12;
    my @wrong;
    for my $how (@hows) {
        for my $i (1 .. $points) {
            my $n     = int($i * $count / $points);
            my $run   = failing($n, $how, @words);
            my $fault = fault_of($run, $whole->{out});
            push @wrong, "call $n (errno $how->[0], on $how->[1]): $fault" if $fault ne '';
        }
    }
    is(join("\n", @wrong), '', "$name: $points of $count calls fail in five ways, each in an error or the right answer");
}
done_testing();
