#!/usr/bin/perl
# Lesson 01 with its n-th allocation failing, for 500 n spread evenly over the run: an error or the right answer, never
# a crash or a hang.
use strict;
use warnings;
use File::Temp qw(tempdir);
use POSIX qw(WIFSIGNALED WTERMSIG);
use Test::More;

plan skip_all => 'the failing allocator is for glibc on Linux' if $^O ne 'linux';
plan skip_all => 'sanitizers bring an allocator of their own' if ($ENV{RINGSIDE_OUT} || '') =~ /asan|tsan/;
my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $folder   = tempdir(CLEANUP => 1);
my $shim     = "$folder/failing_malloc.so";
is(system("cc -O1 -shared -fPIC -o '$shim' tests/faults/failing_malloc.c -ldl"), 0, 'the failing allocator is built');

# stdout and stderr go to files: nothing of what is printed passes through this process.
sub run_with {
    my ($n) = @_;
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        $ENV{LD_PRELOAD} = $shim;
        $ENV{FAIL_AT}    = $n;
        $ENV{FAIL_COUNT} = "$folder/count" if $n == 0;
        open STDOUT, '>', "$folder/out";
        open STDERR, '>', "$folder/err";
        alarm 60;
        exec $ringside, 'run', '--tap', 'lessons/01-six-rows.lua';
        die "exec: $!";
    }
    waitpid $pid, 0;
    return $?;
}

is(run_with(0), 0, 'with all allocations the lesson holds');
open my $file, '<', "$folder/count" or die $!;
my $count = <$file>;
chomp $count;
close $file;
cmp_ok($count, '>', 500, "the lesson allocates ($count times)");

my (@crashed, @silent);
for my $i (0 .. 499) {
    my $n      = 1 + int($i * ($count - 1) / 499);
    my $status = run_with($n);
    push @crashed, "$n (signal " . WTERMSIG($status) . ')' if WIFSIGNALED($status);
    push @silent, $n if !WIFSIGNALED($status) && $status != 0 && !-s "$folder/err" && !-s "$folder/out";
}
is("@crashed", '', 'no failing allocation crashes the program or hangs it');
is("@silent",  '', 'whoever fails says so');
done_testing();
