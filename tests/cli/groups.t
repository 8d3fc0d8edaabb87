#!/usr/bin/perl
# Groups of ranks: who skips new_group is missed where its numbers count, who calls another is named at once, groups that overlap are in flight together,
# init_process_group refuses what it cannot be, a thousand ranks divide into groups of eight in seconds.
use strict;
use warnings;
use lib 'tests/cli';
use IO::Socket::INET;
use Ringside;
use Test::More;

my @stepped = ('run');
my @free    = ('run', '--executor', 'free', '--timeout', 5);

# A lesson of two lines and then these, so that the first of them is line 4.
sub spawn {
    my ($name, $world, @lines) = @_;
    return lesson($name, join "\n", 'local rs = require "ringside"', 'local dist = rs.distributed',
        'dist.spawn(function(rank)', @lines, "end, { world = $world })", '');
}

# A line of the report of two lists under one number.
sub calls_it {
    my ($rank, $ranks, $line) = @_;
    return qr/\n  rank $rank calls it for ranks \{\Q$ranks\E\} \(line $line\)\n/;
}

# Both executors: status 3, one line, each of the patterns in it.
sub explained {
    my ($name, $lesson, @patterns) = @_;
    for my $way ([ stepped => @stepped ], [ free => @free ]) {
        my ($executor, @words) = @$way;
        my $run = ringside(@words, $lesson);
        refused("$name: one line and status 3 in $executor", $run, 3, qr/./);
        if ($run->{err} =~ /timed out/) { # several at once: whoever is first tells of those that still wait
            ok((grep { $run->{err} =~ $_ } @patterns), "$name: $executor says one of @patterns") or diag($run->{err});
            next;
        }
        like($run->{err}, $_, "$name: $executor says $_") for @patterns;
    }
    my $once = ringside(@stepped, $lesson)->{err};
    is(ringside(@stepped, $lesson)->{err}, $once, "$name: stepped says it in the same words every time");
}

# ---- who skips, who calls another ----

# As PyTorch 2.15 does it over gloo, but that a hang is told. The name of a group is the number of its call.
my $red     = 'local function sum(group) local t = rs.ones(1) dist.all_reduce(t, { group = group }) return t:item() end';
my $forgets = 'if rank ~= 1 then assert(sum(dist.new_group { 2, 0 }) == 2) end';
my %barrier = (TORCH_DIST_INIT_BARRIER => 1);

sub passes {
    my ($name, $lesson, $env) = @_;
    for my $way (\@stepped, \@free) {
        my $run = ringside({ env => $env || {} }, @$way, $lesson);
        is($run->{status}, 0, "$name: @$way") or diag($run->{err});
    }
}

passes('who is no member and skips it is missed by nobody', spawn('skips', 3, $red, $forgets, 'dist.barrier()'));
passes('nor in groups of one, in any order', spawn('alone', 2, $red, 'assert(sum(dist.new_group { rank }) == 1)',
        'dist.new_group { 1 - rank } dist.new_group { rank } dist.barrier()'));
passes('nor by those who split a group', spawn('split', 3, 'if rank < 2 then dist.split_group(nil, { { 0, 1 } }) end'));
explained('but in the next one of all', spawn('next', 3, $red, $forgets, 'dist.barrier()', 'sum(dist.new_group())'),
    qr/MismatchError: new_group #0 differs between ranks 0 and 1\n/,
    qr/\n  cause: skipped call or other order\n/, calls_it(0, '0, 2', 5), calls_it(1, '0, 1, 2', 7), qr/:7\n\z/);
explained('and in the next one that it is in', spawn('member', 3, $red, $forgets, 'dist.barrier()', 'dist.new_group { 1, 2 }'),
    calls_it(0, '0, 2', 5), calls_it(1, '1, 2', 7), qr/\n  cause: skipped call or other order\n/);
explained('a member goes on without it', spawn('goes', 4, 'if rank ~= 3 then dist.new_group { 0, 3 } end', 'dist.barrier()'),
    qr/rank 0 waits in new_group, rank 3 in barrier #0/, qr/barrier #0 \(line 5\)/,
    qr/skipped call or other order: rank 3 did not call new_group \(line 4\)/);
