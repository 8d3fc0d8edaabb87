#!/usr/bin/perl
# --check-ranks: replicas that are no longer equal end the run at the event that made them differ, told with the rank, the
# tensor, the element, both numbers and the lesson's line, in both executors, on the host and on devices; what ranks may do
# differently is no reason to stop. And what DistributedDataParallel refuses without the option: another order of parameters.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

# A model of two layers, trained for four steps on other data in each rank. What is planted stands on lines of its own:
# `before` (line 7) may make another model, `ddp` are options of the wrapper (line 9), then `hook` (line 10), `lr`
# (line 11); of the second step `grad` (line 17) behind the backward, `step` (line 18) in the place of the optimizer's,
# `after` (line 19); `last` (line 21) at the end.
sub training {
    my ($name, %given) = @_;
    my %usual = (before => '', ddp => '', hook => '', lr => '0.1', optimizer => 'SGD', grad => '', step => 'opt:step()',
                 after => '', world => 2, seed => 3, forward => 'ddp(x)', lesson => '', last => '',
                 place => $given{device} ? '"device:" .. rank' : '"cpu"');
    %given = (%usual, %given);
    return lesson($name, <<"END_LESSON");
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "Replicas", seed = $given{seed}, devices = 8 $given{lesson} }
dist.spawn(function(rank)
  local place, other = $given{place}, nil
  local function build() return nn.Sequential { nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2) } end
  $given{before}
  local net = (other or build)():to(place)
  local ddp = nn.parallel.DistributedDataParallel(net, { $given{ddp} })
  $given{hook}
  local opt = rs.optim.$given{optimizer}(net:parameters(), { lr = $given{lr} })
  for step = 1, 4 do
    opt:zero_grad()
    local x = (rs.arange(15):reshape(5, 3) * 0.125 + 0.25 * (rank + step)):to(place)
    local loss = $given{forward}:sum()
    loss:backward()
    if step == 2 then $given{grad} end
    if step == 2 then $given{step} else opt:step() end
    if step == 2 then $given{after} end
  end
  $given{last}
  if rank == 0 then print("trained") end
end, { world = $given{world} })
END_LESSON
}

my $n    = qr/-?\d[\d.]*(?:e-?\d+)?/;
my $both = sub { my ($one, $other, $what) = @_; return qr/rank ${one}'s \Q$what\E is $n where rank ${other}'s is $n/ };

# Found in both executors, on the host and on devices; silent without the option.
sub planted {
    my ($what, $pattern, %given) = @_;
    for my $device (0, 1) {
        my $lesson = training('planted', %given, device => $device);
        for my $executor ('stepped', 'free') {
            my $name = "$what, $executor, " . ($device ? 'on devices' : 'on the host');
            refused($name, ringside('run', '--check-ranks', '--executor', $executor, $lesson), 3,
                    qr/DivergenceError: $pattern/);
        }
    }
    my $run = ringside('run', training('planted', %given));
    is("$run->{status} $run->{out}", "0 trained\n", "$what: silent without --check-ranks") or diag($run->{err});
}

sub honest {
    my ($what, %given) = @_;
    my @places = $given{host_only} ? (0) : (0, 1);
    for my $device (@places) {
        my $lesson = training('honest', %given, device => $device);
        for my $executor ('stepped', 'free') {
            my $run = ringside('run', '--check-ranks', '--executor', $executor, $lesson);
            is("$run->{status} $run->{err}", '0 ',
               "$what: nothing to say, $executor, " . ($device ? 'on devices' : 'on the host'));
        }
    }
}

# ---- what makes replicas differ ----

planted('other seeds, and nobody sends his numbers',
        qr/${\ $both->(1, 0, '0.weight[0][0]')}, since DistributedDataParallel \(line 9\): .*seed/,
        before => 'rs.manual_seed(rank)', ddp => 'init_sync = false');
planted('one rank scales a gradient', qr/${\ $both->(1, 0, '2.bias[0]')}, since optimizer\.step \(line 18\): /,
        grad => 'if rank == 1 then net[2].bias.grad:mul_(2) end');
planted('one rank scales one element of a gradient',
        qr/${\ $both->(1, 0, '2.weight[1][3]')}, since optimizer\.step \(line 18\): /,
        grad => 'if rank == 1 then rs.no_grad(function() net[2].weight.grad[{ 1, 3 }]:mul_(3) end) end');
planted('one rank clips its gradients', qr/${\ $both->(1, 0, '0.weight[0][0]')}, since optimizer\.step \(line 18\): /,
        grad => 'if rank == 1 then nn.utils.clip_grad_norm_(net:parameters(), 0.5) end');
