#!/usr/bin/perl
# The C library's functions differ in their last digits from machine to machine: what a trace or a tensor may show is made
# with base/math.h, base/draw_math.h and tensor/cpu/rounded.h. Asked for by nobody: whatever IEEE 754 does not fix.
use strict;
use warnings;
use File::Find qw(find);
use Test::More;

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my @own = qw(exp exp2 exp10 expm1 log log2 log10 log1p pow sin cos sincos tan asin acos atan atan2 sinh cosh tanh asinh acosh
    atanh erf erfc tgamma lgamma gamma cbrt hypot j0 j1 jn y0 y1 yn);
my %differs = map { ($_ => 1, "${_}f" => 1, "${_}l" => 1) } @own;

# What the objects ask for of such functions: "OBJECT asks for NAME".
sub asked_for {
    my @found;
    for my $line (map { split /\n/, `nm -A -u $_ 2>/dev/null` } @_) {
        my ($object, $name) = $line =~ /^(.*\.o):\s+U _*(\w+)/ or next;
        push @found, "$object asks for $name" if $differs{ $name =~ s/_finite$//r };
    }
    return @found;
}

my @objects;
find({ no_chdir => 1, wanted => sub { push @objects, $_ if /\.o$/ && !m{/obj/tests/} } }, "$out/obj");
cmp_ok(scalar @objects, '>', 600, 'the program\'s objects are there');
is(join("\n", asked_for(join ' ', map { "'$_'" } @objects)), '',
    'no object asks for a function whose digits differ between machines');

# That the search finds what it looks for: the unit test of these functions compares with the C library's.
my ($test) = grep { -e } "$out/obj/tests/unit/test_math.o";
SKIP: {
    skip 'test_math.o is not built', 1 if !defined $test;
    ok(scalar(grep { /expl$/ } asked_for($test)), 'where one is used it is found');
}
done_testing();
