#!/usr/bin/perl
# Extreme numbers in every numeric place of everything that a lesson can call: an answer or an error, in bounded time.
# A share of the calls; RINGSIDE_LONG=1 makes all of them, RINGSIDE_SEED=7 draws other pairs of numbers.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $folder   = tempdir(CLEANUP => 1);
my $parts    = $ENV{RINGSIDE_PARTS} || ($ENV{RINGSIDE_LONG} ? 1 : 8);
my $seed     = $ENV{RINGSIDE_SEED} || 1;

# The catalogue's rows, as the compiler sees them: a line for each place where a function is found.
sub rows {
    my %word = (FORM_RS => 'rs', FORM_METHOD => 'method', FORM_FUNCTIONAL => 'functional', FORM_INIT => 'init',
        FORM_NN => 'nn', LAYER => 'layer');
    open my $file, '>', "$folder/rows.c" or die "$folder/rows.c: $!";
    print $file <<'END_ROWS';
#define FUNCTION(body, forms, signature, help) @ forms @ signature @@
#define OF_OP(body, op, forms, signature, help) @ forms @ signature @@
#define ALIAS(name, of)
#define LAYER(make, signature, help) @ LAYER @ signature @@
#define PLAIN(types, signature, help) @ LAYER @ signature @@
#include "functional/functions.def"
#include "nn/layers.def"
END_ROWS
    close $file or die "$folder/rows.c: $!";
    my $text = `cc -E -P -Isrc '$folder/rows.c'`;
    my @rows;
    while ($text =~ /@ ([^@]*?) @ ([^@]*?) @@/g) {
        my ($forms, $text_of) = ($1, $2);
        my $signature = join '', $text_of =~ /"((?:[^"\\]|\\.)*)"/g;
        $forms =~ s/FORM_BOTH/FORM_RS/;
        push @rows, map { $forms =~ /\b$_\b/ ? "$word{$_} $signature" : () } sort keys %word;
        push @rows, 'method ' . ($signature =~ s/\(/_(/r) if $forms =~ /FORM_IN_PLACE/;
    }
    return join "\n", @rows;
}

# One run from a call on; { ended, at: the last call that was begun, out }.
sub run {
    my (@words) = @_;
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        open STDIN,  '<', '/dev/null'    or die "stdin: $!";
        open STDOUT, '>', "$folder/out"  or die "stdout: $!";
        open STDERR, '>&', \*STDOUT      or die "stderr: $!";
        exec $ringside, qw(run --tap --limit-seconds 60 tests/programs/extremes.lua --), @words;
        die "exec $ringside: $!";
    }
    waitpid $pid, 0;
    my $status = $?;
    open my $file, '<:raw', "$folder/out" or die "$folder/out: $!";
    local $/;
    my $out  = <$file>;
    my ($at) = $out =~ /.*^# (\d+) /ms;
    return { status => $status >> 8, signal => $status & 127, out => $out, at => $at || 0 };
}

my $rows = rows();
cmp_ok(scalar(() = $rows =~ /^/mg), '>', 400, 'the catalogue has hundreds of rows');
my ($first, $runs, @faults, $run) = (1, 0);
do {
    $run = run("rows=$rows", "first=$first", "parts=$parts", "seed=$seed");
    push @faults, $run->{out} =~ /^(?:# wrong: .*|.*runtime error: .*|.*Sanitizer: .*|not ok .*)$/mg;
    push @faults, "after call $run->{at}: signal $run->{signal}: " . substr($run->{out}, -500)
        if $run->{signal} || ($run->{status} > 1 && $run->{out} !~ /has used up the 1e\+09 steps/);
    $first = $run->{at} + 1;
} while (++$runs < 300 && $run->{status} > 1 && $run->{at});
is(join("\n", @faults), '', 'every call answers or raises an error of the known kinds');
like($run->{out}, qr/^# calls: (\d{4,}), answered \d+, refused \d+$/m, 'to the last of thousands');
cmp_ok($runs, '<', 20, 'few calls take all the work that a lesson may do');
diag($run->{out} =~ /^# (without a call: .*|calls: .*)$/mg) if $ENV{RINGSIDE_LONG};
done_testing();