planted('another rate', qr/${\ $both->(1, 0, '0.weight[0][0]')}, since optimizer\.step \(line 18\): /,
        lr => 'rank == 1 and 0.2 or 0.1');
planted('another rate of Adam', qr/${\ $both->(1, 0, '0.weight[0][0]')}, since optimizer\.step \(line 18\): /,
        optimizer => 'AdamW', lr => 'rank == 0 and 0.2 or 0.1');
planted('one element changed under no_grad',
        qr/rank 1's 2\.weight\[1\]\[2\] is 9 where rank 0's is $n, since fill_ \(line 19\), which rank 0 has not done: rank 1 has changed 2\.weight 3 times, rank 0 2 times/,
        after => 'if rank == 1 then rs.no_grad(function() net[2].weight[{ 1, 2 }] = 9 end) end');
planted('noise before the step', qr/${\ $both->(0, 1, '0.bias[0]')}, since add_ \(line 17\), which rank 1 has not done: rank 0 has changed 0\.bias 3 times, rank 1 2 times/,
        grad => 'if rank == 0 then rs.no_grad(function() net[0].bias:add_(0.125) end) end');
planted('one rank skips a step', qr/${\ $both->(0, 1, '0.weight[0][0]')}, since optimizer\.step \(line 18\), which rank 1 has not done: rank 0 has changed 0\.weight 2 times, rank 1 once/,
        step => 'if rank == 0 then opt:step() end');
planted('one rank steps twice', qr/${\ $both->(1, 0, '0.weight[0][0]')}, since optimizer\.step \(line 19\), which rank 0 has not done: rank 1 has changed 0\.weight 3 times, rank 0 2 times/,
        after => 'if rank == 1 then opt:step() end');
planted('each does something else', qr/rank 1's 0\.bias\[0\] is 2 where rank 0's is 1, since fill_ \(line 19\), where rank 0 did fill_ \(line 18\): /,
        step => 'opt:step() if rank == 0 then rs.no_grad(function() net[0].bias:fill_(1) end) end',
        after => 'if rank == 1 then rs.no_grad(function() net[0].bias:fill_(2) end) end');
planted('a change behind the last reduction', qr/rank 1's 2\.bias\[1\] is 7 where rank 0's is $n, since fill_ \(line 21\), /,
        last => 'if rank == 1 then rs.no_grad(function() net[2].bias[1] = 7 end) end');
planted('a parameter that does not require a gradient',
        qr/rank 1's 0\.bias\[0\] is 4 where rank 0's is $n, since fill_ \(line 17\), /,
        before => 'other = function() local net = build() net[0].bias:requires_grad_(false) return net end',
        grad => 'if rank == 1 then net[0].bias:fill_(4) end');
planted('a hook that reduces nothing',
        qr/rank 1's 0\.weight\.grad\[0\]\[0\] is $n where rank 0's is $n, since the reduction \(line 16\): /,
        hook => 'ddp:register_comm_hook(nil, function(_, bucket) local f = rs.futures.Future() '
              . 'f:set_result(bucket:buffer()) return f end)');
planted('rank 0 alone loads other numbers', qr/rank 0's 0\.weight\[0\]\[0\] is 1 where rank 1's is $n, since copy_ \(line 19\), /,
        after => 'if rank == 0 then rs.no_grad(function() net[0].weight:copy_(rs.ones(4, 3)) end) end');

# Of the advice: whose gradient it was, or that it was none.
for my $executor ('stepped', 'free') {
    my @words = ('run', '--check-ranks', '--executor', $executor);
    my $grad  = training('grad', grad => 'if rank == 0 then net[2].bias.grad:mul_(2) end');
    like(ringside(@words, $grad)->{err}, qr/rank 0 has changed its gradient since the reduction/,
         "$executor: who has changed a gradient is told");
    my $rate = training('rate', lr => 'rank == 1 and 0.2 or 0.1');
    like(ringside(@words, $rate)->{err}, qr/their gradients are equal, their optimizers are not/,
         "$executor: and where the gradients are equal, that");
}

