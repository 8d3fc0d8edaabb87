#!/usr/bin/perl
# A job whose ranks all wait for what nobody will do ends at once, and every rank says what each of them is in: over Gloo and over
# Open MPI as with tasks. A lesson may catch it. At DETAIL calls that differ are told before anything moves.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use Job;
use Ringside;
use Scene;
use Test::More;

need_gloo();
my $lesson = 'tests/processes/stands.lua';
my %root   = (OMPI_ALLOW_RUN_AS_ROOT => 1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM => 1);

sub launch {
    my ($plan, $env) = @_;
    return begin({ env => $env || {} }, program(), 'launch', '--nproc', 2, $lesson, '--', $plan);
}

# Both ranks say it, and the launcher whose it was.
sub told {
    my ($name, $plan, $status, $pattern, $env) = @_;
    return sub {
        my $scene = launch($plan, $env);
        return [$scene, sub { has_all($name, $_[0], $status, [0, $pattern], [1, $pattern], qr/^ringside launch: rank \d/m) }];
    };
}

my $mixed = qr/MismatchError: collective #1 differs: rank 0 calls barrier \(line 9\) but rank 1 calls broadcast of float32 \[3\]/;
in_turn(4,
    told('calls in another order', 'order', 3, qr/MismatchError: rank 1 in broadcast #1, rank 0 in barrier #1/),
    told('each receives first', 'crossed', 3, qr/cause: crossed sends: ranks 0 and 1 both receive first \(line 13\)/),
    told('a group that one rank alone makes', 'group', 3, qr/DeadlockError: .*rank 1.*\n.*(?:new_group|barrier)/),
    told('the group after one that a rank skipped', 'skipped', 3, qr/new_group #0 differs between ranks 0/),
    told('the same with a barrier', 'skipped', 3, qr/cause: skipped call or other order: rank 1 did not call new_group/,
        { TORCH_DIST_INIT_BARRIER => 1 }),
    told('calls that differ, at DETAIL', 'order', 3, $mixed, { TORCH_DISTRIBUTED_DEBUG => 'DETAIL' }),
    told('sizes that differ, at DETAIL', 'sizes', 3, qr/float32 \[2\].*but rank 1 calls all_reduce of float32 \[3\]/,
        { TORCH_DISTRIBUTED_DEBUG => 'DETAIL' }),
    sub {
        return [launch('monitored'), sub {
            has_all('a monitored barrier names who does not come', $_[0], 2, [0, qr/RuntimeError: .*rank 1 failed to pass monitored_barrier/]);
        }];
    },
    sub {
        return [launch('sizes'), sub {
            has_all('sizes that differ do not hang', $_[0], 3, qr/(?:Mismatch|Deadlock)Error/);
        }];
    },
    sub {
        my $scene = begin({}, program(), 'launch', '--nproc', 2, '--tap', $lesson, '--', 'caught');
        return [$scene, sub {
            my ($run) = @_;
            ok($run->{status} == 0 && $run->{out} =~ /^ok 1 .*\nok 2 /m && !$run->{left}, 'a lesson catches it and goes on')
                or diag($run->{out}, $run->{err});
        }];
    },
    sub {
        my @start = mpirun(2);
        return [launch("monitored"), sub { pass("there is no Open MPI, or no plug-in for it: not tried") }] unless @start;
        my $scene = begin({ env => \%root }, @start, program(), 'run', '--backend', 'mpi', $lesson, '--', 'order');
        return [$scene, sub {
            my ($run) = @_;
            like($run->{err}, qr/MismatchError: rank 1 in broadcast #1, rank 0 in barrier #1/, 'over Open MPI, too');
        }];
    });
done_testing;
