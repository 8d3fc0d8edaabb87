#!/usr/bin/perl
# What PyTorch's own tests ask of its launcher (test/distributed/launcher/test_run.py), group Q of the catalogue. Each check
# begins with its row's id.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

sub launch { return ringside('launch', '--trust', @_) }

# As PyTorch's bin/test_script.py: each process leaves a file under its rank, and fails without its environment.
my $script = lesson('touch', <<'LUA');
local folder = ...
for name in ("RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT"):gmatch "%S+" do
  assert(os.getenv(name), name)
end
local file = assert(io.open(folder .. "/" .. os.getenv "RANK", "a"))
file:write(("%s of %s, %s of %s, group %s, %s\n"):format(os.getenv "RANK", os.getenv "WORLD_SIZE", os.getenv "LOCAL_RANK",
  os.getenv "LOCAL_WORLD_SIZE", os.getenv "GROUP_RANK", os.getenv "OF_THE_PARENT"))
file:close()
LUA

# What the processes left behind, by rank.
my $runs = 0;
sub ranks_of {
    my $left = folder() . '/left.' . ++$runs;
    mkdir $left or die "$left: $!";
    my $run = launch(@_, $script, '--', $left);
    is($run->{status}, 0, 'it ends well') or diag($run->{err});
    return [ map { slurp($_) } sort { ($a =~ m{(\d+)\z})[0] <=> ($b =~ m{(\d+)\z})[0] } glob "$left/*" ];
}

{
    local $ENV{OF_THE_PARENT} = 'mine';
    my $four = [ map { "$_ of 4, $_ of 4, group 0, mine\n" } 0 .. 3 ];
    is_deeply(ranks_of(qw(--nnodes=1 --nproc-per-node=4)), $four,
              'T388 four processes of one machine, each once, with its environment and the parent\'s');
    is_deeply(ranks_of(qw(--standalone --nproc_per_node=4)), $four, 'T388 the same standalone');
    is_deeply(ranks_of(qw(--nnodes=1)), ["0 of 1, 0 of 1, group 0, mine\n"], 'T390 one process if nobody says how many');
    is(scalar @{ ranks_of(qw(--nproc-per-node=auto --devices 3)) }, 3, 'T393 auto of three devices is three');
    is(scalar @{ ranks_of(qw(--nproc-per-node=gpu --devices 3)) }, 3, 'T393 gpu of three devices is three');
}
refused('T393 gpu without a device is refused', launch(qw(--nproc-per-node=gpu), $script), 2, qr/no GPU/);

{
    my $left = folder() . '/raises';
    my $run  = launch(qw(--nproc-per-node=3 --grace 0.2), lesson('raises', <<'LUA'), '--', $left);
local rank, left = tonumber(os.getenv "RANK"), ...
local file = assert(io.open("/proc/self/stat"))
local own = assert(io.open(left .. rank, "w"))
own:write(file:read "n") own:close()
if rank == 1 then
  for other = 0, 2 do while not io.open(left .. other) do os.execute "sleep 0.01" end end
  error "a worker raises"
end
for _ = 1, 2000 do os.execute "sleep 0.05" end
LUA
    is($run->{status}, 2, 'T395 a worker that raises fails the launcher');
    like($run->{err}, qr/^\[1\] ringside: .*raises\.lua:7: .*a worker raises$/m, 'T395 what it raised is told with its rank and line');
    like($run->{err}, qr/^ringside launch: rank 1 ended with status 2\b.*\n\z/m, 'T395 the last line names it');
    my @pids = map { slurp("$left$_") } 0 .. 2;
    is(scalar(grep { kill 0, $_ } @pids), 0, 'T395 the others are ended');
}

SKIP: {
    skip 'this ringside has no Gloo back-end: ringside devices says what is missing', 1
        if ringside('version')->{out} !~ /^  backends .*\bgloo\b/m;
    my $run = ringside(qw(launch --nproc-per-node=4 --backend gloo), lesson('forms', <<'LUA'));
local rs = require "ringside"
local dist = rs.distributed
dist.init_process_group("gloo", { init_method = "env://" })
local t = rs.full({ 1 }, dist.get_rank())
dist.all_reduce(t)
print(("%d of %d has %d"):format(dist.get_rank(), dist.get_world_size(), t:item()))
dist.destroy_process_group()
LUA
    is(join('', sort $run->{out} =~ /(\d of 4 has .*\n)/g), join('', map { "$_ of 4 has 6\n" } 0 .. 3),
       'T398 env:// forms a group of the processes') or diag($run->{err});
}

{
    my $run = launch(qw(--nproc-per-node=3), lesson('captured', <<'LUA'));
io.write("out of ", os.getenv "RANK", "\n")
io.stderr:write("err of ", os.getenv "RANK", "\n")
LUA
    is(join('', sort $run->{out} =~ /^.*\n/mg), "[1] out of 1\n[2] out of 2\nout of 0\n", 'T400 each line of output carries its rank');
    is(join('', sort $run->{err} =~ /^.*\n/mg), "[1] err of 1\n[2] err of 2\nerr of 0\n", 'T400 of stderr, too');
}
done_testing();