# One rank of four: the others agree with each other.
my $four = ringside('run', '--check-ranks', training('four', world => 4, lr => 'rank == 2 and 0.2 or 0.1'));
refused('one of four', $four, 3, qr/rank 2's 0\.weight\[0\]\[0\] is $n where rank 0's is $n, as on 1 more rank, since/);
$four = ringside('run', '--check-ranks', '--executor', 'free', training('four', world => 4, lr => 'rank == 2 and 0.2 or 0.1'));
refused('one of four, free', $four, 3, qr/DivergenceError: rank \d's 0\.weight\[0\]\[0\] is $n where .* \(line 18\)/);

# The lesson may ask for it itself, and the event stands in the trace.
my $trace = folder() . '/divergence.trace';
my $own   = training('own', lesson => ', check_ranks = true', lr => 'rank == 1 and 0.2 or 0.1');
refused('check_ranks = true', ringside('run', '--trace', $trace, $own), 3, qr/DivergenceError/);
my $event = ringside('events', $trace, 'fault.divergence');
like($event->{out}, qr/fault\.divergence.*rank.*1.*0\.weight.*optimizer\.step \(line 18\)/s, 'the trace has the event');
is(() = $event->{out} =~ /^\s*\d+.*fault\.divergence/mg, 1, 'once');

my $caught = ringside('run', '--check-ranks', training('caught', grad => 'if rank == 1 then net[0].bias.grad:zero_() end',
    step => 'local ok, why = pcall(opt.step, opt) if not ok then print(why.kind, why.line) end error("x")'));
like($caught->{out}, qr/^DivergenceError\t18$/m, 'the error has its kind and its line') or diag($caught->{out}, $caught->{err});

# A debugger's set is a change as any other.
my $changed = folder() . '/set.trace';
ringside('step', '--check-ranks', '--trace', $changed, '--batch',
         'break optim.step; continue; set rank 1 0.weight[1,2] 5; delete 1; continue', training('set'));
like(ringside('events', $changed, 'fault.divergence')->{out},
     qr/rank 1's 0\.weight\[1\]\[2\] is 5 where rank 0's is $n, since set \(line 18\)/, 'what the debugger sets counts');

# ---- what does not ----

honest("$_ ranks", world => $_) for 2, 3, 8;
honest('Adam, many small buckets', optimizer => 'Adam', ddp => 'bucket_cap_mb = 0.00001', world => 3);
honest('dropout, drawn by each rank for itself',
       before => 'other = function() return nn.Sequential { nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2) } end',
       hook => 'rs.manual_seed(rank)');
my $batch_norm = 'other = function() return nn.Sequential { nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2) } end';
honest('the running statistics of BatchNorm', before => $batch_norm, world => 3);
honest('nor without their broadcast', before => $batch_norm, ddp => 'broadcast_buffers = false');
honest('a buffer of one rank, which the next broadcast replaces', before => $batch_norm,
       after => 'if rank == 1 then net[1].running_mean:fill_(5) end');
honest('a hook that halves and sums', hook => 'ddp:register_comm_hook(nil, function(_, bucket) '
     . 'return dist.all_reduce(bucket:buffer():half() / 2, { async_op = true }):get_future():then_('
     . 'function(f) return f:value()[1]:float() end) end)', host_only => 1);
honest('rank 0 looks at other numbers for a while', after => 'if rank == 0 then rs.no_grad(function() '
     . 'local kept = net[0].weight:clone() net[0].weight:zero_() ddp.module(x) net[0].weight:copy_(kept) end) end');
honest('each rank its own noise, taken back', world => 3,
       after => 'rs.no_grad(function() local kept = net[0].bias:clone() if rank > 0 then net[0].bias:fill_(1) end '
              . 'net[0].bias:copy_(kept) end)');
honest('numbers that a collective makes equal', after => 'rs.no_grad(function() if rank == 1 then net[0].bias:zero_() end '
     . 'dist.broadcast(net[0].bias, 0) end)');
honest('the same step on other lines', step => 'if rank == 0 then opt:step() end',
       after => 'if rank == 1 then opt:step() end');
honest('gradients scaled by all', grad => 'for _, p in ipairs(net:parameters()) do p.grad:mul_(0.5) end');

# What is compared leaves no trace.
my $alone = ringside('run', '--hash', training('hash'));
is(ringside('run', '--hash', '--check-ranks', training('hash'))->{out}, $alone->{out}, 'an honest run is the same run');

# Each of two groups has a model of its own.
my $groups = lesson('groups', <<'END_LESSON');
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.distributed.spawn(function(rank)
  local group = dist.new_subgroups(2)
  local net = nn.Linear(2, 2)
  rs.no_grad(function() net.weight:fill_(rank // 2) end)
  local ddp = nn.parallel.DistributedDataParallel(net, { process_group = group })
  local opt = rs.optim.SGD(net:parameters(), { lr = rank == 3 and 0.5 or 0.25 })
  ddp(rs.ones(1, 2)):sum():backward()
  opt:step()
end, { world = 4 })
END_LESSON
for my $executor ('stepped', 'free') {
    refused("of two groups one, $executor", ringside('run', '--check-ranks', '--executor', $executor, $groups), 3,
            qr/rank 3's weight\[0\]\[0\] is 0\.5 where rank 2's is 0\.75, since optimizer\.step \(line 10\)/);
}

# Memory for it is the run's.
my $large = lesson('large', <<'END_LESSON');
local rs = require "ringside"
local nn = rs.nn
rs.distributed.spawn(function(rank)
  local net = nn.Linear(4096, 4096, { bias = false })
  local ddp = nn.parallel.DistributedDataParallel(net)
  if rank == 1 then rs.advance(1e9) end
  for i = 1, 20 do rs.no_grad(function() net.weight:add_(1) end) end
end, { world = 2 })
END_LESSON
is(ringside('run', $large)->{status}, 0, 'a model that fits');
refused('states that do not', ringside('run', '--check-ranks', $large), 2, qr/BudgetError: .*1024 MiB/);

# Gradients of four micro-batches, of which the last synchronises; unused parameters, other ones in each rank.
my $more = lesson('more', <<'END_LESSON');
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "More", seed = 5, devices = 3, check_ranks = true }
local Branches = nn.Module("Branches")
function Branches:init() self.a, self.b, self.c = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2) end
function Branches:forward(x, which) return self.a(which == 0 and self.b(x) or x) end
for _, place in ipairs { "cpu", "device:0" } do
  dist.spawn(function(rank, place)
    if place ~= "cpu" then place = "device:" .. rank end
    local net = nn.Linear(2, 2):to(place)
    local ddp = nn.parallel.DistributedDataParallel(net)
    local opt = rs.optim.SGD(net:parameters(), { lr = 0.1, momentum = 0.9 })
    for step = 1, 3 do
      opt:zero_grad()
      ddp:no_sync(function() for i = 1, 3 do ddp(rs.full({ 1, 2 }, 0.5 * (rank + i)):to(place)):sum():backward() end end)
      ddp(rs.full({ 1, 2 }, 1.5 * rank):to(place)):sum():backward()
      opt:step()
    end
    local branches = Branches():to(place)
    local found = nn.parallel.DistributedDataParallel(branches, { find_unused_parameters = true })
    local adam = rs.optim.Adam(branches:parameters(), { lr = 0.01 })
    for step = 0, 3 do
      adam:zero_grad()
      found(rs.full({ 1, 2 }, rank + 0.5):to(place), (rank + step) % 2):sum():backward()
      adam:step()
    end
    ddp, found = nil, nil
    collectgarbage()
  end, { world = 3, args = { place } })
end
print("trained")
END_LESSON
for my $executor ('stepped', 'free') {
    my $run = ringside('run', '--executor', $executor, $more);
    is("$run->{status} $run->{out}$run->{err}", "0 trained\n", "no_sync and unused parameters, $executor");
}

# ---- the orders of samplers ----

sub sampling {
    my ($line) = @_;
    return lesson('sampling', <<"END_LESSON");
local rs = require "ringside"
local data = rs.utils.data
rs.lesson { title = "Orders", check_ranks = true }
rs.distributed.spawn(function(rank)
  local set = data.TensorDataset(rs.arange(11))
  local options, epoch, skip = { seed = 4 }, function(e) return e end, false
  $line
  local sampler = data.DistributedSampler(set, options)
  local loader, alone = data.DataLoader(set, { batch_size = 2, sampler = sampler }), data.DataLoader(set, { shuffle = true })
  for e = 0, 2 do
    sampler:set_epoch(epoch(e))
    for batch in loader do end
    for one in alone do end
  end
end, { world = 2 })
END_LESSON
}
for my $executor ('stepped', 'free') {
    my @words = ('run', '--executor', $executor);
    my $run   = ringside(@words, sampling(''));
    is("$run->{status} $run->{err}", '0 ', "equal orders, and each rank's own: nothing to say, $executor");
    refused("another seed, $executor", ringside(@words, sampling('options.seed = 4 + rank')), 3,
            qr/DivergenceError: rank 1's DistributedSampler shuffles with seed \+ epoch = 5 where rank 0's has 4, so index \[\d+\] is \d+ where it is \d+, since .* line 12/);
    refused("an epoch that one rank is not told of, $executor",
            ringside(@words, sampling('if rank == 1 then epoch = function() return 0 end end')), 3,
            qr/rank 1's DistributedSampler shuffles with seed \+ epoch = 4 where rank 0's has 5/);
    refused("one does not shuffle, $executor", ringside(@words, sampling('options.shuffle = rank == 0')), 3,
            qr/rank 1's DistributedSampler has shuffle=false where rank 0's has true/);
    $run = ringside(@words, sampling('options.shuffle = false epoch = function(e) return e * rank end'));
    is("$run->{status} $run->{err}", '0 ', "epochs of what is not shuffled, $executor");
}

# ---- another order of parameters: always ----

my $order = lesson('order', <<'END_LESSON');
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
local Two = nn.Module("Two")
function Two:init(names) for _, name in ipairs(names) do self[name] = nn.Linear(4, 4) end end
function Two:forward(x) return self.b(self.a(x)) end
local answers = dist.spawn(function(rank)
  local names = rank == 2 and { "a", "c", "b" } or { "a", "b", "c" }
  local ok, why = pcall(nn.parallel.DistributedDataParallel, Two(names))
  return ok and "made" or why.kind .. " " .. why.message
end, { world = 4 })
for rank = 0, 3 do print(answers[rank]) end
dist.spawn(function(rank)
  nn.parallel.DistributedDataParallel(Two(rank == 0 and { "b", "a" } or { "a", "b" }))
end, { world = 2 })
END_LESSON
for my $executor ('stepped', 'free') {
    my $run = ringside('run', '--executor', $executor, $order);
    my $why = "MismatchError rank 2's parameter 2 is 'c.weight' [4, 4], rank 0's is 'b.weight' [4, 4]: "
            . "build the model in the same order on every rank\n";
    is($run->{out}, $why x 4, "another order is told on every rank, $executor");
    refused("and ends the run, $executor", $run, 3,
            qr/:13: MismatchError: rank 1's parameter 0 is 'a\.weight' \[4, 4\], rank 0's is 'b\.weight' \[4, 4\]/);
}
my $shapes = lesson('shapes', <<'END_LESSON');
local rs = require "ringside"
local nn = rs.nn
rs.distributed.spawn(function(rank)
  local net = rank == 0 and nn.Sequential { nn.Linear(2, 3) } or nn.ModuleList { nn.Linear(3, 3) }
  nn.parallel.DistributedDataParallel(net)
end, { world = 2 })
END_LESSON
like(ringside('run', $shapes)->{err}, qr/params\[0\] \(a?\S*weight\) of rank 1 with sizes \[3, 3\] appears not to match sizes of the same param/,
     'other shapes are told in PyTorch\'s words');

# Without init_sync nothing is sent or compared, unless --check-ranks does.
my $unsent = training('unsent', ddp => 'init_sync = false', world => 2,
    before => 'other = rank == 1 and function() return nn.Sequential { nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, '
            . '{ bias = false }) } end or nil', last => 'do return end', forward => 'net(x)');
is(ringside('run', $unsent)->{status}, 0, 'init_sync = false compares nothing');
refused('but --check-ranks does', ringside('run', '--check-ranks', $unsent), 3,
        qr/DivergenceError: rank 1's parameter 3 is missing, rank 0's is '2\.bias' \[2\]: build/);

# Under Join a rank without inputs stays behind, and is equal again when all have ended; those that go on are compared.
sub uneven {
    my ($name, $planted) = @_;
    return lesson($name, <<"END_LESSON");
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "Uneven", seed = 3 }
local counts = { { 1, 3, 3 }, { 4, 0, 2 }, { 2, 2, 1 } }
dist.spawn(function(rank)
  local net = nn.Sequential { nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2) }
  local ddp = nn.parallel.DistributedDataParallel(net, { bucket_cap_mb = 0.00001, find_unused_parameters = rank >= 0 })
  local opt = rs.optim.SGD(net:parameters(), { lr = 0.1 })
  for epoch, count in ipairs(counts) do
    ddp:join(function()
      for step = 1, count[rank + 1] do
        opt:zero_grad()
        ddp(rs.randn(5, 3) + rank):sum():backward()
        opt:step()
        $planted
      end
    end)
  end
end, { world = 3 })
END_LESSON
}
for my $executor ('stepped', 'free') {
    my $even = ringside('run', '--check-ranks', '--executor', $executor, uneven('even', ''));
    is($even->{status}, 0, "a Join's ranks may stay behind, $executor") or diag($even->{err});
    my $odd = uneven('odd', 'if epoch == 1 and step == 2 and rank == 2 then rs.no_grad(function() net[0].weight:mul_(2) end) end');
    refused("ranks that go on may not differ, $executor", ringside('run', '--check-ranks', '--executor', $executor, $odd), 3,
            qr/DivergenceError.*0\.weight/);
}

done_testing();
