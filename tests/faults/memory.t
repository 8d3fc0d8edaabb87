#!/usr/bin/perl
# Commands with their n-th allocation failing, once and from then on, for some n by chance: an error or the right answer, never
# a crash, a hang, a wrong number or something left behind. RINGSIDE_LONG=1: every n; RINGSIDE_SEED: the same n again. `free` runs
# --exact: the fast product's libraries end the process where they cannot allocate.
use strict;
use warnings;
use lib 'tests/faults', 'tests/cli';
use Failing;
use Ringside qw(folder ringside program);
use Test::More;

plan skip_all => 'the failing allocator is for glibc on Linux' if $^O ne 'linux';
plan skip_all => 'tests/sanitize fails allocations under the sanitizers' if ($ENV{RINGSIDE_OUT} || '') =~ /asan|tsan/;
my $seed = $ENV{RINGSIDE_SEED} || time;
srand $seed;
note "RINGSIDE_SEED=$seed";

my $trace = folder() . '/steps.trace';
is(ringside('run', '--quiet', '--trace', $trace, 'tests/faults/training.lua')->{status}, 0, 'a trace to read');
my $moves = 'next 2; stage 40; where; print 0.weight; back 3; set 0.weight[0,0,0,0] 5; next; goto 100; info tasks; info memory; '
    . 'break module; continue; info breaks; until seq > 300; rcontinue; where';
my $asked = 'continue; runs; goto 354; info buckets; info tensor; info graph; goto 712; info ring; info locks; info tensor; '
    . 'info buckets; info memory; goto 660; info graph; info ring; info tasks';
my @training = ('--tap', 'tests/faults/training.lua', '--');
my @replicas = ('--tap', 'tests/faults/replicas.lua', '--');
my @sparse   = ('--tap', 'tests/faults/sparse.lua', '--');
my @stores   = ('--tap', 'tests/faults/stores.lua', '--');
my @reduced  = ('--tap', 'tests/faults/algorithms.lua', '--');
my @ranks    = ('--tap', 'tests/faults/collectives.lua', '--');
my @uneven   = ('--tap', 'tests/faults/uneven.lua', '--');
my @hooks    = ('--tap', 'tests/faults/comm_hooks.lua', '--');
my @power    = ('--tap', 'tests/faults/powersgd.lua', '--');
my @saving   = ('--trust', '--tap', 'tests/faults/saving.lua', '--');
my @json     = ('run', '--trust', '--tap', 'tests/faults/json.lua');
my @all      = ('--tap', 'tests/faults/everything.lua');
my @free     = ('run', '--executor', 'free', '--exact');

sub fails {
    my ($name, $points, @words) = @_;
    my $from = $words[-1] eq '--' ? (count_allocations(program(), @words, 'nothing'))[0] - 50 : 0;
    fail_each($name, { on => 1, from => $from, points => $ENV{RINGSIDE_LONG} ? 0 : $points }, program(), @words);
    return;
}

# Each allocation, of the few that there are.
sub each_fails {
    my ($name, @words) = @_;
    my $from = (count_allocations(program(), @words, '--', 'nothing'))[0] - 10;
    fail_each($name, { on => 1, from => $from }, program(), @words);
    return;
}

# Dumps are read before it is known that one is not there: each allocation of their readers.
sub dumps_fail {
    my ($name, @dumps) = @_;
    my @words = (program(), 'hang', @dumps, 'nowhere');
    my ($count, @wrong) = (run_with(0, 0, @words)->{count});
    cmp_ok($count, '>', 100, "$name: reading them allocates ($count times)");
    for my $n (1 .. $count) {
        for my $on (0, 1) {
            my $run = run_with($n, $on, @words);
            push @wrong, "$n: status $run->{status}, stderr: $run->{err}"
                if $run->{status} != 2 << 8 || $run->{err} !~ /\A(?:.*memory.*|.*nowhere: no such file)\n\z/;
        }
    }
    is("@wrong", '', "$name: want of memory is told as that, and not as a dump that is none");
    return;
}

each_fails('JSON', @json);
dumps_fail('dumps in JSON', grep { /json$/ } glob 'tests/data/flight/made_older/*');
dumps_fail('dumps in pickles', grep { !/json$/ } glob 'tests/data/flight/made_subgroups/*');
fails('a little of everything', 90, 'run', @all);
fails('a little of everything in free', 90, @free, @all);
fails('replicas that are compared', 60, 'run', '--check-ranks', @all);
fails('replicas that are compared in free', 60, @free, '--check-ranks', @all);
fails('the memory of two devices', 60, 'run', '--tap', 'tests/faults/devices.lua');
fails('the memory of two devices in free', 60, @free, '--tap', 'tests/faults/devices.lua');
fails('a training step', 50, 'run', @training);
fails('a training step in free', 50, @free, @training);
fails('a DataParallel step', 60, 'run', @replicas);
fails('a DataParallel step in free', 60, @free, @replicas);
fails('groups of ranks', 50, 'run', '--tap', 'tests/faults/groups.lua', '--');
fails('groups of ranks in free', 50, @free, '--tap', 'tests/faults/groups.lua', '--');
fails('algorithms of all-reduce', 40, 'run', @reduced);
fails('algorithms of all-reduce in free', 40, @free, @reduced);
fails('futures', 60, 'run', '--tap', 'tests/faults/futures.lua', '--');
fails('futures in free', 60, @free, '--tap', 'tests/faults/futures.lua', '--');
fails('workers of a loader', 60, 'run', '--tap', 'tests/faults/workers.lua');
fails('workers of a loader in free', 60, @free, '--tap', 'tests/faults/workers.lua');
fails('sparse steps', 40, 'run', @sparse);
fails('sparse steps in free', 40, @free, @sparse);
fails('communication hooks', 60, 'run', @hooks);
fails('communication hooks in free', 60, @free, @hooks);
fails('a state saved and loaded', 60, 'run', @saving);
fails('a state saved and loaded in free', 60, @free, @saving);
fails('stores', 60, 'run', @stores);
fails('stores in free', 60, @free, @stores);
fails('collectives', 60, 'run', @ranks);
fails('collectives in free', 60, @free, @ranks);
fails('a hook, Join and SyncBatchNorm', 60, 'run', @uneven);
fails('a hook, Join and SyncBatchNorm in free', 60, @free, @uneven);
fails('PowerSGD and averaging', 60, 'run', @power);
fails('PowerSGD and averaging in free', 60, @free, @power);
fails('step --batch', 50, 'step', '--batch', $moves, 'tests/faults/training.lua');
fails('what is asked of a DDP step', 50, 'step', '--batch', $asked, 'tests/faults/comm_hooks.lua');
fails('story', 40, 'story', $trace);
fails('story of a run', 40, 'story', 'tests/faults/training.lua');
fails('events', 15, 'events', $trace, 'op ~ mm or dp');
fails('events --json', 15, 'events', $trace, '--json');
fails('events --hash', 15, 'events', $trace, '--hash');
fails('view --print', 40, 'view', '--print', $trace);
fails('help', 20, 'help', 'nn.Linear');
fails('lessons', 10, 'lessons');
done_testing();
