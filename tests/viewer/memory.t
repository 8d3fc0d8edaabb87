#!/usr/bin/env perl
# A frame is right, or says in one line that there is no memory: each pane with some of its allocations failing, one or all
# from there on. RINGSIDE_LONG: every one of them.
use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use lib "$FindBin::Bin/../faults";
use Failing;
use Test::More;
chdir "$FindBin::Bin/../.." or die "no root: $!";

plan skip_all => 'the failing allocator is for Linux' if $^O ne 'linux';
my $out    = $ENV{RINGSIDE_OUT} || 'build/release';
my $folder = tempdir(CLEANUP => 1);
srand($ENV{FAIL_SEED} || time);

sub trace_of {
    my ($lesson) = @_;
    my $trace = "$folder/$lesson.trace";
    system("$out/ringside run --quiet --trace $trace lessons/$lesson-*.lua >/dev/null 2>&1") unless -e $trace;
    return $trace;
}

# Where the first such event is; undef: the end.
sub place {
    my ($trace, $pattern) = @_;
    my ($seq) = map { /^(\d+) / ? $1 : () } grep { /$pattern/ } `$out/ringside events $trace`;
    return defined $seq ? ('--at', $seq) : ();
}

for (['11', 'Ring', 'comm\.hop begin'], ['03', 'Graph', 'autograd\.node begin'], ['13', 'Buckets', 'ddp\..*bucket'],
    ['13', 'Tensor', 'op begin'], ['13', 'Memory', 'memory\.alloc'], ['13', 'Statistics', 'op begin'],
    ['10', 'Stores', 'c10d'], ['24', 'Deadlock', 'fault']) {
    my ($lesson, $pane, $pattern) = @$_;
    my $trace = trace_of($lesson);
    fail_each("the pane $pane", { on => 1, points => $ENV{RINGSIDE_LONG} ? 0 : 24 }, "$out/trace_viewer", $trace, '--print',
        '--size', '120x40', place($trace, $pattern), '--keys', ":curves on<Enter>:pane $pane<Enter>");
}
done_testing;
