#!/usr/bin/perl
# Jobs that are started wrongly, or lose what started them: one clear line that says what to do, the right status, nobody waits for
# ever, nobody is left behind.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use IO::Socket::INET;
use POSIX ();
use Job;
use Ringside;
use Scene;
use Test::More;
use Time::HiRes qw(sleep time);

need_gloo();
my $lesson = 'tests/processes/meets.lua';

# One process by hand, as torchrun's environment has it; `but`: other variables, undef: it is not set.
sub hand {
    my ($rank, $size, $port, $but, @words) = @_;
    @words = ('--timeout', 2) unless @words;
    my @args;
    @args = splice @words, -2 if @words > 2;
    return begin({ env => { RANK => $rank, WORLD_SIZE => $size, MASTER_ADDR => '127.0.0.1', MASTER_PORT => $port,
        LOCAL_RANK => undef, LOCAL_WORLD_SIZE => undef, %$but } }, program(), 'run', '--trust', @words, $lesson, @args ? ('--', @args) : ());
}

sub launch {
    my ($options, @args) = @_;
    return begin({}, program(), 'launch', '--trust', @$options, $lesson, @args ? ('--', @args) : ());
}

# One line, status and what it says; nobody left.
sub one_line {
    my ($name, $scene, $status, $pattern) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return has_all($name, $scene, $status, qr/\A(?:ringside: [^\n]+\n)\z/, $pattern);
}

sub await {
    my ($scene, $stream, $text) = @_;
    my $until = time + 60;
    sleep 0.02 while index(said($scene, $stream), $text) < 0 && -e "/proc/$scene->{pid}/exe" && time < $until;
    return;
}


# ---- refused at once ----

my %good = (RANK => 0, WORLD_SIZE => 2, MASTER_ADDR => '127.0.0.1', MASTER_PORT => 29500);
sub refuses {
    my ($name, $but, $pattern) = @_;
    my %env = (%good, %$but);
    my $run = ringside({ env => \%env }, 'run', '--backend', 'gloo', $lesson);
    return refused($name, $run, 2, $pattern);
}

sub without {
    my ($name, $variable, $pattern) = @_;
    local %ENV = (%ENV, %good);
    delete $ENV{$variable};
    return refused($name, ringside('run', '--backend', 'gloo', $lesson), 2, $pattern);
}

delete @ENV{qw(RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT)};
refuses('a port that is no number', { MASTER_PORT => 'hello' }, qr/MASTER_PORT is 'hello': it must be a whole number from 1 to 65535/);
refuses('a port that is too great', { MASTER_PORT => 70000 }, qr/MASTER_PORT is '70000': it must be/);
refuses('a rank beyond the world', { RANK => 2 }, qr/RANK is 2, but WORLD_SIZE is 2: ranks count from 0/);
refuses('a rank below 0', { RANK => -1 }, qr/RANK is '-1': it must be a whole number from 0/);
refuses('a world of nobody', { WORLD_SIZE => 0 }, qr/WORLD_SIZE is '0': it must be a whole number from 1/);
without("no $_", $_, qr/environment variable $_ expected, but not set/) for qw(RANK WORLD_SIZE MASTER_ADDR MASTER_PORT);

sub says {
    my ($name, $text) = @_;
    return lesson($name, qq(local rs = require "ringside"\nlocal dist = rs.distributed\n$text\n));
}
refused('env:// without a job', ringside('run', says('alone', 'dist.init_process_group { init_method = "env://" }')), 2,
    qr/variable RANK expected, but not set: 'ringside launch --nproc 2 FILE' sets it$/);
my ($early) = by_hand(2, {}, says('soon', 'dist.all_reduce(rs.ones(1))'));
like($early->{err}, qr/\Aringside: [^\n]*: ValueError: Default process group has not been initialized: call dist\.init_process_group\(\) first/,
    'a collective before init_process_group says what to call');

# ---- mpirun without --backend mpi ----

sub alone_of {
    my ($rank, @words) = @_;
    return ringside({ env => { OMPI_COMM_WORLD_RANK => $rank, OMPI_COMM_WORLD_SIZE => 2 } }, 'run', @words, lesson('alone', 'print "x"'))->{err};
}
is(alone_of(0), "ringside: mpirun started 2 processes, and each runs the whole lesson by itself: with --backend mpi they are its ranks\n",
   'mpirun\'s first process says that they are no job');
is(alone_of(1), '', 'the others do not');
is(alone_of(0, qw(--backend local)), '', 'nor does one that is meant to be alone');

# ---- where nobody answers as he should: side by side ----

