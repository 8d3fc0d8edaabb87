# Programs that run side by side, each in a session of its own, so that it is known whether anything of it is left behind.
# Order of use: begin for each, then finish for each.
package Scene;
use strict;
use warnings;
use Exporter 'import';
use POSIX qw(setsid WNOHANG);
use Ringside;
use Test::More;
use Time::HiRes qw(sleep time);
our @EXPORT = qw(begin finish said lines_of has_all in_turn mpirun);

my $guard  = 120;          # s: a hang is a failure, not the end of the suite
my $number = 0;
my %session;               # of what this file has started and not seen end
my $owner  = $$;

# Options first, in a hash: env.
sub begin {
    my ($options, @words) = @_;
    my $place = folder() . '/scene' . $number++;
    mkdir $place or die "mkdir: $!";
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        setsid();
        %ENV = (%ENV, DYING_IN => $place, %{ $options->{env} || {} });
        delete $ENV{$_} for grep { !defined $ENV{$_} } keys %ENV;
        open STDIN,  '<', '/dev/null'  or die "stdin: $!";
        open STDOUT, '>', "$place/out" or die "stdout: $!";
        open STDERR, '>', "$place/err" or die "stderr: $!";
        hear_signals();        # a launcher speaks to its processes by them
        exec @words;
        die "exec $words[0]: $!";
    }
    $session{$pid} = 1;
    return { pid => $pid, place => $place, begun => time };
}

# Processes of the session that are no zombies.
sub members {
    my ($session) = @_;
    my @found;
    for my $path (glob '/proc/[0-9]*/stat') {
        open my $file, '<', $path or next;
        my $line = <$file> // next;
        my ($pid, $state, $of) = $line =~ /\A(\d+) \(.*\) (\S) \d+ \d+ (\d+)/s or next;
        push @found, $pid if $of == $session && $state !~ /[ZX]/;
    }
    return @found;
}

# What it has said so far.
sub said {
    my ($scene, $stream) = @_;
    return -e "$scene->{place}/$stream" ? slurp("$scene->{place}/$stream") : '';
}

# Waits for its end, and for the end of all that it has started. Adds status, signal, out, err, left to the scene: how many had to be killed
# by us, late: it was one of them.
sub finish {
    my ($scene) = @_;
    my $until = $scene->{begun} + $guard;
    my $pid   = $scene->{pid};
    my $gone  = 0;
    until ($gone || time > $until) {
        $gone = waitpid($pid, WNOHANG) == $pid;
        sleep 0.01 unless $gone;
    }
    @$scene{qw(status signal)} = ($? >> 8, $? & 127) if $gone;
    my $end = time + ($gone ? 10 : 0);
    my @left;
    while ((@left = members($pid)) && time < $end) { sleep 0.02 }
    $scene->{left} = @left;
    kill 'KILL', @left if @left;
    waitpid $pid, 0 unless $gone;
    @$scene{qw(status signal late)} = (-1, 9, 1) unless $gone;
    $scene->{seconds} = time - $scene->{begun};
    $scene->{$_} = said($scene, $_) for qw(out err);
    delete $session{$pid};
    return $scene;
}

# A rank's own lines of what a launch has said.
sub lines_of {
    my ($scene, $rank) = @_;
    return join '', map { "$_\n" } $rank > 0 ? $scene->{err} =~ /^\[$rank\] (.*)/mg : $scene->{err} =~ /^((?!\[\d+\] |ringside launch:).*)/mg;
}

# The right status, all of the patterns, nobody left behind. Patterns: of what it says on stderr; or [rank, pattern].
sub has_all {
    my ($name, $scene, $status, @patterns) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @missing = grep { (ref $_ eq 'ARRAY' ? lines_of($scene, $_->[0]) : $scene->{err}) !~ (ref $_ eq 'ARRAY' ? $_->[1] : $_) } @patterns;
    my $good = !$scene->{late} && $scene->{status} == $status && $scene->{signal} == 0 && !@missing && !$scene->{left};
    ok($good, $name)
        or diag(sprintf("status %d (wanted %d), signal %d%s, %d left behind, %.1f s\n", $scene->{status}, $status, $scene->{signal},
            $scene->{late} ? ', had not ended' : '', $scene->{left}, $scene->{seconds}),
            $scene->{err}, map { 'wanted ' . (ref $_ eq 'ARRAY' ? "of rank $_->[0] $_->[1]" : $_) . "\n" } @missing);
    return $good;
}

# Subs that each begin a scene and answer [scene, sub that judges it], so many at a time.
sub in_turn {
    my ($many, @begins) = @_;
    my @run;
    while (@begins || @run) {
        push @run, (shift @begins)->() while @begins && @run < $many;
        my ($scene, $judge) = @{ shift @run };
        $judge->(finish($scene));
    }
    return;
}

# The words that start so many processes by Open MPI's launcher; (): there is none.
sub mpirun {
    my ($count) = @_;
    my ($found) = grep { -x } map { ("$_/mpirun.openmpi", "$_/mpirun") } split /:/, $ENV{PATH};
    return () unless $found && -e (program() =~ s{[^/]+\z}{mpi.so}r) && `$found --version 2>&1` =~ /Open MPI|OpenRTE/;
    return ($found, '--oversubscribe', '-n', $count);
}

END {
    my $status = $?;
    if ($$ == $owner) {
        kill 'KILL', members($_) for keys %session;
    }
    $? = $status;
}

$SIG{$_} = sub { exit 1 } for grep { ($SIG{$_} // '') ne 'IGNORE' } qw(INT TERM HUP); # ignored below nohup

1;
