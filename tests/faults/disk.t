#!/usr/bin/perl
# A disk that fills up costs one warning and the rest of the trace, not the run.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $folder   = tempdir(CLEANUP => 1);
mkdir "$folder/small";
plan skip_all => 'a small tmpfs cannot be mounted here (needs root)'
    if system("mount -t tmpfs -o size=3m tmpfs '$folder/small' 2>/dev/null") != 0;

open my $lesson, '>', "$folder/long.lua" or die $!;
print $lesson <<'END';
local rs = require "ringside"
rs.lesson { title = "Long", devices = 1 }
local t = rs.zeros(4)
for i = 1, 20000 do t = t * 0.5 + 1 end
rs.close("the run goes on to its right end", t:tolist(), { 2, 2, 2, 2 }, 1e-5)
END
close $lesson;

for my $executor ('stepped', 'free') {
    my $trace  = "$folder/small/$executor.trace";
    my $out    = `'$ringside' run --tap --executor $executor --trace '$trace' '$folder/long.lua' 2>'$folder/err'`;
    my $status = $? >> 8;
    my $err    = do { open my $file, '<', "$folder/err" or die $!; local $/; <$file> };
    is($status, 0, "$executor: the run ends with status 0");
    like($out, qr/^ok 1 /m, "$executor: its check holds");
    is(() = $err =~ /\n/g, 1, "$executor: there is one line on stderr") or diag($err);
    like($err, qr/full/, "$executor: it says that the disk is full");
    my $held = () = `'$ringside' events '$trace' 2>/dev/null` =~ /\n/g;
    cmp_ok($held, '>', 1000, "$executor: the trace opens and holds what fitted");
    unlink $trace;
}
system("umount '$folder/small'");
done_testing();
