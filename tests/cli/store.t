#!/usr/bin/perl
# Stores between processes: how they meet, what a TCP store's server does with peers that are no clients, and what a
# lesson from elsewhere may not do.
use strict;
use warnings;
use lib 'tests/cli';
use IO::Select;
use IO::Socket::INET;
use POSIX qw(:sys_wait_h);
use Ringside;
use Test::More;
use Time::HiRes qw(sleep time);

my $sanitized = program() =~ m{/(?:asan|tsan)/};
my $patience  = $sanitized ? 60 : 20;

sub free_port {
    my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', ReuseAddr => 1) or die "listen: $!";
    return $socket->sockport;
}

# Starts the program; answers its process and where it writes.
my $started = 0;
sub start {
    my @words = @_;
    my $out   = folder() . '/started.' . ++$started;
    my $pid   = fork() // die "fork: $!";
    if ($pid == 0) {
        open STDIN,  '<', '/dev/null' or die;
        open STDOUT, '>', "$out.out"  or die;
        open STDERR, '>', "$out.err"  or die;
        alarm 300;
        hear_signals();
        exec program(), @words;
        die "exec: $!";
    }
    return { pid => $pid, path => $out };
}

# Its end, if that comes in time; else it is killed.
sub finish {
    my ($run, $seconds) = @_;
    my $end = time + ($seconds // $patience);
    my $done;
    sleep 0.02 while !($done = waitpid $run->{pid}, WNOHANG) && time < $end;
    my $status = $?;
    if (!$done) {
        kill 'KILL', $run->{pid};
        waitpid $run->{pid}, 0;
    }
    return { late => !$done, status => $done ? $status >> 8 : -1, signal => $done ? $status & 127 : 9,
             out => slurp("$run->{path}.out"), err => slurp("$run->{path}.err") };
}

# ---- a client by hand ----

my $hello = 'RSTOR1' . pack('S', 0x0102);
my %op = (set => 0, get => 1, check => 2, add => 3, push => 9);
sub text    { return pack('L', length $_[0]) . $_[0] . "\0" }
sub message { return pack('L', length $_[0]) . $_[0] }
sub request {
    my ($op, $keys, $values, $number) = @_;
    return message(pack('CCxxLLq', $op{$op}, 0, scalar @$keys, scalar @$values, $number // 0)
        . join('', map { text("/$_") } @$keys) . join('', map { text($_) } @$values));
}

sub reach {
    my ($port) = @_;
    my $end = time + $patience;
    while (time < $end) {
        my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Proto => 'tcp');
        return $socket if $socket;
        sleep 0.02;
    }
    die "nobody listens at $port";
}

# So many bytes, or as many as come before the end; '' at once if the peer has closed.
sub take {
    my ($socket, $count, $seconds) = @_;
    my ($got, $end, $select) = ('', time + ($seconds // $patience), IO::Select->new($socket));
    while (length $got < $count && time < $end) {
        next if !$select->can_read(0.1);
        my $more = sysread $socket, my $bytes, $count - length $got;
        last if !$more;
        $got .= $bytes;
    }
    return $got;
}

# Whether the peer closes the connection, whatever it says before.
sub is_closed {
    my ($socket, $seconds) = @_;
    my ($end, $select) = (time + ($seconds // $patience), IO::Select->new($socket));
    while (time < $end) {
        next if !$select->can_read(0.1);
        my $more = sysread $socket, my $bytes, 65536;
        return 1 if !$more;
    }
    return 0;
}

sub client {
    my $socket = reach(@_);
    syswrite $socket, $hello;
    return take($socket, 8) eq $hello ? $socket : undef;
}

sub ask {
    my ($socket, @request) = @_;
    local $SIG{PIPE} = 'IGNORE';
    syswrite $socket, request(@request);
    my $head = take($socket, 4);
    return { status => -1, text => '' } if length $head < 4;
    my ($status, $number, $rest) = unpack 'Cx3qa*', take($socket, unpack 'L', $head);
    return { status => $status, number => $number, text => length $rest > 5 ? substr($rest, 4, -1) : '' };
}

# ---- hostile peers ----

sub server_lesson {
    my ($port) = @_;
    return lesson('server', <<"END");
local rs = require "ringside"
local dist = rs.distributed
local store = dist.TCPStore("127.0.0.1", $port, { is_master = true, wait_for_workers = false })
store:set("from the lesson", "here")
store:wait({ "stop" }, 250)
print("ended with", store:get "good")
END
}

sub resident_peak {
    my ($pid) = @_;
    return 0 if !-r "/proc/$pid/status";
    return slurp("/proc/$pid/status") =~ /^VmHWM:\s+(\d+) kB/m ? $1 / 1024 : 0;
}

for my $executor (qw(stepped free)) {
    my $port   = free_port();
    my $server = start('run', '--executor', $executor, server_lesson($port));
    my $good   = client($port);
    ok($good, "$executor: a client is greeted");
    for (1 .. $patience) { # a CHECK waits a second for a key that is not there yet
        last if ask($good, 'check', ['from the lesson'], [], 1000)->{number};
    }
    is(ask($good, 'get', ['from the lesson'], [])->{text}, 'here', "$executor: and sees the lesson's keys");

    my $garbage = reach($port);
    syswrite $garbage, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    ok(is_closed($garbage), "$executor: garbage is closed");
    my $noise = client($port);
    syswrite $noise, join '', map { chr(128 + int rand 128) } 1 .. 100000;   # read as lengths: two gigabytes and more
    ok(is_closed($noise), "$executor: garbage behind a hello is closed");

    my $huge = client($port);
    syswrite $huge, pack('L', 1 << 30) . 'x' x 1000;
    is(ord(substr take($huge, 16), 4, 1), 5, "$executor: who announces a gigabyte is told that it is too much");
    ok(is_closed($huge), "$executor: and closed");
    my $key = client($port);
    syswrite $key, message(pack('CCxxLLq', $op{get}, 0, 1, 0, 0) . pack('L', 1 << 30) . "x\0");
    is(length take($key, 16), 16, "$executor: a key of a gigabyte gets an error");
    ok(is_closed($key), "$executor: and is closed");
    my $long = client($port);
    syswrite $long, request('set', [ 'x' x 100000 ], ['v']);
    ok(is_closed($long), "$executor: so is a key of 100 kB");

    my $half = reach($port);           # says a little and no more
    syswrite $half, substr $hello, 0, 3;
    my $stuck = client($port);
    syswrite $stuck, substr request('set', ['k'], [ 'v' x 1000 ]), 0, 500;
    my @deaf = map { client($port) } 1 .. 8; # ask for much and never read
    is(ask($good, 'set', ['large'], [ 'v' x 4_000_000 ])->{status}, 0, "$executor: a large value is taken");
    for my $deaf (@deaf) {
        $deaf->blocking(0);
        syswrite $deaf, request('get', ['large'], []) for 1 .. 50;
    }
    is(ask($good, 'set', ['good'], ['served'])->{status}, 0, "$executor: the others are served meanwhile");
    is(ask($good, 'get', ['good'], [])->{text}, 'served', "$executor: with what they ask for");

    # A thousand connections, from several processes, each of which may have few files.
    my @crowd;
    for my $part (1 .. 5) {
        pipe my $told, my $tell or die;
        my $pid = fork() // die "fork: $!";
        if ($pid == 0) {
            my @open = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) } 1 .. 200;
            syswrite $tell, scalar(grep { $_ } @open) . "\n";
            sleep 300;
            POSIX::_exit(0);
        }
        close $tell;
        push @crowd, { pid => $pid, told => $told };
    }
    my $connected = 0;
    $connected += readline $_->{told} for @crowd;
    cmp_ok($connected, '>=', 900, "$executor: a thousand connections come");
    is(ask($good, 'get', ['good'], [])->{text}, 'served', "$executor: a client that is there is served");
    my $late = client($port);
    ok($late && ask($late, 'add', ['n'], [], 3)->{number} == 3, "$executor: and one that comes");
    my $peak = resident_peak($server->{pid});
    cmp_ok($peak, '<', 400, "$executor: memory stays bounded (" . int($peak) . ' MiB)') if !$sanitized;

    my $wrong = client($port);
    ask($wrong, 'set', ['t'], ['text']);
    is(ask($wrong, 'add', ['t'], [], 1)->{status}, 3, "$executor: a text is no number");
    ok(is_closed($wrong), "$executor: and ends that client's connection");
    is(ask($good, 'set', ['stop'], ['1'])->{status}, 0, "$executor: but nobody else's");
    my $end = finish($server);
    is($end->{status}, 0, "$executor: the server ends with its lesson") or diag($end->{err});
    like($end->{out}, qr/ended with\s+served/, "$executor: which was never disturbed");
    kill 'KILL', $_->{pid} for @crowd;
    waitpid $_->{pid}, 0 for @crowd;
}

# ---- two processes ----

my $meeting = lesson('meeting', <<'END');
local rs = require "ringside"
local dist = rs.distributed
local address, mine = rs.args[1], math.tointeger(rs.args[2])
local store, rank, size = dist.rendezvous(address, { rank = mine, world_size = 2 })
store:set("from " .. rank, "hello of " .. rank)
print(size, store:get("from " .. 1 - rank))
-- The server goes with rank 0: it waits until nobody needs it.
if rank == 1 then store:set("done", "1") else store:wait { "done" } end
END

for my $pair ([qw(free free)], [qw(stepped stepped)], [qw(stepped free)]) {
    for my $address ('tcp://127.0.0.1:' . free_port(), "file:///tmp/ringside-meeting-$$-$started") {
        my @runs = map { start('run', '--executor', $pair->[$_], $meeting, '--', $address, $_) } 0, 1;
        my @ends = map { finish($_) } @runs;
        my $name = "@$pair, " . ($address =~ /^(\w+)/)[0];
        is($ends[$_]{status}, 0, "$name: rank $_ ends well") or diag($ends[$_]{err}) for 0, 1;
        like($ends[$_]{out}, qr/2\s+hello of @{[ 1 - $_ ]}/, "$name: rank $_ has met the other") for 0, 1;
        ok(!-e $1, "$name: the last one has removed the file") if $address =~ m{^file://(.*)};
    }
}

# ---- what goes wrong, in one line ----

sub says {
    my ($text) = @_;
    return lesson('says', "local rs = require 'ringside'\nlocal dist = rs.distributed\n$text\n");
}

{
    my $port   = free_port();
    my $server = start('run', server_lesson($port));
    my $good   = client($port);
    refused('a port that is taken is told', ringside('run', says("dist.TCPStore('127.0.0.1', $port, 1, true)")), 3,
        qr/DistNetworkError.*cannot listen on port $port/);
    my $other = start('run', '--executor', 'free', says("dist.TCPStore('127.0.0.1', $port):get 'never'"));
    sleep 1;
    kill 'KILL', $server->{pid};
    finish($server);
    my $end = finish($other);
    refused('who waits at a server that dies learns it', $end, 3, qr/DistNetworkError.*127\.0\.0\.1:$port is lost/);
    refused('where nobody listens, that is told',
        ringside('run', says("dist.TCPStore('127.0.0.1', $port, { timeout = 0.3 })")), 3,
        qr/DistNetworkError: no store's server has answered at 127\.0\.0\.1:$port within 0\.3 s/);
    refused('another host wants --trust', ringside('run', says("dist.TCPStore('$_', 29500, 1, true)")), 2,
        qr/PermissionError.*--trust/) for '192.0.2.1', '0.0.0.0', 'example.com', '::';
    refused("$_ wants --trust", ringside('run', says("dist.FileStore('$_')")), 2, qr/PermissionError.*--trust/)
        for '/etc/passwd', "$ENV{HOME}/here", 'here', '/tmp/../etc/here', '/tmp/.', folder() . '/here';
    refused('too few descriptors are told', ringside({ ulimit => '-n 40' }, 'run',
        says("local t = {}\nfor i = 1, 40 do t[i] = dist.TCPStore('127.0.0.1', 0, 1, true) end")), 3,
        qr/DistNetworkError.*(?:no file descriptor (?:is )?left|cannot start a store's server)/);
}

# What waits can be stopped.
my @waiting = ("dist.TCPStore('127.0.0.1', 0, 1, true)", "dist.FileStore('/tmp/ringside-wait-$$', 1)",
    'dist.HashStore()');
for my $executor (qw(stepped free)) {
    for my $store (@waiting) {
        next if $executor eq 'stepped' && $store =~ /Hash/; # there a deadlock is known at once
        my $run = start('run', '--executor', $executor, says("$store:get 'never'"));
        sleep($sanitized ? 3 : 0.7); # by then it waits
        my $begin = time;
        kill 'INT', $run->{pid};
        my $ended = finish($run);
        ok(!$ended->{late} && time - $begin < 5, "$executor: an interrupt ends the wait in $store")
            or diag("after ", time - $begin, " s: $ended->{err}");
    }
}
for my $store (@waiting) {
    refused("--timeout ends the wait in $store",
        ringside('run', '--executor', 'free', '--timeout', 1, says("$store:get 'never'")), 3,
        qr/TimeoutError: timed out/);
}
refused('nobody else can set a key of a HashStore', ringside('run', says('dist.HashStore():get "never"')), 3,
    qr/DeadlockError.*never/);

# ---- a run repeats ----

{
    my $port  = free_port();
    my $ranks = lesson('ranks', <<"END");
local rs = require "ringside"
local dist = rs.distributed
local got = dist.spawn(function(rank)
  local dist = require "ringside".distributed
  local store = dist.TCPStore("127.0.0.1", $port, { world_size = 3, is_master = rank == 0 })
  rs.advance(1000 * rank)
  store:set("k" .. rank, tostring(rank))
  local all = store:multi_get { "k0", "k1", "k2" }
  local sum = store:add("n", 1)
  dist.barrier()
  return table.concat(all) .. sum
end, { world = 3 })
print(got[0], got[1], got[2])
END
    my @runs = map { ringside('run', '--trace', folder() . "/again.$_", $ranks) } 1, 2;
    is($runs[0]{status}, 0, 'ranks of one process share a TCP store') or diag($runs[0]{err});
    is($runs[0]{out}, $runs[1]{out}, 'with the same answers each time');
    my @hash = map { ringside('events', '--hash', folder() . "/again.$_")->{out} } 1, 2;
    like($hash[0], qr/\S/, 'the run has a hash');
    is($hash[0], $hash[1], 'and the same events');
}
done_testing();
