#!/usr/bin/perl
# bench train_step measures every case from C and from Lua, says of each whether the loss fell, and how many calls to the
# system's allocator a step made. bench dp_step measures a step bare and through DataParallel, bench ddp_step
# one through DistributedDataParallel, its local part, and the communication alone. bench
# device_step measures work on devices.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

for my $case (qw(embed6 embed384 mlp64 cnn64 tfm8x64 lstm32x32)) {
    my $run = ringside(qw(bench train_step --quick --json --case), $case);
    is("$run->{status} $run->{signal}", '0 0', "bench --case $case ends with status 0");
    for my $impl (qw(ringside ringside-lua)) {
        my ($line) = $run->{out} =~ /^(\{"bench": "train_step", "impl": "\Q$impl\E", "case": "$case", .*\})$/m;
        ok(defined $line, "$case from $impl has a line") or next;
        like($line, qr/"metric": "step", "unit": "us", "n": 9, /, "$case from $impl: nine samples of a step");
        like($line, qr/"check": "ok"/, "$case from $impl: the loss fell");
    }
    my ($allocations) = $run->{out} =~ /"impl": "ringside", .* "allocs": ([-.\de]+)/;
  SKIP: {
        skip 'this build cannot count allocations', 1 if !defined $allocations || $allocations < 0;
        is($allocations, 0, "$case: a steady step takes nothing from the system");
    }
    like($run->{out}, qr/^\{"bench": "train_step", "environment": \{.*\}, "load1": [\d.]+\}\n\z/m,
        "$case: the last line tells the environment");
}

