#!/usr/bin/perl
# The ring, graph and buckets panes on lessons, as frames of --print and as lines of info; numbers worked out by hand.
use strict;
use warnings;
use utf8;
use Encode 'decode';
use File::Temp 'tempdir';
use FindBin;
use Test::More;

binmode Test::More->builder->$_, ':utf8' for qw(output failure_output);
my $out    = $ENV{RINGSIDE_OUT} // 'build/release';
my $folder = tempdir(CLEANUP => 1);
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
delete $ENV{NO_COLOR};

sub lesson { my ($file) = glob "$FindBin::Bin/../../lessons/$_[0]-*.lua"; return $file }

sub trace_of {
    my ($name, $file) = @_;
    system "$ringside run --quiet --trace $folder/$name $file >/dev/null 2>&1";
    return "$folder/$name";
}

sub events {
    my ($trace, $pattern) = @_;
    return map { /^(\d+) / ? $1 : () } grep { /$pattern/ } split /\n/, decode('UTF-8', scalar `$ringside events $trace`);
}

# The rows of the pane that follows, at 80x24.
sub pane {
    my ($trace, $at, $more) = @_;
    my @rows = split /\n/, decode('UTF-8', scalar `$viewer $trace --print --at $at @{[$more // '']}`);
    my ($top) = grep { $rows[$_] =~ /^\W Lesson / } 0 .. $#rows;
    return map { s/^.{31}//r } @rows[$top .. $#rows - 3];
}

sub info {
    my ($file, $what, @at) = @_;
    my $batch = join '; ', map { ("goto $_", "info $what") } @at;
    return decode('UTF-8', scalar `$ringside step --batch '$batch' $file 2>&1`);
}

# ---- the ring of lesson 11: rank r holds 10 r + i, four chunks of two ----

my $eleven = lesson('11');
my $ring   = trace_of('ring', $eleven);
my @hops   = events($ring, qr/ comm\.hop begin/);

# Chunk c of rank r at the beginning: 10 r + 2 c, 10 r + 2 c + 1. In step s rank r sends chunk r - s; what it sends is
# the sum of ranks r - s to r while chunks are added up, and of all when they are handed on.
for my $n (0 .. 23) {
    my $line = info($eleven, 'ring', $hops[$n]);
    my ($step, $rank) = (int($n / 4), $n % 4);
    my $chunk = ($rank - $step) % 4;
    my @parts = $step < 3 ? map { ($rank - $_) % 4 } 0 .. $step : 0 .. 3;
    my ($first, $second) = (0, 0);
    for my $part (@parts) { $first += 10 * $part + 2 * $chunk; $second += 10 * $part + 2 * $chunk + 1 }
    my ($to, $what, $sum) = (($rank + 1) % 4, $step < 3 ? 'added' : 'copied', scalar @parts);
    like($line, qr/^r$rank sends c$chunk to r$to, 8 B, sum of $sum, to be $what: $first $second$/m,
         "hop $n: r$rank sends c$chunk, $first $second") or diag($line);
    like($line, qr{^allreduce #0 ring, step @{[$step + 1]}/6 }, "hop $n: step @{[$step + 1]} of 6");
}

my ($last) = events($ring, qr/ c10d\.allreduce end r3 .*world=4/);
my $over   = info($eleven, 'ring', $last);
like($over, qr{^allreduce #0 ring, done, 192/192 B moved}, 'at the end all bytes have moved');
is(() = $over =~ /^r\d (?:is through|has all): c0 4\/4, c1 4\/4, c2 4\/4, c3 4\/4/mg, 4, 'and all chunks are full on all ranks');

my @rows = pane($ring, $hops[4]);
like($rows[0], qr/ Ring /, 'at a hop the pane shows the ring');
like($rows[1], qr{^ allreduce \#0 ring +step 2/6 adds  \d+/192 B$}, 'which one, how far, bytes of all') or diag("@rows");
like($rows[2], qr/^ r0 ─c3─► r1  sum of 2, to be added: 42 44$/, 'the message and its numbers');
like($rows[3], qr/^ r0 ─c3─► r1   r0 c0▓░░░ c1▓░░░ c2▓░░░ c3▓▓░░$/, 'a loop, and each chunk a bar');
like($rows[5], qr/^ r3 /, 'the way back below it');
is(scalar(grep { /^\S/ } @rows[1 .. 6]), 0, 'nothing stands in the margin');

@rows = pane($ring, $hops[4], '--ascii');
like($rows[3], qr/^ r0 -c3-> r1   r0 c0=\.\.\. c1=\.\.\. c2=\.\.\. c3==\.\.$/, 'the same without UTF-8');

my @eight = grep { $_ > $last } events($ring, qr/ comm\.hop begin/);
@rows = pane($ring, $eight[20]);
is((grep { /r\d / } @rows[3 .. 6]) + 0, 4, 'eight ranks: a flat loop, and two rows of chunks');
like(join("\n", @rows), qr/r0 .*r1 .*r2 .*r3.*\n.*r7 .*r6 .*r5 .*r4/, 'in a circle');
for my $size ('40x10', '120x40', '200x60') {
    is(system("$viewer $ring --print --at $hops[4] --size $size >/dev/null"), 0, "$size has a frame");
}

# ---- where there is none: the next, the last ----

my (undef, $before) = split /^(?=next)/m, info($eleven, 'ring', $last, 5);
like($before, qr/^next: allreduce #0, nobody has begun/, 'before it: the next one is named');
my $ended = info($eleven, 'ring', $last + 2);
like($ended, qr/^last: allreduce #0 ring, done/, 'behind it: the last one');

# ---- trees and others, and what is not an all-reduce ----

sub written {
    my ($name, $world, $body) = @_;
    open my $file, '>', "$folder/$name.lua" or die $!;
    print $file qq(local rs = require "ringside"\nlocal dist = rs.distributed\n),
        qq(rs.lesson { title = "$name", world = $world, costs = { host = 0, kernel = 0 } }\ndist.spawn(function(rank)\n$body\nend)\n);
    close $file;
    return "$folder/$name.lua";
}

my %calls = (
    broadcast      => 'dist.broadcast(rs.full({ 4 }, rank + 1.0), 1)',
    allgather      => 'local o = {}; for i = 1, 4 do o[i] = rs.zeros { 2 } end; dist.all_gather(o, rs.full({ 2 }, rank + 1.0))',
    reduce         => 'dist.reduce(rs.full({ 8 }, rank + 1.0), 2)',
    gather         => 'local o; if rank == 0 then o = {}; for i = 1, 4 do o[i] = rs.zeros { 2 } end end; dist.gather(rs.full({ 2 }, rank + 1.0), o, 0)',
    scatter        => 'local i; if rank == 0 then i = {}; for k = 1, 4 do i[k] = rs.full({ 2 }, k + 0.0) end end; dist.scatter(rs.zeros { 2 }, i, 0)',
    reduce_scatter => 'local i = {}; for k = 1, 4 do i[k] = rs.full({ 8 }, rank + 1.0) end; dist.reduce_scatter(rs.zeros { 8 }, i)',
    alltoall       => 'local i, o = {}, {}; for k = 1, 4 do i[k] = rs.full({ 2 }, rank + 0.0); o[k] = rs.zeros { 2 } end; dist.all_to_all(o, i)',
    barrier        => 'dist.barrier()',
);
for my $kind (sort keys %calls) {
    my $file  = written($kind, 4, $calls{$kind});
    my $trace = trace_of($kind, $file);
    my @ends  = events($trace, qr/ c10d\.$kind end/);
    is(scalar @ends, 4, "$kind: four ranks");
    my $text = info($file, 'ring', $ends[-1] // 0);
    like($text, qr/^$kind #0(?: ring)?, done/, "$kind is followed to its end") or diag($text);
    is(() = $text =~ /^r\d is through/mg, 4, "$kind: all are through");
    my %full = (broadcast => 'c0 1/1', allgather => 'c0 1/1, c1 1/1, c2 1/1, c3 1/1', alltoall => 'c0 1/1, c1 1/1, c2 1/1, c3 1/1');
    is(() = $text =~ /: \Q$full{$kind}\E/g, 4, "$kind: everybody has all") if $full{$kind};
    like($text, qr{^r2 .*: c0 4/4, c1 4/4, c2 4/4, c3 4/4}m, 'reduce: the root has all sums') if $kind eq 'reduce';
    like($text, qr{^r$_ .*: (?:c\d \d/4, ){0,3}?c$_ 4/4}m, "reduce_scatter: r$_ has its own") for $kind eq 'reduce_scatter' ? 0 .. 3 : ();
    like($text, qr{^r0 .*: c0 1/1, c1 1/1, c2 1/1, c3 1/1}m, 'gather: the root has all') if $kind eq 'gather';
    like($text, qr{^r$_ .*\bc$_ 1/1}m, "scatter: r$_ has its own") for $kind eq 'scatter' ? 0 .. 3 : ();
}

my $p2p = written('p2p', 2, 'local t = rs.full({ 2 }, rank + 1.0); if rank == 0 then dist.send(t, 1) else dist.recv(t, 0) end');
my ($sent) = events(trace_of('p2p', $p2p), qr/ comm\.hop begin/);
like(info($p2p, 'ring', $sent), qr/^r0 sends to r1, 8 B, under way: 1 1$/m, 'send and recv: the message and its numbers');

# ---- a script's own algorithm ----

my $own = lesson('29');
my ($message) = events(trace_of('own', $own), qr/ comm\.hop begin/);
like(info($own, 'ring', $message), qr/^allreduce #0 .+\n(?:r\d .*\n)+r1 sends to r0, 32 B, under way: /, 'lesson 29: its messages');

# ---- buckets ----

my $fourteen = lesson('14');
my $buckets  = trace_of('buckets', $fourteen);
my @ready    = events($buckets, qr/ ddp\.mark_variable_ready end r1/);
@rows = pane($buckets, $ready[4]);
like($rows[0], qr/ Buckets /, 'at a bucket event the pane shows the buckets');
like($rows[1], qr/^ r1, in sending order +next to send: 0$/, 'whose, and which goes next');
like($rows[2], qr{^  0 □□□■■■■■ 5/8 +4\.0 MB}, 'a square for each gradient, and the bytes');
like(join(' ', @rows), qr/fc4\.weight fc4\.bias/, 'and their names');
like(join(' ', @rows), qr/r0(?: b0 \d left|-r1 b0 3 left)/, 'where the other rank stands');
my ($rebuilt) = events($buckets, qr/ ddp\.rebuild_buckets end r1/);
like(info($fourteen, 'buckets', $rebuilt), qr/^rank 1 bucket 1: .*, rebuilt$/m, 'rebuilt buckets are said to be');
my ($copied) = events($buckets, qr/ ddp\.copy_bucket_to_grad end r0/);
like(info($fourteen, 'buckets', $copied), qr/reduced, copied back to 1/, 'what was reduced is copied back');

my $unused = lesson('16');
my ($marked) = events(trace_of('unused', $unused), qr/ ddp\.mark_unused end r0/);
like(info($unused, 'buckets', $marked), qr/4\/6 ready \(4 unused\)/, 'gradients that nobody used are told apart');
@rows = pane("$folder/unused", $marked);
like($rows[2], qr{^  0 □□○○○○ 4/6}, 'and have another sign');

# ---- the graph ----

my $three = lesson('03');
my $graph = trace_of('graph', $three);
my ($told) = events($graph, qr/ autograd\.node begin .*node=MulBackward0/);
like(info($three, 'graph', $told), qr/^backward  0\/5 ran\nMulBackward0: runs now$/m, 'the walk begins at the loss');
my $text = info($fourteen, 'graph', (events($buckets, qr/ ddp\.mark_variable_ready end r0/))[2]);
like($text, qr/^AddmmBackward0: ran as number 6$/m, 'what ran has its number');
like($text, qr/^  AccumulateGrad module\.fc4\.bias: ran as number 3; hooks: DDP, bucket 0 lacks 7$/m, 'and the hooks that fired');
like($text, qr/: waits for 1 gradient$/m, 'what waits, for how many');
@rows = pane($buckets, (events($buckets, qr/ autograd\.accumulate begin r0/))[0]);
like($rows[0], qr/ Graph /, 'at a node the pane shows the graph');
like($rows[1], qr{^ backward r0  2/17 ran, 2 ready$}, 'how many ran, how many are ready');
like($rows[4], qr/^ ►   grad of module\.fc4\.bias/, 'the one that runs');
like($rows[5], qr/^ •   TBackward0$/, 'the one that is ready');
@rows = split /\n/, decode('UTF-8', scalar `$viewer $buckets --print --at $told --keys ':pane graph<Enter>'`);
ok(scalar @rows, 'the pane can be asked for by name');


# Retained and second, wanted inputs alone, two roots; a backward inside of a backward.
open my $file, '>', "$folder/graphs.lua" or die $!;
print $file <<'END';
local rs = require "ringside"
rs.lesson { title = "graphs" }
local w = rs.full({ 2 }, 2.0):requires_grad_()
local v = rs.full({ 2 }, 3.0):requires_grad_()
local y = (w * v):sum()
y:backward(nil, { retain_graph = true })
y:backward()
rs.autograd.grad(((w * w) * v):sum(), { w })
rs.autograd.backward({ (w * 2):sum(), (v * 3):sum() })
END
close $file;
my @ends = events(trace_of('graphs', "$folder/graphs.lua"), qr/ autograd\.backward end/);
is(scalar @ends, 4, 'four backwards');
my @told = split /^(?=backward)/m, info("$folder/graphs.lua", 'graph', @ends);
my $all = "SumBackward0: ran as number 1\nMulBackward0: ran as number 2\n" .
    "  AccumulateGrad: ran as number 3\n  AccumulateGrad: ran as number 4\n";
is($told[$_], "backward  4/4 ran\n$all", 'a retained graph is walked as often as it runs') for 0, 1;
is(() = $told[2] =~ /^  AccumulateGrad: will not run$/mg, 2, 'what leads to nothing wanted will not run');
is(() = $told[3] =~ /^\s*SumBackward0: ran as number [14]$/mg, 2, 'two roots');
my $inner = lesson('33');
my $saved = trace_of('inner', $inner);
my @begun = grep { /^\d/ } events($saved, qr/ autograd\.backward begin r0/);
my ($within) = grep { $_ > $begun[2] } events($saved, qr/ autograd\.node end r0 .*node=TBackward0/);
like(info($inner, 'graph', $within), qr/^backward r0  3\/4 ran, 1 ready\nMmBackward0: ran as number 1$/m,
     'inside of a checkpoint it is the inner backward');

done_testing();
