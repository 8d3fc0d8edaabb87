#!/usr/bin/env perl
# The table of commands is the only place that names keys: none twice, each with help, each known to the viewer's help.
use strict;
use warnings;
use Test::More;
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

my (%command_of, %name, @rows);
open my $table, '<', 'src/control/commands.def' or die "src/control/commands.def: $!";
while (<$table>) {
    next unless /^COMMAND\(/;
    my ($id, $rest) = /^COMMAND\(\s*(\w+),\s*(.*)\)\s*$/ or do { fail("line $.: one command a line"); next };
    my @texts = map { s/\\(.)/$1/gr } $rest =~ /"((?:[^"\\]|\\.)*)"/g;
    is(scalar @texts, 5, "$id has a name, arguments, keys, a group and a help") or next;
    my ($name, $args, $keys, $group, $help) = @texts;
    push @rows, [$name, $keys, $help];
    ok(!$name{$name}++, "the name $name is there once");
    for my $key (split ' ', $keys) {
        ok(!exists $command_of{$key}, "the key $key belongs to $name alone")
            or diag("$command_of{$key} has it too");
        $command_of{$key} = $name;
    }
    like($help, qr/\w{3}/, "$name has help");
}
close $table;

# Shift runs a stepping key backwards.
my %reverse = (step => 'back', next => 'rnext', stage => 'rstage', finish => 'rfinish', continue => 'rcontinue', until => 'runtil');
for my $forwards (sort keys %reverse) {
    my ($key) = grep { /^[a-z]$/ && $command_of{$_} eq $forwards } sort keys %command_of;
    ok(defined $key, "$forwards has a letter") or next;
    is($command_of{uc $key}, $reverse{$forwards}, uc($key) . " is $key backwards");
}

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my $ringside = "$out/ringside";
my $trace = "$FindBin::Bin/../../$out/viewer-keys.trace";
$trace = "$out/viewer-keys.trace" if $out =~ m{^/};
is(system("$ringside run --quiet --trace $trace lessons/01-six-rows.lua >/dev/null 2>&1"), 0, 'lesson 01 makes a trace');
my $help = `$out/trace_viewer $trace --print --size 140x120 --keys '??'`;
for my $row (@rows) {
    my ($name, $keys, $text) = @$row;
    ok(index($help, $name) >= 0 && index($help, $text) >= 0, "? lists $name");
}
unlink $trace;
done_testing;
