#!/usr/bin/perl
# The same small scripts in PyTorch and here: what they print, losses above all, agrees within rounding. A pair is
# twins/NAME.py and twins/NAME.lua; a line is a name and numbers. Where there is no PyTorch each pair is skipped.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(basename dirname);
use File::Temp qw(tempdir);
use Test::More;

my $here     = dirname(abs_path($0));
my $ringside = abs_path($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $folder   = tempdir(CLEANUP => 1);
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
    return run("'$ringside' run --trust --quiet --executor $executor '$here/twins/$name.lua' -- '$folder' $more");
}

# '' or what is different. Numbers within 2e-5 + 2e-4 of theirs, words and whole numbers exactly.
sub difference {
    my ($ours, $theirs) = @_;
    return sprintf '%d lines, PyTorch prints %d', scalar @$ours, scalar @$theirs if @$ours != @$theirs;
    for my $line (0 .. $#$theirs) {
        my @a = split ' ', $ours->[$line];
        my @b = split ' ', $theirs->[$line];
        return "line $line: '$ours->[$line]', PyTorch's is '$theirs->[$line]'" if @a != @b;
        for my $i (0 .. $#b) {
            next if $a[$i] eq $b[$i];
            my $number = qr/^-?\d+(\.\d+)?(e[-+]?\d+)?$/;
            my $near = $a[$i] =~ $number && $b[$i] =~ $number && abs($a[$i] - $b[$i]) <= 2e-5 + 2e-4 * abs $b[$i];
            return "line $line, word $i: $a[$i], PyTorch has $b[$i]" unless $near && "$a[$i]$b[$i]" =~ /[.e]/;
        }
    }
    return '';
}

for my $script (sort glob "$here/twins/*.lua") {
    my $name = basename($script, '.lua');
  SKIP: {
        skip "$name: PyTorch is not installed here", 1 unless $python;
        my @ours = ours($name, 'before');
        my @theirs = run("'$python' -W ignore '$here/twins/$name.py' '$folder'");
        skip "$name: $1", 1 if @theirs && $theirs[0] =~ /^SKIP (.*)/;
        @ours = ours($name, 'after') unless @ours;
        my $wrong = difference(\@ours, \@theirs);
        ok(@theirs && $wrong eq '', "$name prints what PyTorch prints") or diag($wrong);
    }
}
done_testing();
