# Lessons with their n-th allocation failing: what the tests of the release build and of the sanitizers share.
package Failing;
use strict;
use warnings;
use Exporter 'import';
use File::Temp qw(tempdir);
use POSIX qw(WIFSIGNALED WTERMSIG WEXITSTATUS);
use Test::More;
our @EXPORT = qw(count_allocations fail_each);

my $folder = tempdir(CLEANUP => 1);
my $shim;

# The preloaded allocator, built once.
sub shim {
    return $shim if $shim;
    $shim = "$folder/failing_malloc.so";
    system("cc -O1 -shared -fPIC -o '$shim' tests/faults/failing_malloc.c -ldl") == 0 or die 'no failing allocator';
    return $shim;
}

sub slurp {
    my ($path) = @_;
    open my $file, '<', $path or return '';
    local $/;
    my $text = <$file>;
    return defined $text ? $text : '';
}

# Runs with allocation $n failing, 0: none. stdout and stderr go to files: nothing of what is printed passes through
# this process. Answers { status, out, err }.
sub run_with {
    my ($program, $n, @words) = @_;
    my $so  = shim();
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        $ENV{LD_PRELOAD}   = $so;
        $ENV{FAIL_AT}      = $n;
        $ENV{FAIL_COUNT}   = "$folder/count" if $n == 0;
        $ENV{ASAN_OPTIONS} = 'allocator_may_return_null=1:detect_stack_use_after_return=0:verify_asan_link_order=0:'
            . 'exitcode=99';
        open STDOUT, '>', "$folder/out";
        open STDERR, '>', "$folder/err";
        alarm 60;
        exec $program, 'run', '--tap', @words;
        die "exec: $!";
    }
    waitpid $pid, 0;
    return { status => $?, out => slurp("$folder/out"), err => slurp("$folder/err") };
}

sub count_allocations {
    my ($program, @words) = @_;
    my $run = run_with($program, 0, @words);
    die "with all allocations: $run->{out}$run->{err}" if $run->{status} != 0;
    return (0 + slurp("$folder/count"), $run->{out});
}

# How a run is wrong whose allocation failed: it must be right or say in one line that there is no memory. '': it is not.
sub fault_of {
    my ($run, $right) = @_;
    my $status = $run->{status};
    return 'signal ' . WTERMSIG($status) if WIFSIGNALED($status);
    # The failure met the sanitizer's own start of a thread, which gives up: nothing of ours was asked.
    return '' if $run->{err} =~ /CHECK failed: [^\n]*pthread_getattr_np/;
    return "the sanitizer: $1\n$run->{err}" if $run->{err} =~ /^(.*(?:Sanitizer|runtime error:).*)$/m;
    $status = WEXITSTATUS($status);
    return $run->{out} eq $right ? '' : 'a wrong answer' if $status == 0;
    return '' if $status == 1 && $run->{out} =~ /MemoryError/; # the lesson caught the error, showed it and went on
    return "status $status" if $status != 2 && $status != 3;
    return $run->{err} =~ /\Aringside: [^\n]*(?i:memory)[^\n]*\n\z/ ? '' : "stderr: $run->{err}";
}

# $points allocations, evenly spread over those from number $from on, one after the other.
sub fail_each {
    my ($name, $program, $points, $from, @words) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($count, $right) = count_allocations($program, @words);
    cmp_ok($count - $from, '>', $points, "$name: the run allocates ($count times, $from before what is tested)");
    my (@wrong, $stopped);
    for my $i (0 .. $points - 1) {
        my $n     = $from + 1 + int($i * ($count - $from - 1) / ($points - 1));
        my $run   = run_with($program, $n, @words);
        my $fault = fault_of($run, $right);
        push @wrong, "$n: $fault" if $fault ne '';
        $stopped++ if $fault eq '' && $run->{status} != 0;
    }
    is("@wrong", '', "$name: each of $points failing allocations ends in the right answer or in one line");
    cmp_ok($stopped, '>', 0, "$name: some do end the run ($stopped)");
}

1;
