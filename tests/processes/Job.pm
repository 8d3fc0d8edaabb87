# What the tests of jobs share: the same program in many processes, by `ringside launch` or started one by one.
package Job;
use strict;
use warnings;
use Exporter 'import';
use IO::Socket::INET;
use Ringside;
use Test::More;
our @EXPORT = qw(need_gloo launched alone by_hand free_port);

# Ends the file where there is no Gloo.
sub need_gloo {
    my ($line) = grep { /\bgloo\b/ } split /\n/, ringside('devices')->{out};
    my $built  = program() =~ s{[^/]+\z}{gloo.so}r;
    plan skip_all => 'the Gloo plug-in is not built: libgloo-dev is missing' unless -e $built;
    return $line;
}

sub free_port {
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1, Proto => 'tcp') or die "no port: $!";
    return $socket->sockport;
}

# A run of so many processes.
sub launched {
    my ($count, @words) = @_;
    return ringside('launch', '--nproc', $count, @words);
}

# The same in one process, with as little time of its own.
sub alone { return ringside('run', '--executor', 'free', @_) }

# Processes that are started one by one with torchrun's environment; answers one { status, signal, out, err } for each. `env` may be a
# sub that is asked for each rank; `each`: told (rank, pid) of each that was started.
sub by_hand {
    my ($count, $scene, @words) = @_;
    my ($port, @pids) = (free_port());
    for my $rank (0 .. $count - 1) {
        my $pid = fork() // die "fork: $!";
        if ($pid == 0) {
            %ENV = (%ENV, RANK => $rank, WORLD_SIZE => $count, LOCAL_RANK => $rank, LOCAL_WORLD_SIZE => $count,
                MASTER_ADDR => '127.0.0.1', MASTER_PORT => $port, %{ $scene->{env} ? $scene->{env}->($rank) : {} });
            delete $ENV{$_} for grep { !defined $ENV{$_} } keys %ENV;
            open STDIN,  '<', '/dev/null'                or die "stdin: $!";
            open STDOUT, '>', folder() . "/.out.$rank" or die "stdout: $!";
            open STDERR, '>', folder() . "/.err.$rank" or die "stderr: $!";
            alarm 120;                # a hang is a failure, not the end of the suite
            exec program(), 'run', @words;
            die "exec: $!";
        }
        push @pids, $pid;
    }
    my @runs;
    for my $rank (0 .. $count - 1) {
        waitpid $pids[$rank], 0;
        $runs[$rank] = { status => $? >> 8, signal => $? & 127 };
    }
    for my $rank (0 .. $count - 1) {
        $runs[$rank]{$_} = slurp(folder() . "/.$_.$rank") for qw(out err);
    }
    return @runs;
}

1;
