#!/usr/bin/perl
# Lessons with their n-th allocation failing, for 500 n spread evenly: an error or the right answer, never a crash, a hang
# or a wrong number. `free` runs --exact: the fast product's libraries end the process where they cannot allocate.
use strict;
use warnings;
use lib 'tests/faults';
use Failing;
use Test::More;

plan skip_all => 'the failing allocator is for glibc on Linux' if $^O ne 'linux';
plan skip_all => 'tests/sanitize fails allocations under the sanitizers' if ($ENV{RINGSIDE_OUT} || '') =~ /asan|tsan/;
my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my @training = ('tests/faults/training.lua', '--');
my @free     = ('--executor', 'free', '--exact');

fail_each('lesson 01', $ringside, 500, 0, 'lessons/01-six-rows.lua');
my ($before) = count_allocations($ringside, @training, 'nothing');
fail_each('a training step', $ringside, 500, $before, @training);
($before) = count_allocations($ringside, @free, @training, 'nothing');
fail_each('a training step in free', $ringside, 500, $before - 50, @free, @training);
done_testing();
