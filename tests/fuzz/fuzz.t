#!/usr/bin/perl
# What fuzzers found once is not found again; and each of them over its seeds and some thousands of changed inputs, or,
# with RINGSIDE_LONG set, for an hour each (FUZZ_SECONDS says another time).
use strict;
use warnings;
use Fcntl qw(LOCK_EX);
use File::Path qw(make_path);
use File::Temp qw(tempdir);
use Test::More;

my $out     = $ENV{RINGSIDE_OUT} || 'build/release';
my @fuzzers = map { m{fuzz_(\w+)\.c$} } sort(glob('tests/fuzz/fuzz_*.c'));
my %most    = (trace => 1500, lesson => 1000, debugger => 800);    # inputs; the others 4000
my %length  = (trace => 16000, safetensors => 3000, match => 300, hang => 6000);    # bytes at most; the others 1000
my $long    = $ENV{RINGSIDE_LONG} ? $ENV{FUZZ_SECONDS} || 3600 : 0;
my $seed    = $ENV{FUZZ_SEED} || 1 + int rand 1e9;

$ENV{ASAN_OPTIONS}  = 'allocator_may_return_null=1:detect_stack_use_after_return=0';
$ENV{UBSAN_OPTIONS} = 'print_stacktrace=1';

# One at a time in a folder: other tests build there too.
sub build {
    mkdir 'build';
    open my $lock, '>', 'build/.lock' or die "build/.lock: $!";
    flock $lock, LOCK_EX or die "flock: $!";
    my $log = `make -s -j2 fuzz 2>&1`;
    return ($? == 0, $log);
}

sub inputs { return grep { -f } glob "tests/fuzz/found/$_[0]/*" }

for my $fuzzer (@fuzzers) {
    my @found = inputs($fuzzer);
    my $said  = `'$out/fuzz_$fuzzer' @found 2>&1 </dev/null`;
    is($?, 0, "$fuzzer: what was found is mended (@{[ scalar @found ]} inputs)") or diag(substr $said, -3000);
}

my ($built, $log) = build();
SKIP: {
    skip($1, scalar @fuzzers) if $log =~ /^(make fuzz: .*)/m;
    ok($built, 'make fuzz builds') or do { diag($log); last SKIP };
    my $corpus = tempdir(CLEANUP => 1);
    is(system('tests/fuzz/seeds', 'build/fuzz', $corpus), 0, 'the seeds are made');
    diag("FUZZ_SEED=$seed");
    for my $fuzzer (@fuzzers) {
        my $time = $long ? "-max_total_time=$long" : '-max_total_time=5 -runs=' . ($most{$fuzzer} || 4000);
        my @known = -d "tests/fuzz/found/$fuzzer" ? "tests/fuzz/found/$fuzzer" : ();
        make_path("$corpus/new/$fuzzer");
        my $said = `build/fuzz/fuzz_$fuzzer -seed=$seed $time -timeout=300 -rss_limit_mb=4096 -max_len=@{[ $length{$fuzzer} || 1000 ]} \\
            -close_fd_mask=1 -print_final_stats=1 -artifact_prefix=build/fuzz/$fuzzer- \\
            $corpus/new/$fuzzer $corpus/$fuzzer @known 2>&1 </dev/null`;
        my ($units) = $said =~ /number_of_executed_units: (\d+)/;
        ok($? == 0 && $units, "$fuzzer: nothing new is found") or diag(substr $said, -6000);
        diag("$fuzzer: $units inputs") if $long && $units;
    }
}
done_testing();
