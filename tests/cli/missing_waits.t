#!/usr/bin/perl
# Missing waits: between an asynchronous call and the wait for it nobody reads or changes what it changes. Each way of
# reading, beside each operation, on the CPU and on devices, in both executors, is told with rank, operation, number and
# both lines, status 3; with the wait the same programs say nothing.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my %executor = (stepped => [ 'run' ], free => [ 'run', '--executor', 'free', '--timeout', 20 ]);

# What gives the reader a tensor `x` and a work `w`: the name in the message, the reader's rank, what comes before and,
# on line 6, the call. The group has had two collectives: this is number 2.
my @operations = (
    [ 'all_reduce', 0, 'local x = rs.ones(4, on)', 'local w = dist.all_reduce(x, later)' ],
    [ 'all_reduce', 1, 'local x = rs.ones({ 4, 2 }, on):t()[0]', 'local w = dist.all_reduce(x, later)' ],
    [ 'broadcast', 1, 'local x = rs.ones(4, on)', 'local w = dist.broadcast(x, 0, later)' ],
    [ 'reduce', 0, 'local x = rs.ones(4, on)', 'local w = dist.reduce(x, 0, later)' ],
    [ 'all_gather', 1, 'local l = { rs.zeros(4, on), rs.zeros(4, on) } local x = l[1]',
        'local w = dist.all_gather(l, rs.ones(4, on), later)' ],
    [ 'all_gather', 0, 'local x = rs.zeros(8, on)',
        'local w = dist.all_gather_into_tensor(x, rs.ones(4, on), later)' ],
    [ 'gather', 0, 'local l = rank == 0 and { rs.zeros(4, on), rs.zeros(4, on) } or nil local x = l and l[2]',
        'local w = dist.gather(rs.ones(4, on), l, 0, later)' ],
    [ 'scatter', 1, 'local l = rank == 0 and { rs.zeros(4, on), rs.zeros(4, on) } or nil local x = rs.ones(4, on)',
        'local w = dist.scatter(x, l, 0, later)' ],
    [ 'reduce_scatter', 0, 'local x = rs.zeros(4, on)',
        'local w = dist.reduce_scatter(x, { rs.ones(4, on), rs.ones(4, on) }, later)' ],
    [ 'reduce_scatter', 1, 'local x = rs.zeros(4, on)', 'local w = dist.reduce_scatter_tensor(x, rs.ones(8, on), later)' ],
    [ 'all_to_all', 1, 'local l = { rs.zeros(4, on), rs.zeros(4, on) } local x = l[1]',
        'local w = dist.all_to_all(l, { rs.ones(4, on), rs.ones(4, on) }, later)' ],
    [ 'all_to_all', 0, 'local x = rs.zeros(4, on)', 'local w = dist.all_to_all_single(x, rs.ones(4, on), later)' ],
    [ 'all_reduce', 0, 'local x = rs.ones(4, on)', 'local w = dist.all_reduce_coalesced({ rs.ones(2, on), x }, later)' ],
    [ 'irecv', 1, 'local x = rs.ones(4, on)',
        'local w = rank == 0 and dist.isend(rs.ones(4, on), 1) or dist.irecv(x, 0)' ],
);

# All ways in which elements reach the host, another tensor, stream or rank.
my @reads = (
    'print(x)', 'tostring(x)', 'print({ x })', 'x:tolist()', 'x[1]:item()', 'x:sum():item()', 'x:eq(x)', 'x:clone()',
    'local y = x + 1', 'local y = 2 * x', 'rs.equal(x, x)', 'rs.allclose(x, x)', 'x:max()', 'x[x:gt(0)]',
    'rs.close("x", x, x)', 'rs.ones_like(x):copy_(x)', 'x:to("cpu"):tolist()', 'x:to("device:1")', 'x:double()',
    'x:reshape(2, -1):t():contiguous()',
    'rs.tensor(x)', 'rs.cat({ x, x })', 'rs.save({ x = x }, file)', 'rs.where(x:gt(0), x, x)', 'x:requires_grad_():sum()',
    'rs.nn.utils.clip_grad_norm_({ owner }, 1)', 'rs.utils.data.TensorDataset(x)[0][1]:item()', 'x:norm()',
    'rs.cuda.stream(rs.cuda.Stream("device:0"), function() return x * 2 end)',
);
my @shares  = ('dist.all_gather({}, x, { group = pair })', 'dist.isend(x, 1 - rank)',
    'dist.send(x, 1 - rank)', 'dist.send_object_list({ x:cpu() }, 1 - rank)');
