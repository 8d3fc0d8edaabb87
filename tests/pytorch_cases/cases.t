#!/usr/bin/perl
# Each file here holds what PyTorch's own tests ask of one part, as checks that begin with the row's id. All hold in both
# executors; an id that stands in a file has at least one check that ran.
use strict;
use warnings;
use Test::More;

my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';

sub slurp {
    my ($path) = @_;
    open my $file, '<', $path or die "$path: $!";
    local $/;
    return <$file>;
}

my %ran;
my @files = glob 'tests/pytorch_cases/*.lua';
cmp_ok(scalar @files, '>=', 2, 'there are files of cases');
for my $file (@files) {
    my %wanted = map { $_ => 1 } slurp($file) =~ /\b(T\d{3})\b/g;
    for my $executor (qw(stepped free)) {
        my $out   = `'$ringside' run --tap --executor $executor '$file' 2>&1`;
        my @wrong = $out =~ /^(not ok .*)$/mg;
        my $name  = "$executor: " . ($file =~ s{.*/}{}r);
        is($?, 0, "$name ends with status 0") or diag($out =~ /^(ringside: .*)$/m ? $1 : '');
        is(join("\n", @wrong), '', "$name: every check holds");
        like($out, qr/^1\.\.[1-9]\d*$/m, "$name has a plan");
        my %seen = map { $_ => 1 } $out =~ /^ok \d+ - (T\d{3}) /mg;
        @ran{ keys %seen } = ();
        is(join(' ', grep { !$seen{$_} } sort keys %wanted), '', "$name: each row has a check that ran");
    }
}

# Every row of the catalogue has one, but those of group Q, which a test of processes holds, and those that say why not.
my $catalogue = slurp('tests/pytorch_cases/rows.txt');
my ($rows)    = $catalogue =~ /^(A .*?)^Q /ms;
my %excused   = map { $_ => 1 } $catalogue =~ /^(T\d{3}) cannot apply: ./mg;
is(join(' ', grep { !exists $ran{$_} && !$excused{$_} } $rows =~ /\b(T\d{3})\b/g), '', 'each row of the catalogue has a check');
done_testing();
