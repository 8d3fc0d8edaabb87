#!/usr/bin/perl
# One trace hash for each lesson, and for PyTorch's numbers through ops, modules, losses and optimizers, over
# compilers, build types, two folders and a set LUA_PATH. The first test of the suite: nothing else means much if a run
# does not repeat.
use strict;
use warnings;
use Cwd qw(getcwd);
use Fcntl qw(LOCK_EX);
use File::Temp qw(tempdir);
use Test::More;

my $root    = getcwd();
my @lessons = (
    glob('lessons/[0-9]*.lua'),
    (map { "--trust tests/ops/$_.lua" } ('ops', 'compositions', 'layers')),
    (map { "--trust scripts/golden.lua -- tests/golden/$_.json" } ('modules', 'losses', 'autograd', 'optim')),
);
$ENV{GOLDEN_PARTS} = 'scripts';

# The hash that this binary prints for this lesson, as the shell sees it; "" when the run failed.
sub trace_hash {
    my ($binary, $lesson, %option) = @_;
    local %ENV = (%ENV, %{ $option{env} || {} });
    my $out = `cd '@{[ $option{folder} || $root ]}' && '$binary' run --quiet --hash $lesson 2>&1`;
    return $out =~ /trace hash ([0-9a-f]+)/ ? $1 : '';
}

# What the kernels' script prints: every bit of their results.
sub kernel_bits {
    my ($binary) = @_;
    return scalar `'$binary' run --quiet --trust '$root/tests/repeat/kernels.lua' 2>&1`;
}

# One at a time in a folder: other tests build there too.
sub build {
    my ($folder, @arguments) = @_;
    mkdir "$folder/build";
    open my $lock, '>', "$folder/build/.lock" or die "build/.lock: $!";
    flock $lock, LOCK_EX or die "flock: $!";
    my $log = `cd '$folder' && make -s -j2 @arguments all 2>&1`;
    diag("make @arguments:\n$log") if $? != 0;
    return $? == 0;
}

my $mine     = "$root/" . ($ENV{RINGSIDE_OUT} || 'build/release');
my @variants = (
    [ 'gcc release',   'build/release', 'CC=gcc' ],
    [ 'gcc debug',     'build/debug',   'CC=gcc BUILD=debug' ],
    [ 'gcc asan',      'build/asan',    'CC=gcc BUILD=asan' ],
    [ 'clang release', 'build/clang',   'CC=clang OUT=build/clang' ],
);

my %expected;
for my $lesson (@lessons) {
    $expected{$lesson} = trace_hash("$mine/ringside", $lesson);
    isnt($expected{$lesson}, '', "$lesson has a trace hash");
    is(trace_hash("$mine/ringside", $lesson), $expected{$lesson}, "$lesson: a second run has the same");
    is(trace_hash("$mine/ringside", $lesson, env => { LUA_PATH => '/tmp/?.lua;;', LUA_INIT => 'x = 1' }),
        $expected{$lesson}, "$lesson: so it has with LUA_PATH and LUA_INIT set");
}

my $bits = kernel_bits("$mine/ringside");
like($bits, qr/\Agelu 1 .*^conv2d 33 /ms, 'the script of all kernels runs');

for my $variant (@variants) {
    my ($name, $out, $arguments) = @$variant;
  SKIP: {
        my ($compiler) = $arguments =~ /CC=(\w+)/;
        skip "$compiler is not installed", 1 + @lessons if system("command -v $compiler >/dev/null 2>&1") != 0;
        my $built = build($root, $arguments);
        is($built ? trace_hash("$root/$out/ringside", $_) : 'not built', $expected{$_}, "$_: $name has the same")
            for @lessons;
        is($built ? kernel_bits("$root/$out/ringside") : 'not built', $bits, "kernels of $name give the same bits");
    }
}

# Another folder: the sources are copied and built there, the lessons run from there.
my $other = tempdir(CLEANUP => 1) . '/another folder';
mkdir $other or die "mkdir $other: $!";
system("cp -R Makefile src trace_viewer scripts lessons tests '$other/'") == 0 or die 'cp failed';
my $built = build($other, 'CC=gcc BUILD=debug CFLAGS=');
is($built ? trace_hash("$other/build/debug/ringside", $_, folder => $other) : 'not built', $expected{$_},
    "$_: built and run in another folder it has the same")
    for @lessons;

done_testing();