my @changes = ('dist.all_reduce(x, { group = pair })', 'x:fill_(0)', 'x[0] = 5', 'x:copy_(rs.zeros_like(x))', 'x:uniform_()', 'x:zero_()', 'x:normal_(0, 1)');

# Line 4 says who reads, line 6 is the call.
sub program_of {
    my ($operation, $on, @after) = @_;
    my ($name, $reader, $before, $call) = @$operation;
    return lesson('waits', join "\n", 'local rs = require "ringside" rs.lesson { title = "Waits", devices = 2 }',
        "local dist, on, later, file = rs.distributed, { device = '$on' }, { async_op = true }, '${ \folder() }/x.safetensors'",
        'dist.spawn(function(rank) local pair = dist.new_group({ 0, 1 }) dist.barrier() dist.barrier()',
        "local reader = $reader",
        "$before local owner = x and rs.zeros_like(x):requires_grad_() if x then owner.grad = x end", $call, @after,
        'end, { world = 2 })', '');
}

# From line 8 on each of them, by the reader alone, who goes on after an error.
sub try {
    return 'local function try(line, f) if rank == reader then local ok, e = pcall(f) print("line " .. line .. ": " .. (ok and "silent" or e.kind .. ": " .. e.message)) end end',
        map { "try(" . (8 + $_) . ", function() " . ($_[$_] =~ /^local|^x\[0\] = / ? '' : 'return ') . "$_[$_] end)" } 0 .. $#_;
}

