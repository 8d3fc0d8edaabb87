#!/usr/bin/env perl
# What a student met who saw the screen for the first time: what was done again and again, what said less than it knew.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";
binmode Test::More->builder->$_, ":encoding(UTF-8)" for qw(output failure_output todo_output);

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);

# A lesson's record, by a name of its own; answers the file.
sub record {
    my ($name, $lesson) = @_;
    my $trace = "$folder/$name.trace";
    ($lesson) = glob "lessons/$lesson-*.lua" if $lesson =~ /^\d+$/;
    if ($lesson =~ /\n/) {
        open my $file, '>', "$folder/$name.lua" or die "no lesson: $!";
        print $file $lesson;
        close $file or die $!;
        $lesson = "$folder/$name.lua";
    }
    system("$ringside run --quiet --trace $trace $lesson >/dev/null 2>&1");
    ok(-s $trace, "$name has a record");
    return $trace;
}

sub frame {
    my ($trace, $size, $at, $keys, @more) = @_;
    open my $in, '-|', $viewer, $trace, '--print', '--size', $size, '--at', $at, '--keys', $keys, @more or die "$viewer: $!";
    local $/;
    return decode('UTF-8', <$in> // '');
}
sub row { return (split /\n/, $_[0], -1)[$_[1]] }
sub step { return frame(@_) =~ /step (\d+)\// ? $1 : 'none' }
sub events { my ($trace, $what) = @_; return map { /^(\d+) / ? $1 : () } `$ringside events $trace '$what'` }

# What a live run says to lines that are typed, a paragraph each.
sub told {
    my ($lesson, @lines) = @_;
    open my $typed, '>', "$folder/typed" or die $!;
    print $typed map { "$_\n" } @lines;
    close $typed or die $!;
    my ($first, @told) = split /\n\n/, decode('UTF-8', scalar `$ringside step --plain $lesson <$folder/typed 2>&1`);
    return @told;
}

# ---- u and / ----
my $rings = record('rings', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "Rings", seed = 3 }
rs.distributed.spawn(function(rank)
  local t = rs.ones(4) * (rank + 1)
  for i = 1, 3 do rs.distributed.all_reduce(t) end
end, { world = 2 })
rs.say "over"
END_LESSON
my @hops = events($rings, 'comm.hop');
is(step($rings, '80x24', 0, 'ucomm.hop<Enter>u<Enter>u<Enter>'), $hops[2], 'u Enter runs to the same again');
is(step($rings, '80x24', $hops[5], 'ucomm.hop<Enter>U<Enter>'), $hops[5], 'U Enter too, backwards');
is(step($rings, '80x24', 0, ':until comm.hop<Enter>u<Enter>'), $hops[1], 'also when it was typed as a line');
like(row(frame($rings, '80x24', 0, 'ucomm.hop<Enter>u'), 22), qr/^ until +Enter: comm\.hop/, 'and says before what Enter will do');
like(row(frame($rings, '80x24', 0, 'u<Enter>'), 22), qr/until needs EXPR/, 'with nothing to repeat it asks for something');
is(step($rings, '80x24', 0, '/comm.hop<Enter>/<Enter>'), $hops[1], '/ Enter looks for the same again');
is(step($rings, '80x24', $hops[-1], '/comm.hop<Enter>'), $hops[0], 'behind the last match comes the first');
like(row(frame($rings, '120x24', $hops[-1], '/comm.hop<Enter>'), 22), qr{^ /comm\.hop  1/\d+ .*from the start again}, 'and that is said');
is(step($rings, '80x24', $hops[0], '/comm.hop<Enter><<'), $hops[-1], 'before the first the last');
like(row(frame($rings, '120x24', $hops[0], '/comm.hop<Enter><<'), 22), qr/from the end again/, 'and that is said');
like(row(frame($rings, '120x24', 0, '/over<Enter>n'), 22), qr{^ /over  1/1  only this one}, 'where there is one alone one stays at it');
my @live = told("$folder/rings.lua", 'search comm.hop', 'search allred', 'search lesson', 'until comm.hop', 'search comm.hop');
like($live[0], qr{^/comm\.hop  not yet in what has run: u runs to it$}, 'what has not run yet is told as that');
like($live[1], qr{^/allred  not yet in what has run: u runs to it$}, 'also a part of a name');
like($live[2], qr{^/lesson  1/1 .*; the next one is not yet in what has run: u runs to it$}, 'behind the last that has run the next one is');
like($live[4], qr{^/comm\.hop  1/1 .*the next one is not yet}, 'once it has run it is found');
unlike(join("\n", told("$folder/rings.lua", 'continue', 'search lessonn')), qr/not yet in what/, 'of a run that is over nothing comes');

# ---- buckets ----
my $ddp = record('ddp', 15);
sub buckets { my ($at) = @_; return frame($ddp, '100x30', $at, ':reveal all<Enter>:pane buckets<Enter><Esc>') }
my ($stands) = events($ddp, 'ddp.bucket and rank 0');
like(buckets($stands), qr/a\.weight a\.bias\s.*b\.weight b\.bias/s, 'parameters have their names before the first gradient came');
my @marked = events($ddp, 'ddp.mark_variable_ready and rank 0');
like(buckets($marked[0]), qr{□■□□ 1/4}, 'a box is full where its gradient is marked ready');
my ($full) = events($ddp, 'ddp.mark_bucket_ready and rank 0');
like(buckets($full), qr{■■■■ ready}, 'where a bucket is said to be full all its boxes are');

# ---- the lesson's pane has words ----
my ($begins) = events($ddp, 'autograd.backward and rank 1');
for my $size ('40x10', '80x24', '120x40', '200x60') {
    my $frame = frame($ddp, $size, $begins, ':reveal all<Enter>:pane lesson<Enter>Z');
    like($frame, qr/Iteration 0, backward/, "$size: the Lesson pane has the lesson's words");
    unlike($frame, qr/loss:backward|rs\.say\(|^ *►? *\d+ .*\(.*\)\s*$/m, "$size: and no line of its text");
}

# ---- the event's pane has the room ----
my $four = record('four', 11);
my $hop  = (events($four, 'comm.hop and rank 2'))[1];
for my $size ('80x24', '100x30', '120x40', '120x50', '160x50', '200x60') {
    my $frame = frame($four, $size, $hop, ':reveal all<Enter>');
    like($frame, qr/allreduce #0 ring +step \d\/6 .*\d+\/192 B/, "$size: a hop's pane is the ring, its heading whole");
    like($frame, qr/ r$_ c0[▓░]{4} c1[▓░]{4} c2[▓░]{4} c3[▓░]{4}/, "$size: and rank $_\'s chunks") for 0 .. 3;
    like(frame($ddp, $size, $full, ':reveal all<Enter>'), qr/■■■■ ready +2\.0 MB.*\n?.*a\.weight.* b\.bias/, "$size: a bucket's is its buckets");
}
like(frame($ddp, '120x40', $marked[0], ':reveal all<Enter>:pane tensor<Enter>'), qr/Ring ─+┬► Tensor .*\n.*│ Tensor \S+ +float32 \[512\] cpu r0 /,
    'so has one that was chosen');

# ---- faults ----
my $wrong = record('wrong', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "Wrong", seed = 3 }
local function train()
  rs.distributed.spawn(function(rank)
    if rank == 0 then rs.distributed.barrier() else rs.distributed.all_reduce(rs.ones(4)) end
  end, { world = 3 })
end
rs.say(pcall(train) and "went well" or "was caught")
rs.say "again"
train()
END_LESSON
my @errors = events($wrong, 'fault.error');
my ($caught) = events($wrong, 'lesson.say');
my ($first_of, $last_of) = (grep { $_ < $caught } @errors)[0, -1];
my ($mismatch) = events($wrong, 'fault.mismatch');
cmp_ok($mismatch, '<', $first_of, 'a fault is found, then raised');
for my $size ('80x24', '120x40', '200x60') {
    like(frame($wrong, $size, $last_of, ''), qr/ MISMATCH .*? on    main, r0-r2/s, "$size: who has raised it is told in a line");
    unlike(frame($wrong, $size, $caught, ''), qr/ Fault /, "$size: once it was caught there is no Fault pane");
    like(frame($wrong, $size, $errors[-1] + 1, ''), qr/ Fault /, "$size: one that nobody caught stays");
    my $words = frame($wrong, $size, $last_of, ':pane lesson<Enter>Z');
    is(() = $words =~ /× fault\./g, 1, "$size: the Lesson pane tells it once");
    like($words, qr/× fault\.mismatch on main, r0-r2: /, "$size: with who raised it");
}
like(frame($wrong, '80x24', $last_of, ':layout teach<Enter>'), qr/Lesson ─.*× fault\.mismatch on main, r0-r2.* MISMATCH /s, 'on a projector, too');
my $whole = frame($wrong, '100x50', $mismatch, '');
is(() = $whole =~ /cause:|^ why /gm, 1, 'and why it happened is told once');
like(frame($wrong, '80x24', $caught, ':pane fault<Enter>'), qr/what went wrong was caught; E goes back to it/, 'who asks for the pane then is told so');
like(frame($wrong, '80x24', $caught, 'E'), qr/MISMATCH/, 'and E does');

# ---- what a device has yet to do ----
my $device = record('device', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "Behind", devices = 1, seed = 1 }
local x = rs.ones({ 4, 4 }, { device = "device:0" })
local y = x:matmul(x)
rs.say "over"
END_LESSON
my ($issued) = events($device, 'op and phase = end');
for my $size ('80x24', '120x40', '200x60') {
    my $frame = frame($device, $size, $issued, ':pane tensor<Enter>') =~ s/[^\w:\n ]+/ /gr =~ s/\s+/ /gr;
    like($frame, qr/no values yet: dev0 is behind the host: .*it .*comes .*when .*its .*kernel .*ends/, "$size: why a device's tensor has no values yet");
}

# ---- the event's line ----
my (%kinds, @odd);
for (`$ringside events $ddp`) {
    my ($seq, $kind, $arguments) = /^(\d+) (\S+) (.*?)(?: \S+:\d+)?$/ or next;
    next if $kinds{$kind}++ || $kind eq 'lesson.ask';
    my $whole = row(frame($ddp, '80x24', $seq, ':reveal all<Enter>'), 21);
    my $line  = $whole =~ s/ +next: .*//r;
    push @odd, "$seq: $_ is not in '$line'" for grep { index($line, $_) < 0 } $arguments =~ / (\w+=(?!")\S{1,6})/g;
    push @odd, "$seq: a place before arguments: '$line'" if $line =~ /\x{2026}/ && $line =~ /\w\.c:\d/;
}
cmp_ok(keys %kinds, '>', 30, 'events of many kinds have a line');
is("@odd", '', 'file and line go first where it is too long, arguments never');
like(row(frame($ddp, '120x24', $marked[0], ':reveal all<Enter>'), 21), qr/ 740\S+ us param=1 .*name=a\.bias reducer\.c:\d+/, 'where there is room the place stays');

# ---- a check that fails because somebody changed the run ----
record('changed', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "Changed", seed = 1 }
local t = rs.ones(3)
rs.say "begin"
rs.close("the sum is three", t:sum():item(), 3)
rs.close("the sum is four", t:sum():item(), 4)
rs.say "over"
END_LESSON
# How a line of a frame begins in colours.
sub colours {
    my ($name, $line) = @_;
    open my $in, '<:utf8', "$folder/$name.ansi" or return "no $name";
    my ($row) = grep { /$line/ } <$in>;
    return ($row // '') =~ /((?:\e\[[\d;]*m)+)\s*$line/ ? $1 : 'none';
}
my @change = ('until lesson.say', 'set t[0] 5', 'until lesson.check', 'look lesson', "frame $folder/edited.ansi 120x40", 'look hints');
my @edited = told("$folder/changed.lua", @change);
like($edited[3], qr/^ *not ok in the changed run: the sum is three\n +got 7\.0, expected 3\n +The lesson's numbers are for the unchanged run\. You changed this one at event 3: set t\[0\] 5\.$/m,
    'after :set a check that fails says that the run was changed');
like($edited[5], qr/the run was changed/, 'so do the hints');
my @plain = told("$folder/changed.lua", 'until lesson.end', "frame $folder/plain.ansi 120x40", 'look lesson');
like($plain[2], qr/^ *NOT OK the sum is four$/m, 'without a change it fails');
my ($failure, $changed) = (colours('plain', 'NOT OK'), colours('edited', 'not ok in the changed run'));
isnt($failure, 'none', 'which has a colour');
isnt($changed, $failure, 'and the other one another');
like((told("$folder/changed.lua", 'until lesson.check', 'set t[0] 5', 'look lesson'))[2], qr/^ *ok the sum is three$/m, 'what came before the change is as it was');
like((told("$folder/changed.lua", @change[0 .. 2], 'back 5', 'until lesson.check', 'look lesson'))[5], qr/^ *ok the sum is three$/m, 'back before the change, it is the unchanged run again');
unlike((told("$folder/changed.lua", @change[0 .. 2], 'rcontinue', 'until text = "the sum is four"', 'look lesson'))[5], qr/changed run/, 'whose failures are its own');
record('held', <<'END_LESSON');
local rs = require "ringside"
rs.lesson { title = "Held", seed = 1 }
rs.distributed.spawn(function(rank) rs.distributed.all_reduce(rs.ones(4)) end, { world = 2 })
rs.check("it is early", false)
END_LESSON
for my $change ('delay 1 300', 'switch 1') {
    my @held = told("$folder/held.lua", 'until comm.hop', $change, 'until lesson.check', 'look lesson');
    like($held[3] // "@held", qr/You changed this one at event \d+: $change\./, "$change changes it, too");
}

# ---- the first page of ? ----
my $page = frame($ddp, '80x24', 0, '?');
like($page, qr/^  n +\S.*^  Enter +\S.*^  a b c +\S.*^  s +\S.*^  u +\S.*^  q +\S/ms, 'the first page of ? has six keys');
like($page, qr/$_/, "and what stands on the screen: $_") for 'F forward', 'B backward', 'C communication', '╌', '×', '■ .*□ .*○', '▓ .*░', 'colours';
unlike($page, qr/rfinish|perfetto|unbind/, 'and no more');
like(frame($ddp, '80x24', 0, '??'), qr/rnext/, 'all others are one key further');

# ---- in words ----
sub words {
    my ($trace, $at, @lines) = @_;
    open my $typed, '>', "$folder/typed" or die $!;
    print $typed map { "$_\n" } @lines;
    close $typed or die $!;
    return split /\n\n/, decode('UTF-8', scalar `$viewer $trace --plain --at $at <$folder/typed 2>&1`);
}
open my $panes, '<', 'trace_viewer/panes.def' or die $!;
my @panes = map { /^PANE\( \w+, +(\w+)/ ? $1 : () } <$panes>;
my %named = (deadlock => 'fault', stats => 'statistics');
cmp_ok(scalar @panes, '>', 15, 'there are many panes');
my ($back) = reverse events($ddp, 'autograd.node and rank 0');
my ($step) = events($ddp, 'optim.step and phase = end');
for my $at ($full, $back, $step, (events($ddp, 'comm.hop'))[5]) {
    for my $pane (map { $named{$_} // $_ } @panes) {
        my (undef, $told) = words($ddp, $at, "look $pane");
        $told //= '';
        like($told, qr/\A\w+:\n.*\w{2}/s, "event $at: the pane $pane has words");
        unlike($told, qr/([^\s\d])\1{4}/, "event $at: and no bars") unless $pane =~ /source/;
        unlike($told, qr/\n\s*\n\s*\n/, "event $at: nor an empty page");
    }
    my ($moved) = (words($ddp, $at, 's'))[1];
    unlike($moved, qr/^changed: .*([^\s\d])\1{4}/m, "event $at: what a step changed is told without bars");
}
my ($told_full) = (words($ddp, $full, 'look buckets'))[1];
like($told_full, qr/bucket 0: ready, 4 of 4 gradients ready, 2101248 B: a\.weight a\.bias b\.weight b\.bias/, 'a bucket in words');
like((words($ddp, $full, 'look memory'))[1], qr/cpu +\S+ MiB peak.*P parameters +\S+ +\d+%/s, 'memory in words');

done_testing;
