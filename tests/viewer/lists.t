#!/usr/bin/env perl
# Panes that list: tasks with the wait-for graph, events around the cursor, statistics, stores and groups.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output);
my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);

sub record {
    my ($name, $words) = @_;
    system("$ringside run --quiet --trace $folder/$name.trace $words >/dev/null 2>&1");
    ok(-s "$folder/$name.trace", "$name: a record");
}
record('alone', 'tests/viewer/causes/validates_alone.lua -- 8 3');
record('order', 'tests/viewer/causes/other_order.lua -- 2 1');
record('many',  'tests/viewer/causes/fewer_batches.lua -- 16 6');

sub frame {
    my ($name, $at, $keys, $size) = @_;
    $size ||= '100x40';
    return decode('UTF-8', scalar `$viewer $folder/$name.trace --print --size $size --at $at --keys '$keys'`);
}
sub first {
    my ($name, $what) = @_;
    return (`$ringside events $folder/$name.trace '$what'` =~ /^(\d+)/)[0];
}

# ---- tasks ----
my $fault = first('alone', 'fault.mismatch');
my $tasks = frame('alone', $fault, ':pane Tasks<Enter>Z');
like($tasks, qr/^.r0 main +waits +barrier #7 ──► r3-r6  since \d/m, 'a task: what it waits for, for whom, since when');
like($tasks, qr/^.r4 main +waits +all_reduce #6/m, 'one whose call is under way');
like(frame('order', first('order', 'fault.mismatch'), ':pane Tasks<Enter>Z'), qr/r0 main +waits +all_reduce #0 ──► r1/, 'of two ranks');
my $many = frame('many', first('many', 'fault.deadlock'), ':pane Tasks<Enter>Z');
like($many, qr/^.r6 +returned after +all_reduce #7/m, 'many ranks are folded: who is gone');
like($many, qr/^.r\d+(?:-r\d+|, r\d+)+ .*all_reduce #\d/m, 'and those that stand alike');
cmp_ok(scalar(() = $many =~ /^.r\d/mg), '<', 12, 'in fewer lines than there are ranks');
like(frame('alone', $fault, ':pane Tasks<Enter><Enter>'), qr/c10d\.wait begin r0/, 'a line leads to its event');

# ---- events ----
my $issue = first('alone', 'c10d.issue and rank 3');
like(frame('alone', $issue, ':events<Enter>Z'), qr/^[●►]\s+$issue .* r3 .*issue  c10d\.issue/m, 'the list of events has the cursor marked') ;
like(frame('alone', $issue, ':events<Enter>j<Enter>'), qr/step (?!$issue\/)\d+\//, 'Enter goes to the chosen one');
is(frame('alone', $issue, ':events<Enter>jjkk<Enter>'), frame('alone', $issue, ':events<Enter><Enter>'), 'down and up come back');
unlike(frame('alone', $issue, ':events<Enter>Z'), qr/  memory\.(?:role|alloc)/, 'what step passes over is not in it');
like(frame('alone', $issue, ':events<Enter>AZ'), qr/  memory\.(?:role|alloc)/, 'unless all are asked for');
my $only = frame('alone', $issue, ':events c10d.issue and rank 3<Enter>Z');
like($only, qr/only c10d\.issue and rank 3/, 'a predicate says which');
is(scalar(() = $only =~ / c10d\.issue\s*$/mg), 8, 'and those alone are listed');
unlike($only, qr/ c10d\.wait\s*$/m, 'no others');
like(frame('alone', $issue, ':events bogus ><Enter>'), qr/bogus/, 'a bad one is refused');
like(frame('alone', $issue, ':events c10d.issue<Enter>:events shown<Enter>Z'), qr/ c10d\.wait\s*$/m, ':events shown takes it back');

# ---- statistics ----
my $stats = frame('alone', $fault, ':pane Statistics<Enter>tZ', '100x60');
my $issues = () = `$ringside events $folder/alone.trace c10d.issue` =~ /^\d/mg;
like($stats, qr/the whole record, by self/, 't: the whole record');
like($stats, qr/^.c10d\.issue +$issues /m, 'each kind is counted');
my ($self) = $stats =~ /^.c10d\.wait +\d+ +(\S+ \S+)/m;
ok(defined $self && $self ne '-', 'with its time');
my @order = map { /^.\S+\s+(\d+) / ? $1 : () } split /\n/, frame('alone', $fault, ':pane Statistics<Enter>tyyZ', '100x60');
is_deeply(\@order, [ sort { $b <=> $a } @order ], 'y: in another order');
like(frame('alone', $fault, ':pane Statistics<Enter>tyyyyZ'), qr/^.r3 .*busy +\d+%  comm +\d+%  wait +\d+%/m, 'and per rank the shares');
my $second = first('many', 'ddp.forward and iter = 2');
my ($part)  = frame('many', $second, ':pane Statistics<Enter>Z', '100x60') =~ /^.c10d\.issue +(\d+) /m;
my ($whole) = frame('many', $second, ':pane Statistics<Enter>tZ', '100x60') =~ /^.c10d\.issue +(\d+) /m;
cmp_ok($part, '<', $whole, 'an iteration is counted alone');

# ---- stores and groups ----
my $stores = frame('alone', $fault, ':pane Stores<Enter>Z');
like($stores, qr/group 0 \(default\)  r0-r7 called in it, up to #7/, 'a group and its ranks');
like($stores, qr/r4-r6 +all_reduce #6, done to #5, 1 behind/, 'who is behind');
like($stores, qr/default_pg\/0\/ready  by r\d/, 'the keys that were set');
like(frame('alone', first('alone', 'c10d.store.wait and rank 2') + 1, ':pane Stores<Enter>Z'), qr/key default_pg\/0\/ready  r0-r2 wait for it/,
    'and those that are waited for');

for my $size ('40x10', '80x24', '120x40', '200x60') {
    my ($width) = split /x/, $size;
    for my $pane ('Fault', 'Tasks', 'Breaks', 'Events', 'Stores', 'Statistics') {
        my $drawn = decode('UTF-8', scalar `$viewer $folder/alone.trace --print --ascii --size $size --at $fault --keys ':pane $pane<Enter>Z'`);
        unlike($drawn, qr/[^\n\x20-\x7e]/, "$pane at $size: in ASCII");
        is((grep { length > $width } split /\n/, $drawn), 0, "$pane at $size: not wider");
    }
}
done_testing;