my @server = map { IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5, Proto => 'tcp') or die "no port: $!" } 0, 1;
my $web = fork() // die "fork: $!";
if ($web == 0) {
    alarm 120;
    while (my $client = $server[0]->accept) {
        print $client "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
        close $client;
    }
    POSIX::_exit(0);
}
my $port   = free_port();
my $absent = hand(1, 2, $port, {}, '--timeout', 1);
my $chats  = hand(1, 2, $server[0]->sockport, {});
my $silent = hand(1, 2, $server[1]->sockport, {}, '--timeout', 1);
my $taken  = hand(0, 2, $server[1]->sockport, {});
my $size   = free_port();
my @sizes  = (hand(0, 2, $size, {}, '--timeout', 30), hand(1, 3, $size, {}, '--timeout', 30));
my $serves = qr/; rank 0 serves the job's store\n/;
one_line('a master that is not there', finish($absent), 3,
    qr/DistNetworkError: no store's server has answered at 127\.0\.0\.1:$port within 1 s$serves/);
one_line('a server that says something else', finish($chats), 3, qr/: what listens there is no store of this kind$serves/);
one_line('a master\'s port that is taken', finish($taken), 3,
    qr/cannot listen on port \d+: Address already in use; rank 0 serves the job's store: another does so there, or MASTER_ADDR and MASTER_PORT are wrong\n/);
my $wrong = qr/this process has WORLD_SIZE=3, but the job at 127\.0\.0\.1:$size has 2 ranks|this process has WORLD_SIZE=2, but the job at 127\.0\.0\.1:$size has 3 ranks/;
finish($_) for @sizes;
my ($right, $other) = $sizes[0]{status} == 2 ? (1, 0) : (0, 1);
one_line('a world of another size: who comes to it later says so', $sizes[$other], 2, qr/ValueError: $wrong: all must say the same\n/);
has_all('and whom it leaves alone hears of it', $sizes[$right], 3, qr/rank $right waits in init_process_group \(line \d+\) for rank/)
    if $right == 0;

# ---- twice ----

$port = free_port();
my $place = folder() . '/job';
mkdir $place;
my @job = map { hand($_, 2, $port, {}, '--timeout', 60, 'wait', $place) } 0, 1;
await($job[0], 'err', 'has met');
my $second = hand(1, 2, $port, {});
my $first  = hand(0, 2, $port, {});
one_line('a rank that is there already', finish($second), 2,
    qr/ValueError: rank 1 of the job at 127\.0\.0\.1:$port is there already: two jobs use one address, or two processes have RANK=1\n/);
one_line('a second rank 0', finish($first), 3, qr/cannot listen on port $port: Address already in use; rank 0 serves/);
spill("$place/go", '');
has_all('the job itself does not mind', finish($job[$_]), 0, qr/^rank $_ has 3$/m) for 0, 1;

$port  = free_port();
$place = folder() . '/launch';
mkdir $place;
my $launch = launch([ '--nproc', 2, '--master-port', $port ], 'wait', $place);
await($launch, 'err', 'has met');
refused('two launches on one port', ringside('launch', '--nproc', 2, '--master-port', $port, $lesson), 2,
    qr/port $port of 127\.0\.0\.1 is taken: by another launch, or who else listens there; --master-port names another/);
spill("$place/go", '');
has_all('the first goes on', finish($launch), 0, qr/^rank 0 has 3$/m, qr/^(?:\[1\] )?rank 1 has 3$/m);

# ---- a file of an earlier job ----

my $file = folder() . '/stale';
my $dies = lesson('dies', <<'LUA');
local rs = require "ringside"
local store = rs.distributed.FileStore(..., 2)
store:set("r0", "left")
os.execute("kill -9 " .. io.open("/proc/self/stat"):read("n"))
LUA
ringside('run', '--trust', $dies, '--', $file);
ok(-s $file, 'a killed run leaves its file store behind');
has_all('a job that should meet there meets all the same', finish(launch([ '--nproc', 2 ], 'file', $file)), 0, qr/^rank 0 has 3$/m);

# ---- who started them goes ----

my $meant = launch([ '--nproc', 2, '--timeout', 60 ], 'forever');
my $p     = free_port();
my $q     = free_port();
sub nodes {
    my ($at) = @_;
    return map { launch([ qw(--nproc 1 --nnodes 2 --master-addr 127.0.0.1 --timeout 60 --master-port), $at, '--node-rank', $_ ], 'forever') } 0, 1;
}
my @one = nodes($p);
my @two = nodes($q);
await($_, 'err', 'has met') for $meant, $one[0], $two[0];
kill 'KILL', $meant->{pid}, $one[1]{pid}, $two[0]{pid};
finish($_) for $meant, @one, @two;
ok(!$_->[0]{left} && !$_->[0]{late} && $_->[0]{signal} == 9, $_->[1]) for
    [ $meant, 'a launcher that is killed leaves nobody behind' ], [ $one[1], 'nor does that of the second machine' ],
    [ $two[0], 'nor that of the first' ];
has_all('the first machine says whom it has lost', $one[0], 3, qr/cause: (?:killed|threw): rank 1 /,
    qr/^ringside launch: rank 0 ended with status 3 in all_reduce #\d+: \w+ at line \d+\n\z/m);
has_all('the second says that the launcher of the first is gone', $two[1], 3,
    qr/the job's store at 127\.0\.0\.1:$q is gone: its launcher has ended/, qr/^ringside launch: rank 1 ended with status 3 .*\n\z/m);

one_line('a server that says nothing', finish($silent), 3, qr/lost: it does not answer$serves/);
kill 'KILL', $web;
waitpid $web, 0;
done_testing();
