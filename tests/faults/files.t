#!/usr/bin/perl
# Where a trace comes to lie: beside its target first, locked, and nothing that is there is lost; what readers say of one
# that is cut; the descriptors and temporary folders that a run counts on.
use strict;
use warnings;
use lib 'tests/cli';
use Fcntl qw(:flock);
use File::Temp qw(tempdir);
use POSIX qw(_exit);
use Ringside;
use Test::More;

my $folder = tempdir(CLEANUP => 1);
my $lesson = lesson('small', qq{local rs = require "ringside"\nlocal t = rs.zeros(4)\nfor i = 1, 50 do t = t + 1 end\n});
my $long   = lesson('long', qq{local rs = require "ringside"\nlocal t = rs.zeros(4)\nwhile true do t:add_(1) end\n});
sub names { my ($in) = @_; opendir my $list, $in or die $!; return join ' ', sort grep { !/^\.\.?$/ } readdir $list }

# ---- what is there stays ----
my $own = "$folder/l.lua";
spill($own, slurp($lesson));
refused('a lesson is not written over by its trace', ringside('run', '--trace', $own, $own), 2, qr/l\.lua: it exists/);
is(slurp($own), slurp($lesson), 'it is as it was');
spill("$folder/text", "words\n");
refused('no file that is no trace is written over', ringside('run', '--trace', "$folder/text", $lesson), 2, qr/no Ringside/);
refused('step does so neither', ringside('step', '--trace', "$folder/text", '--batch', 'step', $lesson), 2, qr/no Ringside/);
is(slurp("$folder/text"), "words\n", 'it is as it was');
refused('a device is no target', ringside('run', '--trace', '/dev/null', $lesson), 2, qr/regular file/);
is(ringside('run', '--trace', spill("$folder/empty", ''), $lesson)->{status}, 0, 'an empty file may be replaced');
is(ringside('run', '--trace', "$folder/empty", $lesson)->{status}, 0, 'and so may an older trace');
symlink "$folder/empty", "$folder/link" or die $!;
symlink "$folder/nowhere", "$folder/loose" or die $!;
symlink "$folder/text", "$folder/wrong" or die $!;
unlink "$folder/empty";
refused('a link to nothing is refused', ringside('run', '--trace', "$folder/link", $lesson), 2, qr/leads nowhere/);
is(ringside('run', '--trace', "$folder/empty", $lesson)->{status}, 0, 'its target comes back');
my $before = (stat "$folder/empty")[1];
is(ringside('run', '--trace', "$folder/link", $lesson)->{status}, 0, 'a link to a trace is followed');
ok(-l "$folder/link" && (stat "$folder/empty")[1] != $before, 'it stays a link, and what it leads to is new');
refused('a link to something else is refused', ringside('run', '--trace', "$folder/wrong", $lesson), 2, qr/no Ringside/);
refused('a folder is no target', ringside('run', '--trace', "$folder/", $lesson), 2, qr/director/i);
my $far = "$folder/" . ('n' x 255);
is(ringside('run', '--trace', $far, $lesson)->{status}, 0, 'the longest name will do');
unlink $far;
is(names($folder), 'empty l.lua link loose text wrong', 'nothing lies about');

# ---- who writes holds it ----
my $busy = "$folder/busy.trace";
my $pid  = fork() // die $!;
if ($pid == 0) {
    open STDOUT, '>', '/dev/null';
    { exec program(), 'run', '--trust', '--executor', 'free', '--trace', $busy, $long }
    _exit(1);
}
select undef, undef, undef, 0.01 until -e $busy || waitpid($pid, 1) != 0;
refused('a trace that a run writes is refused', ringside('run', '--trace', $busy, $lesson), 2, qr/another run is writing/);
refused('also to step', ringside('step', '--trace', $busy, '--batch', 'step', $lesson), 2, qr/another run is writing/);
kill 9, $pid;
waitpid $pid, 0;
like(ringside('events', $busy, '--hash')->{err}, qr/cut short at event \d+/, 'what a killed run left says so');
like(ringside('view', $busy, '--print')->{out}, qr/cut short\b.*cut short at event \d+/s, 'on the screen too');
is(ringside('run', '--trace', $busy, $lesson)->{status}, 0, 'then it is free');

