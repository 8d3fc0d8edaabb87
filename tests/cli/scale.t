#!/usr/bin/perl
# A thousand ranks in one process: what a rank costs in memory that is really there. What is the square of the ranks
# anywhere (a tensor for each pair, a clock for each pair) shows here long before it shows in a lesson. No times: a machine
# that is busy is no reason to fail.
use strict;
use warnings;
use lib 'tests/cli';
use POSIX ':sys_wait_h';
use Ringside;
use Test::More;

plan skip_all => 'the peak of resident memory is read from /proc' if !-r "/proc/$$/status";
plan skip_all => 'sanitizers keep memory of their own for every block and stack'
    if ($ENV{RINGSIDE_OUT} || '') =~ /asan|tsan/;

# The peak only grows, and all ranks are there long before the last one has ended: a look every few milliseconds sees it.
sub peak_kib {
    my ($pid) = @_;
    my $status = -r "/proc/$pid/status" ? slurp("/proc/$pid/status") : '';
    return $status =~ /^VmHWM:\s+(\d+) kB/m ? $1 : 0;
}

sub run_and_look {
    my (@words) = @_;
    my ($out, $err, $peak) = (folder() . '/out', folder() . '/err', 0);
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>', $out or die "stdout: $!";
        open STDERR, '>', $err or die "stderr: $!";
        alarm 300;
        exec program(), 'run', @words;
        die "exec: $!";
    }
    while (waitpid($pid, WNOHANG) == 0) {
        my $now = peak_kib($pid);
        $peak = $now if $now > $peak;
        select undef, undef, undef, 0.003;
    }
    return { status => $?, out => slurp($out), err => slurp($err), mib => $peak / 1024 };
}

sub stays_below {
    my ($what, $limit, $expected, @words) = @_;
    my $run = run_and_look(@words);
    is($run->{status}, 0, "$what: the run ends well") or diag($run->{err});
    like($run->{out}, $expected, "$what: with the right result");
    cmp_ok($run->{mib}, '>', 1, "$what: its memory was seen");
    cmp_ok($run->{mib}, '<', $limit, "$what: less than $limit MiB are resident");
    return $run;
}

my $all_reduce = lesson('all_reduce', <<'END');
local rs = require "ringside"
local dist = rs.distributed
dist.spawn(function(rank)
  local t = rs.full({ 4 }, rank + 0.5)
  dist.all_reduce(t)
  if rank == 1023 then print(t:tolist()[1], t:tolist()[4]) end
end, { world = 1024 })
END

# Each rank has data of its own; after the step all have the same weights, and not those that it would have alone.
my $ddp = lesson('ddp', <<'END');
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local function step(rank, wrap)
  rs.manual_seed(3)
  local net = wrap(nn.Linear(64, 64))
  local opt = rs.optim.SGD(net:parameters(), { lr = 0.5 })
  rs.manual_seed(rank)
  net(rs.randn({ 2, 64 })):pow(2):mean():backward()
  opt:step()
  local sum = 0
  for _, p in pairs(net:parameters()) do sum = sum + p:pow(2):sum():item() end
  return sum
end
local alone = step(0, function(net) return net end)
local ranks = dist.spawn(function(rank) return step(rank, nn.parallel.DistributedDataParallel) end, { world = 1024 })
local equal = 0
for rank = 0, 1023 do equal = equal + (ranks[rank] == ranks[0] and 1 or 0) end
print(equal, ranks[0] ~= alone)
END

# The sum of rank + 0.5 is 523776 + 512.
stays_below('all_reduce of 4 floats on 1024 ranks', 200, qr/^524288\.0\t524288\.0$/m, $all_reduce);
my $trace = folder() . '/all_reduce.trace';
stays_below('all_reduce of 4 floats on 1024 ranks, recorded', 200, qr/^524288\.0\t524288\.0$/m, '--trace', $trace,
    $all_reduce);
stays_below('DistributedDataParallel of Linear(64, 64) on 1024 ranks', 600, qr/^1024\ttrue$/m, $ddp);

my $ring = lesson('ring', <<'END');
local rs = require "ringside"
local dist = rs.distributed
dist.spawn(function(rank)
  local t = rs.full({ 262144 }, rank + 0.0)
  dist.all_reduce(t)
  if rank == 255 then print(t:min():item(), t:max():item()) end
end, { world = 256 })
END
$trace = folder() . '/ring.trace';
stays_below('all_reduce of 1 MiB on 256 ranks, every hop recorded', 950, qr/^32640\.0\t32640\.0$/m, '--hops', '--trace',
    $trace, $ring);
cmp_ok(-s $trace, '<', 100_000_000, 'its trace is less than 100 MB');

done_testing();
