#!/usr/bin/env perl
# The tensor pane and the memory pane: hand-worked numbers at the events that touch them, on all ranks, before and after.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";
binmode Test::More->builder->$_, ':utf8' for qw(output failure_output todo_output);

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);
my (%trace, %events);

sub lesson {
    my ($name, $text) = @_;
    open my $file, '>', "$folder/$name.lua" or die $!;
    print $file qq(local rs = require "ringside"\n$text);
    close $file or die $!;
    $trace{$name} = "$folder/$name.trace";
    is(system("$ringside run --quiet --trace $trace{$name} $folder/$name.lua >$folder/out 2>&1"), 0, "$name runs")
        or diag `cat $folder/out`;
    $events{$name} = [ split /\n/, `$ringside events $trace{$name}` ];
}

# The number of the nth event (from 1; -1 the last) that a pattern matches.
sub event {
    my ($name, $pattern, $nth) = @_;
    my @found = grep { $_ =~ $pattern } @{ $events{$name} };
    my $line = $found[ ($nth // 1) > 0 ? ($nth // 1) - 1 : $nth ] // die "no $pattern in $name";
    return $line =~ /^(\d+)/ ? $1 : die;
}

# The pane alone, as it is on the whole screen.
sub pane {
    my ($name, $pane, $at, $keys, $options) = @_;
    return decode('UTF-8', scalar `$viewer $trace{$name} --print --size 80x24 --at $at --keys ':pane $pane<Enter>Z@{[$keys // '']}' @{[$options // '']}`);
}
sub rest { my $text = shift; $text =~ s/ +$//mg; return $text }

# ---- DDP on two ranks: w = 1, inputs 1 and 3, so gradients 1 and 3, halves 0.5 and 1.5, and 2 on both.
lesson('ddp', <<'LUA');
local nn, dist = rs.nn, rs.distributed
dist.spawn(function(rank)
  local net = nn.Linear(1, 1, { bias = false })
  rs.no_grad(function() net.weight:fill_(1) end)
  local ddp = nn.parallel.DistributedDataParallel(net)
  local optimizer = rs.optim.SGD(ddp:parameters(), { lr = 0.1 })
  ddp(rs.full({ 1, 1 }, 1.0 + 2 * rank)):sum():backward()
  optimizer:step()
end, { world = 2 })
LUA

for my $rank (0, 1) {
    my $own = 1 + 2 * $rank;
    my $frame = pane('ddp', 'Tensor', event('ddp', qr/autograd\.accumulate end r$rank /));
    like($frame, qr/Tensor \S*weight\.grad  float32 \[1, 1\] cpu r$rank/, "rank $rank accumulates into weight.grad");
    like(rest($frame), qr/^ .* x?$own$/m, "which is its own input there, $own");

    my $half = ('0.5000', '1.5000')[$rank];
    $frame = pane('ddp', 'Tensor', event('ddp', qr/c10d\.allreduce begin r$rank .*bytes=4 /, -1));
    like(rest($frame), qr/^ .* x?$half$/m, "the half of rank $rank, $half, goes into the all-reduce");
    $frame = pane('ddp', 'Tensor', event('ddp', qr/c10d\.allreduce end r$rank .*bytes=4 /, -1));
    like($frame, qr/changed by (?:300|33\.3)% since event \d+/, 'what it did to it is said');
}
my $after = pane('ddp', 'Tensor', event('ddp', qr/c10d\.allreduce end .*bytes=4 /, -1));
like($after, qr/r0 #([0-9a-f]{4})  r1 #\1  in sync/, 'after it both ranks have the same hash');
like(rest($after), qr/^\+ +2$/m, 'and the sum, 2, is marked as new');
my $between = pane('ddp', 'Tensor', event('ddp', qr/c10d\.allreduce begin r1 .*bytes=4 /, -1));
like($between, qr/r0 #([0-9a-f]{4})  r1 #(?!\1)[0-9a-f]{4}  they differ/, 'before it they differ');
like($between, qr/^ r0 +r1 *$/m, 'and stand beside each other');
like(rest($between), qr/^ +0\.5000 +x1\.5000$/m, 'with a cross at what differs');
like(pane('ddp', 'Tensor', event('ddp', qr/ddp\.copy_to_bucket end r1 /)), qr/weight\.grad in its bucket/,
    'at a copy into the bucket it is the slot');
like(rest(pane('ddp', 'Tensor', event('ddp', qr/ddp\.copy_bucket_to_grad end r1 /))), qr/weight\.grad .*^\+? .* x?2$/ms,
    'at the copy back the mean');
like(rest(pane('ddp', 'Tensor', event('ddp', qr/optim\.step end r0 /))), qr/parameter = \S*weight.*^\+ +0\.8000 +x1$/ms,
    'at the step of the optimizer the parameter that it moved');
like(rest(pane('ddp', 'Tensor', event('ddp', qr/comm\.hop end r1 .*bytes=4 .*reduce=true/, -1))),
    qr/the message.* 1\.5000$/ms, 'at a hop the numbers of the message');
like(pane('ddp', 'Tensor', event('ddp', qr/ddp\.mark_variable_ready begin r0 /)), qr/of ddp\.autograd_hook around/,
    'where an event names none, those of the stage around it');
for my $kind (qw(module.forward op autograd.node autograd.accumulate comm.hop comm.receive c10d.allreduce
                 c10d.broadcast ddp.autograd_hook ddp.copy_to_bucket ddp.all_reduce_bucket ddp.copy_bucket_to_grad
                 optim.step)) {
    my $frame = pane('ddp', 'Tensor', event('ddp', qr/ \Q$kind\E end /, -1));
    unlike($frame, qr/names no tensor|not recorded/, "$kind has its tensor and its values");
}

# ---- DataParallel: six rows to four devices are three chunks of two.
lesson('scatter', <<'LUA');
rs.lesson { title = "s", devices = 4 }
local nn = rs.nn
local net = nn.Linear(2, 1, { bias = false }):to("device:0")
local x = rs.arange(12, { dtype = "float32" }):reshape(6, 2)
nn.DataParallel(net, { device_ids = { 0, 1, 2, 3 } })(x):sum():backward()
LUA
for my $chunk (0 .. 2) {
    my $frame = rest(pane('scatter', 'Tensor', event('scatter', qr/dp\.scatter\.chunk /, $chunk + 1)));
    my @row = map { 4 * $chunk + $_ } 0 .. 3;
    like($frame, qr/1\/3 chunk leaving  float32 \[2, 2\] cpu/, "chunk $chunk is announced with its shape");
    like($frame, qr/^ +0 +1\n +0 +$row[0] +$row[1]\n +1 +$row[2] +$row[3]$/m, "and holds rows @{[2 * $chunk]} and after");
    like($frame, qr/^ 3 chunk arriving .* no values yet: dev$chunk is behind the host/m,
        'where it arrives nothing is yet: that comes last');
    like($frame, qr/^ 2 cut from  float32 \[6, 2\]  min 0 mean 5\.5 max 11/m, 'and what it was cut from is told');
    my $second = rest(pane('scatter', 'Tensor', event('scatter', qr/dp\.scatter\.chunk /, $chunk + 1), '<Down>'));
    like($second, qr/2\/3 cut from.*^ +0 +0 +1\n.*^ +5 +10 +11$/ms, 'Down chooses another, which then is drawn whole');
    $frame = rest(pane('scatter', 'Tensor', event('scatter', qr/memory\.copy end dev$chunk .*from=-1/, -1)));
    like($frame, qr/^\+? +0 +$row[0] +$row[1]$/m, "the copy to device $chunk brings them there");
}
like(pane('scatter', 'Tensor', event('scatter', qr/dp\.gather end/)), qr/1\/4 result  float32 \[6, 1\] dev0/,
    'gather has its result and its parts');
like(pane('scatter', 'Tensor', event('scatter', qr/dp\.replicate\.copy .*dev1/)), qr/copy.*float32 \[1, 2\] dev1/,
    'a copy of replicate is of its device');

# ---- views, nan, many values
lesson('views', <<'LUA');
local x = rs.zeros({ 4, 3 })
local top, rest = x:narrow(0, 0, 1), x:narrow(0, 2, 2)
top:fill_(7)
rest:add_(1)
local odd = rs.tensor({ 1, 0 / 0, 1 / 0, -2 }) * 1
local wide = rs.arange(3000, { dtype = "float32" }) + 0.5
wide:narrow(0, 100, 3):fill_(8)
local cube = rs.arange(24):reshape(2, 3, 4) + 0
LUA
my $top = rest(pane('views', 'Tensor', event('views', qr/ op end .*op=fill/)));
like($top, qr/float32 \[1, 3\] cpu/, 'a view has its own shape');
like($top, qr/^ +0 +7 +7 +7$|^\+ +7 +7 +7$/m, 'and its own values');
my $shared = rest(pane('views', 'Tensor', event('views', qr/ op end .*op=add/)));
like($shared, qr/\[■+[^|\]]*■+·+ ?free ?·+\|■+[^\]]*■\]|\[■.*free.*■\]/, 'a bar says who shares the storage, and what is free');
like(pane('views', 'Tensor', event('views', qr/ op end .*op=add/), '', '--ascii'), qr/\[#.*free.*#\]/, 'in ASCII too');
my $odd = rest(pane('views', 'Tensor', event('views', qr/ op end .*op=mul/)));
like($odd, qr/min -2 mean -0\.5 max 1 nan 1 inf 1/, 'nan and inf are counted, and are in no mean');
like($odd, qr/ 1 +nan +inf +-2$/m, 'and shown');
my $at = event('views', qr/ op end .*op=mul/);
like(pane('views', 'Tensor', $at, '<Right><Right>'), qr/^ \[1\] = nan *$/m, 'Right goes from value to value');
like(pane('views', 'Tensor', $at, '<Right><Right><Right><Right><Left><Left><Left>'), qr/^ \[0\] = 1 *$/m, 'Left back');
like(pane('views', 'Tensor', $at, '<Enter>'), qr/^\S? ?\S? \d+ memory\.snapshot /m, 'Enter goes to the snapshot that they are from');
like(pane('ddp', 'Tensor', event('ddp', qr/optim\.step end r1 /), '%<Right>'), qr/^ \[0, 0\] = 0\.8\d* *\n.*^\+>-20%/ms,
    '% shows by how much they changed, the cursor all digits');
my $wide = rest(pane('views', 'Tensor', event('views', qr/ op end .*op=add.*bytes=12000/, -1)));
like($wide, qr/float32 \[3000\]/, 'a tensor too large for a snapshot has its shape');
like($wide, qr/kept: first and last 32/, 'it is said what is kept of it');
like($wide, qr/^\+? *0 +0\.5000 +1\.5000 +2\.5000.*^ *…/ms, 'its first values');
like($wide, qr/ 2998\.50? +2999\.50?$/m, 'and its last');
like(rest(pane('views', 'Tensor', event('views', qr/ op end .*op=fill/, -1))), qr/float32 \[3\] cpu .*^\+? +0 +8 +8 +8$/ms,
    'of a write to a part of it the part');
my $cube = rest(pane('views', 'Tensor', event('views', qr/ op end .*op=add.*bytes=192/, -1)));
like($cube, qr/^ \[0, :, :\]\n +0 +0 +1 +2 +3\n +1 +4/m, 'three dimensions are slices');
like($cube, qr/^ \[1, :, :\]\n +0 +12 +13 +14 +15\n/m, 'one below the other');

# ---- what was not recorded is said
is(system("$ringside run --quiet --executor free --trace $folder/free.trace $folder/views.lua >/dev/null 2>&1"), 0, 'a free run');
$trace{free} = "$folder/free.trace";
$events{free} = [ split /\n/, `$ringside events $trace{free}` ];
like(pane('free', 'Tensor', event('free', qr/ op end /)), qr/not recorded/, 'of a free run values are not recorded, and it says so');

# ---- memory
my $memory = pane('ddp', 'Memory', event('ddp', qr/optim\.step end r0 /));
like($memory, qr/^ cpu +\d+ B peak +\d+ B +\S*[▁▂▃▄▅▆▇█]/m, 'memory over time is a strip');
like($memory, qr/▲ peak|peak ▲/, 'with its peak marked');
like($memory, qr/P parameters +8 +\d+%/, 'a table by what it is for: two parameters of 4 bytes');
like($memory, qr/U buckets +8 /, 'buckets among them');
like($memory, qr/weight +line \d+ +event \d+/, 'and blocks with names and lines');
like(pane('ddp', 'Memory', event('ddp', qr/optim\.step end r0 /), '<Enter>'), qr/memory\.alloc/, 'Enter goes to where a block was taken');
like(pane('scatter', 'Memory', event('scatter', qr/dp\.gather end/)), qr/^ dev0 .*reserved/ms, 'of a device what its cache holds');
unlike(pane('ddp', 'Memory', event('ddp', qr/optim\.step end r0 /), '', '--ascii'), qr/[^\n\x20-\x7e]/, 'in ASCII too');

# ---- the same in lines
sub batch {
    my ($lesson, @lines) = @_;
    my $script = join '; ', @lines;
    return scalar `$ringside step --batch '$script' $folder/$lesson.lua 2>&1`;
}
my $said = batch('ddp', 'continue', 'info tensor module.weight.grad', 'info memory');
like($said, qr/^gradient = module\.weight\.grad: float32 \[1, 1\], cpu, rank \d, storage \d+ \@0, version \d+$/m, 'info tensor NAME');
like($said, qr/^  as of event \d+: min 2 mean 2 max 2, nan 0, inf 0, hash [0-9a-f]{4}\n  2 $/m, 'its numbers');
like($said, qr/^  rank 0 hash ([0-9a-f]{4}), rank 1 hash \1: in sync$/m, 'and ranks');
like(batch('ddp', 'until optim.step', 'info tensor'), qr/^parameter = \S*weight: float32/m, 'info tensor: those of the event');
like(batch('ddp', 'info tensor nobody'), qr/no event until here named a tensor nobody$/m, 'a name that nobody has');
like(batch('ddp', 'until optim.step', 'info memory'), qr/^cpu block of 4 B: storage \d+ \S*weight\S*, line \d+, event \d+$/m,
    'info memory: the largest blocks');

# ---- every size
for my $size ('1x1', '20x3', '40x10', '80x24', '120x40', '200x60') {
    my ($width, $height) = split /x/, $size;
    for my $pane (qw(Tensor Memory)) {
        my $text = decode('UTF-8', scalar `$viewer $trace{scatter} --print --size $size --at 60 --keys ':pane $pane<Enter>Z'`);
        is((grep { length > $width } split /\n/, $text), 0, "$pane fits $size");
    }
}

# ---- facts that are too long ----
lesson('long', <<'LUA');
local nn = rs.nn
rs.manual_seed(1)
nn.Linear(64, 32)(rs.randn(4, 64))
LUA
my $narrow = decode('UTF-8', scalar `$viewer $trace{long} --print --size 80x24 --at @{[event('long', qr/ op begin .*addmm/)]} --keys ':pane Tensor<Enter>'`);
like($narrow, qr/2 input 1  float32 \[4, 64\]  min -[\d.]+ mean …$/m, 'too long, facts go from the end, and no number is cut in two');
done_testing();
