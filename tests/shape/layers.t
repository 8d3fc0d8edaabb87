#!/usr/bin/env perl
# The towers stand: src/layers says who may include whom, every #include "folder/file.h" obeys it.
use strict;
use warnings;
use Test::More;
use File::Find;
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

my %may;
open my $layers, '<', 'src/layers' or die "src/layers: $!";
while (<$layers>) {
    s/#.*//;
    $may{$1} = { map { $_ => 1 } split ' ', $2 } if /^\s*(\S+?)\s*:\s*(.*)$/;
}
close $layers;
ok(%may, 'src/layers names folders');

# The nearest folder of the list that a file lies in, or under.
sub owner {
    my $folder = shift;
    while ($folder =~ s{/[^/]*$}{}) {
        return $folder if exists $may{$folder};
    }
    return;
}

my @files;
find({ no_chdir => 1, wanted => sub { push @files, $File::Find::name if /\.(c|h|S|def)$/ } },
     grep { -d } 'src', 'trace_viewer');
@files = sort @files;

my (@unknown, @upward, @internal, @missing, @outside, %edge);
for my $file (@files) {
    next if $file =~ m{^src/[^/]+\.def$};
    my $mine = owner($file);
    push @unknown, $file and next if !defined $mine;
    open my $text, '<', $file or die "$file: $!";
    while (<$text>) {
        next if !/^\s*#\s*include\s*"([^"]+)"/;
        my $name = $1;
        my $to = -e "src/$name" ? "src/$name" : -e $name ? $name : undef;
        if (!defined $to) {
            (my $near = $file) =~ s{[^/]*$}{$name};
            $to = $near if -e $near;
        }
        push @missing, "$file:$.: $name" and next if !defined $to;
        next if $to =~ m{^src/[^/]+\.def$};
        my $theirs = owner($to);
        push @outside, "$file:$.: $to" and next if !defined $theirs;
        push @internal, "$file:$.: $to" if $to =~ m{internal\.h$} && $mine ne $theirs;
        next if $mine eq $theirs;
        $edge{$mine}{$theirs} = "$file:$.";
        push @upward, "$file:$.: $mine may not include $theirs ($name)" if !$may{$mine}{$theirs};
    }
    close $text;
}

sub none {
    my ($name, @found) = @_;
    ok(!@found, $name) or diag(join "\n", @found);
}
none('src/layers says where each folder belongs', @unknown);
none('each folder includes only what src/layers allows it', @upward);
none('nobody includes the internal.h of another folder', @internal);
none('each included file exists', @missing);
none('nothing is included from outside the listed folders', @outside);

# A folder is reached from itself: a cycle.
sub cycles {
    my ($graph) = @_;
    my @found;
    for my $start (sort keys %$graph) {
        my %seen;
        my @open = sort keys %{ $graph->{$start} };
        while (defined(my $next = shift @open)) {
            push @found, "$start reaches itself through $next" if $graph->{$next}{$start};
            next if $seen{$next}++;
            push @open, sort keys %{ $graph->{$next} // {} };
        }
    }
    return @found;
}
none('folders include each other without a cycle', cycles(\%edge));
none('src/layers itself has no cycle', cycles(\%may));
done_testing();
