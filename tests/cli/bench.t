#!/usr/bin/perl
# bench train_step measures every case from C and from Lua, says of each whether the loss fell, and how many calls to the
# system's allocator a step made. bench dp_step measures a step bare and through DataParallel, bench ddp_step
# one through DistributedDataParallel, its local part, and the communication alone.
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

my $text = ringside(qw(bench viewer_open --quick --json --case text-1M));
is("$text->{status} $text->{signal}", '0 0', 'bench viewer_open ends with status 0');
for my $metric (['wall', 's'], ['rss', 'MiB']) {
    like($text->{out}, qr/^\{"bench": "viewer_open", "impl": "ringside", "case": "text-1M", "threads": 1, "metric": "$metric->[0]", "unit": "$metric->[1]", "n": 9, .*"check": "ok", "events": 1000000\}$/m,
        "a million events as text: nine samples of $metric->[0], and every event had its line");
}

done_testing();
