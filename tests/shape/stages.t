#!/usr/bin/env perl
# The code is the textbook: each function that src/stages.def names exists once, opens its stage and fits a screen;
# no function and no file is too long, and nothing at file scope can change.
use strict;
use warnings;
use Test::More;
use File::Find;
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

sub slurp {
    my $path = shift;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    return <$file>;
}

sub none {
    my ($name, @found) = @_;
    ok(!@found, $name) or diag(join "\n", @found);
}

# Rows: kind, its C function (the first bare word behind the kind), and whether it has a length.
my @rows;
my $table = slurp('src/stages.def');
while ($table =~ /^(STAGE|POINT)_KIND\(\s*(\w+)\s*,(.*)$/mg) {
    my ($type, $kind, $rest) = ($1, $2, $3);
    my ($function) = grep { /^\w+$/ } map { s/^\s+|\s+$//gr } split /,/, $rest;
    push @rows, { kind => $kind, function => $function // '', stage => $type eq 'STAGE' };
}
ok(@rows, 'src/stages.def has rows');

# Functions begin at column 0 and end at a "}" in column 0.
my (@files, %function, @long_functions, @long_files, @wide_lines);
find({ no_chdir => 1, wanted => sub { push @files, $File::Find::name if /\.[ch]$/ } },
     grep { -d } 'src', 'trace_viewer');
for my $path (sort @files) {
    my @line = split /\n/, slurp($path), -1;
    push @long_files, "$path has " . (@line - 1) . ' lines' if @line > 701;
    push @wide_lines, map { "$path:" . ($_ + 1) } grep { length $line[$_] > 120 } 0 .. $#line if $path =~ /\.c$/;
    for (my $first = 0; $first < @line; $first++) {
        next if $line[$first] !~ /^(\w+)\(/ || $line[$first] =~ /;\s*$/;
        my $name = $1;
        next if $name =~ /^(?:STAGE|POINT|OP|COMMAND|REQUEST)/ || $name =~ /^[A-Z_]+$/;
        my $last = $first;
        $last++ while $last < $#line && $line[$last] !~ /^\}/;
        my $above = $first > 1 ? $line[ $first - 2 ] : '';
        push @{ $function{$name} },
            { at => "$path:" . ($first + 1), told => ($above =~ m{\*/\s*$} ? 1 : 0), body => [ @line[ $first .. $last ] ] };
        push @long_functions, "$path:" . ($first + 1) . ": $name has " . ($last - $first + 1) . ' lines'
            if $last - $first + 1 > 70;
        $first = $last;
    }
}

my (@absent, @closed, @tall, @broad, @untold);
for my $row (@rows) {
    my ($kind, $name) = @$row{qw(kind function)};
    my $found = $function{$name} // [];
    if (@$found != 1) {
        push @absent, "$kind: $name is defined " . (@$found ? join ', ', map { $_->{at} } @$found : 'nowhere');
        next;
    }
    my $it = $found->[0];
    my $text = join "\n", @{ $it->{body} };
    # What happens on a lane without a task, or does not nest as a C scope, names its kind instead.
    my $opens = $row->{stage} ? qr/\bSTAGE\(\w+, $kind\b/ : qr/\bPOINT\(\w+, $kind\b|\bPOINT_ON\(\w+, [^,]+, $kind\b|\bKIND_$kind\b/;
    my $spans = qr/\bKIND_$kind\b/;
    push @closed, "$it->{at}: $name does not open $kind"
        if $text !~ $opens && !($row->{stage} && $text =~ $spans && $text =~ /\b(?:lane_emit|span_begin|lane_\w+)\(/);
    next if !$row->{stage};
    push @tall, "$it->{at}: $name has " . @{ $it->{body} } . ' lines' if @{ $it->{body} } > 40;
    push @broad, "$it->{at}: $name has a line over 90 columns" if grep { length > 90 } @{ $it->{body} };
    push @untold, "$it->{at}: $name has no comment above it" if !$it->{told};
}
none('each function of src/stages.def is defined once', @absent);
none('each of them opens its stage or emits its point', @closed);
none('stage functions have at most 40 lines', @tall);
none('stage functions have at most 90 columns', @broad);
none('stage functions say above them why', @untold);
none('functions have at most 70 lines', @long_functions);
none('files have at most 700 lines', @long_files);
none('lines of .c files have at most 120 columns', @wide_lines);

# Const tables with pointers lie in .data.rel.ro, where the loader writes and nobody else.
SKIP: {
    my $out = $ENV{RINGSIDE_OUT} // 'build/release';
    skip 'sanitizers add variables of their own', 1 if $out =~ /asan|tsan/;
    my @objects;
    find({ no_chdir => 1, wanted => sub { push @objects, $File::Find::name if /\.o$/ } },
         grep { -d } "$out/obj/src", "$out/obj/trace_viewer", "$out/gen");
    @objects = grep { my $source = m{/obj/(.*)\.o$} ? $1 : ''; $source eq '' || -e "$source.c" || -e $source } @objects;
    skip "no objects in $out", 1 if !@objects;
    skip 'nm cannot tell sections here', 1 if `nm --version 2>/dev/null` !~ /GNU/;
    # The handler of bus errors gets no argument of ours.
    my %handlers = ("$out/obj/src/trace/mapped.o: all" => 1);
    # CUDA, NCCL and CUPTI are the process's, and so is what their plug-in knows of them.
    @objects = grep { !m{/obj/src/plugins/cuda/} } @objects;
    my @mutable;
    for my $object (sort @objects) {
        for (`nm -f sysv $object 2>/dev/null`) {
            my ($name, undef, $class, undef, undef, undef, $section) = map { s/^\s+|\s+$//gr } split /\|/;
            push @mutable, "$object: $name in $section"
                if !$handlers{"$object: $name"} && defined $section && $class =~ /^[dDbBCsSgG]$/ && $section !~ /^\.data\.rel\.ro/;
        }
    }
    none('nothing at file scope can change', @mutable);
}
done_testing();