# The lines that do not say what they must.
sub wrong {
    my ($run, $operation, $verb, @tried) = @_;
    my ($name, $reader) = @$operation;
    my $which = $name eq 'irecv' ? 'irecv #0 from rank 0' : "$name #2";
    my %said  = $run->{out} =~ /^line (\d+): (RaceError: .*|silent|\w+: .*)$/mg;
    return map {
        my $line = 8 + $_;
        my $must = qr/^RaceError: rank $reader $verb (?:x|l\[\d\]|a tensor) \((?:\w+, )?line $line\) while \Q$which\E of line 6 may still be changing it: call work:wait\(\) first$/;
        ($said{$line} // 'nothing') =~ $must ? () : "$tried[$_]: " . ($said{$line} // 'nothing');
    } 0 .. $#tried;
}

for my $executor (sort keys %executor) {
    for my $on ('cpu', 'device:0') {
        for my $operation (@operations) {
            my ($name, $reader, $before, $call) = @$operation;
            my $story = "$call on $on in $executor";
            my @all   = $before =~ /:t\(\)/ ? @reads : (@reads, @shares);
            my @run   = (@{ $executor{$executor} }, '--trust');
            my $run   = ringside(@run, program_of($operation, $on, try(@all)));
            is(join("\n", wrong($run, $operation, 'reads', @all)), '', "$story: every reader is told") or diag($run->{err});
            refused("$story: one line and status 3", ringside(@run, program_of($operation, $on, '', $reads[0])), 3, qr/
                ^ringside:\ [^ ]+waits.lua:8:\ RaceError:\ rank\ \d\ reads\ (?:x|l\[\d\])\ \(print,\ line\ 8\)\ while/x);
            $run = ringside(@run, program_of($operation, $on, 'w:wait()', try(@reads)));
            my @silent = $run->{out} =~ /^line \d+: silent$/mg;
            is("$run->{status} $run->{err}" . @silent, '0 ' . @reads, "$story: behind the wait nobody is told") or diag($run->{out});
            next if $name eq 'irecv';
            @all = @changes[($before =~ /:t\(\)/ ? 1 : 0) .. $#changes];   # a copy stands in for what has gaps
            $run = ringside(@run, program_of($operation, $on, try(@all)));
            is(join("\n", wrong($run, $operation, 'changes', @all)), '', "$story: and everybody who changes it");
        }
    }
}

# ---- what is a wait, what is none, and what needs none ----

# Lines from 4 on; two ranks, `t` of ones.
sub run_lines {
    my ($executor, @lines) = @_;
    return ringside(@{ $executor{$executor} }, '--trace', folder() . '/lines.trace', lesson('lines', join "\n",
        'local rs = require "ringside" rs.lesson { title = "Lines", devices = 2 }',
        'local dist, later = rs.distributed, { async_op = true }',
        'dist.spawn(function(rank) local t, u, pair = rs.ones(4), rs.ones(4), dist.new_group { 0, 1 }', @lines,
        'end, { world = 2 })', ''));
}

my %fine = (
    'a wait for a later one of the group' =>
        [ 'dist.all_reduce(t, later) dist.all_reduce(u, later):wait()', 'print(t)' ],
    'a collective of the group that is not asynchronous' => [ 'dist.all_reduce(t, later) dist.barrier()', 'print(t)' ],
    'one that only others wait for' => [ 'local w = dist.all_reduce(t, later)', 'print(u)', 'w:wait()' ],
    'a tensor that is only read by it' => [ 'local w = rank == 0 and dist.broadcast(t, 0, later)',
        'print(t) local v = t + 1', 'if w then w:wait() else dist.broadcast(u, 0) end' ],
    'the input of an all_gather' =>
        [ 'local l = { rs.zeros(4), rs.zeros(4) } local w = dist.all_gather(l, t, later)', 'print(t)', 'w:wait() print(l[1])' ],
    'the tensor of an isend' =>
        [ 'local w = rank == 0 and dist.isend(t, 1) or dist.irecv(t, 0)', 'if rank == 0 then print(t) end', 'w:wait() print(t)' ],
    'other elements of one storage' => [ 'local w = dist.all_reduce(t:narrow(0, 0, 2), later)',
        'print(t:narrow(0, 2, 2)) t:narrow(0, 2, 2):fill_(3)', 'w:wait() print(t)' ],
    'two collectives on two halves' => [ 'local a, b = dist.all_reduce(t:narrow(0, 0, 2), later), nil',
        'b = dist.all_reduce(t:narrow(0, 2, 2), { group = pair, async_op = true })', 'a:wait() b:wait() print(t)' ],
    'one group after the other on one tensor' =>
        [ 'dist.all_reduce(t, later) local w = dist.all_reduce(t, later)', 'w:wait() print(t)' ],
    'its size' => [ 'local w = dist.all_reduce(t, later)', 'print(t:size(), t.shape, t:view(2, 2):size())', 'w:wait()' ],
    'a Work that everybody forgets' => [ 'dist.all_reduce(t, later)', 'print(u)' ],
    'a future' => [ 'local f = dist.all_reduce(t, later):get_future()', 'f:wait() print(t)' ],
    'a callback' => [ 'local f = dist.all_reduce(t, later):get_future():then_(function(f) return t:sum():item() end)',
        'print(f:wait(), t)' ],
    'a callback that goes on in place' =>
        [ 'local f = dist.all_reduce(t, later):get_future():then_(function(f) return f:value()[1]:div_(2) end)',
          'print(f:wait(), t)' ],
    'several futures' => [ 'local f, g = dist.all_reduce(t, later):get_future(), dist.all_reduce(u, { group = pair, async_op = true }):get_future()',
        'rs.futures.wait_all { f, g } print(t, u)' ],
    'a collection of futures' => [ 'local f, g = dist.all_reduce(t, later):get_future(), dist.all_reduce(u, { group = pair, async_op = true }):get_future()',
        'rs.futures.collect_all({ f, g }):wait() print(t, u)' ],
    'who hears that it has ended' => [ 'local w = dist.all_reduce(t, later)', 'while not w:is_completed() do rs.advance(1000000) end print(t)' ],
    'the end of the group' => [ 'dist.all_reduce(t, { group = pair, async_op = true }) dist.destroy_process_group(pair)', 'print(t)' ],
    'synchronize' => [ 'local w = dist.all_reduce(t, later)', 'w:synchronize() print(t)' ],
);
my %told = (
    'a wait for the one before' => [ 'dist.all_reduce(u, later):wait() dist.all_reduce(t, later)', 'print(t)' ],
    'an older one is waited for behind it' =>
        [ 'local w = dist.all_reduce(u, later) dist.all_reduce(t, later)', 'w:wait() print(t)' ],
    'a wait for one of another group' =>
        [ 'dist.all_reduce(t, later) dist.all_reduce(u, { group = pair, async_op = true }):wait()', 'print(t)' ],
    'time passes' => [ 'dist.all_reduce(t, later) rs.advance(10000000000)', 'print(t)' ],
    'a view of it' => [ 'local v = t:view(2, 2)[1] dist.all_reduce(t, later)', 'print(v)' ],
    'the elements that two views share' => [ 'dist.all_reduce(t:narrow(0, 0, 3), later)', 'print(t:narrow(0, 2, 2))' ],
    'the whole where a part is under way' => [ 'dist.all_reduce(t:narrow(0, 3, 1), later)', 'print(t)' ],
    'a synchronised device' => [ 't = t:to("device:0") dist.all_reduce(t, later)', 'rs.cuda.synchronize() print(t)' ],
    'another stream' => [ 't = t:to("device:0") dist.all_reduce(t, later)',
        'rs.cuda.stream(rs.cuda.Stream("device:0"), function() local v = t + 1 end)' ],
    'a copy to another device' => [ 't = t:to("device:0") dist.all_reduce(t, later)', 't:to("device:1")' ],
    'a future that nobody waits for' => [ 'local f = dist.all_reduce(t, later):get_future()', 'print(t)' ],
    'a Work that is gone' => [ 'dist.all_reduce(t, later) collectgarbage()', 'print(t)' ],
    'a backward' => [ 'local p = rs.ones(4):requires_grad_() local loss = (p * t):sum() dist.all_reduce(t, later)',
        'loss:backward()' ],
    'an optimizer' => [ 'local p = rs.ones(4):requires_grad_() p.grad = t dist.all_reduce(t, later)',
        'rs.optim.SGD({ p }, { lr = 1 }):step()' ],
    'a layer' => [ 'dist.all_reduce(t, later)', 'rs.nn.Linear(4, 1)(t)' ],
    'what its input becomes' => [ 'local l = { rs.zeros(4), rs.zeros(4) } dist.all_gather(l, t, later)', 't:zero_()' ],
);
for my $executor (sort keys %executor) {
    for my $name (sort keys %fine) {
        my $run = run_lines($executor, @{ $fine{$name} });
        is("$run->{status} $run->{err}", '0 ', "$name is fine in $executor");
        is(ringside('events', folder() . '/lines.trace', 'fault.race')->{out}, '', "$name: and no event") ;
    }
    for my $name (sort keys %told) {
        my $run = run_lines($executor, @{ $told{$name} });
        refused("$name is no wait in $executor", $run, 3, qr/:5: RaceError: rank [01] (?:reads|changes) (?:[tv]|a tensor) \((?:\w+, )?line 5\) while all_\w+ #\d of line 4 may still be (?:chang|read)ing it: call work:wait\(\) first$/);
        like(ringside('events', folder() . '/lines.trace', 'fault.race')->{out},
            qr/fault\.race instant .*report="rank [01] \w+ (?:[tv]|a tensor) \((?:\w+, )?line 5\)/, "$name: an event of the trace");
    }
}

# What is read has the name that the lesson gives it.
my %names = (
    'of two views the one that is read' => [ 'v', 'local v = t:narrow(0, 1, 2) dist.all_reduce(t, later)', 'print(v)' ],
    'the tensor under its view' => [ 't', 'local v = t:narrow(0, 1, 2) dist.all_reduce(v, later)', 'print(t)' ],
    'an element of a list' =>
        [ 'parts[2]', 'local parts = { rs.zeros(4), rs.zeros(4) } dist.all_gather(parts, t, later)', 'print(parts[2])' ],
    'an upvalue' => [ 't', 'dist.all_reduce(t, later)', 'local f = function() print(t:tolist()) end f()' ],
    'an argument' => [ 'given', 'dist.all_reduce(t, later) local function show(given)', 'print(given) end show(t)' ],
    'what has no name' => [ 'a tensor', 'local m = { deep = { t } } dist.all_reduce(t, later) t = nil', 'print(m.deep[1])' ],
);
for my $executor (sort keys %executor) {
    for my $name (sort keys %names) {
        my ($is, @lines) = @{ $names{$name} };
        my $run = run_lines($executor, @lines);
        like($run->{err}, qr/rank [01] reads \Q$is\E \(/, "$name is told by name in $executor");
    }
}

# What an irecv fills may be overwritten, which is told elsewhere; nobody may read it, not even to change it.
my @receive = 'local w = rank == 0 and dist.isend(u, 1) or dist.irecv(t, 0)';
my $over    = run_lines('stepped', @receive, 'if rank == 1 then t:fill_(7) end', 'w:wait()');
is($over->{status}, 0, 'who overwrites what is received goes on') or diag($over->{err});
like(ringside('events', folder() . '/lines.trace', 'fault.buffer_reuse or fault.race')->{out},
    qr/\A[^\n]* fault\.buffer_reuse instant [^\n]*\n\z/, 'and is told once');
for my $executor (sort keys %executor) {
    refused("who adds to it in $executor", run_lines($executor, @receive, 'if rank == 1 then t:add_(1) end', 'w:wait()'), 3,
        qr/rank 1 reads t \(add, line 5\) while irecv #0 from rank 0 of line 4/);
}
done_testing();
