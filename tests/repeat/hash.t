#!/usr/bin/perl
# One trace hash for each lesson, exercise, solution and example, and for PyTorch's numbers through ops, modules, losses
# and optimizers, over compilers, build types, two folders, a set LUA_PATH and a C library that takes the CPU for one
# that does not fuse; where they can be had also over 32 bits and another processor. The first test of the suite: nothing
# else means much if a run does not repeat.
use strict;
use warnings;
use Cwd qw(getcwd);
use Fcntl qw(LOCK_EX);
use File::Temp qw(tempdir);
use Test::More;

my $root    = getcwd();
my @lessons = (
    (glob 'lessons/{,exercises/,solutions/,examples/}*.lua'),
    (map { "--trust tests/ops/$_.lua" } ('ops', 'compositions', 'layers')),
    (map { "--trust scripts/golden.lua -- tests/golden/$_.json" } ('modules', 'losses', 'autograd', 'optim')),
);
$ENV{GOLDEN_PARTS} = 'scripts';

# The hash that this program prints for this lesson, as the shell sees it; "" when the run failed.
sub trace_hash {
    my ($program, $lesson, %option) = @_;
    local %ENV = (%ENV, %{ $option{env} || {} });
    my $out = `cd '@{[ $option{folder} || $root ]}' && $program run --quiet --hash $lesson 2>&1 </dev/null`;
    return $out =~ /trace hash ([0-9a-f]+)/ ? $1 : '';
}

# What the kernels' script prints: every bit of their results.
sub kernel_bits {
    my ($program) = @_;
    return scalar `$program run --quiet --trust '$root/tests/repeat/kernels.lua' 2>&1`;
}

# The program of these arguments alone, without the viewer. One at a time in a folder: other tests build there too.
sub build {
    my ($folder, $program, @arguments) = @_;
    mkdir "$folder/build";
    open my $lock, '>', "$folder/build/.lock" or die "build/.lock: $!";
    flock $lock, LOCK_EX or die "flock: $!";
    my $log = `cd '$folder' && make -s -j2 @arguments $program 2>&1`;
    diag("make @arguments:\n$log") if $? != 0;
    return $? == 0;
}

# Libraries of another kind of machine, which headers of this one serve. "" where they are not there.
sub libraries_of {
    my ($machine) = @_;
    my @files = map { "/usr/lib/$machine/$_" }
        qw(liblua5.4.so.0 libncursesw.so.6 libtinfo.so.6 libjansson.so.4 libz.so.1);
    return (grep { !-e } @files) ? '' : "@files";
}

# Whether a program that is built so runs.
sub runs {
    my ($compile, $run) = @_;
    my $folder = tempdir(CLEANUP => 1);
    return system("echo 'int main(void) { return 0; }' | $compile -x c -o $folder/a - >/dev/null 2>&1 && " .
                  "$run $folder/a >/dev/null 2>&1") == 0;
}

# Undefined behaviour ends the run. Division of 128 bits and the x87's rounding are in bits_32.c.
sub of_32_bits {
    my $libraries = libraries_of('i386-linux-gnu');
    chomp(my $atomic = `gcc -m32 -print-file-name=libatomic.a 2>/dev/null`);
    chomp(my $here = `gcc -print-multiarch 2>/dev/null`);
    return if $libraries eq '' || !-e $atomic || !runs('clang -m32', '');
    return "CC=clang OUT=build/bits_32 NVCC= 'OPT=-O1 -U_FORTIFY_SOURCE' 'CFLAGS=-m32 -msse2 -mfpmath=sse -g0 " .
        '-include tests/repeat/bits_32.h -Wno-bit-int-extension -Wno-atomic-alignment -fsanitize=undefined ' .
        "-fsanitize-trap=undefined -idirafter /usr/include/$here' " .
        "'PKG_LIBS=$libraries $atomic tests/repeat/bits_32.c -lpthread -lm -ldl'";
}

