# What a twin here printed against what PyTorch's printed: lines of words and numbers.
package Lines;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT = qw(difference);

# Numbers within 2e-5 + 2e-4 of what is expected.
sub near {
    my ($found, $expected) = map { s/,$//r } @_;
    my $number = qr/^-?\d+(\.\d+)?(e[-+]?\d+)?$/;
    return 0 if $found !~ $number || $expected !~ $number || "$found$expected" !~ /[.e]/;
    return abs($found - $expected) <= 2e-5 + 2e-4 * abs $expected;
}

# '' or what is different.
sub difference {
    my ($found, $expected) = @_;
    for my $line (0 .. $#$expected) {
        last if $line > $#$found;
        next if $found->[$line] eq $expected->[$line];
        my @a = split ' ', $found->[$line];
        my @b = split ' ', $expected->[$line];
        return "line $line: '$found->[$line]', expected '$expected->[$line]'" if @a != @b || "@b" =~ /^\S+=( |$)/;
        for my $i (0 .. $#b) {
            next if $a[$i] eq $b[$i] || near($a[$i], $b[$i]);
            return "line $line, $b[0], word $i: $a[$i], expected $b[$i]";
        }
    }
    return sprintf '%d lines, expected %d', scalar @$found, scalar @$expected if @$found != @$expected;
    return '';
}

1;
