#!/usr/bin/env perl
# The traces of a job's processes are one timeline: view and events read a folder of them, or some by name.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use FindBin;
use lib $FindBin::Bin;
use Job;
chdir "$FindBin::Bin/../.." or die "no root: $!";

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);
my $job    = "$folder/job";
mkdir $job or die $!;
job_traces($job, 4);

sub events { return decode('UTF-8', scalar `$ringside events @_ 2>$folder/said`) }
sub said { local $/; open my $in, '<', "$folder/said" or die $!; return scalar <$in> // '' }

# ---- events ----

my $all = events($job);
is(said(), '', 'a whole job: nothing is to be said');
is(events(map { "$job/rank$_.trace" } 3, 1, 0, 2), $all, 'the order of the names on the command line is nobody\'s business');
is(() = $all =~ /lesson\.say/g, 1, 'the lesson itself stands there once');
like($all, qr/rank 0 speaks/, 'as rank 0 has it');
my %left;
my $forward = 0;
for my $line (split /\n/, events("$job 'flow > 0' --json")) {
    my ($t, $phase, $flow) = map { $line =~ /"$_":"?([^",]+)/ ? $1 : '' } 't', 'phase', 'flow';
    $left{$flow} = $t if $phase eq 'begin';
    $forward += exists $left{$flow} && $left{$flow} < $t if $phase eq 'end';
}
is($forward, 4, 'each message arrives after it left, although the clocks say otherwise');
unlike(events("$job --json"), qr/"flow":2147483649/, 'flows have numbers of the whole');
is(() = events("$job/rank1.trace lesson.say") =~ /lesson\.say/g, 1, 'one trace alone is as it is');
is(() = events("$job rank = 2 and comm.hop") =~ /comm\.hop begin/g, 1, 'a filter is asked of the whole');

# ---- view ----

sub frame { return decode('UTF-8', scalar `$viewer @_ --no-config --print --size 100x24 2>&1`) }
my $golden = 'tests/viewer/frames/job.utf8';
my $frame  = frame($job);
if ($ENV{RINGSIDE_MAKE}) {
    open my $file, '>:utf8', $golden or die "$golden: $!";
    print $file $frame;
    close $file or die $!;
}
open my $file, '<:utf8', $golden or die "$golden: $!";
is($frame, do { local $/; scalar <$file> }, 'a folder of traces has the frame that it had');
is(frame(map { "$job/rank$_.trace" } 0 .. 3), $frame, 'and so have its files by their names');
unlike($frame, qr/main [AB]\b/, 'ranks tell lanes apart, no letters are needed');
isnt(frame("$job --align start"), $frame, '--align start leaves clocks as they are');
is(frame("$job --align job"), $frame, '--align job is what a job has anyway');
is(decode('UTF-8', scalar `$ringside view $job --no-config --print --size 100x24 2>&1`), $frame, 'ringside view is the same');
like(frame("$job --at 0"), qr/step 0\//, '--at stands at an event of the whole');

# ---- what is missing ----

sub spoiled {
    my ($name) = @_;
    mkdir "$folder/$name" or die $!;
    copy("$job/rank$_.trace", "$folder/$name/") or die $! for 0 .. 3;
    return "$folder/$name";
}
my $gap = spoiled('gap');
unlink "$gap/rank2.trace";
like(events($gap), qr/r3/, 'a rank is missing: the rest is shown');
is(said(), "ringside: $gap: rank 2's trace is not there\n", 'and it is said, once');
like(frame($gap), qr/rank 2's trace is not there/, 'on the screen too');

my $junk = spoiled('junk');
open my $in, '>', "$junk/rank1.trace" or die $!;
print $in 'no trace at all';
close $in;
like(events($junk), qr/r3/, 'a file is damaged: the rest is shown');
is(said(), "ringside: $junk: left out: rank1.trace: not a Ringside trace; rank 1's trace is not there\n", 'and it is said');
events("$junk/rank0.trace $junk/rank1.trace");
is($? >> 8, 2, 'who names a damaged one: status 2');
is(said(), "ringside: $junk/rank1.trace: not a Ringside trace\n", 'and one line says so');

my $running = spoiled('running');
write_trace("$running/rank3.trace", { rank => 3, size => 4, offset => '1000 3000000 20000', complete => 0 }, [10_000_000, 'comm.hop', 'begin', 1, 0]);
like(events($running), qr/comm\.hop begin r3/, 'a rank that still writes is shown as far as it is');
like(said(), qr/\Aringside: \S+: rank3\.trace: cut short at event 1: its run was killed or goes on, or the file was cut\n\z/, 'and it is said');

my $strange = spoiled('strange');
write_trace("$strange/rank7.trace", { rank => 7, size => 8, job => 'two' }, [1, 'lesson.say', 'instant', 0, 0, 1]);
events($strange);
is($? >> 8, 2, 'two jobs in one folder: status 2');
is(said(), "ringside: $strange: rank3.trace and rank7.trace are of different jobs; name those that belong together\n", 'and one line says so');
like(events("$strange/rank0.trace $strange/rank7.trace"), qr/lesson\.say.*lesson\.say/s, 'named one by one they are two traces side by side');

mkdir "$folder/none";
events("$folder/none");
is($? >> 8, 2, 'a folder without traces: status 2');
is(said(), "ringside: $folder/none: a folder without a NAME.trace\n", 'and one line says so');
events("$job --hash");
is($? >> 8, 2, '--hash of several: status 2');
is(said(), "ringside: events: --hash is of one trace, not of several\n", 'and one line says so');
done_testing;
