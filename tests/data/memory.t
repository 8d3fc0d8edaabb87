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

# ---- questions and limits ----
my $limits = lesson('limits', <<'LUA');
local rs = require "ringside"
local cuda, MIB = rs.cuda, 1024 * 1024
rs.lesson { title = "limits", devices = 3, device_memory = { 32 * MIB, 64 * MIB, 64 * MIB } }
rs.check("each device has its size", cuda.get_device_properties(0).total_memory == 32 * MIB
  and cuda.get_device_properties("device:1").total_memory == 64 * MIB)
local function fails(kind, pattern, f, ...)
  local ok, err = pcall(f, ...)
  local said = not ok and err.kind == kind and err.message:find(pattern) ~= nil
  rs.check(kind .. " " .. pattern .. " (" .. tostring(err) .. ")", said)
end

local a = rs.zeros({ 3 * MIB }, { device = "device:0" }) -- 12 MiB, and a segment of that size
local free, total = cuda.mem_get_info(0)
rs.check("what no segment holds is free", free == 20 * MIB and total == 32 * MIB)
fails("OutOfMemoryError", "24%.00 MiB were asked for on device:0, which may use 32%.00 MiB: 12%.00 MiB are allocated, 12%.00 MiB reserved",
  rs.zeros, { 6 * MIB }, { device = "device:0" })
rs.check("it counts", cuda.memory_stats(0).num_ooms == 1 and cuda.memory_stats(0).num_alloc_retries == 1)
a = nil
collectgarbage()
rs.check("a segment stays when its tensor goes", cuda.memory_allocated(0) == 0 and cuda.memory_reserved(0) == 12 * MIB)
local b = rs.zeros({ 6 * MIB }, { device = "device:0" })
rs.check("until another needs the room", cuda.memory_reserved(0) == 24 * MIB)
rs.check("the peak is told", cuda.max_memory_allocated(0) == 24 * MIB and cuda.max_memory_reserved(0) == 24 * MIB)
b = nil
collectgarbage()
cuda.reset_peak_memory_stats(0)
rs.check("and begins again", cuda.max_memory_allocated(0) == 0)
cuda.set_per_process_memory_fraction(0.25, 0)
cuda.empty_cache()
fails("OutOfMemoryError", "which may use 8%.00 MiB: 0 bytes are allocated", rs.zeros, { 4 * MIB }, { device = "device:0" })
fails("OutOfMemoryError", "^CUDA out of memory%. 4%.00 MiB were asked for on device:0, which may use 8%.00 MiB: 0 bytes are allocated, 0 bytes"
  .. " reserved%. The block of 4%.00 MiB fits into no free one, and needs a new segment of 20%.00 MiB%. What helps: a larger device_memory",
  rs.zeros, { MIB }, { device = "device:0" })
cuda.set_per_process_memory_fraction(0.75, 0)
local many, few = {}, {}
for i = 1, 40 do many[i] = rs.zeros({ 128 * 1024 }, { device = "device:0" }) end -- half a MiB each, four a segment
fails("OutOfMemoryError", "a new segment of 20%.00 MiB%..*device_memory.*%. Held by:\n  20%.00 MiB in 40 blocks: outside of any stage, line %d+$",
  rs.zeros, { 3 * MIB // 2 }, { device = "device:0" })
for i = 1, 40, 4 do few[i] = many[i] end
many = nil
collectgarbage()
fails("OutOfMemoryError", "15%.00 MiB lie free in pieces that are too small.*rs%.cuda%.empty_cache", rs.zeros, { 3 * MIB }, { device = "device:0" })
few = nil
collectgarbage()
cuda.empty_cache()
fails("ValueError", "Allowed range: 0%-1", cuda.set_per_process_memory_fraction, 2, 0)
fails("ValueError", "got: cpu", cuda.memory_stats, "cpu")
fails("RuntimeError", "device:7 does not exist", cuda.memory_reserved, 7)

-- A forward whose outputs are kept until the device is full.
local net, x, kept = rs.nn.Linear(512, 1024):to "device:1", rs.ones({ 1024, 512 }, { device = "device:1" }), {}
fails("OutOfMemoryError", "Held by:\n  %d+%.00 MiB in %d+ blocks: Linear in module%.forward, line %d+\n", function()
  while true do kept[#kept + 1] = net(x) end
end)
local blocks, bytes = 0, 0
for _, segment in ipairs(cuda.memory_snapshot()) do
  local at = segment.address
  for _, block in ipairs(segment.blocks) do
    rs.check("blocks lie side by side", block.address == at)
    at = at + block.size
    blocks = blocks + (block.state == "active_allocated" and 1 or 0)
    bytes = bytes + (block.state == "active_allocated" and block.size or 0)
  end
  rs.check("and fill their segment", at == segment.address + segment.total_size)
end
rs.check("the snapshot has them all", bytes == cuda.memory_allocated(1) and blocks == #kept + 3)
rs.check("memory_summary is a table to print", cuda.memory_summary(1):find("reserved +%d+%.00 MiB") ~= nil)

-- Tensors that nobody holds any more are collected before a device is said to be full.
for _ = 1, 12 do local garbage = rs.zeros({ 2 * MIB }, { device = "device:2" }) end
rs.check("garbage does not fill a device", cuda.memory_reserved(2) <= 64 * MIB)
LUA
for my $executor ('stepped', 'free') {
    my $run = ringside('run', '--tap', '--quiet', '--trust', '--executor', $executor, $limits);
    is($run->{status}, 0, "$executor: questions and limits") or diag(grep { !/^ok/ } map { "$_\n" } split /\n/, "$run->{out}$run->{err}");
}
for my $wrong (['0', qr/ValueError.*above 0, not 0/], ['{ 1, 2 }', qr/ValueError.*2 entries for 1 devices/], ['"a"', qr/TypeError/]) {
    my $run = ringside('run', lesson('wrong', "local rs = require 'ringside' rs.lesson { title = 't', devices = 1, device_memory = $wrong->[0] }"));
    like($run->{err}, $wrong->[1], "device_memory = $wrong->[0] is refused") or diag($run->{out});
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
my $screen = ringside('view', $trace, '--print', '--at', $seq, '--size', '80x40', '--keys', ':pane memory<Enter>Z')->{out};
like($screen, qr/^ dev0: 1\.13M in \d+ blocks, 2\.00M reserved +P+G+S+/m, 'the Memory pane draws a bar of what it is for');
like($screen, qr/P parameters +257K +22% +G gradients +257K/, 'and says the bytes');
like($screen, qr/S optimizer state +514K/, 'of the optimizer, too');
my $earlier = ringside('view', $trace, '--print', '--at', 5, '--size', '80x40', '--keys', ':pane memory<Enter>Z')->{out};
unlike($earlier, qr/S optimizer state/, 'at an earlier moment there was none');
done_testing();
