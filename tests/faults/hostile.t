#!/usr/bin/perl
# Lessons that mean harm end as they should: some of each section of hostile.lessons here (those with a star), of a second
# each; with RINGSIDE_LONG=1 all of them, of eight. tests/faults/hostile tells more of each.
use strict;
use warnings;
use lib 'tests/faults';
use Hostile;
use Test::More;

plan skip_all => 'what a run takes is measured on Linux' if $^O ne 'linux';
plan skip_all => "the sanitizers' own memory and time would be measured" if ($ENV{RINGSIDE_OUT} || '') =~ /asan|tsan/;
my %how     = (program => ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside', at_a_time => 2,
               seconds => $ENV{RINGSIDE_LONG} ? 8 : 1);
my @all     = hostile_lessons();
my @chosen  = grep { $ENV{RINGSIDE_LONG} || $_->{short} } @all;

my %source;
$source{ join ' ', @{ $_->{options} }, $_->{source} }++ for @all;
my %section = map { $_->{section} => 1 } @all;
delete @section{ map { $_->{section} } grep { $_->{short} } @all };
is(join("\n", grep { $source{$_} > 1 } sort keys %source), '', 'the lessons differ');
is(join(', ', sort keys %section), '', 'the short choice has some of each section');
cmp_ok(scalar @all, '>=', 400, 'they are at least 400');

hostile_run(\%how, sub {
    my ($lesson, $run) = @_;
    my $name = "line $lesson->{line} ($lesson->{section}) ends with: $lesson->{end}";
    is($run->{fault}, '', $name) or diag("$lesson->{source}\n$run->{err}");
}, @chosen);
done_testing();
