# The program with its n-th allocation failing, once or for ever: what the tests of the release build and of the sanitizers share.
package Failing;
use strict;
use warnings;
use Exporter 'import';
use Fcntl qw(F_SETFD);
use File::Temp qw(tempdir);
use POSIX qw(WIFSIGNALED WTERMSIG WEXITSTATUS);
use Test::More;
our @EXPORT = qw(count_allocations fail_each fault_at run_with);

my $folder = tempdir(CLEANUP => 1);
my $shim;

# The preloaded allocator, built once.
sub shim {
    return $shim if $shim;
    $shim = "$folder/failing_malloc.so";
    system("cc -O1 -shared -fPIC -o '$shim' tests/faults/failing_malloc.c -ldl") == 0 or die 'no failing allocator';
    mkdir "$folder/tmp";
    return $shim;
}

sub slurp {
    my ($path) = @_;
    open my $file, '<', $path or return '';
    local $/;
    my $text = <$file>;
    return defined $text ? $text : '';
}

sub spill {
    my ($path, $text) = @_;
    open my $file, '>:raw', $path or die "$path: $!";
    print $file $text;
    close $file or die "$path: $!";
    return;
}

# Runs with allocation $n failing, 0: none, and with $on all after it. stdout and stderr go to files: nothing of what is
# printed passes through this process. Answers { status, out, err, count, left }; left: what outlived the run.
sub run_with {
    my ($n, $on, @command) = @_;
    my $so = shim();
    spill("$folder/count", "\0" x 8);
    pipe my $alive, my $inherited or die "pipe: $!";
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        fcntl $inherited, F_SETFD, 0;
        $ENV{LD_PRELOAD}   = $so;
        $ENV{FAIL_AT}      = $n;
        $ENV{FAIL_ON}      = 1 if $on;
        $ENV{FAIL_COUNT}   = "$folder/count";
        $ENV{TMPDIR}       = "$folder/tmp";
        delete $ENV{XDG_RUNTIME_DIR};
        $ENV{ASAN_OPTIONS} = 'allocator_may_return_null=1:detect_stack_use_after_return=0:verify_asan_link_order=0:'
            . 'exitcode=99';
        open STDIN,  '<', '/dev/null';
        open STDOUT, '>', "$folder/out";
        open STDERR, '>', "$folder/err";
        alarm 300;
        exec @command;
        die "exec: $!";
    }
    close $inherited;
    waitpid $pid, 0;
    my $status = $?;
    vec(my $bits = '', fileno $alive, 1) = 1;
    my $left = select($bits, undef, undef, 30) == 0 ? 'a process' : join ' ', map { s{.*/}{}r } glob "$folder/tmp/*";
    return { status => $status, out => slurp("$folder/out"), err => slurp("$folder/err"),
             count => unpack('q', slurp("$folder/count")), left => $left };
}

# How many there are, and the right answer.
sub count_allocations {
    my (@command) = @_;
    my $run = run_with(0, 0, @command);
    die "with all allocations: $run->{out}$run->{err}" if $run->{status} != 0;
    return ($run->{count}, $run->{out});
}

# Ranks that run freely speak in any order.
sub same {
    my ($out, $right) = @_;
    return $out eq $right || join("\n", sort split /\n/, $out) eq join("\n", sort split /\n/, $right);
}

# How a run is wrong whose allocation failed: it must be right or say in one line that there is no memory (with several
# processes each has its say). '': it is not.
sub fault_of {
    my ($run, $right, $processes) = @_;
    my $status = $run->{status};
    return 'signal ' . WTERMSIG($status) . " $run->{err}" if WIFSIGNALED($status);
    # The failure met the sanitizer's own start of a thread, which gives up: nothing of ours was asked.
    return '' if $run->{err} =~ /CHECK failed: [^\n]*pthread_getattr_np/;
    return "the sanitizer: $1\n$run->{err}" if $run->{err} =~ /^(.*(?:Sanitizer|runtime error:).*)$/m;
    return "it leaves $run->{left}" if $run->{left} ne '';
    $status = WEXITSTATUS($status);
    (my $told = $run->{err}) =~ s/^  .*\n//mg; # the report of a hang stands below its line
    return "stderr: $run->{err}" if grep { !/\A(?:ringside|trace_viewer): / } split /\n/, $told;
    # What `step` was asked after the lesson had failed was answered as of then.
    return '' if $run->{out} =~ /^the run has failed \(exit status 3\)/m && $status < 3;
    return '' if $status == 0 && $run->{out} =~ /^the record ends at event \d+, the run went on: there was no room/m;
    return same($run->{out}, $right) ? '' : 'a wrong answer' if $status == 0;
    return '' if $status == 1 && $run->{out} =~ /MemoryError/; # the lesson caught the error, showed it and went on
    return "status $status" if $status != 2 && $status != 3;
    # The lesson's end by the failure may be just where a move was to stop: then nothing has a name any more.
    return '' if $processes > 1 && $status == 2 && $run->{err} =~ /: nothing here is called [^\n]*\n\z/;
    my $lines = ($told =~ tr/\n//);
    return $told =~ /memory/i && $lines <= ($processes > 1 ? 3 : 1) ? '' : "status $status, stderr: $run->{err}";
}

# '': with allocation $n failing (and $on: those after it) the command ends well. Else what is wrong; $stopped: it did not run to its end.
sub fault_at {
    my ($n, $on, $right, $stopped, @command) = @_;
    my $run   = run_with($n, $on, @command);
    my $fault = fault_of($run, $right, $command[1] =~ /^(?:step|story)$/ ? 2 : 1);
    $$stopped++ if $fault eq '' && $run->{status} != 0;
    return $fault eq '' ? '' : ($on ? "from $n on: " : "$n: ") . $fault;
}

# $how: { points => how many, from => the number before the first, on => for ever, too }. The points are spread evenly, each
# moved by chance within its share, and in turn one allocation fails there or all from there on; none given: all, and both.
sub fail_each {
    my ($name, $how, @command) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my ($count, $right) = count_allocations(@command);
    my $from   = $how->{from} || 0;
    my $share  = $how->{points} ? ($count - $from) / $how->{points} : 1;
    $share = 1 if $share < 1;
    cmp_ok($count - $from, '>', 20, "$name: the run allocates ($count times, $from before what is tested)");
    my (@wrong, $stopped);
    my $turn = int rand 2;
    $stopped = 0;
    for (my $start = $from; $start + $share <= $count; $start += $share) {
        push @wrong, grep { $_ ne '' } map { fault_at(1 + int($start + rand $share), $_, $right, \$stopped, @command) }
            !$how->{on} ? 0 : $how->{points} ? ++$turn % 2 : (0, 1);
    }
    is("@wrong", '', "$name: each failing allocation ends in the right answer or in one line");
    # One failure alone may be mended each time: what is kept for later goes back, and the same is asked again.
    cmp_ok($stopped, '>', 0, "$name: some do end the run ($stopped)") if $how->{on};
    return;
}

1;
