#!/usr/bin/perl
# PyTorch's own numbers over processes: each case of the goldens runs its ranks as processes, under ringside launch with Gloo
# and under mpirun with Open MPI; so do the lessons about ranks under mpirun (under launch: lessons.t). With RINGSIDE_LONG
# also the collectives' goldens, four processes for each lesson, and PyTorch's own cases.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use Job;
use Ringside;
use Scene ();
use Test::More;

need_gloo();
$ENV{GOLDEN_PARTS} = 'scripts';

# What is as in a run with tasks: every line of TAP.
sub lines_of { return join "\n", grep { /^(?:ok|not ok|1\.\.)/ } split /\n/, $_[0]{out} }

sub same {
    my ($name, $run, $tasks) = @_;
    ok($run->{status} == $tasks->{status} && lines_of($run) eq lines_of($tasks) && $run->{out} =~ /^ok 1 /m, $name)
        or diag("status $run->{status}\n", (grep { /^not ok/ } split /^/m, $run->{out}), substr $run->{err}, 0, 2000);
}

# One program in each of the ways; how many processes for MPI.
sub everywhere {
    my ($name, $count, @words) = @_;
    my $tasks = alone(@words);
    same("$name: $count processes with Gloo", launched($count, @words), $tasks) unless $name =~ /^lesson /;
SKIP: {
        my ($mpirun, @start) = Scene::mpirun($count);
        skip 'there is no Open MPI, or no plug-in for it', 1 unless $mpirun;
        my %root = (OMPI_ALLOW_RUN_AS_ROOT => 1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM => 1);
        my $run  = ringside({ program => $mpirun, env => \%root }, @start, program(), 'run', '--backend', 'mpi', @words);
        same("$name: $count processes with Open MPI", $run, $tasks);
    }
}

my @golden = ('train-digits', 'ddp-train', $ENV{RINGSIDE_LONG} ? qw(ddp-collectives ddp-collectives-more ddp-train-more) : ());
everywhere($_, 4, qw(--trust --tap --quiet scripts/golden.lua --), "tests/golden/$_.json") for @golden;
for my $lesson (qw(11 13 14 15 16 17 19 22)) {
    everywhere("lesson $lesson", $_, '--tap', $lesson) for $ENV{RINGSIDE_LONG} ? (2, 4) : 2;
}
if ($ENV{RINGSIDE_LONG}) {    # the others ask what one process alone has: its stores, its time
    everywhere("cases of $_", 4, qw(--trust --tap --quiet), "tests/pytorch_cases/$_.lua")
        for qw(buckets buffers buffers_sync_batch_norm collectives collectives_futures ddp ddp_outputs groups groups_averaging
        hooks hooks_powersgd logging no_sync p2p static_graph unused);
}
done_testing;
