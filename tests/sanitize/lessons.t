#!/usr/bin/perl
# The lessons, and the exercises solved, under the sanitizers: address and undefined in both executors, thread in `free`.
use strict;
use warnings;
use Fcntl qw(LOCK_EX);
use Test::More;

my @exercises = map { m{([^/]+)$} ? $1 : () } glob 'lessons/checks/*.lua';
my @lessons   = (glob('lessons/[0-9]*.lua'), map { "lessons/checks/$_ -- lessons/solutions/$_" } @exercises);
local $ENV{ASAN_OPTIONS} = 'allocator_may_return_null=1:detect_stack_use_after_return=0';
local $ENV{TSAN_OPTIONS} = 'halt_on_error=0';

sub build {
    my ($kind) = @_;
    mkdir 'build';
    open my $lock, '>', 'build/.lock' or die "build/.lock: $!";
    flock $lock, LOCK_EX or die "flock: $!";
    my $log = `make -s -j2 CC=gcc BUILD=$kind all 2>&1`;
    diag($log) if $? != 0;
    return $? == 0;
}

for my $case ([ 'asan', 'stepped' ], [ 'asan', 'free' ], [ 'tsan', 'free' ]) {
    my ($kind, $executor) = @$case;
    ok(build($kind), "BUILD=$kind builds");
    for my $lesson (@lessons) {
        next if $lesson =~ m{lessons/12-} && "$kind $executor" ne 'asan free'; # it moves gigabytes
        my $out    = `build/$kind/ringside run --tap --executor $executor $lesson 2>&1`;
        my $status = $? >> 8;
        my $clean  = $out !~ /Sanitizer|runtime error:|^not ok/m && $status == 0;
        ok($clean, "$lesson is clean under $kind in $executor") or diag(substr $out, -3000);
    }
}
done_testing();
