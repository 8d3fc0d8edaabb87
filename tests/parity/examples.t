#!/usr/bin/perl
# The programs of PyTorch's tutorials, lessons/examples/NAME.lua: each prints in both executors what PyTorch 2.15
# printed, examples/NAME.expected; and so does examples/NAME.py with the PyTorch that is found, which is started once
# for all. In which order ranks come to print is nobody's promise: lines are sorted.
#
#   PYTHON=.../python tests/parity/examples.t --make NAME...     makes NAME.expected anew, with PyTorch 2.15 alone
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use File::Temp qw(tempdir);
use Test::More;
use lib dirname(abs_path($0));
use Lines;

my $here      = dirname(abs_path($0));
my $ringside  = abs_path($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $folder    = tempdir(CLEANUP => 1);
my $reference = '2.15';
my ($python)  = grep { system("$_ -c 'import torch' >/dev/null 2>&1") == 0 }
    grep { defined } $ENV{PYTHON}, '/usr/bin/python3', 'python3';
my %trusted = (ddp_checkpoint => 1);    # it writes a file

sub run {
    my ($command) = @_;
    my $text = `$command 2>'$folder/err'`;
    return split /\n/, $text if $? == 0;
    open my $err, '<', "$folder/err" or die $!;
    diag("$command: exit status ", $? >> 8, "\n", <$err>);
    return;
}

sub lines_of {
    my ($path) = @_;
    open my $file, '<', $path or return;
    chomp(my @lines = <$file>);
    return @lines;
}

# What each program printed, by name, as PyTorch has it now.
sub theirs {
    my (@names) = @_;
    my (%told, $name);
    for (run("'$python' -B -W ignore '$here/examples/all.py' @names")) {
        if (/^== (\w+)$/) { $name = $1 } else { push @{ $told{$name} }, $_ }
    }
    return \%told;
}

sub make {
    my (@names) = @_;
    my $version = $python ? `$python -c 'import torch; print(torch.__version__)'` : 'none';
    die "PyTorch $reference is wanted, not $version" unless $version =~ /^\Q$reference\E\./;
    my $told = theirs(@names);
    for my $name (@names) {
        my @lines = sort @{ $told->{$name} || die "$name.py prints nothing" };
        die "$name.py: $lines[0]" if $lines[0] =~ /^SKIP /;
        open my $file, '>', "$here/examples/$name.expected" or die $!;
        print $file "$_\n" for @lines;
        close $file or die $!;
    }
}

if (@ARGV && $ARGV[0] eq '--make') {
    make(@ARGV[ 1 .. $#ARGV ]);
    exit 0;
}

my @names = map { basename($_, '.expected') } @ARGV ? @ARGV : sort glob "$here/examples/*.expected";
cmp_ok(scalar @names, '>=', 13, 'there are programs') unless @ARGV;
my %expected = map { $_ => [ lines_of("$here/examples/$_.expected") ] } @names;

for my $name (@names) {
    for my $executor (qw(stepped free)) {
        my $how  = "run --quiet --executor $executor" . ($trusted{$name} ? ' --trust' : '');
        my @ours = sort(run("'$ringside' $how '$here/../../lessons/examples/$name.lua' -- '$folder'"));
        my $wrong = difference(\@ours, $expected{$name});
        ok(@ours && $wrong eq '', "$name, $executor: prints what PyTorch $reference printed") or diag($wrong);
    }
}

SKIP: {
    skip 'PyTorch is not installed here', scalar @names unless $python;
    my $told = theirs(@names);
    for my $name (@names) {
        my @lines = sort @{ $told->{$name} || [] };
      SKIP: {
            skip "$name.py: $1", 1 if @lines && $lines[0] =~ /^SKIP (.*)/;
            my $wrong = difference(\@lines, $expected{$name});
            ok(@lines && $wrong eq '', "$name.py prints with this PyTorch what it printed with $reference")
                or diag($wrong);
        }
    }
}
done_testing();
