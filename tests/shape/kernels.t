#!/usr/bin/perl
# Kernels can be written in another language: what they are called with can be read by a compiler of C++, as CUDA's is.
use strict;
use warnings;
use Test::More;
use FindBin;

chdir "$FindBin::Bin/../.." or die "no root: $!";
my ($compiler) = grep { system("command -v $_ >/dev/null 2>&1") == 0 } $ENV{CXX} // (), qw(g++ clang++ c++);
plan skip_all => 'no compiler of C++' if !defined $compiler;

for my $header (map { "tensor/cpu/$_.h" } qw(kernel update draw elements)) {
    open my $pipe, '|-', "$compiler -x c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -Isrc - 2>&1"
        or die "$compiler: $!";
    print $pipe qq{#include "$header"\nint main() { return 0; }\n};
    ok(close $pipe, "$header is C++ as well");
}
done_testing();
