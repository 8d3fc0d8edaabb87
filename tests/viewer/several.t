#!/usr/bin/env perl
# Several traces as one timeline: the processes of a job, two runs side by side, a folder of them.
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

# Two ranks, a collective; in the second lesson both are held up first.
my %sleep = (a => 0, b => 2000);
for my $name (sort keys %sleep) {
    open my $lesson, '>', "$folder/$name.lua" or die $!;
    print $lesson <<LUA;
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "lesson $name", devices = 2, hardware = "classroom", costs = { host = 0, kernel = 0 } }
dist.spawn(function(rank)
  rs.sleep($sleep{$name})
  dist.all_reduce(rs.ones({ 4 }))
  rs.ones({ 4 }):add(1)
end, { world = 2 })
rs.say("text of $name")
LUA
    close $lesson or die $!;
    is(system("$ringside run --quiet --trace $folder/$name.trace $folder/$name.lua >/dev/null 2>&1"), 0, "lesson $name makes a trace");
}
sub frame { decode('UTF-8', scalar `$viewer @_ --print --size 120x40 2>&1`) }
my $count = sub { my ($last) = $_[0] =~ /step \d+\/(\d+)/; $last + 1 };

my ($a, $b, $both) = map { frame(@$_) } ["$folder/a.trace"], ["$folder/b.trace"], ["$folder/a.trace", "$folder/b.trace"];
is($count->($both), $count->($a) + $count->($b), 'two traces together have the events of both');
like($both, qr/r0 main A/, 'what is in both is told apart by a letter');
like($both, qr/^ +main B/m, 'of the second one too');
is(frame("$folder/a.trace $folder/b.trace"), $both, 'twice the same');
like(frame("$folder/a.trace $folder/b.trace --keys '/lesson.say<Enter>'"), qr/text of a/, 'texts are those of their own trace');
like(frame("$folder/a.trace $folder/b.trace --keys '/lesson.say<Enter>n'"), qr/text of b/, 'of the second one too');

like($both, qr/^ a\.trace, b\.trace /, 'of different lessons the title names the files');
unlike($both, qr/rs\.sleep/, 'and no lesson\'s text is shown beside the other\'s lines');

# On one clock.
my $end = sub {
    my ($letter, $frame) = @_;
    my ($row) = grep { /^ .* comm $letter/ } split /\n/, $frame;
    return index $row, 'C';
};
isnt($end->(A => $both), $end->(B => $both), 'from their own starts the collectives lie apart');
my $aligned = frame("$folder/a.trace $folder/b.trace --align collective");
is($end->(A => $aligned), $end->(B => $aligned), 'by collectives their ends lie together');
isnt(frame("$folder/a.trace $folder/b.trace --align iteration"), '', 'by iterations there is a frame');

mkdir "$folder/empty";
mkdir "$folder/job";
is(system('cp', "$folder/$_.trace", "$folder/job/"), 0, "$_ lies in a folder") for 'a', 'b';
is(frame("$folder/job"), $both, 'a folder means the traces in it');

sub trouble {
    my ($options, $expected, $name) = @_;
    my $said = `$viewer $options --print 2>&1`;
    is($? >> 8, 2, "$name: status 2");
    like($said, qr/\Atrace_viewer: $expected\n\z/, "$name: one line says so");
}
open my $none, '>', "$folder/none.lua" or die $!;
print $none "local rs = require 'ringside'\nrs.lesson { title = 'none' }\nrs.say 'x'\n";
close $none or die $!;
system("$ringside run --quiet --trace $folder/none.trace $folder/none.lua >/dev/null 2>&1");
trouble("$folder/a.trace $folder/none.trace --align collective", 'traces 1 and 2 have no collective in common to set their clocks by', 'no collective in common');
trouble("$folder/a.trace $folder/missing.trace", '\S+missing.trace: No such file or directory', 'one is missing');
trouble("$folder/a.trace $folder/a.lua", '\S+a.lua: not a Ringside trace', 'one is no trace');
trouble("$folder/empty", '\S+empty: a folder without a NAME.trace', 'an empty folder');
trouble("$folder/a.trace --align nonsense", '--align nonsense: job, start, collective or iteration is meant', 'a clock that there is not');
done_testing;
