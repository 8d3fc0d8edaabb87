#!/usr/bin/perl
# How processes of a job find each other: torchrun's environment, addresses, what does not fit.
use strict;
use warnings;
use lib 'tests/cli', 'tests/processes';
use Job;
use Ringside;
use Test::More;

my $sum = lesson('sum', <<'LUA');
local rs = require "ringside"
local x = rs.ones(1)
local ok, why = pcall(rs.distributed.init_process_group, table.unpack(rs.args, 1, 2))
if not ok then error(why, 0) end
rs.distributed.all_reduce(x)
if x:item() ~= 2 then error("the sum is " .. x:item()) end
LUA

# ---- what is refused before anything runs ----

my %env = (RANK => undef, WORLD_SIZE => undef, MASTER_ADDR => undef, MASTER_PORT => undef);
delete $ENV{$_} for keys %env;

sub with { my ($set, @words) = @_; return ringside({ env => $set }, 'run', @words, $sum) }

my %place = (RANK => 0, WORLD_SIZE => 2);
refused('gloo without a launcher says how to start it', with({}, '--backend', 'gloo'), 2, qr/ringside launch --nproc 2 /);
refused('RANK without WORLD_SIZE', with({ RANK => 0 }, '--backend', 'gloo'), 2, qr/variable WORLD_SIZE expected, but not set/);
refused('RANK that is no number', with({ RANK => 'x', WORLD_SIZE => 2 }), 2, qr/RANK is 'x': it must be a whole number/);
refused('RANK outside of the job', with({ RANK => 2, WORLD_SIZE => 2 }), 2, qr/RANK is 2, but WORLD_SIZE is 2/);
refused('an absurd WORLD_SIZE', with({ RANK => 0, WORLD_SIZE => 99999 }), 2, qr/WORLD_SIZE is '99999'/);
refused('no MASTER_ADDR', with({%place}), 2, qr/variable MASTER_ADDR expected, but not set/);
refused('no MASTER_PORT', with({ %place, MASTER_ADDR => 'localhost' }), 2, qr/variable MASTER_PORT expected, but not set/);
refused('no port', with({ %place, MASTER_ADDR => 'localhost', MASTER_PORT => -1 }), 2, qr/MASTER_PORT is '-1'/);
refused('the stepped executor', with({%place}, '--executor', 'stepped'), 2, qr/--executor free only/);
refused('the stepped executor with a back-end', with({}, '--backend', 'gloo', '--executor', 'stepped'), 2, qr/--executor free only/);
refused('comparing replicas', with({%place}, '--check-ranks'), 2, qr/--check-ranks compares replicas within one process/);
refused('a back-end that is none', with({}, '--backend', 'glo'), 2, qr/no --backend glo; did you mean gloo\?/);
refused('PyTorch\'s back-end for GPUs', with({}, '--backend', 'nccl'), 2, qr/--backend nccl moves what lies on GPUs: it needs --device cuda/);
refused('a debugger', ringside('step', '--backend', 'gloo', $sum), 2, qr/only 'ringside run'/);
refused('a debugger in a job', ringside({ env => {%place} }, 'step', $sum), 2, qr/only 'ringside run'/);
refused('other orders in a job', ringside({ env => {%place} }, 'explore', $sum), 2, qr/only 'ringside run'/);
refused('a launch of tasks', ringside('launch', '--backend', 'local', $sum), 2, qr/tasks of one process/);
refused('a launch with MPI', ringside('launch', '--backend', 'mpi', $sum), 2, qr/mpirun -n 2/);

my $one = with({ RANK => 0, WORLD_SIZE => 1, MASTER_ADDR => '127.0.0.1', MASTER_PORT => free_port() });
like($one->{err}, qr/the sum is 1/, 'a job of one process is a world of one');
is(with({%place}, '--backend', 'local')->{status}, 2, '--backend local is no job, whatever the environment says');

need_gloo();

# ---- who meets where ----

sub all_fine {
    my ($name, @runs) = @_;
    return ok(!(grep { $_->{status} != 0 } @runs), $name) || diag(map { $_->{err} } @runs);
}