# ---- two at once ----
my $pairs = $ENV{RINGSIDE_LONG} ? 100 : 15;
my ($both, $bad) = (0, 0);
for (1 .. $pairs) {
    my $trace = "$folder/pair.trace";
    pipe my $gate, my $open or die $!;
    my @runs = map {
        my $run = fork() // die $!;
        if ($run == 0) {
            close $open;
            open STDOUT, '>', '/dev/null';
            open STDERR, '>', '/dev/null';
            sysread $gate, my $byte, 1;    # both start when the gate closes
            { exec program(), 'run', '--trace', $trace, $lesson }
            _exit(99);
        }
        $run;
    } 1 .. 2;
    close $open;
    my @status = map { waitpid $_, 0; $? } @runs;
    my $read = ringside('events', $trace);
    $both++ if "@status" eq '0 0';
    $bad++  if (grep { $_ != 0 && $_ != 2 << 8 } @status) || !(grep { $_ == 0 } @status);
    $bad++  if $read->{status} != 0 || $read->{err} ne '' || $read->{out} !~ /lesson\.end/;
}
is($bad, 0, "of $pairs pairs of runs into one trace each leaves a whole one ($both times both ran, one after the other)");

# ---- no room ----
my $room = tempdir(CLEANUP => 1);
my $old  = "$room/old.trace";
ringside('run', '--trace', $old, $lesson);
my $bytes = slurp($old);
for my $target ($old, "$room/new.trace") {
    my $run = system("ulimit -f 64; '@{[program()]}' run --trace '$target' '$lesson' >/dev/null 2>'$folder/err'");
    is($run >> 8, 2, 'no room at the beginning is refused');
    like(slurp("$folder/err"), qr/\Aringside: cannot create [^\n]*no room[^\n]*\n\z/, 'in one line');
}
is(names($room), 'old.trace', 'nothing is left behind');
ok(slurp($old) eq $bytes, 'and the older trace is as it was');
spill("$room/.new.trace.beginning", substr $bytes, 0, 5000);
is(ringside('run', '--trace', "$room/new.trace", $lesson)->{status}, 0, 'a killed run left its beginning');
is(names($room), 'new.trace old.trace', 'the next one takes it away');
spill("$room/.new.trace.beginning", "a text of mine\n");
refused('but not what is something else', ringside('run', '--trace', "$room/new.trace", $lesson), 2, qr/not ours/);

# ---- the hash ----
my $named  = ringside('run', '--quiet', '--hash', '--trace', "$folder/h.trace", 'lessons/01-six-rows.lua')->{out};
my $none   = ringside('run', '--quiet', '--hash', 'lessons/01-six-rows.lua')->{out};
my $again  = ringside('events', '--hash', "$folder/h.trace")->{out};
like($none, qr/^trace hash [0-9a-f]{6}$/m, 'a run has a hash');
is($named, $none, 'it is the same with --trace');
is($again, $none, 'and of the finished file');
my $many = lesson('many', qq{local rs = require "ringside"\nlocal t = rs.zeros(4)\nfor i = 1, 60000 do t:add_(1) end\n});
my $all  = ringside('run', '--hash', $many);
my $full = `ulimit -f 8000; '@{[program()]}' run --hash --trace '$folder/full.trace' '$many' 2>&1`;
like($all->{out}, qr/^trace hash/m, 'a run that is too large for memory alone has one');
like($full, qr/disk is full: the trace ends at event \d+/, 'a trace that found no room');
is(($full =~ /^(trace hash .*)$/m)[0], ($all->{out} =~ /^(trace hash .*)$/m)[0], 'has the hash of all events');
like(ringside('events', '--hash', "$folder/full.trace")->{err}, qr/cut short: the disk was full/, 'the file says that it is cut');

