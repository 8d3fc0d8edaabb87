#!/usr/bin/env perl
# Golden frames: what the screen shows of a recorded trace, at four sizes, in colour, in ASCII, as plain words. The trace is
# one of a run of long ago (two_ranks.lua), so a frame changes only when the viewer does. Who changes it on purpose makes
# them anew with RINGSIDE_MAKE=1 and looks at what git says.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode encode);
use File::Temp qw(tempdir);
use FindBin;
use IO::Uncompress::Gunzip qw(gunzip $GunzipError);
chdir "$FindBin::Bin/../.." or die "no root: $!";

my $viewer = ($ENV{RINGSIDE_OUT} || 'build/release') . '/trace_viewer';
my $folder = tempdir(CLEANUP => 1);
my $trace  = "$folder/two_ranks.trace";
gunzip('tests/viewer/frames/two_ranks.trace.gz' => $trace) or die $GunzipError;

# Where one stands: an event by what it is, and keys after that.
my %places = (
    beginning => ['--at 0', ''],
    question  => ['--at 0', 'n'],
    ring      => ['--at 0', ':reveal all<Enter>:until comm.hop and rank 0<Enter>m'],
    bucket    => ['--at 0', ':reveal all<Enter>:until ddp.mark_bucket_ready<Enter>'],
    node      => ['--at 0', ':reveal all<Enter>:until autograd.node and rank 1<Enter>'],
    help      => ['--at 0', '?'],
    keys      => ['--at 0', '??'],
    end       => ['', ''],
);
my @sizes = ('40x10', '80x24', '120x40', '200x60');
my %ways  = (utf8 => '--print', ascii => '--print --ascii', colour => '--print=ansi');

sub read_file { my ($name) = @_; local $/; open my $in, '<:utf8', $name or return; return scalar <$in> }

for my $place (sort keys %places) {
    my ($at, $keys) = @{ $places{$place} };
    for my $way (sort keys %ways) {
        my $all = '';
        for my $size (@sizes) {
            my $frame = decode('UTF-8', scalar `$viewer $trace $ways{$way} --size $size $at --keys '$keys'`);
            is($?, 0, "$place, $way, $size: there is a frame");
            my ($width) = split /x/, $size;
            my $bare = $frame =~ s/\x1b\[[0-9;]*m//gr;
            is((grep { length > $width } split /\n/, $bare), 0, "$place, $way, $size: within its width");
            unlike($bare, $way eq 'ascii' ? qr/[^\n\x20-\x7e]/ : qr/[\x00-\x09\x0b-\x1f\x7f]/, "$place, $way, $size: nothing that steers a terminal");
            $all .= "==== $size ====\n" . $frame =~ s/\x1b\[/^[/gr;
        }
        my $golden = "tests/viewer/frames/$place.$way";
        if ($ENV{RINGSIDE_MAKE}) {
            open my $file, '>:utf8', $golden or die "$golden: $!";
            print $file $all;
            close $file or die $!;
        }
        my $expected = read_file($golden) // 'no golden frame';
        ok($all eq $expected, "$place, $way: as it was") or diag(differs($expected, $all));
    }
}

# The first line that is another one.
sub differs {
    my @was = split /\n/, $_[0], -1;
    my @is  = split /\n/, $_[1], -1;
    for my $i (0 .. $#is) {
        return encode('UTF-8', "line " . ($i + 1) . "\n was $was[$i]\n is  $is[$i]") if ($was[$i] // '') ne $is[$i];
    }
    return 'it was longer';
}

# The plain mode tells the same places in words.
my $words = '';
for my $place (sort keys %places) {
    my ($at, $keys) = @{ $places{$place} };
    next if $place eq 'help' || $place eq 'keys' || $place eq 'question';
    open my $typed, '>', "$folder/typed" or die $!;
    print $typed map { "$_\n" } map { s/^://r } grep { length } split /<Enter>/, $keys =~ s/<Enter>m$/<Enter>stage/r;
    close $typed or die $!;
    $words .= "==== $place ====\n" . decode('UTF-8', scalar `$viewer $trace --plain $at <$folder/typed`);
}
my $golden = 'tests/viewer/frames/words';
if ($ENV{RINGSIDE_MAKE}) {
    open my $file, '>:utf8', $golden or die "$golden: $!";
    print $file $words;
    close $file or die $!;
}
ok($words eq (read_file($golden) // ''), 'in words: as it was') or diag(differs(read_file($golden) // '', $words));
done_testing;