all_fine('env:// is usual', by_hand(2, {}, $sum));
all_fine('env:// by name, with the back-end', by_hand(2, {}, $sum, '--', 'gloo', 'env://'));
all_fine('a back-end for each kind of device', by_hand(2, {}, $sum, '--', 'cpu:gloo,cuda:gloo'));
all_fine('without local numbers', by_hand(2, { env => sub { return { LOCAL_RANK => undef, LOCAL_WORLD_SIZE => undef } } }, $sum));

sub each_at {
    my ($address) = @_;
    return lesson('at', <<"LUA");
local rs = require "ringside"
local rank = tonumber(os.getenv("RANK"))
rs.distributed.init_process_group("gloo", { init_method = "$address", rank = rank, world_size = 2 })
local x = rs.ones(1)
rs.distributed.all_reduce(x)
if x:item() ~= 2 then error("the sum is " .. x:item()) end
LUA
}
all_fine('a TCP store of their own', by_hand(2, {}, '--trust', each_at('tcp://127.0.0.1:' . free_port())));
all_fine('a file store of their own', by_hand(2, {}, '--trust', each_at('file://' . folder() . '/meeting')));

sub both_refused {
    my ($name, $status, $pattern, @words) = @_;
    my @runs = by_hand(2, {}, @words);
    refused("$name, in process $_", $runs[$_], $status, $pattern) for 0, 1;
    return;
}
both_refused('a world that is too large', 2, qr/ValueError: (?:rank \d: )?world_size is 3, but this job has 2 processes/,
    lesson('large', 'require("ringside").distributed.init_process_group { world_size = 3 }'));
both_refused('a rank that is another\'s', 2, qr/ValueError: (?:rank \d: )?rank is \d, but this process is rank \d of its job/,
    '--trust', lesson('other', 'require("ringside").distributed.init_process_group { rank = 1 - os.getenv("RANK") }'));
both_refused('a back-end that this job does not have', 2, qr/the ranks of this job have the back-end 'gloo', not 'mpi'/, $sum, '--', 'mpi');
both_refused('the back-end of tasks', 2, qr/the ranks of this job have the back-end 'gloo', not 'local'/, $sum, '--', 'local');
both_refused('a back-end that nobody has', 2, qr/Unknown c10d backend type nonsense: there is gloo/, $sum, '--', 'nonsense');

my @runs = by_hand(2, { env => sub { return { WORLD_SIZE => $_[0] + 2 } } }, '--timeout', 3, $sum);
isnt($_->{status}, 0, 'processes that disagree about the size fail') for @runs;
like($runs[0]{err} . $runs[1]{err}, qr/WORLD_SIZE=\d, but the job at \S+ has \d ranks: all must say the same/, 'one of them says so');

# ---- what a program is told ----

my $asks = lesson('asks', <<'LUA');
local dist = require("ringside").distributed
local before = tostring(dist.is_initialized()) .. " " .. tostring(dist.is_torchelastic_launched())
dist.init_process_group()
local group = dist.group.WORLD
print(before, dist.is_gloo_available(), dist.is_nccl_available(), dist.get_backend(), group:name(), dist.get_node_local_rank())
dist.destroy_process_group()
print(dist.is_initialized())
dist.init_process_group("gloo")
dist.barrier()
print(dist.get_rank() .. " of " .. dist.get_world_size())
LUA
@runs = by_hand(2, {}, $asks);
is($runs[0]{out}, "false false\ttrue\tfalse\tgloo\tgloo\t0\nfalse\n0 of 2\n", 'the first process is told the truth') or diag($runs[0]{err});
is($runs[1]{out}, "rank 1: false false\ttrue\tfalse\tgloo\tgloo\t1\nrank 1: false\nrank 1: 1 of 2\n", 'the second, too');
like(launched(2, $asks)->{out}, qr/^false true\ttrue/m, 'it knows that it was launched');

# ---- nothing is done for who needs nothing ----

my $quiet = ringside({ env => { %place, MASTER_ADDR => '127.0.0.1', MASTER_PORT => 1 } }, 'run', lesson('quiet', 'print(1 + 1)'));
is("$quiet->{status} $quiet->{out}", "0 2\n", 'a lesson without ranks connects to nobody') or diag($quiet->{err});
done_testing;