# ---- descriptors ----
for my $fd (0, 1, 2) {
    my $status = system("'@{[program()]}' run --trace '$folder/closed.trace' '$lesson' $fd" . ($fd ? '>' : '<') . '&- ');
    is($status, 0, "a run with descriptor $fd closed");
    is(ringside('events', "$folder/closed.trace")->{err}, '', 'has a whole trace');
    $status = system("'@{[program()]}' view --print '$folder/closed.trace' $fd" . ($fd ? '>' : '<') . '&- >' .
        ($fd == 1 ? '&-' : '/dev/null'));
    is($status, 0, 'and so has the viewer');
}

# ---- step keeps its record ----
my $record = "$folder/step.trace";
is(ringside('step', '--trace', $record, '--batch', 'continue', $lesson)->{status}, 0, 'step --trace');
is(ringside('events', $record)->{err}, '', 'keeps the whole record of a run that ended');
my $whole = () = ringside('events', $record)->{out} =~ /\n/g;
is(ringside('step', '--trace', $record, '--batch', 'goto 40; goto 20; print 1', $lesson)->{signal}, 0, 'after a restart');
my $part = () = ringside('events', $record)->{out} =~ /\n/g;
cmp_ok($part, '<', $whole, "the newest run's record is there ($part of $whole events)");
cmp_ok($part, '>', 19, 'up to where it stood');

# ---- temporary folders ----
my $tmp = tempdir(CLEANUP => 1);
my %scene = (env => { TMPDIR => $tmp, XDG_RUNTIME_DIR => $tmp });
mkdir "$tmp/ringside-abc123", 0700;
spill("$tmp/ringside-abc123/$_", '') for qw(lock run-1.trace .run-2.trace.beginning control);
mkdir "$tmp/ringside-live00", 0700;
spill("$tmp/ringside-live00/lock", '');
open my $live, '<', "$tmp/ringside-live00/lock" or die $!;
flock $live, LOCK_EX or die $!;
mkdir "$tmp/ringside-mine00", 0700;
spill("$tmp/ringside-mine00/$_", '') for qw(lock thesis.tex);
mkdir "$tmp/ringside-notours", 0700;
symlink '/etc', "$tmp/ringside-linked" or die $!;
is(ringside(\%scene, 'step', '--batch', 'step', $lesson)->{status}, 0, 'a session among folders that others left');
is(names($tmp), 'ringside-linked ringside-live00 ringside-mine00 ringside-notours',
    'takes away what a killed one left, not what lives, is a link or has another name');
is(names("$tmp/ringside-mine00"), 'thesis.tex', 'and no file that is not a session\'s');
$scene{env}{TMPDIR} = '/no/such/folder';
is(ringside(\%scene, 'step', '--batch', 'step', $lesson)->{status}, 0, 'a folder that is not there is passed over');

# ---- cut while somebody reads ----
my $tries = $ENV{RINGSIDE_LONG} ? 300 : 30;
my $seed  = $ENV{RINGSIDE_SEED} // time;
srand $seed;
my $shrinking = "$folder/shrinking.trace";
ringside('run', '--trace', "$folder/large.trace", $many);
my $large = slurp("$folder/large.trace");
my @wrong;
for my $try (1 .. $tries) {
    spill($shrinking, $large);
    my $run = fork() // die $!;
    if ($run == 0) {
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';
        alarm 60;
        { exec program(), $try % 3 ? ('events', $shrinking) : ('view', '--print', $shrinking) }
        _exit(99);
    }
    select undef, undef, undef, rand 0.15;
    if ($try % 2) { truncate $shrinking, int rand length $large }
    else          { spill($shrinking, scalar reverse substr $large, 0, int rand length $large) }
    waitpid $run, 0;
    push @wrong, "$try: $?" if $? & 127 || ($? >> 8 != 0 && $? >> 8 != 2);
}
is("@wrong", '', "cut or written over under its reader $tries times (seed $seed): no crash");
done_testing();
