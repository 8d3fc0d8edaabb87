#!/usr/bin/perl
# Where the right answer stands says nothing. Words are shuffled by the lesson's seed, numbers keep their order, "none of
# these" stays last; over the whole course each place of three is right in 25 to 42 % of the questions. The letters are the
# same in every run, in a batch, and in what a process of a job records.
use strict;
use warnings;
use utf8;
use lib 'tests/cli';
use JSON::PP qw(decode_json);
use Ringside;
use Test::More;

# Of each question of a lesson: its choices as they were recorded, and its words.
sub questions {
    my ($path, @options) = @_;
    my $trace = folder() . '/asked.trace';
    my $run   = ringside('run', '--quiet', '--trace', $trace, @options, $path);
    my @asked = map { decode_json($_)->{args} } split /\n/, ringside('events', $trace, 'lesson.ask', '--json')->{out};
    unlink $trace;
    $_->{list} = [ $_->{choices} =~ /^choice (.*)/mg ] for @asked;
    return ($run->{status}, @asked);
}
sub letters { return join "\n", map { join ' | ', @{ $_->{list} } } @_ }

# ---- the rule ----
my $words   = join ', ', map { qq("$_") } qw(red green blue black);
my $lesson  = <<"END_LESSON";
local rs = require "ringside"
rs.lesson { title = "Choices", seed = SEED }
for i = 1, 60 do rs.ask { "Words " .. i .. "?", choices = { $words }, answer = "green", wrong = { red = "not red" } } end
for i = 1, 20 do rs.ask { "Last " .. i .. "?", choices = { "red", "green", "none of these", "I do not know" }, answer = "red" } end
for i = 1, 20 do rs.ask { "Both " .. i .. "?", choices = { "9", "an error", "10", "none" }, answer = "10" } end
for _, list in ipairs {
  { "2", "10", "3" }, { "4", "3", "2" }, { "0.5", "-1e3", "+7", ".25" }, { "78 %", "95 %", "100 %" }, { "11 us", "2 ms", "3 s" },
  { "1 000 000", "2 000 000", "40000" }, { "3/4", "3/2", "3" }, { "4KiB", "1 MiB", "2,048,000 B" }, { "5 MB/s", "1 GB/s" },
} do
  for i = 1, 8 do rs.ask { "Numbers?", choices = list, answer = list[1] } end
end
END_LESSON
my $one = lesson('one', $lesson =~ s/SEED/1/r);
my ($status, @asked) = questions($one);
is($status, 0, 'a lesson with many questions runs');
my @shuffled = @asked[ 0 .. 59 ];
is_deeply([ grep { join(' ', sort @{ $_->{list} }) ne 'black blue green red' } @shuffled ], [], 'no choice is lost or doubled');
for my $place (0 .. 3) {
    my $right = grep { $_->{list}[$place] eq 'green' } @shuffled;
    cmp_ok($right, '>=', 6, "of sixty the answer is at place $place at least six times");
    cmp_ok($right, '<=', 26, "and at most 26 times");
}
is_deeply([ grep { $_->{choices} !~ /^choice red\nwrong not red$/m } @shuffled ], [], 'what is wrong goes with its choice');
is_deeply([ grep { my $asked = $_; my $i = 0;
    $asked->{question} ne ($asked->{question} =~ s/  a\).*//sr) . '  ' . join('   ', map { chr(ord('a') + $i++) . ") $_" } @{ $asked->{list} }) } @asked ],
    [], 'the words of a question list them in the same order');
my @last = @asked[ 60 .. 79 ];
is_deeply([ grep { "@{ $_->{list} }[2,3]" ne 'none of these I do not know' } @last ], [], 'what speaks of the others stays last');
ok((grep { $_->{list}[0] eq 'green' } @last) && (grep { $_->{list}[0] eq 'red' } @last), 'those before it are shuffled');
my @mixed = @asked[ 80 .. 99 ];
is_deeply([ grep { join(' ', grep { /\d/ } @{ $_->{list} }) ne '9 10' } @mixed ], [], 'numbers among words keep their order');
my %orders = map { letters($_) => 1 } @mixed;
cmp_ok(scalar keys %orders, '>=', 6, 'and the words go anywhere');
my @numbers = @asked[ 100 .. $#asked ];
is(scalar @numbers, 72, 'there are nine lists of numbers');
my @lists = map { letters($numbers[ 8 * $_ ]) } 0 .. 8;
is_deeply(\@lists, [ '2 | 10 | 3', '4 | 3 | 2', '0.5 | -1e3 | +7 | .25', '78 % | 95 % | 100 %', '11 us | 2 ms | 3 s',
    '1 000 000 | 2 000 000 | 40000', '3/4 | 3/2 | 3', '4KiB | 1 MiB | 2,048,000 B', '5 MB/s | 1 GB/s' ], 'numbers stay as they were written');
is_deeply([ grep { letters($numbers[$_]) ne $lists[ int($_ / 8) ] } 0 .. 71 ], [], 'each time');

is(letters((questions($one))[ 1 .. @asked ]), letters(@asked), 'another run has the same letters');
is(letters((questions($one, '--executor', 'free'))[ 1 .. @asked ]), letters(@asked), 'so has one on threads');
isnt(letters((questions(lesson('two', $lesson =~ s/SEED/2/r)))[ 1 .. 60 ]), letters(@shuffled), 'another seed has others');
my ($told) = ringside('step', '--batch', 'next 2', $one)->{out} =~ /^a question: (.*)$/m;
is($told, $asked[1]{question}, 'a batch asks with the same letters');
($told) = ringside('run', $one)->{out} =~ /^\? (Words 1\?.*)$/m;
is($told, $asked[0]{question}, 'and so does a run that asks nobody');

# ---- the course ----
my (%right, %count, @unordered);
for my $path (glob 'lessons/*.lua') {
    for my $asked ((questions($path))[ 1 .. 99 ]) {
        last if !defined $asked;
        my @list = @{ $asked->{list} } or next;
        my ($place) = grep { $list[$_] eq $asked->{answer} } 0 .. $#list;
        $right{ scalar @list }[$place]++;
        $count{ scalar @list }++;
        next if grep { !/^[\d.]+(?: [a-z%]+)?$/ } @list;
        my @values = map { 0 + s/ .*//r } @list;
        push @unordered, letters($asked) if join(" ", @values) ne join(" ", sort { $a <=> $b } @values);
    }
}
is_deeply(\@unordered, [], 'numbers of the course ascend');
cmp_ok($count{3}, '>', 100, 'most questions of the course have three choices');
for my $place (0 .. 2) {
    my $share = 100 * ($right{3}[$place] // 0) / $count{3};
    ok($share >= 25 && $share <= 42, sprintf 'of three choices place %d is right in 25 to 42 %%: %.1f %%', $place, $share);
}
for my $place (0 .. 1) {
    my $share = 100 * ($right{2}[$place] // 0) / $count{2};
    ok($share >= 35 && $share <= 65, sprintf 'of two choices place %d is right in 35 to 65 %%: %.1f %%', $place, $share);
}
done_testing();
