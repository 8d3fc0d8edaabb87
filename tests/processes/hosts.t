#!/usr/bin/perl
# Two hosts: network namespaces with a cable between them, the second with a clock of its own. They train one model together, to
# the bit as one process does, and their traces are one; a slow cable, a cut one and, with RINGSIDE_LONG=1, one
# that swallows everything. As root only.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use File::Copy qw(copy);
use Job;
use Ringside;
use Scene;
use Test::More;
use Time::HiRes qw(sleep time);

need_gloo();
plan skip_all => 'network namespaces are for root' if $> != 0;
plan skip_all => "no 'ip': iproute2 is missing" unless grep { -x "$_/ip" } split /:/, $ENV{PATH};
my $lesson = 'tests/processes/two_hosts.lua';
my $long   = $ENV{RINGSIDE_LONG};
my $owner  = $$;
my @made;

# ---- hosts ----

# Of a run that was killed.
for (glob '/run/netns/rs*') {
    my ($name, $pid) = m{/(rs(\d+)\w+)\z} or next;
    system 'ip', 'netns', 'del', $name unless kill(0, $pid) || $!{EPERM};
}

sub ip { return system("ip @_ 2>" . folder() . '/ip') == 0 }

# A pair of hosts with 10.77.N.1 and 10.77.N.2; undef: it cannot be.
sub pair {
    my ($n) = @_;
    my ($a, $b) = map { "rs" . $$ . "$_$n" } 'a', 'b';
    for ($a, $b) {
        ip("netns add $_") or return;
        push @made, $_;
    }
    ip("link add v$n netns $a type veth peer name v$n netns $b") or return;
    ip("-n $a addr add 10.77.$n.1/24 dev v$n") && ip("-n $b addr add 10.77.$n.2/24 dev v$n") or return;
    for ($a, $b) { ip("-n $_ link set lo up") && ip("-n $_ link set v$n up") or return }
    return { names => [ $a, $b ], n => $n, device => "v$n" };
}

END {
    my $status = $?;
    if ($$ == $owner) {
        system "ip netns pids $_ 2>/dev/null | xargs -r kill -9; ip netns del $_" for @made;
    }
    $? = $status;
}

# ---- jobs on them ----

my @clock = qw(unshare --time --fork --kill-child --monotonic 5000 --boottime 5000);
@clock = () if system("@clock true 2>/dev/null") != 0;

# Both nodes' scenes.
sub both {
    my ($pair, $options, @args) = @_;
    return map {
        begin({}, 'ip', 'netns', 'exec', $pair->{names}[$_], ($_ == 1 ? @clock : ()), program(),
            qw(launch --backend gloo --nnodes 2 --nproc 2 --exact --trust --node-rank), $_, '--master-addr', "10.77.$pair->{n}.1",
            '--trace', folder() . "/trace$pair->{n}$_", @$options, $lesson, '--', @args)
    } 0, 1;
}

# Until rank 0 has printed it, or has ended.
sub await {
    my ($scene, $text) = @_;
    my $until = time + 60;
    sleep 0.02 while index(said($scene, 'out'), $text) < 0 && -e "/proc/$scene->{pid}/exe" && time < $until;
    return;
}

# One folder of all four.
sub together {
    my ($n) = @_;
    my $all = folder() . "/all$n";
    mkdir $all;
    for my $rank (0 .. 3) {
        my $of = folder() . "/trace$n" . ($rank < 2 ? 0 : 1) . "/rank$rank.trace";
        copy($of, $all) or return;
    }
    return $all;
}

# How many messages there are, and how many of them arrive after they left.
sub arrows {
    my ($folder) = @_;
    my ($count, $forward, %left) = (0, 0);
    for my $line (split /\n/, ringside('events', $folder, 'flow > 0', '--json')->{out}) {
        my ($t, $phase, $flow) = map { $line =~ /"$_":"?([^",]+)/ ? $1 : '' } 't', 'phase', 'flow';
        $left{$flow} = $t if $phase eq 'begin';
        next if $phase ne 'end';
        $count++;
        $forward++ if exists $left{$flow} && $left{$flow} < $t;
    }
    return ($count, $forward);
}

my $alone = ringside('run', '--exact', '--trust', $lesson, '--', 6)->{out};

sub trains {
    my ($what, $pair, @nodes) = @_;
    has_all("$what: the first ends well", $nodes[0], 0);
    has_all("$what: so does the second", $nodes[1], 0);
    is($nodes[0]{out}, $alone, "$what: every loss and the parameters are one process's, to the bit");
    my $all = together($pair->{n});
    ok($all, "$what: each rank has written its trace") or return;
    my ($count, $forward) = arrows($all);
    ok($count >= 6 * 3 && $forward == $count, "$what: in the traces of all, every message arrives after it left")
        or diag("$forward of $count");
    my $frame = ringside('view', $all, qw(--no-config --print --size 100x30));
    ok($frame->{status} == 0 && $frame->{out} =~ /r3/, "$what: and they are seen as one");
    return;
}

# Neither side hears of the other any more: each names those with whom it cannot go on.
sub cut {
    my ($what, @nodes) = @_;
    has_all("$what: the first ends with a line that names them", $nodes[0], 3,
        qr/(?:TimeoutError|DeadlockError): .*?ranks? [\d, and-]*[01]\b.* waits? .* for .*[23]/,
        qr/^ringside launch: rank [01] ended with status 3 .*\n\z/m);
    has_all("$what: so does the second", $nodes[1], 3,
        qr/\[[23]\] ringside: .*(?:wait|is gone)/, qr/^ringside launch: rank [23] ended with status 3 .*\n\z/m);
    return;
}

my @limits = qw(--timeout 2 --grace 1);
my $first  = pair(1);
plan skip_all => 'no network namespace can be made: ' . slurp(folder() . '/ip') unless $first;
my ($torn, $silent, $slow) = (pair(2), pair(3), pair(4));
my $delays = system("ip netns exec $slow->{names}[1] tc qdisc add dev $slow->{device} root netem delay 20ms 2>/dev/null") == 0;

my @torn   = both($torn, \@limits, 100000, 'slowly');
my @silent = $long ? both($silent, \@limits, 100000, 'slowly') : ();
my @first  = both($first, [ qw(--timeout 60) ], 6);
await($_, 'step 3 ') for $torn[0], ($long ? $silent[0] : ());
ip("-n $torn->{names}[0] link set $torn->{device} down");
for ($long ? (0, 1) : ()) {      # packets go to nobody
    ip("-n $silent->{names}[$_] neigh replace 10.77.3." . (2 - $_) . " lladdr 02:00:00:00:00:99 dev $silent->{device} nud permanent");
}
trains('two hosts', $first, map { finish($_) } @first);
SKIP: {
    skip 'this kernel has no netem to make a cable slow', 6 unless $delays;
    trains('a slow host', $slow, map { finish($_) } both($slow, [ qw(--timeout 60) ], 6));
}
cut('a cut cable', map { finish($_) } @torn);
cut('a cable that swallows all', map { finish($_) } @silent) if $long;
done_testing();
