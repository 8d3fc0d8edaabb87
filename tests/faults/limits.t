#!/usr/bin/perl
# Limits on what a lesson may take: one for memory and one for work, of all ranks together, and the clock for what no
# count sees. An interrupt ends anything.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $head  = 'local rs = require "ringside" local nn, dist, F = rs.nn, rs.distributed, rs.nn.functional ';
my $count = 0;

sub ends {
    my ($what, $pattern, $text, @options) = @_;
    my $file = lesson('case' . ++$count, $head . $text);
    my $run  = ringside('run', @options, $file);
    is("$run->{status} $run->{signal}", '2 0', "$what: status 2");
    like($run->{err}, qr/\Aringside: [^\n]*$pattern[^\n]*--trust[^\n]*\n\z/, "$what: one line says which limit and how to lift it");
    return;
}

sub passes {
    my ($what, $text, @options) = @_;
    my $file = lesson('case' . ++$count, $head . $text);
    my $run  = ringside('run', @options, $file);
    is("$run->{status} $run->{err}", '0 ', $what);
    return;
}

# ---- memory ----
my $memory = qr/BudgetError: .*limit/;
ends('a convolution to 4000 channels',     $memory, 'nn.Conv2d(1, 4000, 1)(rs.zeros(1, 1, 1000, 1000))');
ends('a linear layer of 40000 rows',       $memory, 'nn.Linear(1, 40000)(rs.zeros(40000, 1))');
ends('rows picked by a tensor',            $memory, 'return rs.zeros(1000, 1000)[rs.zeros(1000000):long()]');
ends('softmax of a stretched number',      $memory, 'F.softmax(rs.zeros(1, 1):expand(40000, 40000), 1)');
ends('dropout of it',                      $memory, 'F.dropout(rs.zeros(1, 1):expand(40000, 40000))');
ends('a loss that broadcasts',             $memory, 'F.l1_loss(rs.zeros(45000, 1), rs.zeros(45000))');
ends('tables for ever',                    $memory, 'local t = {} while true do t[#t + 1] = {} end');
ends('sixteen ranks with 320 MiB of text each', $memory,
     'dist.spawn(function() local s = ("x"):rep(320 << 20) dist.barrier() return #s end, { world = 16 })');
ends('a parcel to ranks of half the limit', $memory,
     'local s = ("x"):rep(1 << 29) dist.spawn(function() return #s end, { world = 2 })');
ends('tensors for ever, in free', $memory, 'local t = {} while true do t[#t + 1] = rs.ones(1 << 20) end', '--executor', 'free');
my %ended;
for my $last (18 .. 20) { # the limit is reached at another moment of a rank's birth each time
    for my $more (0 .. 7) {
        my $file = lesson('birth', $head . "local t = {} for p = 29, $last, -1 do t[#t + 1] = rs.empty({ 1 << p }, { dtype = 'uint8' }) end "
            . "for p = 1, $more do t[#t + 1] = rs.empty({ 1 << $last - 3 }, { dtype = 'uint8' }) end dist.spawn(function(r) end, { world = 4 })");
        my $run = ringside('run', $file);
        push @{ $ended{ "$run->{status} " . ($run->{err} =~ /: (\w+Error):/ ? $1 : $run->{err}) } }, "$last, $more";
    }
}
is_deeply([ sort keys %ended ], ['0 ', '2 BudgetError'], 'ranks that are born at the limit end by it, or live') or diag(explain(\%ended));
passes('garbage goes before anything is refused',
       'for i = 1, 60 do local x = rs.zeros(1 << 26) end for i = 1, 15 do local s = ("x"):rep(100 << 20) end');
passes('garbage of each of eight ranks goes too',
       'dist.spawn(function() for i = 1, 40 do local x = rs.zeros(1 << 24) end end, { world = 8 })');
passes('what small objects leave is there for large ones',
       'local t = {} for i = 1, 3e6 do t[i] = {} end t = nil local x = rs.zeros(1 << 27)');
passes('--trust has no limit', 'local x = rs.zeros(1 << 28, { dtype = "bool" }) local y = x:to("float32")', '--trust');

