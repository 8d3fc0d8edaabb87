#!/usr/bin/perl
# What tensors cost on their devices, to the byte, and what the trace says each byte is for.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../cli";
use Ringside;
use Test::More;

for my $executor ('stepped', 'free') {
    my $run = ringside('run', '--tap', '--quiet', '--executor', $executor, 'tests/data/memory.lua');
    is($run->{status}, 0, "$executor: allocated and reserved bytes are those of the allocator's rules")
        or diag(grep { !/^ok/ } map { "$_\n" } split /\n/, $run->{out});
    cmp_ok(scalar(() = $run->{out} =~ /^ok /mg), '>', 40, "$executor: all of them were looked at");
}

# ---- the same on the screen and in the debugger ----
my $lesson = lesson('dp', <<'LUA');
local rs = require "ringside"
rs.lesson { title = "dp", devices = 2 }
local net = rs.nn.Sequential { rs.nn.Linear(256, 256), rs.nn.ReLU() }:to "device:0"
local opt = rs.optim.Adam(net:parameters())
rs.nn.DataParallel(net)(rs.ones({ 64, 256 }, { device = "device:0" })):sum():backward()
opt:step()
rs.say "now"
LUA
my $trace = folder() . '/dp.trace';
ringside('run', '--quiet', '--trace', $trace, $lesson);
my $batch = ringside('step', '--batch', 'until optim.step; finish; info memory', $lesson)->{out};
# 256 * 256 and 256 floats: 262144 and 1024 bytes; the gradients are one flat block of 263168.
like($batch, qr/^device:0: \d+ B in \d+ blocks, peak \d+ B, reserved 2097152 B\n  parameters 263168 B, gradients 263168 B, optimizer state 526336 B, activations 512 B, inputs 65536 B/m,
    'info memory tells what a device holds it for');
my ($seq) = ringside('events', $trace)->{out} =~ /^(\d+) optim\.step end/m;
my $screen = ringside('view', $trace, '--print', '--at', $seq, '--size', '80x40', '--keys', 'iii<Tab><Tab>Z')->{out};
like($screen, qr/^ dev 0 +1\.13 M .*2\.00 M P+G+S+/m, 'the Memory pane draws a bar of what it is for');
like($screen, qr/P parameters +257 K +G gradients +257 K/, 'and says the bytes');
like($screen, qr/S optimizer state +514 K/, 'of the optimizer, too');
my $earlier = ringside('view', $trace, '--print', '--at', 5, '--size', '80x40', '--keys', 'iii<Tab><Tab>Z')->{out};
unlike($earlier, qr/S optimizer state/, 'at an earlier moment there was none');
done_testing();
