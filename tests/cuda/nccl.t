#!/usr/bin/env perl
# NCCL without a GPU: its table played by tests/cuda/play_nccl*.c in several orders of the tests' own CUDA runtime; then the
# whole engine on that runtime, with ranks that meet by the tests' own NCCL; and what is said where it cannot be used.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
plan skip_all => "make $out/play_nccl $out/fake_cuda.so" if !-x "$out/play_nccl" || !-e "$out/fake_cuda.so";

# ---- the table ----

for my $order ('lazy', 'eager', 'seed:1', 'seed:2', 'seed:3') {
    local $ENV{RINGSIDE_FAKE_CUDA} = "devices=8,order=$order";
    open my $player, '-|', "$out/play_nccl 2>&1" or die "play_nccl: $!";
    my ($planned, $seen, @said) = (0, 0);
    while (my $line = <$player>) {
        chomp $line;
        $planned = $1 if $line =~ /^1\.\.(\d+)$/;
        push @said, $line if $line !~ /^ok|^1\.\./;
        next if $line !~ /^(not )?ok \d+ - (.*)$/;
        my ($wrong, $sentence) = ($1, $2);
        $seen++;
        ok(!$wrong, "$order: $sentence") or diag(join "\n", @said);
    }
    close $player;
    is($?, 0, "$order: the player ends with status 0") or diag(join "\n", @said);
    ok($planned > 0 && $seen == $planned, "$order: it plays all it has planned");
    ok(!grep({ /misuse|Sanitizer|runtime error/ } @said), "$order: no call of CUDA is a misuse") or diag(join "\n", @said);
}

# ---- the engine ----

my $lesson = 'tests/cuda/nccl.lua';
my @nccl   = qw(--device cuda --backend nccl --trust);

sub said {
    my ($setting, @words) = @_;
    my $run = ringside({ env => { RINGSIDE_FAKE_CUDA => $setting } }, @words);
    return ($run->{out} . $run->{err}, $run->{status});
}

for my $case ([ 2, 'lazy' ], [ 4, 'seed:7' ]) {
    my ($world, $order) = @$case;
    my ($text, $status) = said("devices=4,order=$order", 'run', @nccl, $lesson, '--', "world=$world");
    is($status, 0, "$world ranks on GPUs of their own have plain sums and the mean of all gradients, $order") or diag($text);
    unlike($text, qr/misuse/, "and call CUDA as they should") or diag($text);
}

my $trace = "/tmp/ringside-nccl-$$.trace";
my ($text, $status) = said('devices=4', 'run', @nccl, '--trace', $trace, $lesson);
is($status, 0, 'a run with a trace') or diag($text);
for my $kind ('comm.nccl.collective', 'comm.nccl.channel', 'comm.hop', 'comm.nccl.waits') {
    my ($events) = said('devices=4', 'events', $trace, $kind);
    my @lines = grep { /\Q$kind\E/ } split /\n/, $events;
    cmp_ok(scalar @lines, '>=', 8, "the trace has what NCCL tells of itself: $kind") or diag($events);
}
my ($rings) = said('devices=4', 'events', $trace, 'comm.nccl.ring');
like($rings, qr/^\d+ comm\.nccl\.ring .*channel=0 gpus="0 1 2 3"/, "and NCCL's own ring of GPUs") or diag($rings);
is(() = $rings =~ /comm\.nccl\.ring/g, 1, 'once');
my ($dumps) = said('devices=4', 'events', $trace, 'comm.nccl.dump');
like($dumps, qr/what=topology.*what=graphs/s, 'and the topology that it found') or diag($dumps);
unlink $trace;

($text, $status) = said('devices=1', 'run', @nccl, $lesson, '--', 'world=4');
is($status, 0, 'more ranks than GPUs run all the same') or diag($text);
is(() = $text =~ /4 ranks on 1 GPU: NCCL wants one GPU per rank; using Ringside's ring/g, 1, 'and that is said once') or diag($text);

($text, $status) = said('devices=4', 'run', @nccl, '--timeout', 20, $lesson, '--', 'what=absent');
is($status, 3, 'a rank that calls nothing ends the run as a hang') or diag($text);
like($text, qr/rank 1 (?:returned|has ended)/, 'and is named') or diag($text);

# ---- processes: the tests' NCCL is one process's, so two of them never meet ----

($text, $status) = said('devices=2', 'launch', '--nproc', 1, @nccl, $lesson, '--', 'what=one');
is($status, 0, 'a process of its own meets itself through the store') or diag($text);
($text, $status) = said('devices=2', 'launch', '--nproc', 2, @nccl, '--timeout', 3, $lesson, '--', 'world=2');
is($status, 3, 'processes that NCCL does not connect give up in time') or diag($text);
like($text, qr/TimeoutError: timed out after 3 s: .*init_process_group/, 'and say in what they waited') or diag($text);

# ---- where it cannot be used ----

($text, $status) = said('devices=4', 'run', '--backend', 'nccl', $lesson);
is($status, 2, 'without --device cuda it is refused');
is($text, "ringside: run: --backend nccl moves what lies on GPUs: it needs --device cuda\n", 'in one line');
($text, $status) = said('devices=4', 'run', @nccl, '--executor', 'stepped', $lesson);
is($status, 2, 'stepped refuses it');
is($text, "ringside: run: --backend nccl: GPUs keep their own time, so ranks run by themselves: --executor free only\n", 'in one line');
($text, $status) = said('devices=4', 'step', '--device', 'cuda', '--backend', 'nccl', '--batch', 'q', $lesson);
is($status, 2, 'so does the debugger') or diag($text);
($text, $status) = said('fail=no-gpu', 'run', @nccl, $lesson);
is($status, 2, 'without a GPU it is refused') or diag($text);
($text, $status) = said('devices=4', 'devices');
like($text, qr/NCCL 2\.28\.9/, "'ringside devices' says which NCCL there is") or diag($text);

# ---- NVIDIA's own library, where it is: it answers without a GPU ----

SKIP: {
    skip 'the CUDA plug-in is not built', 1 if !-e "$out/cuda.so";
    delete local $ENV{RINGSIDE_FAKE_CUDA};
    my $real = `$out/ringside devices 2>&1`;
    like($real, qr/nccl\s+(?:NCCL 2\.\d+\.\d+|NCCL is not on this machine|NCCL is too old)/, 'the plug-in opens the library, or says why not')
        or diag($real);
}
done_testing();
