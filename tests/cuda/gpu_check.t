#!/usr/bin/env perl
# scripts/gpu-check keeps its plan whatever becomes of a group: without a GPU, with one that breaks, with a program that
# crashes or never ends; on the tests' runtime (tests/cuda/fake/fake.h) the groups that make sense there pass; packed,
# it runs with nothing but bash and coreutils.
use strict;
use warnings;
use lib 'tests/cli';
use Cwd qw(abs_path);
use Ringside;
use Test::More;

my $script = abs_path('scripts/gpu-check');
my $out    = abs_path($ENV{RINGSIDE_OUT} || 'build/release');
my @groups = 1 .. 16;

sub check {
    my ($env, @words) = @_;
    my %env = (RINGSIDE_OUT => $out, %$env);
    return ringside({ env => \%env, program => $script }, @words);
}

# The line of a group.
sub line_of {
    my ($run, $group) = @_;
    my ($line) = $run->{out} =~ /^((?:not )?ok $group - .*)$/m;
    return $line // '';
}

sub keeps_plan {
    my ($run, $when) = @_;
    like($run->{out}, qr/^1\.\.16$/m, "$when: the plan has sixteen groups");
    is(scalar(() = $run->{out} =~ /^(?:not )?ok \d+ - /mg), 16, "$when: each has its line");
}

# ---- without a GPU, and what is typed ----

my $help = check({}, '--help');
is("$help->{status} $help->{err}", '0 ', '--help ends with status 0');
like($help->{out}, qr/^\s+$_ /m, "--help tells of $_") for qw(--list --only --seconds --pack --help);
my $list = check({}, '--list');
is(scalar(split /\n/, $list->{out}), 16, '--list has a line for each group');
for my $wrong ([qw(--only x)], ['--only'], [qw(--seconds soon)], ['--what'], [qw(--group 99)]) {
    my $run = check({}, @$wrong);
    is($run->{status}, 2, "@$wrong ends with status 2");
    like($run->{err}, qr/\Agpu-check: [^\n]+; see gpu-check --help\n\z/, 'and one line that says why');
}

# ---- a program that does what a GPU might make it do ----

my $stub = folder() . '/stub';
mkdir $stub or die "$stub: $!";

# Opening a device works; a group's lesson does `what`.
sub stub_that {
    my ($what) = @_;
    spill("$stub/ringside", "#!/bin/bash\n[[ \$* != *load.lua* ]] || exit 0\n$what\n");
    chmod 0755, "$stub/ringside";
}

stub_that('kill -SEGV $$');
my $crash = check({ RINGSIDE_OUT => $stub }, '--only', '5,6');
is($crash->{status}, 1, 'a crash ends with status 1');
keeps_plan($crash, 'a crash');
like(line_of($crash, $_), qr/^not ok /, "group $_ fails") for 5, 6;
like($crash->{out}, qr/^    not ok \d+ - draws ended with status 139$/m, 'and tells of the signal');
stub_that('echo "ok 1 - one"; echo 1..2');
my $early = check({ RINGSIDE_OUT => $stub }, '--only', 5);
like($early->{out}, qr/^    not ok 2 - draws ended early: 2 tests were planned, 1 came$/m,
    'a test that never came is missed');
stub_that('exit 0');
like(line_of(check({ RINGSIDE_OUT => $stub }, '--only', 5), 5), qr/^not ok /, 'a group that tests nothing fails');
stub_that('while :; do :; done');
my $hang = check({ RINGSIDE_OUT => $stub }, '--only', 5, '--seconds', 6);
keeps_plan($hang, 'what never ends');
like($hang->{out}, qr/^not ok 5 - .*\n# it took longer than \d seconds/m, 'what never ends is ended');

# ---- the tests' runtime ----

SKIP: {
    skip 'fake_cuda.so is not built here', 1 if !-r "$out/fake_cuda.so";
    my $none = check({ RINGSIDE_FAKE_CUDA => 'fail=no-driver' });
    is("$none->{status} $none->{err}", '0 ', 'without a driver it ends with status 0');
    keeps_plan($none, 'without a driver');
    for my $group (@groups) {
        like(line_of($none, $group), qr/ # SKIP .*no NVIDIA driver here/, "group $group says why it is skipped");
    }

    my $fake = 'check=off,memory=768';
    my %on_fake = map { $_ => 1 } 3 .. 10, 12, 13, 14;
    my $run = check({ RINGSIDE_FAKE_CUDA => $fake, RINGSIDE_CUDA_TIMELINE => 'pairs' });
    is($run->{status}, 0, 'on the fake runtime it ends with status 0') or diag($run->{out});
    keeps_plan($run, 'on the fake runtime');
    for my $group (@groups) {
        my $how = $on_fake{$group} ? qr/^ok $group - (?!.*# SKIP)/ : qr/ # SKIP the tests' runtime is no GPU$/;
        my $what = $on_fake{$group} ? 'passes' : 'is skipped';
        like(line_of($run, $group), $how, "on the fake runtime group $group $what");
    }
    unlike($run->{out}, qr/^\s*not ok/m, 'and no test of a group fails');

    my $broken = check({ RINGSIDE_FAKE_CUDA => "$fake,fail=illegal:9" }, '--only', 4);
    is($broken->{status}, 1, 'a GPU that breaks ends with status 1');
    keeps_plan($broken, 'a GPU that breaks');
    like(line_of($broken, 4), qr/^not ok /, 'its group fails');
    like($broken->{out}, qr/^    not ok \d+ - the same again ended with status 3$/m, 'and says how it ended');
}

# ---- packed ----

SKIP: {
    skip 'cuda.so is not built here', 1 if !-r "$out/cuda.so";
    my ($pack, $bin) = (folder() . '/pack.tar.gz', folder() . '/bin');
    my $made = check({}, '--pack', $pack);
    is($made->{status}, 0, '--pack makes an archive') or diag($made->{err});
    cmp_ok(-s $pack, '<', 60 << 20, 'of less than 60 MiB');
    is(system('tar', '-xzf', $pack, '-C', folder()), 0, 'that tar unpacks');
    mkdir $bin or die "$bin: $!";
    for my $tool (qw(bash dirname timeout mktemp rm cat head tail stat env)) {
        my ($where) = grep { -x } map { "$_/$tool" } split /:/, $ENV{PATH};
        symlink $where, "$bin/$tool" or die "$tool: $!";
    }
    my $text = `env -i PATH=$bin CUDA_VISIBLE_DEVICES= ${\folder()}/ringside-gpu-check/gpu-check`;
    is($?, 0, 'with bash and coreutils alone it comes to its end');
    keeps_plan({ out => $text }, 'packed');
    is(scalar(() = $text =~ /^ok \d+ - .* # SKIP (?!not asked)/mg), 16, 'every group says why it is skipped');
}

done_testing();