my ($qemu) = grep { system("command -v $_ >/dev/null 2>&1") == 0 } 'qemu-aarch64-static', 'qemu-aarch64';
sub of_aarch64 {
    my $libraries = libraries_of('aarch64-linux-gnu');
    chomp(my $here = `gcc -print-multiarch 2>/dev/null`);
    return if $libraries eq '' || !defined $qemu || !runs('aarch64-linux-gnu-gcc', $qemu);
    return "CC=aarch64-linux-gnu-gcc OUT=build/aarch64 NVCC= 'OPT=-O1 -U_FORTIFY_SOURCE' " .
        "'CFLAGS=-g0 -idirafter /usr/include -idirafter /usr/include/$here' 'PKG_LIBS=$libraries -lpthread -lm -ldl'";
}

my $mine     = "$root/" . ($ENV{RINGSIDE_OUT} || 'build/release');
# The debug build is made in another folder, from a copy of the sources, and without what debuggers read.
my $other = tempdir(CLEANUP => 1) . '/another folder';
mkdir $other or die "mkdir $other: $!";
system("cp -R Makefile src trace_viewer scripts lessons tests '$other/'") == 0 or die 'cp failed';
my $foreign = 'no compiler, libraries or emulator of it here; on Debian: dpkg --add-architecture';
my @variants = (
    [ 'gcc release',                   $root,  'build/release', 'CC=gcc' ],
    [ 'gcc debug in another folder',   $other, 'build/debug',   'CC=gcc BUILD=debug CFLAGS=' ],
    [ 'gcc asan',                      $root,  'build/asan',    'CC=gcc BUILD=asan' ],
    [ 'clang release',                 $root,  'build/clang',   'CC=clang OUT=build/clang' ],
    [ '32 bits, undefined behaviour sought', $root, 'build/bits_32', scalar of_32_bits(), "$foreign i386, gcc-multilib and " .
        'liblua5.4-0 libncursesw6 libjansson4 zlib1g of i386' ],
    [ 'aarch64, emulated', $root, 'build/aarch64', scalar of_aarch64(), "$foreign arm64, gcc-aarch64-linux-gnu, " .
        'libc6-dev-arm64-cross, qemu-user-static and liblua5.4-0 libncursesw6 libjansson4 zlib1g of arm64' ],
);

my %expected;
my %surroundings = (LUA_PATH => '/tmp/?.lua;;', LUA_INIT => 'x = 1',
                    GLIBC_TUNABLES => 'glibc.cpu.hwcaps=-FMA,-FMA4,-AVX2');
for my $lesson (@lessons) {
    $expected{$lesson} = trace_hash("'$mine/ringside'", $lesson);
    isnt($expected{$lesson}, '', "$lesson has a trace hash");
    is(trace_hash("'$mine/ringside'", $lesson, env => \%surroundings), $expected{$lesson},
        "$lesson: a second run has the same, with LUA_PATH and LUA_INIT set, and without fused steps in the C library");
}

my $bits = kernel_bits("'$mine/ringside'");
like($bits, qr/\Agelu 1 .*^conv2d 33 /ms, 'the script of all kernels runs');

for my $variant (@variants) {
    my ($name, $folder, $out, $arguments, $wanted) = @$variant;
  SKIP: {
        skip "$name: $wanted", 1 + @lessons if !defined $arguments;
        my ($compiler) = $arguments =~ /CC=([\w-]+)/;
        skip "$compiler is not installed", 1 + @lessons if system("command -v $compiler >/dev/null 2>&1") != 0;
        my $built   = build($folder, "$out/ringside", $arguments);
        my $program = "'$folder/$out/ringside'";
        $program = "$qemu $program" if $name =~ /emulated/;
        is($built ? trace_hash($program, $_, folder => $folder) : 'not built', $expected{$_}, "$_: $name has the same")
            for @lessons;
        is($built ? kernel_bits($program) : 'not built', $bits, "kernels of $name give the same bits");
    }
}
done_testing();