# ---- work ----
my $work = qr/BudgetError: .*steps of work/;
ends('one number seen 2^40 times', $work, 'rs.zeros(1):as_strided({ 1 << 40 }, { 0 }):sum()');
ends('indices of a triangle of 30000', $work, 'rs.tril_indices(30000, 30000)');
ends('windows over windows', $work, 'F.max_pool2d(rs.ones(1, 1, 3000, 3000), 1500, { stride = 1 })');
ends('a table of one row a billion times', $work,
     'local t = {} for i = 1, 1000 do t[i] = i end for _ = 1, 3 do local u = {} for i = 1, 1000 do u[i] = t end t = u end rs.tensor(t)');
my ($first, $second) = map {
    my $file = lesson("same", $head . 'for i = 1, 99e7 do end local x = rs.ones(100) while true do x = x + 1 end');
    ringside('run', '--hash', $file)->{out};
} 1, 2;
is($first, $second, 'a run that ends by its work ends at the same event each time');

# ---- the clock ----
my $compare = 'local a, b = ("x"):rep(1 << 27), ("x"):rep(1 << 27) while true do local same = a == b end';
ends('a loop that no count sees', qr/seconds of CPU time/, $compare, '--limit-seconds', '0.5');
is(ringside('run', '--limit-seconds', 'soon', 'lessons/01-six-rows.lua')->{status}, 2, '--limit-seconds wants a number');

# ---- honest work is not hindered ----
is(ringside('run', '--quiet', 'lessons/examples/train_digits.lua')->{status}, 0, 'the digits are learned');
passes('256 ranks train side by side', <<'END');
local all = dist.spawn(function(rank)
  local model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
  local opt = rs.optim.SGD(model:parameters(), { lr = 0.1 })
  for _ = 1, 2 do opt:zero_grad() model(rs.randn(4, 8)):sum():backward() opt:step() end
  return rank
end, { world = 256 })
assert(#all == 255)
END

# ---- an interrupt ----
SKIP: {
    skip 'CPU time of another process is read from /proc', 6 unless -e "/proc/$$/stat";
    my %lessons = (
        'a loop'               => 'while true do end',
        'a loop under pcall'   => 'while true do pcall(function() while true do end end) end',
        'comparisons of texts' => $compare,
        'large products'       => 'local x = rs.ones(2000, 2000) while true do local y = x:matmul(x) end',
        'ranks'                => 'dist.spawn(function() while true do end end, { world = 4 })',
        'a long sort'          => 'local x = rs.randn(20000000):sort()',
    );
    for my $what (sort keys %lessons) {
        my $file = lesson('int' . ++$count, $head . $lessons{$what});
        my $trace = folder() . "/int$count.trace";
        my $pid = fork() // die "fork: $!";
        if ($pid == 0) {
            open STDOUT, '>', '/dev/null';
            open STDERR, '>', folder() . '/.err';
            alarm 300;
            hear_signals();
            exec program(), 'run', '--trust', '--trace', $trace, $file;
        }
        my $ticks = 0;
        while ($ticks < 30 && waitpid($pid, 1) == 0) {
            select undef, undef, undef, 0.01;
            my @words = split ' ', -e "/proc/$pid/stat" ? slurp("/proc/$pid/stat") : '';
            $ticks = @words > 14 ? $words[13] + $words[14] : 30;
        }
        kill 'INT', $pid;
        waitpid $pid, 0;
        my $end = $? & 127 ? "signal $?" : $? >> 8;
        ok(($end eq '3' || $end eq '130') && ringside('events', $trace)->{status} == 0,
           "an interrupt ends $what, and the trace is whole") or diag("$end: ", slurp(folder() . '/.err'));
    }
}

# ---- what was ignored when the program was started ----

{
    my $file = lesson('nohup', 'print("begun") for i = 1, 1e8 do end');
    my $pid = open(my $out, '-|') // die "fork: $!";
    if ($pid == 0) {
        $SIG{HUP} = 'IGNORE';
        alarm 300;
        exec program(), 'run', $file;
    }
    my $begun = <$out>;
    kill 'HUP', $pid;
    my @rest = <$out>;
    close $out;
    is($?, 0, 'a run under nohup outlives its terminal');
}

done_testing();