my $run = ringside(qw(bench dp_step --quick --json --case embed6));
is("$run->{status} $run->{signal}", '0 0', 'bench dp_step ends with status 0');
for my $devices (1, 2, 4) {
    my ($bare) = $run->{out} =~ /^\{.*"impl": "bare", "case": "embed6", .*"metric": "step on $devices", (.*)\}$/m;
    my ($wrapped) = $run->{out} =~ /^\{.*"impl": "DataParallel", .*"metric": "step on $devices", (.*)\}$/m;
    like($bare // '', qr/"n": 9, .*"check": "ok"/, "$devices devices: nine samples of the bare step, and it learns");
    like($wrapped // '', qr/"n": 9, .*"check": "ok", "devices": $devices, "gap_us": -?[\d.e+]+, "ratio": [\d.]+, /,
        "$devices devices: as many through DataParallel, whose loss was the bare one's, with gap and ratio");
}
my $one = ringside(qw(bench dp_step --quick --json --case embed6 --threads 2));
unlike($one->{out}, qr/step on [14]/, '--threads 2: on two devices alone');
like($one->{out}, qr/step on 2/, 'which is measured');

for my $case (qw(embed6-w2-cap25 embed384-w4-cap1 mlp64-w2-cap1)) {
    my $ddp = ringside(qw(bench ddp_step --quick --json --case), $case);
    is("$ddp->{status} $ddp->{signal}", '0 0', "bench ddp_step --case $case ends with status 0");
    my $head = qr/^\{"bench": "ddp_step", "impl": "ringside-local", "case": "$case", "threads": 1, /m;
    for my $metric (qw(step local comm)) {
        like($ddp->{out}, qr/$head"metric": "$metric", "unit": "us", "n": 9, .*"check": "ok", "world": \d, /,
            "$case: nine samples of $metric, the loss fell and the replicas were equal");
    }
    like($ddp->{out}, qr/$head"metric": "cost", "unit": "ratio", "n": 9, "min": [\d.]+, .*"exposed_us": /,
        "$case: what a step costs beside one without communication");
}
my $wrong = ringside(qw(bench ddp_step --case embed6-w3-cap1));
is($wrong->{status}, 2, 'a case that there is not ends with status 2');
my $said = qr/\Aringside: bench: no case 'embed6-w3-cap1': ddp_step has embed6-w2-cap1 [^\n]* mlpwide64-w4-cap25\n\z/;
like($wrong->{err}, $said, 'and one line that names those that there are');

my $device = ringside(qw(bench device_step --quick --json));
is("$device->{status} $device->{signal}", '0 0', 'bench device_step ends with status 0');
for my $case (qw(launch elementwise copy mm4096 mlp64 allreduce ddp)) {
    my $head = qr/^\{"bench": "device_step", .*"case": "$case", /m;
    like($device->{out}, qr/$head.*"n": 9, .*"check": "ok", "device": "cpu", .*"p95": /,
        "$case on virtual devices: nine samples, and what it computes is right");
}
my $strange = ringside(qw(bench device_step --device tpu));
is("$strange->{status} $strange->{err}", "2 ringside: bench: --device takes cpu or cuda\n",
    'a kind of device that there is not');

for my $backend (qw(mpi gloo)) {
  SKIP: {
        my $devices = ringside('devices');
        skip "--backend $backend was not built, or its toolkit is not here", 5 if $devices->{out} !~ /^  $backend +(?:Open MPI )?\d/m;
        skip 'no mpirun is here', 5 if $backend eq 'mpi' && !grep { -x "$_/mpirun.openmpi" || -x "$_/mpirun" } split /:/, $ENV{PATH};
        my $reduce = ringside(qw(bench allreduce --quick --json --case allreduce-w2-4096 --world 2 --backend), $backend);
        is("$reduce->{status} $reduce->{signal}", '0 0', "bench allreduce --backend $backend starts two processes and ends with status 0");
        my $head = qr/^\{"bench": "allreduce", "impl": "ringside-$backend", "case": "allreduce-w2-4096", "threads": 2, /m;
        for my $metric (qw(time touched)) {
            is(scalar(() = $reduce->{out} =~ /$head"metric": "$metric", "unit": "us", "n": 9, .*"check": "ok", "bytes": 4096, "world": 2\}$/mg),
                1, "the first alone tells of nine samples of $metric, and the sums were right on all");
        }
        my $ddp = ringside(qw(bench ddp_step --quick --json --case embed6-w2-cap25 --world 2 --backend), $backend);
        is("$ddp->{status} $ddp->{signal}", '0 0', "bench ddp_step --backend $backend as well");
        is(scalar(() = $ddp->{out} =~ /"impl": "ringside-$backend", "case": "embed6-w2-cap25", .*"metric": "(?:step|local|comm|cost)", .*"check": "ok"/g),
            4, 'with step, local, comm and cost; the loss fell and the replicas were equal');
    }
}
for my $refused (
    [[qw(allreduce --world 2)], qr/--world goes with --backend/, '--world alone'],
    [[qw(allreduce --backend mpi --world 3)], qr/--world takes 2 or 4/, 'a world that has no case'],
    [[qw(allreduce --backend nccl)], qr/--backend takes mpi or gloo/, 'another back-end'],
    [[qw(switch --backend gloo)], qr/switch is no group between processes: allreduce and ddp_step are/, 'a group of one process'],
) {
    my $run = ringside('bench', @{ $refused->[0] });
    is($run->{status}, 2, "$refused->[2] ends with status 2");
    like($run->{err}, qr/\Aringside: bench: $refused->[1]\n\z/, 'and one line');
}

my $text = ringside(qw(bench viewer_open --quick --json --case text-1M));
is("$text->{status} $text->{signal}", '0 0', 'bench viewer_open ends with status 0');
for my $metric (['wall', 's'], ['rss', 'MiB']) {
    like($text->{out}, qr/^\{"bench": "viewer_open", "impl": "ringside", "case": "text-1M", "threads": 1, "metric": "$metric->[0]", "unit": "$metric->[1]", "n": 9, .*"check": "ok", "events": 1000000\}$/m,
        "a million events as text: nine samples of $metric->[0], and every event had its line");
}

done_testing();
