#!/usr/bin/env perl
# --print: the same frame on every machine, at every size, from a good trace; one line and status 2 from a bad one.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);
my $trace  = "$folder/01.trace";
is(system("$ringside run --quiet --trace $trace lessons/01-six-rows.lua >/dev/null 2>&1"), 0, 'lesson 01 makes a trace');

sub frame { decode('UTF-8', scalar `@_`) }

my $frame = frame("$viewer $trace --print");
is(() = $frame =~ /\n/g, 24, 'a frame has 24 lines');
is((grep { length > 80 } split /\n/, $frame), 0, 'none is longer than 80 columns');
like($frame, qr/^ Where do six indices go\?.*step (\d+)\/\1/, 'the title names the lesson, the cursor is at the end');
like($frame, qr/virtual \(classroom\)/, 'the clock is named');
like($frame, qr/─ Lesson ─/, 'there is a pane with the lesson');
unlike($frame, qr/\x1b|\Q$folder\E/, 'no escape and no path of this machine is in it');
my $there = `cd $folder && env -i TZ=Asia/Tokyo COLUMNS=200 $FindBin::Bin/../../$viewer 01.trace --print` if $out !~ m{^/};
is(decode('UTF-8', $there), $frame, 'another folder and another environment give the same frame') if defined $there;
is(frame("$viewer $trace"), $frame, 'without a terminal --print is meant');
is(frame("$ringside view --print $trace"), $frame, 'ringside view is the same program');

for my $size ('1x1', '10x3', '19x2', '40x8', '79x23', '100x30', '120x40', '200x60', '1000x3', '3x1000') {
    my ($width, $height) = split /x/, $size;
    my $sized = frame("$viewer $trace --print --size $size");
    is($?, 0, "$size is drawn");
    is(() = $sized =~ /\n/g, $height, "$size has $height lines");
    is((grep { length > $width } split /\n/, $sized), 0, "$size is not wider");
}
unlike(`$viewer $trace --print --ascii`, qr/[^\n\x20-\x7e]/, '--ascii is ASCII');
like(`$viewer $trace --print=ansi`, qr/\x1b\[0;[0-9;]*m/, '--print=ansi has colours');
unlike(`$viewer $trace --print=ansi`, qr/\x1b(?!\[[0-9;]*m)/, 'and no other sequences');
like(frame("$viewer $trace --print --teacher --at 58"), qr/ scatter_gather\.c:\d+ *$/m, 'too long, the event leaves out the folder of its place');
like(frame("$viewer $trace --print --teacher --at 58 --size 160x40"), qr{ src/parallel/scatter_gather\.c:\d+}, 'with room it is there');
like(frame("$viewer $trace --print --at 3"), qr/step 3\//, '--at stands there');
my $stepped = frame("$viewer $trace --print --at 0 --keys 'sssss'");
isnt($stepped, frame("$viewer $trace --print --at 0"), '--keys presses keys');
is(frame("$viewer $trace --print --at 0 --keys '4ss'"), $stepped, 'a count presses them as often');
is(frame("$viewer $trace --print --at 13 --keys 'sS+-'"), frame("$viewer $trace --print --at 13 --keys '+-'"),
    's and S, + and - come back');

my $signed = "$folder/signed.lua";
open my $lesson, '>', $signed or die $!;
print $lesson qq(local rs = require "ringside"\nlocal x = rs.tensor({ -128, 127, -1 }, { dtype = "int8" })\n),
    qq(local y = x + 1\nrs.say "made"\n);
close $lesson or die $!;
is(system("$ringside run --quiet --trace $signed.trace $signed >/dev/null 2>&1"), 0, 'a lesson of int8 makes a trace');
my ($made) = map { /^(\d+) op end/ ? $1 : () } `$ringside events $signed.trace`;
like(frame("$viewer $signed.trace --print --at $made --keys ':pane Tensor<Enter>Z'"),
    qr/int8 \[3\].*\n min -128 mean -85 max 0 .*^ *0 +-127 +-128 +0$/ms, 'values of int8 have a sign and wrap around');

sub complains {
    my ($what, $name, $says) = @_;
    my $said = `$what 2>&1 >/dev/null`;
    is($? >> 8, 2, "$name: status 2");
    is(() = $said =~ /\n/g, 1, "$name: one line");
    like($said, $says, "$name: it says why");
}
complains("$viewer $folder/none.trace --print", 'no such trace', qr/none\.trace/);
complains("$viewer Makefile --print", 'another file', qr/Makefile/);
complains("$viewer", 'no trace', qr/--help/);
complains("$viewer $trace --size 0x5", 'a size of nothing', qr/size/);
complains("$viewer $trace --size potato", 'a potato', qr/size/);
complains("$viewer $trace --nonsense", 'an unknown option', qr/nonsense/);
complains("$viewer --attach $folder/no-socket", 'no session', qr/no-socket/);
like(`$viewer --help`, qr/^usage: trace_viewer/, '--help helps');
is($? >> 8, 0, 'with status 0');

# A trace of nothing but its head: every pane is asked for its rows.
my $bytes = do { open my $in, '<:raw', $trace or die $!; local $/; <$in> };
open my $head, '>:raw', "$folder/head.trace" or die $!;
print $head substr $bytes, 0, 4096;
close $head or die $!;
my @panes = map { /^PANE\( *\w+, *(\w+)/ ? $1 : () } do { open my $in, '<', 'trace_viewer/panes.def' or die $!; <$in> };
my @dead  = grep { system("$viewer $folder/head.trace --print --size 120x40 --keys ':pane @{[ substr $_, 0, 4 ]}<Enter>jk<Enter>' >/dev/null 2>&1") }
    @panes;
is("@dead", '', 'in a trace without events no pane is lost, whatever it is asked');

# A trace cut anywhere is shown as far as it goes.
for my $part (1 .. 12) {
    my $cut = int(length($bytes) * $part / 13);
    open my $cut_file, '>:raw', "$folder/cut.trace" or die $!;
    print $cut_file substr($bytes, 0, $cut);
    close $cut_file;
    my $status = system("$viewer $folder/cut.trace --print >/dev/null 2>&1");
    ok($status == 0 || $status >> 8 == 2, "cut after $cut bytes: shown or refused");
}
done_testing;
