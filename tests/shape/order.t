#!/usr/bin/perl
# C leaves open in which order arguments and initializers are evaluated, and gcc and clang choose differently. So at most
# one of them may make an event or draw a number: else two builds write different traces. Told by the text: a call whose
# first argument is `me` may do so, unless its name is one of those that only look.
use strict;
use warnings;
use File::Find qw(find);
use Test::More;

my $looks = qr/^(?:task_\w+|failed\w*|stage_name_id|script_of|tensor_(?:count|size|dims|device|bytes|is_\w+)|sched_\w+
                |grad_enabled|any_requires_grad|hand_up|wants|storage_ref|tensor_ref|stream_current|cost_\w+
                |value_(?:none|tensor)|with_rows)$/x;

# Comments and texts become blanks of the same length.
sub code_of {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    my $text = <$file>;
    $text =~ s{(/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])')}{ (my $blank = $1) =~ s/[^\n]/ /g; $blank }gse;
    return $text;
}

# What stands between the commas from `at` on, up to the closing bracket.
sub parts {
    my ($text, $at) = @_;
    my ($depth, $start, @parts) = (0, $at);
    for (my $i = $at; $i < length $text; $i++) {
        my $c = substr $text, $i, 1;
        if ($c =~ /[(\[{]/) { $depth++ }
        elsif ($c =~ /[)\]}]/) {
            push @parts, substr $text, $start, $i - $start if $depth == 0;
            last if $depth-- == 0;
        }
        elsif ($c eq ',' && $depth == 0) {
            push @parts, substr $text, $start, $i - $start;
            $start = $i + 1;
        }
    }
    return @parts;
}

sub may_make_events {
    my ($part) = @_;
    while ($part =~ /\b([a-z_]\w*)\s*\(\s*me\b/g) {
        return 1 if $1 !~ $looks;
    }
    return 0;
}

my @files;
find({ wanted => sub { push @files, $_ if /\.c$/ }, no_chdir => 1 }, 'src');
for my $path (sort @files) {
    my $text = code_of($path);
    my @wrong;
    while ($text =~ /\b(?!(?:if|while|for|switch|return|sizeof)\b)[a-z_]\w*\s*\(|=\s*\{|\((?:const )?(?:struct \w+|\w+)(?: \*)?(?:\[\d*\])?\)\s*\{/g) {
        my $line = 1 + (substr($text, 0, $-[0]) =~ tr/\n//);
        push @wrong, $line if (grep { may_make_events($_) } parts($text, pos $text)) > 1;
    }
    is("@wrong", '', "$path: at most one argument or initializer of a list makes events");
}
done_testing();
