#!/usr/bin/perl
# The course behind --device cuda, on the fake runtime (tests/cuda/fake/fake.h). In `stepped` a lesson's trace is the one
# of virtual devices, to the hash: values, order and virtual time. In `free` its checks hold in whatever order the queues
# run, late, at once or at points that a seed draws, with several devices on one GPU or on several.
#
# RINGSIDE_LONG: every lesson with twenty seeds. Without it lessons that take long are played less often, and say so.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $long = $ENV{RINGSIDE_LONG};
plan skip_all => 'fake_cuda.so is not built: it needs the headers of CUDA'
    if !-e program() =~ s{/[^/]*$}{}r . '/fake_cuda.so';

my @lessons = map { m{([^/]+)\.lua$} } glob 'lessons/[0-9]*.lua';
ok(@lessons > 30, 'there are lessons');
# Why a lesson cannot be played in `free`. There is none so far.
my %stepped_only = ();
# Kernels of a million elements, one thread after the other; gigabytes in collectives of the host. Without RINGSIDE_LONG
# the first is played in stepped alone, the second in free.
my %heavy = ('09-dp-costs' => 'stepped', '12-three-all-reduces' => 'free');
# Lessons that meet every part of DataParallel's and DistributedDataParallel's use of devices.
my %thorough = map { $_ => 1 } qw(07-dp-backward 17-no-sync 30-on-a-gpu);

sub play {
    my ($setting, @words) = @_;
    my $run = ringside({ env => { RINGSIDE_FAKE_CUDA => $setting } }, 'run', @words);
    $run->{err} =~ s/^fake CUDA: ordering, lifetimes and error paths of host code; no device code ran\n//m;
    return $run;
}

# What a run says of each check, in the order of what it says: ranks come in any.
sub checks_of {
    my ($out, $lesson) = @_;
    return sort map { /^((?:not )?ok) \d+ - \Q$lesson\E\/(.*?)( # SKIP.*)?$/ ? "$1 $2" . ($3 ? ' skipped' : '') : () }
        split /\n/, $out;
}

# Memory that is closed to the host finds who reads it there; in many threads closing takes long, so free leaves it open.
sub orders {
    my ($lesson) = @_;
    return ('order=lazy,guard=off') if $heavy{$lesson} && !$long;
    my $seeds = $long || $thorough{$lesson} ? 20 : 1;
    my @drawn = map { "order=seed:$_,guard=off,devices=" . (1 + $_ % 4) } 1 .. $seeds;
    return ('order=lazy,guard=off', 'order=eager,guard=off,devices=2', @drawn);
}

for my $lesson (@lessons) {
    my $path = "lessons/$lesson.lua";
    my $only = $long ? '' : $heavy{$lesson} // '';
    note "$lesson is played in $only alone: RINGSIDE_LONG plays it whole" if $only;
    if ($only ne 'free') {
        my $virtual = ringside('run', '--quiet', '--hash', $path);
        my $guard   = $heavy{$lesson} ? ',guard=off' : '';
        my $cuda    = play("order=lazy$guard", '--quiet', '--hash', '--device', 'cuda', $path);
        is("$cuda->{status} $cuda->{err}", '0 ', "$lesson, stepped: the checks hold on the fake GPU");
        like($virtual->{out}, qr/^trace hash \w+$/, "$lesson, stepped: there is a hash");
        is($cuda->{out}, $virtual->{out}, "$lesson, stepped: the trace is that of virtual devices");
    }
    next if $only eq 'stepped';
    if ($stepped_only{$lesson}) {
        note "$lesson is not played in free: $stepped_only{$lesson}";
        next;
    }
    my @expected = checks_of(ringside('run', '--tap', '--executor', 'free', $path)->{out}, $lesson);
    cmp_ok(scalar @expected, '>', 0, "$lesson, free: virtual devices have checks");
    my @bad;
    for my $setting (orders($lesson)) {
        my $run = play($setting, '--tap', '--executor', 'free', '--device', 'cuda', $path);
        my @checks = checks_of($run->{out}, $lesson);
        push @bad, "$setting: status $run->{status} $run->{err}" . join('; ', grep { /^not/ } @checks)
            if $run->{status} != 0 || $run->{err} ne '' || "@checks" ne "@expected";
    }
    is(join("\n", @bad), '', "$lesson, free: the same checks hold in each order of the queues");
}
done_testing();
