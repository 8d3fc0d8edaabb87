#!/usr/bin/env perl
# The Open MPI plug-in between processes that mpirun started, played by tests/transport/play*.c: worlds of 1, 2 and 4; without memory that
# ranks share; with a rank that is killed; and started by MPICH's launcher.
use strict;
use warnings;
use Test::More;

my $out = $ENV{RINGSIDE_OUT} || 'build/release';

sub launcher {
    my ($is, @names) = @_;
    for my $name (@names) {
        my $said = `$name --version 2>&1`;
        return $name if defined $said && $said =~ $is;
    }
    return;
}
my $mpirun = launcher(qr/OpenRTE|Open MPI/, 'mpirun.openmpi', 'mpirun');
plan skip_all => 'the Open MPI plug-in is not built: install libopenmpi-dev, then run make' if !-e "$out/mpi.so";
plan skip_all => 'no mpirun of Open MPI: install openmpi-bin'                               if !defined $mpirun;
plan skip_all => "make $out/play"                                                           if !-x "$out/play";

# MPI keeps memory to the end, and is not built for sanitizers; on a small machine more processes than cores are asked for.
$ENV{OMPI_ALLOW_RUN_AS_ROOT} = $ENV{OMPI_ALLOW_RUN_AS_ROOT_CONFIRM} = 1;
$ENV{ASAN_OPTIONS} = join ':', grep { defined } $ENV{ASAN_OPTIONS}, 'detect_leaks=0';
$ENV{TSAN_OPTIONS} = join ':', grep { defined } $ENV{TSAN_OPTIONS}, 'ignore_noninstrumented_modules=1';
my @guard = qw(timeout -k 5 100);

# What a command says, and its status.
sub said {
    my ($errors, @command) = @_;
    my $child = open my $pipe, '-|';
    die "fork: $!" if !defined $child;
    if ($child == 0) {
        open STDERR, $errors ? '>&STDOUT' : '>/dev/null' or die "stderr: $!";
        exec @command or die "exec: $!";
    }
    my @lines = <$pipe>;
    close $pipe;
    chomp @lines;
    return ($? >> 8, @lines);
}

# A part says ok or not ok; what it says before that belongs to it. A killed rank is mpirun's status, too.
sub play {
    my ($what, $status, $mpirun_words, $inside, @parts) = @_;
    my ($planned, $seen, @notes) = (0, 0);
    my ($is, @lines) = said(1, @guard, $mpirun, '--oversubscribe', @$mpirun_words, @$inside, "$out/play", "$out/mpi.so", @parts);
    for my $line (@lines) {
        $planned = $1 if $line =~ /^1\.\.(\d+)$/;
        if ($line =~ /^(not )?ok \d+ - (.*?)(?: # SKIP (.*))?$/) {
            my ($wrong, $sentence, $skipped) = ($1, $2, $3);
            $seen++;
            ok(!$wrong, "$sentence$what" . ($skipped ? ": $skipped" : '')) or diag(join "\n", @notes);
            @notes = ();
        } else {
            push @notes, $line;
        }
    }
    is($is, $status, "mpirun ends with status $status$what") or diag(join "\n", @notes);
    ok($planned > 0 && $seen == $planned, "all parts are played$what") or diag(join "\n", @notes);
    unlike(join("\n", @lines), qr/exiting improperly/, "MPI is ended in order$what") if $status == 0;
}

play('', 0, ['-n', $_], []) for 1, 2, 4;

# In a process namespace of its own a rank finds no other's memory.
my @apart = qw(unshare -pf --kill-child --mount-proc);
SKIP: {
    my ($refused) = said(0, @apart, 'true');
    skip 'this user may make no process namespaces', 1 if $refused;
    play(', by messages', 0, [qw(-n 3 --mca btl), 'self,tcp'], \@apart,
         qw(all_reduce reduce reduce_scatter broadcast barrier large too_long impatient));
}

play(', its launcher looking on', 137, ['-n', 3], [], $_) for 'killed', 'killed_peer';

SKIP: {
    my $other = launcher(qr/HYDRA/, 'mpirun.mpich', 'mpirun', 'mpiexec.hydra');
    skip 'no launcher of MPICH', 1 if !defined $other;
    my (undef, @lines) = said(1, @guard, $other, '-n', 2, "$out/play", "$out/mpi.so", 'barrier');
    like(join("\n", @lines), qr/started by MPICH's launcher, with which each would be alone; use Open MPI's mpirun/,
         "MPICH's launcher is recognised, and what to do is said");
}
done_testing();
