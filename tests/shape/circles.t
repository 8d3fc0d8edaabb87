#!/usr/bin/perl
# No circle by calls: X.c and X.h are one unit; between the units of one folder calls lead one way, so each can be read
# after those that it calls. A table of functions is no call: that is how a circle is cut.
use strict;
use warnings;
use Test::More;
use File::Basename qw(basename dirname);
use Cwd qw(abs_path);

chdir dirname(abs_path($0)) . '/../..' or die "cannot enter the project: $!";

# Circles that stay, each with its reason: "folder unit unit ..." => why.
my %excused = ();

sub code_of {
    my ($file) = @_;
    open my $in, '<', $file or die "$file: $!";
    local $/;
    my $text = <$in>;
    $text =~ s{/\*.*?\*/}{ }gs;
    $text =~ s{//[^\n]*}{}g;
    $text =~ s{"(?:\\.|[^"\\\n])*"}{""}g;
    return $text if $file =~ /\.c$/;
    my $inline = ''; # a declaration is no call
    $inline .= $& while $text =~ /^static inline [^;{}]*\{.*?^\}/gms;
    return $inline;
}

# What a unit defines for others (a name at the beginning of a line and its parameters; inline functions of the header)
# and whom it calls.
sub read_folder {
    my ($folder) = @_;
    my (%owner, %text);
    for my $file (glob "$folder/*.c $folder/*.h") {
        my $unit = basename($file) =~ s/\.[ch]$//r;
        my $code = code_of($file);
        $text{$unit} .= $code;
        while ($code =~ /^([a-z_]\w*)\([^;{}]*\)\s*\{/gm) {
            my ($name, $before) = ($1, substr $code, 0, $-[0]);
            my ($type) = $before =~ /([^\n]*)\n\z/;
            next if $file =~ /\.c$/ && ($type // '') =~ /\bstatic\b/;
            $owner{$name} = $unit;
        }
    }
    my %calls;
    for my $unit (keys %text) {
        my %own;
        $own{$1} = 1 while $text{$unit} =~ /^([a-z_]\w*)\([^;{}]*\)\s*\{/gm;
        while ($text{$unit} =~ /(?<![>.\w])([a-z_]\w*)\s*\(/g) {
            my $to = $owner{$1};
            $calls{$unit}{$to}{$1} = 1 if defined $to && $to ne $unit && !$own{$1};
        }
    }
    return (\%calls, scalar keys %text);
}

# Strongly connected sets of two or more units (Tarjan).
sub circles {
    my ($calls) = @_;
    my ($next, @stack, %index, %low, %on, @found) = (0);
    my $visit;
    $visit = sub {
        my ($unit) = @_;
        $index{$unit} = $low{$unit} = $next++;
        push @stack, $unit;
        $on{$unit} = 1;
        for my $to (sort keys %{ $calls->{$unit} || {} }) {
            if (!defined $index{$to}) {
                $visit->($to);
                $low{$unit} = $low{$to} if $low{$to} < $low{$unit};
            } elsif ($on{$to} && $index{$to} < $low{$unit}) {
                $low{$unit} = $index{$to};
            }
        }
        return if $low{$unit} != $index{$unit};
        my @set;
        do { push @set, pop @stack; delete $on{ $set[-1] } } while $set[-1] ne $unit;
        push @found, [ sort @set ] if @set > 1;
    };
    $visit->($_) for grep { !defined $index{$_} } sort keys %$calls;
    return @found;
}

# From each unit of a circle to another, by one call.
sub told {
    my ($calls, @set) = @_;
    my %in = map { $_ => 1 } @set;
    return map {
        my $from = $_;
        map { "  $from -> $_: " . join(' ', sort keys %{ $calls->{$from}{$_} }) }
            grep { $in{$_} } sort keys %{ $calls->{$from} || {} }
    } @set;
}

my @rooms = qw(
    src/analysis src/autograd src/base src/c10d src/cli src/control src/data src/device src/flight src/functional
    src/nn src/optim src/parallel src/sched src/tensor src/tensor/cpu src/trace trace_viewer
);
for my $folder (@ARGV ? @ARGV : @rooms) {
    my ($calls, $units) = read_folder($folder);
    my @circles = grep { !$excused{"$folder @$_"} } circles($calls);
    ok($units > 1, "$folder: units are found");
    ok(!@circles, "$folder: calls between units lead one way")
        or diag(map { "circle: @$_\n" . join("\n", told($calls, @$_)) . "\n" } @circles);
}
done_testing();