explained('a member returns without it', spawn('returns', 3, 'dist.new_group { 0, 1 }',
        'if rank ~= 2 then dist.new_group { 2, 0 } end'),
    qr/rank 0 waits in new_group \(line 5\) for rank 2/, qr/skipped new_group: rank 2 did not call new_group/);
explained('two lists in two orders', spawn('orders', 3, 'if rank == 0 then dist.new_group { 0, 1 } dist.new_group { 1, 2 }',
        'else dist.new_group { 1, 2 } dist.new_group { 0, 1 } end'),
    qr/new_group #0 differs/, qr/\n  cause: skipped call or other order\n/, calls_it(0, '0, 1', 4), calls_it('[12]', '1, 2', 5));
explained('two lists in two orders, and all ranks in one of them', spawn('turned', 3, 'if rank == 0 then dist.new_group { 0, 1 } dist.new_group()',
        'else dist.new_group() dist.new_group { 0, 1 } end'),
    qr/new_group #0 differs/, qr/\n  cause: skipped call or other order\n/, calls_it(0, '0, 1', 4), calls_it('[12]', '0, 1, 2', 5));
explained('two groups under one number', spawn('pairs', 4, 'dist.new_group(rank < 2 and { 0, 1 } or { 2, 3 })'),
    qr/\n  cause: skipped call or other order\n/, calls_it('[01]', '0, 1', 4), calls_it('[23]', '2, 3', 4),
    qr/\n  all ranks must call new_group in the same order, members or not\n/);
explained('an order that is turned around another call', spawn('around', 2, 'if rank == 0 then dist.new_group { 0, 1 } end',
        'dist.barrier()', 'if rank == 1 then dist.new_group { 0, 1 } end'),
    qr/rank 0 waits in new_group, rank 1 in barrier #0/, qr/skipped call or other order: rank 1 did not call new_group \(line 4\)/);
my $early = ringside(@stepped, spawn('one', 4, 'if rank == 0 then dist.new_group { 0, 1, 2 } end'));
refused('who has not come to init_process_group yet', $early, 3,
    qr/skipped new_group: rank 1 did not call.*\n  1 +- +- +- +returned\n  2 .* waits in init_process_group \(line 3\)\n +for rank 3\n  3 .* runs at line 3\n/s);
unlike($early->{err}, qr/store|default_pg/, '... and nothing of the store\'s keys');

# TORCH_DIST_INIT_BARRIER=1 lets all wait for all.
for my $way (\@stepped, \@free) {
    refused("the barrier brings it back: @$way", ringside({ env => \%barrier }, @$way, spawn('barrier', 3, $red, $forgets,
        'dist.barrier()')), 3, qr/skipped call or other order: rank 1 did not call new_group \(line 5\)/);
    refused("and knows who has returned: @$way", ringside({ env => \%barrier }, @$way, spawn('gone', 3, $red, $forgets)), 3,
        qr/waits? in new_group \(line 5\) for rank 1.*skipped new_group: rank 1 did not call new_group/s);
}
passes("TORCH_DIST_INIT_BARRIER=$_ is none", spawn('none', 3, $red, $forgets), { TORCH_DIST_INIT_BARRIER => $_ }) for 0, 2;
refused("TORCH_DIST_INIT_BARRIER=$_ is no number", ringside({ env => { TORCH_DIST_INIT_BARRIER => $_ } }, @stepped,
    spawn('none', 2, 'dist.barrier()')), 2, qr/:3: ValueError: TORCH_DIST_INIT_BARRIER is '\Q$_\E': it must be a whole number/)
    for '', 'yes', '1.0';
explained('a member of a local group stays away',
    spawn('local', 3, 'if rank == 2 then dist.new_group({ 0, 2 }, { use_local_synchronization = true }) end',
        'dist.set_timeout(6)', # later than the limit of the run, which rank 2 waits for
        'if rank == 0 then dist.recv(rs.ones(1), 1) end', 'if rank == 1 then dist.recv(rs.ones(1), 0) end'),
    qr/rank 0 in recv from rank 1, rank 1 in recv from rank 0/, qr/line 6/, qr/line 7/, qr/\b2 -> 0\b/);
explained('a member of a local group has ended',
    spawn('local_end', 3, 'if rank == 2 then dist.new_group({ 0, 2 }, { use_local_synchronization = true }) end'),
    qr/rank 2 waits in new_group \(line 4\) for rank 0/);
explained('a collective of a group that a member does not join',
    spawn('member', 3, 'local group = dist.new_group { 0, 2 }', 'if rank == 0 then dist.barrier(group) end'),
    qr/rank 0 waits in barrier #0 of group 1 for rank 2/, qr/line 5/, qr/rank 2 returned without barrier #0/);

# A group's own time limit, in the executor that has a clock.
for my $case ([ 'a limit of a group', 'local group = dist.new_group({ 0, 1 }, { timeout = 0.3 })',
        'if rank == 0 then dist.barrier(group) else dist.recv(rs.ones(1), 0) end' ],
    [ 'a limit of the default group', 'dist.init_process_group("local", { timeout = 0.3 })',
        'if rank == 0 then dist.barrier() else dist.store:get("never") end' ],
    [ 'a limit that is set later', 'dist.set_timeout(0.3)',
        'if rank == 0 then dist.barrier() else dist.store:get("never") end' ]) {
    my ($name, @lines) = @$case;
    my $begin = time;
    my $run = ringside('run', '--executor', 'free', '--timeout', 100, spawn('limit', 2, @lines));
    refused($name, $run, 3, qr/TimeoutError: .*rank 0 \S*\s?in barrier #0/);
    cmp_ok(time - $begin, '<', 60, "$name: long before the run's own");
}

refused('a limit of a group that is being made, and not the default one\'s', ringside('run', '--executor', 'free', '--timeout', 100,
    spawn('made', 2, 'dist.set_timeout(90)', 'if rank == 0 then dist.new_group({ 0, 1 }, { timeout = 0.3 })',
        'else dist.store:get("never") end')), 3, qr/TimeoutError: rank 0 waits in new_group/);

# ---- overlapping groups, all in flight at once ----

my $overlap = lesson('overlap', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Overlapping groups" }
local answers = dist.spawn(function(rank)
  local groups, works, tensors = {}, {}, {}
  for first = 0, 4 do
    groups[first] = dist.new_group { first, (first + 1) % 5, (first + 2) % 5 }
  end
  for round = 1, 3 do
    for first = 0, 4 do
      local group = groups[(first + rank) % 5]
      if dist.get_rank(group) >= 0 then
        local t = rs.tensor { 10 ^ rank * round }
        tensors[#tensors + 1] = { t, group, round }
        works[#works + 1] = dist.all_reduce(t, { group = group, async_op = true })
      end
    end
  end
  for _, work in ipairs(works) do work:wait() end
  local right = 0
  for _, one in ipairs(tensors) do
    local sum = 0
    for _, member in ipairs(dist.get_process_group_ranks(one[2])) do sum = sum + 10 ^ member end
    if one[1]:item() == sum * one[3] then right = right + 1 end
  end
  local lonely = dist.all_reduce(rs.ones(1), { group = dist.GroupMember.NON_GROUP_MEMBER })
  return lonely == nil and right
end, { world = 5 })
for rank = 0, 4 do rs.check("rank " .. rank .. " has nine sums", answers[rank] == 9) end
END_LESSON
for my $way ([ stepped => @stepped ], [ free => @free ]) {
    my ($executor, @words) = @$way;
    my $run = ringside(@words, '--tap', $overlap);
    is($run->{status}, 0, "$executor: overlapping groups work in any order of issue") or diag($run->{out}, $run->{err});
    like($run->{out}, qr/^ok 5\b/m, "$executor: five checks hold");
    like($run->{out} . $run->{err}, qr/no member of the group: the call does nothing here/,
        "$executor: who is no member is warned");
}

# DistributedDataParallel in a group averages over that group alone.
my $ddp = lesson('ddp', <<'END_LESSON');
local rs = require "ringside"
local dist, nn = rs.distributed, rs.nn
rs.lesson { title = "DDP in groups", seed = 1 }
local answers = dist.spawn(function(rank)
  local pair = dist.new_subgroups(2)
  local net = nn.Linear(1, 1)
  rs.no_grad(function() net.weight:fill_(rank + 1) end)
  local model = nn.parallel.DistributedDataParallel(net, { process_group = pair })
  model(rs.tensor { { rank + 1.0 } }):sum():backward()
  local outside = dist.new_group { 0 }
  local refused = rank == 0 or not pcall(nn.parallel.DistributedDataParallel, nn.Linear(1, 1), { process_group = outside })
  return { net.weight:item(), net.weight.grad:item(), refused }
end, { world = 4 })
for rank = 0, 3 do
  rs.check("rank " .. rank .. " begins with its pair's weight", answers[rank][1] == rank // 2 * 2 + 1)
  rs.check("rank " .. rank .. " has its pair's mean gradient", answers[rank][2] == rank // 2 * 2 + 1.5)
  rs.check("rank " .. rank .. " is refused where it is no member", answers[rank][3])
end
END_LESSON
for my $way ([ stepped => @stepped ], [ free => @free ]) {
    my ($executor, @words) = @$way;
    my $run = ringside(@words, '--tap', $ddp);
    is($run->{status}, 0, "$executor: DDP in a group") or diag($run->{out}, $run->{err});
}

# ---- hostile lists ----

my $hostile = ringside(@stepped, '--tap', lesson('hostile', <<'END_LESSON'));
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Hostile lists" }
local long, far = {}, {}
for i = 1, 100000 do long[i] = i - 1 end
local cases = {
  { "nothing", {}, "ValueError" }, { "a fraction", { 0.5 }, "TypeError" }, { "a text", { "0" }, "TypeError" },
  { "one twice", { 1, 1 }, "ValueError" }, { "one twice apart", { 1, 0, 1 }, "ValueError" },
  { "below", { -1 }, "ValueError" }, { "beyond", { 3 }, "ValueError" },
  { "far beyond", { math.maxinteger }, "ValueError" }, { "far below", { math.mininteger }, "ValueError" },
  { "both ends", { -2147483648, 2147483647 }, "ValueError" },
  { "too many", { 0, 1, 2, 3 }, "ValueError" }, { "a hundred thousand", long, "ValueError" },
  { "a hole", { 0, nil, 2 }, "TypeError" }, { "names", { 0, name = 1 }, "TypeError" },
  { "lists", { { 0 } }, "TypeError" },
}
local answers = dist.spawn(function(rank)
  local wrong = {}
  for _, case in ipairs(cases) do
    local ok, e = pcall(dist.new_group, case[2])
    if ok or e.kind ~= case[3] or #e.message > 200 then
      wrong[#wrong + 1] = case[1] .. (ok and " passes" or ": " .. e.kind .. ": " .. e.message:sub(1, 100))
    end
  end
  for _, options in ipairs { { timeout = 0 }, { timeout = -1 }, { timeout = 1 / 0 }, { timeout = 0 / 0 }, { timeout = "5" },
                             { backend = "gloo" }, { backend = "x" }, { backend = ("y"):rep(1000) }, { rank = 1 },
                             { backend = "cpu:local,cuda:" }, { pg_options = 3 }, { pg_options = { threads = 2 } },
                             { pg_options = { _timeout = -5 } }, { device_id = "device:99" }, { sort_ranks = 1 },
                             { use_local_synchronization = "yes" }, { group_desc = 7 } } do
    local name, value = next(options)
    local ok, e = pcall(dist.new_group, { 0 }, options)
    if ok or #e.message > 200 then wrong[#wrong + 1] = name .. " = " .. tostring(value) .. " passes" end
  end
  for _, f in ipairs { dist.get_rank, dist.get_world_size, dist.get_backend, dist.get_process_group_ranks, dist.barrier } do
    for _, group in ipairs { 3, "group", { 0 }, true } do
      if pcall(f, group) then wrong[#wrong + 1] = "a group that is none passes" end
    end
  end
  dist.barrier()   -- nothing of all this was counted as a call
  local group = dist.new_group({ 2, 0 }, { sort_ranks = false, backend = "cpu:local,cuda:local", pg_options = { _timeout = 9 } })
  local order = group ~= dist.GroupMember.NON_GROUP_MEMBER and group.options._timeout == 9 and dist.get_rank(group) or -1
  return { table.concat(wrong, "; "), order }
end, { world = 3 })
for rank = 0, 2 do
  rs.check("rank " .. rank .. ": " .. answers[rank][1], answers[rank][1] == "")
  rs.check("rank " .. rank .. " of a list that is not sorted", answers[rank][2] == ({ 1, -1, 0 })[rank + 1])
end
END_LESSON
is($hostile->{status}, 0, 'hostile lists and options are refused in one line each') or diag($hostile->{out}, $hostile->{err});

# ---- init_process_group ----

my $init = ringside(@stepped, '--tap', lesson('init', <<'END_LESSON'));
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Meeting" }
local function refused(kind, words, ...)
  local ok, e = pcall(dist.init_process_group, ...)
  local right = not ok and e.kind == kind and e.message:find(words, 1, true) ~= nil
  if not right then print(kind, words, ok, e) end
  return right
end
rs.check("an unknown back-end", refused("AssertionError", "there is local", "carrier_pigeon", { rank = 0, world_size = 1 }))
rs.check("one that is not built in", refused("RuntimeError", "write 'local'", "nccl", { rank = 0, world_size = 1 }))
rs.check("store and URL", refused("AssertionError", "both", "local", { init_method = "env://", store = {}, rank = 0, world_size = 1 }))
rs.check("a store without rank", refused("AssertionError", "rank", "local", { store = {}, world_size = 1 }))
rs.check("a store without world_size", refused("AssertionError", "world_size", "local", { store = {}, rank = 0 }))
rs.check("a rank beyond", refused("ValueError", "rank is 1", "local", { rank = 1, world_size = 1 }))
rs.check("a rank below", refused("ValueError", "rank is -2", "local", { rank = -2, world_size = 1 }))
rs.check("no ranks", refused("ValueError", "world_size is 0", "local", { rank = 0, world_size = 0 }))
rs.check("more ranks than one without a spawn", refused("RuntimeError", "dist.spawn", "local", { rank = 0, world_size = 4 }))
rs.check("an option that is not there", refused("TypeError", "ranks", "local", { ranks = 1 }))
rs.check("an option of pg_options that is not there", refused("TypeError", "threads", "local", { pg_options = { threads = 1 } }))
rs.check("a device that is not there", refused("ValueError", "device_id", "local", { rank = 0, world_size = 1, device_id = 7 }))
rs.check("still none", not dist.is_initialized() and dist.group.WORLD == nil)
dist.init_process_group("local", { rank = 0, world_size = 1, timeout = 12 })
rs.check("twice", refused("ValueError", "twice", "local", { rank = 0, world_size = 1 }))
local t = rs.tensor { 2, 3 }
dist.all_reduce(t)
dist.broadcast(t, 0)
dist.barrier()
local alone, list = dist.new_group { 0 }, {}
dist.all_gather(list, t, { group = alone })
rs.check("a world of one changes nothing", rs.equal(t, rs.tensor { 2, 3 }) and #list == 1 and rs.equal(list[1], t))
rs.check("it reads its time limit", dist.group.WORLD.options._timeout == 12)
rs.check("its group can be shown", tostring(alone) == "ProcessGroup(1, rank 0 of 1, ranks {0})")
rs.check("a spawn beside it", dist.spawn(function() return dist.get_world_size() end, { world = 3 })[2] == 3)
dist.destroy_process_group()
rs.check("its end", not dist.is_initialized() and tostring(alone):find("destroyed", 1, true))
dist.init_process_group("local", { rank = 0, world_size = 1 })
rs.check("the next one counts from 0", dist.group.WORLD:_get_sequence_number_for_group() == 0 and dist._get_process_group_name(dist.group.WORLD) == "0")
local again = dist.spawn(function(rank)
  local numbers = {}
  for round = 1, 3 do
    dist.init_process_group("LOCAL", { rank = rank, world_size = 2, timeout = round })
    local group = dist.new_group { 1 - rank, rank }
    for _ = 1, round do dist.all_reduce(rs.ones(1), { group = group }) end
    dist.barrier()
    local world = dist.group.WORLD
    numbers[#numbers + 1] = table.concat({ world:_get_sequence_number_for_group(), group:_get_sequence_number_for_group(),
      group.group_name, world.options._timeout, group.options._timeout }, " ")
    dist.destroy_process_group()
  end
  return table.concat(numbers, ", ")
end, { world = 2, init = false })
for rank = 0, 1 do rs.check("generations of rank " .. rank .. ": " .. again[rank], again[rank] == "1 1 1 1 1800, 1 2 1 2 1800, 1 3 1 3 1800") end
rs.check("another place than the spawn's", not pcall(dist.spawn, function(rank) dist.init_process_group("local", { rank = 1 - rank }) end, { world = 2 }))
END_LESSON
is($init->{status}, 0, 'init_process_group refuses what it cannot be') or diag($init->{out}, $init->{err});

# The ranks of a spawn that meet where they are told: at an address, in a file, in a store.
my $port = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1')->sockport;
my $meeting = <<"END_LESSON";
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Places" }
local function sums(name, options)
  local answers = dist.spawn(function(rank, options)
    if options.store then options.store = dist.store end
    for key, value in pairs(options) do
      if type(value) == "string" then options[key] = value:gsub("RANK", tostring(rank)) end
    end
    if options.rank then options.rank = rank end
    local t = rs.tensor { rank + 1 }
    for round = 1, 2 do
      dist.init_process_group("local", options)
      dist.all_reduce(t)
      dist.destroy_process_group()
    end
    return t:item()
  end, { world = 3, init = false, args = { options } })
  local right = 0
  for rank = 0, 2 do if answers[rank] == 18 then right = right + 1 end end
  rs.check(name, right == 3)
end
sums("an address", { init_method = "tcp://127.0.0.1:$port", rank = 0, world_size = 3 })
sums("an address that says who is who", { init_method = "tcp://127.0.0.1:$port?rank=RANK&world_size=3" })
sums("a file", { init_method = "file:///tmp/ringside_groups_t_$$", rank = 0, world_size = 3 })
sums("a store", { store = true, rank = 0, world_size = 3 })
sums("the environment, where the spawn knows who is who", { init_method = "env://" })
sums("the spawn's own place", { timeout = 60 })
local function refused(kind, words, options, init)
  local ok, e = pcall(dist.spawn, function(rank, options) dist.init_process_group("local", options) end,
    { world = 2, init = init, args = { options } })
  local right = not ok and e.kind == kind and e.message:find(words, 1, true) ~= nil
  if not right then print(kind, words, ok, e) end
  rs.check(kind .. ": " .. words, right)
end
refused("RuntimeError", "have met already", { init_method = "env://" })
refused("ValueError", "world_size is 3", { init_method = "tcp://127.0.0.1:$port?rank=0&world_size=3" }, false)
refused("ValueError", "rank parameter missing", { init_method = "tcp://127.0.0.1:$port" }, false)
refused("RuntimeError", "No rendezvous handler", { init_method = "carrier://x", rank = 0, world_size = 2 }, false)
refused("TypeError", "expected a store", { store = 3, rank = 0, world_size = 2 }, false)
END_LESSON
for my $way ([ stepped => @stepped ], [ free => @free ]) {
    my ($executor, @words) = @$way;
    my $run = ringside({ env => { MASTER_ADDR => '127.0.0.1', MASTER_PORT => $port } }, @words, '--tap',
        lesson('places', $meeting));
    is($run->{status}, 0, "$executor: ranks meet where they are told") or diag($run->{out}, $run->{err});
}

# ---- many ranks ----

my $begin = time;
my $many = ringside(@stepped, lesson('many', <<'END_LESSON'));
local rs = require "ringside"
local dist = rs.distributed
local answers = dist.spawn(function(rank)
  local mine, all = dist.new_subgroups(8)
  local t = rs.tensor { rank }
  dist.all_reduce(t, { group = mine })
  return t:item()
end, { world = 1024 })
local right = 0
for rank = 0, 1023 do if answers[rank] == rank // 8 * 64 + 28 then right = right + 1 end end
print(right .. " right")
END_LESSON
is($many->{out}, "1024 right\n", 'a world of 1024 divides into groups of 8') or diag($many->{err});
cmp_ok(time - $begin, '<', 60, 'within a minute on any machine');
done_testing();
