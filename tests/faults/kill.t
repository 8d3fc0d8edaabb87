#!/usr/bin/perl
# kill -9 at twenty points of an endless run: the trace opens each time and holds every event that was reported.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More tests => 20;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $folder   = tempdir(CLEANUP => 1);
open my $lesson, '>', "$folder/endless.lua" or die $!;
print $lesson <<'END';
local rs = require "ringside"
rs.lesson { title = "For ever", devices = 1 }
io.stdout:setvbuf("no")
local t = rs.zeros(4)
while true do
  t = t * 0.5 + 1
  io.write(rs.trace:seq(), "\n")
end
END
close $lesson;

for my $point (1 .. 20) {
    my $trace = "$folder/$point.trace";
    my $pid   = open my $run, '-|', $ringside, 'run', '--trust', '--executor', 'free', '--trace', $trace,
        "$folder/endless.lua";
    die "cannot start $ringside" unless $pid;
    my ($told, $lines) = (0, 0);
    while (my $line = <$run>) {
        next unless $line =~ /^(\d+)\n\z/;
        $told = $1;
        last if ++$lines >= $point * $point * 7;
    }
    kill 9, $pid;
    while (my $line = <$run>) { $told = $1 if $line =~ /^(\d+)\n\z/ }
    close $run;
    my $held = () = `'$ringside' events '$trace' 2>/dev/null` =~ /\n/g;
    ok($told > 0 && $held >= $told, "killed after $lines reports the trace holds all events")
        or diag("told $told, held $held");
}
