#!/usr/bin/perl
# A machine that gives less than usual: little address space, small stacks, no threads, files that are none, outputs that
# take nothing. Each ends in the right answer or in one line.
use strict;
use warnings;
use lib 'tests/cli';
use POSIX qw(mkfifo);
use Ringside;
use Socket;
use Test::More;

plan skip_all => 'limits of address space are for Linux' if $^O ne 'linux';
my $sanitized = ($ENV{RINGSIDE_OUT} || '') =~ /asan|tsan/;
my $six_rows  = 'lessons/01-six-rows.lua';
my $products  = lesson('products', <<'END');
local rs = require "ringside"
for _, n in ipairs { 2, 60, 128, 300 } do
  local a = rs.ones(n, n)
  for _, b in ipairs { a, a:t(), a:double() } do
    if b:matmul(b):sum():item() ~= n * n * n then error("wrong") end
  end
end
print "right"
END

my $folder = folder();
my $trace  = "$folder/good.trace";
is(ringside('run', '--trace', $trace, $six_rows)->{status}, 0, 'a trace to compare with');

sub right_or_one_line {
    my ($name, $run, $right) = @_;
    $run->{err} =~ s/\Aringside: memory is short for OpenBLAS[^\n]*\n//;
    return ok(1, "$name: right")
        if $run->{status} == 0 && $run->{signal} == 0 && $run->{out} =~ $right && $run->{err} eq '';
    return refused("$name: one line", $run, $run->{status} == 2 ? 2 : 3, qr/memory|stack|task/);
}

SKIP: {
    skip 'the sanitizers reserve terabytes', 1 if $sanitized;
    for my $kilobytes (60_000, 100_000, 200_000, 300_000, 400_000, 500_000, 700_000, 1_000_000, 2_000_000) {
        for my $executor ('free', 'stepped') {
            my @run = ({ ulimit => "-v $kilobytes" }, 'run', '--executor', $executor);
            right_or_one_line("$executor in $kilobytes KB", ringside(@run, $products), qr/^right$/m);
            right_or_one_line("DataParallel, $executor in $kilobytes KB",
                ringside(@run, $six_rows), qr/^all 16 checks hold$/m);
        }
    }
    my $short = ringside({ ulimit => '-v 300000' }, 'run', '--executor', 'free', $products);
    refused('what is too small for the libraries is said once', $short, 0, qr/memory is short.*products are exact/);
    is($short->{out}, "right\n", 'and the exact product serves');
}

# ---- small stacks ----
# Of 16 KB the kernel takes up to 8 for its random start, the environment its size: the dynamic linker may find too little
# left before the first line of ours. 32 is the least that says something about Ringside.

SKIP: {
    skip 'the sanitizers need their stacks', 1 if $sanitized;
    my $deep = lesson('deep', 'local function f() return select(2, pcall(f)) end f() local function g() return 1 + g() end g()');
    for my $kilobytes (32, 64, 128, 1024, 'unlimited') {
        for my $executor ('stepped', 'free') {
            my @run = ({ ulimit => "-s $kilobytes" }, 'run', '--executor', $executor);
            right_or_one_line("$executor with a stack of $kilobytes KB",
                ringside(@run, $six_rows), qr/^all 16 checks hold$/m);
            refused("$executor, recursion with $kilobytes KB", ringside(@run, $deep), 2, qr/stack overflow/);
        }
        my $step = ringside({ ulimit => "-s $kilobytes" }, 'step', '--batch', 'next; where', $six_rows);
        is($step->{status}, 0, "step with a stack of $kilobytes KB") or diag($step->{err});
        my $view = ringside({ ulimit => "-s $kilobytes" }, 'view', '--print', $trace);
        is($view->{status}, 0, "view with a stack of $kilobytes KB") or diag($view->{err});
    }
}

# ---- what is no file ----

mkdir "$folder/folder.lua";
mkfifo("$folder/fifo.lua", 0600) or die "mkfifo: $!";
symlink 'loop.lua', "$folder/loop.lua";
symlink 'nowhere', "$folder/dangling.lua";
socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!";
bind($socket, sockaddr_un("$folder/socket.lua")) or die "bind: $!";
open my $huge, '>', "$folder/huge.lua" or die "huge: $!";
truncate $huge, 20 * 2**30 or die "truncate: $!";
my @strange = (map({ "$folder/$_.lua" } qw(folder fifo loop dangling socket huge)), '/dev/zero', '/dev/tty', '/dev/null/x',
    "$folder/" . 'x' x 5000);
my $why = qr/directory|folder|no such|not a|larger|File name|too long|symbolic|No such|Not a/;
for my $path (@strange) {
    my $name = $path =~ m{([^/]{1,20})$} ? $1 : $path;
    refused("run $name", ringside('run', $path), 2, $why);
    refused("step $name", ringside('step', '--batch', 'next', $path), 2, $why);
    refused("events $name", ringside('events', $path), 2, $why);
    refused("view $name", ringside('view', '--print', $path), 2, $why);
    next if $path =~ m{^/dev|x{5000}};
    my $load = lesson('load', 'local rs = require "ringside" rs.load(arg[1])');
    refused("rs.load $name", ringside('run', '--trust', $load, '--', $path), 2, qr/load\.lua:1: /);
    mkdir "$folder/lesson";
    mkdir "$folder/lesson/data";
    unlink "$folder/lesson/data/digits.csv.gz";
    rename $path, "$folder/lesson/data/digits.csv.gz" or die "rename: $!";
    spill("$folder/lesson/digits.lua", 'local rs = require "ringside" rs.data.digits()');
    my $digits = ringside('run', "$folder/lesson/digits.lua");
    rename "$folder/lesson/data/digits.csv.gz", $path or die "rename back: $!";
    next if $name =~ /loop|dangling/; # then the digits beside the program serve
    refused("digits in $name", $digits, 2, qr/digits\.lua:1: /);
}
my $course = ringside('lessons', $folder);
is($course->{status}, 2, 'a course with strange files is listed, and ends with status 2 for them');
unlike($course->{err}, qr/[^\n]*\n.*fifo.*fifo/s, 'and each is said once');

# ---- an output that takes nothing ----

SKIP: {
    skip 'no /dev/full', 1 if !-c '/dev/full';
    for my $words (
        ['help'], ['help', 'add'], ['help', '--all'], ['help', 'view'], ['devices'], ['lessons'], ['--version'], ['--help'],
        ['run', '--help'], ['events', '--help'], ['events', $trace], ['events', '--json', $trace], ['run', $six_rows],
        ['run', '--hash', $six_rows], ['run', '--tap', $six_rows], ['step', '--batch', 'next; where', $six_rows],
        ['bench', '--help'], ['view', '--help'], ['view', '--print', $trace]) {
        my $run = ringside({ out => '/dev/full' }, @$words);
        refused("'@$words' to a full device", $run, 2, qr/standard output|write the frame/);
    }
}
for my $words (['help'], ['help', '--all'], ['devices'], ['events', $trace], ['step', '--batch', 'next; where', $six_rows]) {
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        pipe my $read, my $write or die "pipe: $!";
        close $read;
        open STDOUT, '>&', $write;
        open STDERR, '>', "$folder/pipe.err";
        exec program(), @$words;
    }
    waitpid $pid, 0;
    is(slurp("$folder/pipe.err"), '', "'@$words' to a closed pipe says nothing");
}

done_testing();
