#!/usr/bin/env perl
# Two runs against each other: what only one has, what came in another order, what says something else, what took longer.
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

sub trace_of {
    my ($name, $body, $host) = @_;
    open my $lesson, '>', "$folder/$name.lua" or die $!;
    print $lesson <<LUA;
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "compared", devices = 2, hardware = "classroom", costs = { host = $host, kernel = 10 } }
dist.spawn(function(rank)
$body
end, { world = 2 })
LUA
    close $lesson or die $!;
    is(system("$ringside run --quiet --trace $folder/$name.trace $folder/$name.lua >/dev/null 2>&1"), 0, "$name makes a trace");
}
trace_of(base => "dist.all_reduce(rs.ones({ 4 }))\ndist.broadcast(rs.ones({ 4 }), 0)", 1);
trace_of(more => "dist.all_reduce(rs.ones({ 4 }))\ndist.broadcast(rs.ones({ 4 }), 0)\ndist.barrier()", 1);
trace_of(larger => "dist.all_reduce(rs.ones({ 64 }))\ndist.broadcast(rs.ones({ 4 }), 0)", 1);
trace_of(turned => "dist.broadcast(rs.ones({ 4 }), 0)\ndist.all_reduce(rs.ones({ 4 }))", 1);
trace_of(slower => "dist.all_reduce(rs.ones({ 4 }))\ndist.broadcast(rs.ones({ 4 }), 0)", 9);
sub frame {
    my ($a, $b, $options) = (@_, '');
    return decode('UTF-8', scalar `$viewer --diff $folder/$a.trace $folder/$b.trace --print --size 120x40 $options 2>&1`);
}
like(frame('base', 'base'), qr/A base\.trace  B base\.trace: 0 differences/, 'a run does not differ from itself');
like(frame('base', 'slower'), qr/: 0 differences/, 'a slower run does the same');
like(frame('base', 'slower', "--keys ':pane diff<Enter>Z'"), qr/^ *\S+ +[\d.]+ \w+ < [\d.]+ \w+/m, 'and its stages take longer');
like(frame('base', 'more'), qr/: only in B/, 'what only one run has is named');
like(frame('base', 'more'), qr/comm B/, 'both runs are on the timeline');
like(frame('base', 'slower'), qr/^ +A B +<+/m, 'a row between two lanes says where the first run is faster');
like(frame('slower', 'base'), qr/^ +A B +>+/m, 'or the second');
like(frame('base', 'base'), qr/^ +A B +=+ *│/m, 'or neither');
like(frame('base', 'more'), qr/^ +A B +=+\++ *│/m, 'and what only the second has');
like(frame('more', 'base'), qr/^ +A B +=+-+ *│/m, 'or the first');
like(frame('base', 'larger'), qr/bytes 16, in B 256/, 'what says something else is named with both values');
like(frame('base', 'turned', "--keys ':pane diff<Enter>" . 'j' x 30 . "'"), qr/: earlier in B/, 'what came in another order is named');
my ($first) = frame('base', 'larger') =~ /step (\d+)\//;
my ($next)  = frame('base', 'larger', "--keys '}}'") =~ /step (\d+)\//;
my ($back)  = frame('base', 'larger', "--keys '}}{{'") =~ /step (\d+)\//;
cmp_ok($next, '>', $first, '} goes to the next difference');
is($back, $first, '{ to the one before; the first one is where it begins');
like(frame('base', 'larger', "--keys '{'"), qr/no earlier difference/, 'before the first there is none, and that is said');
my ($chosen) = frame('base', 'larger', q{--keys ':pane diff<Enter>j<Enter>'}) =~ /step (\d+)\//;
isnt($chosen, $first, 'Enter on a difference goes there');

for my $case (["$folder/base.trace"], ["$folder/base.trace", "$folder/more.trace", "$folder/larger.trace"]) {
    my $said = `$viewer --diff @$case --print 2>&1`;
    is($? >> 8, 2, @$case . ' traces: status 2');
    like($said, qr/\Atrace_viewer: two traces are compared, no more and no fewer\n\z/, 'and one line says why');
}
done_testing;
