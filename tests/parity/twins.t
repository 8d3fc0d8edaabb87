#!/usr/bin/perl
# The same small scripts in PyTorch and here. A pair is twins/NAME.py and twins/NAME.lua; NAME.expected is what NAME.py
# printed with PyTorch 2.15. What NAME.lua prints is compared with that everywhere; where a PyTorch is found, what NAME.py
# prints now is compared, too. A line is a name and numbers or words: numbers agree within rounding, all else exactly,
# and so does the whole line where the name ends in "=".
#
# A pair that exchanges weights has NAME.safetensors, which NAME.py wrote. NAME.lua runs before its twin, to write
# FOLDER/ours.safetensors, and after it, to read FOLDER/theirs.safetensors.
#
#   PYTHON=.../python tests/parity/twins.t --make NAME...     makes NAME.expected anew, with PyTorch 2.15 alone
#   TWINS=FOLDER                                              other twins: ddp_matrix.t
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use File::Copy qw(copy);
use File::Temp qw(tempdir);
use Test::More;
use lib dirname(abs_path($0));
use Lines;

my $here     = dirname(abs_path($0));
my $twins    = $ENV{TWINS} || "$here/twins";
my $ringside = abs_path($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $folder   = tempdir(CLEANUP => 1);
my $reference = '2.15';
my @pythons  = grep { defined } $ENV{PYTHON}, '/usr/bin/python3', 'python3';
my ($python) = grep { system("$_ -c 'import torch' >/dev/null 2>&1") == 0 } @pythons;
$ENV{DIGITS} = "$here/../../lessons/data/digits.csv.gz";

sub run {
    my ($command) = @_;
    my $text = `$command 2>'$folder/err'`;
    return split /\n/, $text if $? == 0;
    open my $err, '<', "$folder/err" or die $!;
    diag("$command: exit status ", $? >> 8, "\n", <$err>);
    return;
}

sub ours {
    my ($name, $more) = @_;
    my $executor = $ENV{TWINS_EXECUTOR} || 'stepped';
    return run("'$ringside' run --trust --quiet --executor $executor '$twins/$name.lua' -- '$folder' $more");
}

sub theirs {
    my ($name) = @_;
    unlink "$folder/meet";
    return run("'$python' -B -W ignore '$twins/$name.py' '$folder'");
}

sub exchanges { return -e "$twins/$_[0].safetensors" }

sub lines_of {
    my ($path) = @_;
    open my $file, '<', $path or return;
    chomp(my @lines = <$file>);
    return @lines;
}

sub without_torch {
    my ($name, $expected) = @_;
    my @ours = ours($name, 'before');
    if (exchanges($name)) {
        copy("$twins/$name.safetensors", "$folder/theirs.safetensors") or die $!;
        @ours = ours($name, 'after');
    }
    my $wrong = difference(\@ours, $expected);
    ok(@$expected && $wrong eq '', "$name prints what PyTorch $reference printed") or diag($wrong);
}

sub with_torch {
    my ($name, $expected) = @_;
  SKIP: {
        skip "$name.py: PyTorch is not installed here", 1 unless $python;
        my @theirs = theirs($name);
        skip "$name.py: $1", 1 if @theirs && $theirs[0] =~ /^SKIP (.*)/;
        my $wrong = difference(\@theirs, $expected);
        ok(@theirs && $wrong eq '', "$name.py prints with this PyTorch what it printed with $reference") or diag($wrong);
        return unless exchanges($name);
        $wrong = difference([ ours($name, 'after') ], \@theirs);
        is($wrong, '', "$name: what this PyTorch has just written means the same here");
    }
}

sub make {
    my ($name) = @_;
    my $version = $python ? `$python -c 'import torch; print(torch.__version__)'` : 'none';
    die "PyTorch $reference is wanted, not $version" unless $version =~ /^\Q$reference\E\./;
    ours($name, 'before') if -x $ringside;
    unlink "$folder/theirs.safetensors";
    my @theirs = theirs($name) or die "$name.py prints nothing";
    die "$name.py: $theirs[0]" if $theirs[0] =~ /^SKIP /;
    open my $file, '>', "$twins/$name.expected" or die $!;
    print $file "$_\n" for @theirs;
    close $file or die $!;
    copy("$folder/theirs.safetensors", "$twins/$name.safetensors") or die $! if -e "$folder/theirs.safetensors";
}

if (@ARGV && $ARGV[0] eq '--make') {
    make($_) for @ARGV[ 1 .. $#ARGV ];
    exit 0;
}
for my $name (map { basename($_, '.lua') } @ARGV ? @ARGV : sort glob "$twins/*.lua") {
    my @expected = lines_of("$twins/$name.expected");
    without_torch($name, \@expected);
    with_torch($name, \@expected);
}
done_testing();
