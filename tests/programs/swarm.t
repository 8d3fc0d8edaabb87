#!/usr/bin/perl
# A swarm of random programs under several orders, in both executors: the run ends, who is stuck is named, the trace opens,
# memory comes back, numbers and gradients are right, and in stepped a run repeats. RINGSIDE_PROGRAMS=20000 RINGSIDE_FIRST=7
# for a longer run over other seeds; with RINGSIDE_LONG set it is such a run.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $count    = $ENV{RINGSIDE_PROGRAMS} || ($ENV{RINGSIDE_LONG} ? 10_000 : 1000);
my $first    = $ENV{RINGSIDE_FIRST}    || ($ENV{RINGSIDE_LONG} ? 1 + int rand 1e9 : 1);
my $share    = 50;      # programs of one process
my $folder   = tempdir(CLEANUP => 1);
diag("RINGSIDE_FIRST=$first") if $ENV{RINGSIDE_LONG};

# Each share under an order of its own.
my @orders = ('order', 'random', 'round-robin');
sub order_of { my ($seed) = @_; return '--policy ' . $orders[$seed / $share % @orders] . " --seed $seed" }

# What so many programs print from a seed on, and whether they ended well in time.
sub run_programs {
    my ($how, $from, $some, $arguments) = @_;
    my $out = `timeout 300 '$ringside' run --trust --quiet $how tests/programs/swarm.lua -- first=$from count=$some $arguments 2>&1`;
    my $status = $?;
    my ($done) = $out =~ /^# (\d+) programs$/m;
    my @bad = grep { /^not ok/ } split /\n/, $out;
    push @bad, "seeds from $from on, $how: status $status: " . substr $out, -2000 if !@bad && ($status != 0 || ($done // 0) != $some);
    return ($out, @bad);
}

sub swarm {
    my ($name, $programs, $arguments, @how) = @_;
    my (@bad, $lines);
    for (my $at = 0; $at < $programs; $at += $share) {
        my $some = $programs - $at < $share ? $programs - $at : $share;
        my ($out, @wrong) = run_programs(join(' ', @how, $name =~ /stepped/ ? order_of($first + $at) : ()), $first + $at, $some, $arguments);
        push @bad, @wrong;
        $lines .= $out;
    }
    is(join("\n", @bad), '', "$name: $programs programs end, right or named");
    return $lines;
}

my $stepped = swarm('stepped', $count, '');
my ($stuck, $ends) = (scalar(() = $stepped =~ /Error$/mg), scalar(() = $stepped =~ /: ends$/mg));
cmp_ok($stuck, '>', $count / 10, 'many are stuck');
cmp_ok($ends, '>', $count / 3, 'and many are not');
diag("stepped: $stuck of $count programs are stuck") if $ENV{RINGSIDE_LONG};

# In free who is stuck waits for the limit: most programs are without a mistake.
swarm('free', $count / 5, 'plants=0', '--executor', 'free', '--timeout', 60);
swarm('free, with mistakes', $ENV{RINGSIDE_LONG} ? $count / 10 : 50, 'limit=0.2', '--executor', 'free', '--timeout', 60);

# ---- faults on purpose, one a program ----

my @kinds = ('late', 'delay', 'kill', 'lose', 'cut', 'double', 'allocation', 'write');

# The fault of a seed: its kind, its rank, its line.
sub fault_of {
    my ($seed) = @_;
    my $kind = $kinds[$seed % @kinds];
    my ($rank, $peer) = ($seed / 8 % 4, $seed / 32 % 4);
    $peer = ($rank + 1) % 4 if $peer == $rank;
    my $at = $seed * 7919 % ($kind eq 'late' || $kind eq 'kill' ? 400 : 20);
    return ($kind, $rank, "kill $rank at $at")                             if $kind eq 'kill';
    return ($kind, $rank, "late $rank at $at by 500 us")                   if $kind eq 'late';
    return ($kind, $rank, "delay $rank -> $peer message $at by 100 us")    if $kind eq 'delay';
    return ($kind, $rank, "$kind $at")                                     if $kind eq 'allocation' || $kind eq 'write';
    return ($kind, $rank, "$kind $rank -> $peer message $at");
}

my (@bad, %struck);
for my $seed ($first .. $first + $count / 4 - 1) {
    my ($kind, $rank, $line) = fault_of($seed);
    my $how = order_of($seed) . " --fault '$line'" . ($seed % 10 == 0 ? " --trace $folder/fault.trace" : '');
    my ($out, @wrong) = run_programs($how, $seed, 1, "plants=0 fault=$kind rank=$rank");
    @wrong = () if $kind eq 'write' && "@wrong" =~ /status (?:512|768): [^\n]*\n?.*(?:No space|no space|disk is full)/s;
    push @bad, map { "$line: $_" } @wrong;
    $struck{$kind}++ if $out =~ /Error$/m || $kind eq 'write';
    push @bad, "$line: the trace does not open" if $seed % 10 == 0 && system("'$ringside' events $folder/fault.trace >/dev/null 2>&1") != 0;
}
is(join("\n", @bad), '', 'with a fault each program ends, right or named, and its trace opens');
is(join(' ', grep { !$struck{$_} } 'kill', 'lose', 'cut', 'double', 'write'), '', 'each kind of fault stops some of them');
is(join(' ', grep { $struck{$_} } 'late', 'delay'), '', 'but who is only late stops nobody');

# ---- the trace opens, and a run repeats ----

for my $from ($first, $first + 1000) {
    my $how   = order_of($from);
    my @texts = map {
        my ($out) = run_programs("$how --trace $folder/$_.trace", $from, 20, '');
        $out
    } 'one', 'two';
    is($texts[1], $texts[0], "seeds from $from on: a second run prints the same");
    is(system("cmp -s $folder/one.trace $folder/two.trace"), 0, 'and writes the same trace');
    my $events = `'$ringside' events $folder/one.trace 2>&1`;
    is($?, 0, 'which opens');
    my $lines = () = $events =~ /^\d+ /mg;
    cmp_ok($lines, '>', 1000, 'and has its events');
    my $told = () = $events =~ / fault\./g;
    cmp_ok($told, '>', 0, 'faults among them');
}
done_testing();
