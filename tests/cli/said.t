#!/usr/bin/perl
# Said clearly: what a first hour meets, each message read aloud.
use strict;
use warnings;
use lib 'tests/cli';
use File::Temp qw(tempdir);
use Ringside;
use Test::More;

my $six    = 'lessons/01-six-rows.lua';
my $folder = folder();

# ---- values of options ----
refused('--world 0',         ringside('run', '--world', '0', $six), 2, qr/'0' is no N for --world: .*1 to 1024$/);
refused('--world 1025',      ringside('run', '--world', '1025', $six), 2, qr/'1025' is no N for --world: .*1 to 1024$/);
refused('--executor foo',    ringside('run', '--executor', 'foo', $six), 2, qr/'foo' is no NAME for --executor: .*stepped or free$/);
refused('--limit-seconds 0', ringside('run', '--limit-seconds', '0', $six), 2, qr/--limit-seconds: .*more than 0/);
refused('--seed -1',         ringside('run', '--seed', '-1', $six), 2, qr/'-1' is no N for --seed: .*whole number from 0/);
refused('--timeout nan',     ringside('run', '--timeout', 'nan', $six), 2, qr/--timeout: .*more than 0 and at most/);
refused('--backend foo',     ringside('run', '--backend', 'foo', $six), 2, qr/built without --backend foo, there is local/);
refused('--device foo',      ringside('step', '--device', 'foo', $six), 2, qr/built without --device foo, there is cpu/);
refused('bench --case nope', ringside('bench', '--case', 'nope'), 2,
    qr/no case 'nope': trace_cost has .*mlp64.*train_step has .*lstm32x32.*switch has .*tasks-512/);
refused('bench switch --case mlp64', ringside('bench', 'switch', '--case', 'mlp64'), 2, qr/no case 'mlp64': switch has tasks-2[^;]*$/);
refused('bench --case',        ringside('bench', '--case'), 2, qr/--case takes the name of a case/);
refused('bench --threads two', ringside('bench', '--threads', 'two'), 2, qr/--threads takes a number of threads/);
my $bench = ringside('bench', '--help')->{out};
my %cases = map { $_ => 1 } map { split ' ' } $bench =~ /^ {15}(\S.*)$/mg;
my $counted = ringside('bench', 'switch', '--quick', '--case', 'tasks-8');
like($counted->{out}, qr/^switch +ringside-stepped +tasks-8 /m, 'a case that the help lists is measured');
ok($cases{$_}, "bench --help lists the case $_") for qw(stage-event embed6 tfm8x64 lstm32x32 tasks-2);

# ---- ringside version ----
is(ringside('version')->{out}, ringside('--version')->{out}, 'ringside version says what --version says');
is(ringside('version', '--help')->{status}, 0, 'version has --help');
refused('version takes nothing', ringside('version', 'x'), 2, qr/version takes no 'x'/);

# ---- help: the right page, the nearest name that is sensible, or nothing found ----
sub page { return ringside('help', @_)->{out} }
like(page('DDP'), qr/\Ann\.parallel\.DistributedDataParallel\(/, 'help DDP is the page of DistributedDataParallel');
like(page('DP'), qr/\Ann\.DataParallel\(/, 'help DP is the page of DataParallel');
is(page('F'), page('nn.functional'), 'help F lists nn.functional');
is(page('F.relu'), page('nn.functional.relu'), 'help F.relu is the page of nn.functional.relu');
like(page('dist'), qr/^rs\.dist\(.*^dist, a namespace:\n.*^dist\.all_reduce\(/ms, 'help dist tells the function and the namespace');
is(page('distributed') =~ s/.*a namespace:\n\n//rs, page('dist') =~ s/.*a namespace:\n\n//rs, 'help distributed lists it, too');
like(page('import'), qr/require "ringside"/, 'help import says what stands in its place');
like(page('ring'), qr/all_reduce.*comm\.hop/s, 'help ring leads to the collective and its hops');
like(page('FSDP'), qr/is not built here.*nn\.DataParallel/s, 'help FSDP says that it is not built');
my $sources = join '', map { slurp($_) } 'src/sched/error.c', glob 'src/lua/*.c';
my %kinds = map { $_ => 1 } $sources =~ /"([A-Z]\w+Error)"/g;
cmp_ok(scalar keys %kinds, '>', 15, 'there are kinds of errors');
like(page($_), qr/\A\Q$_\E\n +\S/, "help $_ says what it means") for sort keys %kinds;
like(page('errors'), qr/^BudgetError\n.*^ValueError\n/ms, 'help errors lists the kinds');
refused("help $_ suggests nothing", ringside('help', $_), 2, qr/no help for '$_'; 'ringside help' lists what there is/)
    for qw(pdb for xyzzy kl conda sandbox);
refused("help $_->[0] suggests $_->[1]", ringside('help', $_->[0]), 2, qr/did you mean (?:\w+\.)*\Q$_->[1]\E\?/)
    for ['Liner', 'Linear'], ['softmx', 'Softmax'], ['nn.functional.rleu', 'nn.functional.relu'], ['dataloder', 'DataLoader'];

# ---- TORCH_DISTRIBUTED_DEBUG does what messages say ----
my $unused = lesson('unused', <<'LUA');
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "unused", world = 2 }
local Net = nn.Module("Net")
function Net:init() self.used = nn.Linear(2, 2) self.spare = nn.Linear(3, 3) end
function Net:forward(x) return self.used(x) end
dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(Net())
  for _ = 1, 2 do ddp(rs.ones { 1, 2 }):sum():backward() end
end)
LUA
for my $level ('INFO', 'DETAIL', 'info') {
    my $run = ringside({ env => { TORCH_DISTRIBUTED_DEBUG => $level } }, 'run', $unused);
    refused("TORCH_DISTRIBUTED_DEBUG=$level: the parameters are named", $run, 2, qr/rank 0: 2 \(spare\.weight\) 3 \(spare\.bias\)\.$/);
}
for my $level ('OFF', '') {
    my $run = ringside({ env => { TORCH_DISTRIBUTED_DEBUG => $level } }, 'run', $unused);
    refused("TORCH_DISTRIBUTED_DEBUG=$level: indices, and how to see names", $run, 2,
        qr/rank 0: 2 3\. Set TORCH_DISTRIBUTED_DEBUG to INFO or DETAIL to see their names\.$/);
}
like(page('TORCH_DISTRIBUTED_DEBUG'), qr/INFO or DETAIL/, 'help TORCH_DISTRIBUTED_DEBUG');

done_testing();
