#!/usr/bin/env perl
# What a person meets on the screen in a first hour: keys in the list of keys, a measure beside messages, panes that have
# the keys, small screens, deep zooms. Each frame is printed, as the terminal would show it.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);
my $trace  = "$folder/01.trace";
is(system("$ringside run --quiet --trace $trace lessons/01-six-rows.lua >/dev/null 2>&1"), 0, 'lesson 01 makes a trace');

sub frame {
    my ($size, $at, $keys) = @_;
    return decode('UTF-8', scalar `$viewer $trace --print --size $size --at $at --keys '$keys'`);
}
sub row { return (split /\n/, $_[0], -1)[$_[1]] }

# ---- the list of keys ----
my $plain = frame('80x24', 10, '');
my $first = frame('80x24', 10, '?');
like($first, qr/six keys are enough/, '? begins with what is enough');
like($first, qr/all keys and commands\s+q close  \? all keys/, '80x24: that has room on one page, and says what comes next');
my $help  = frame('80x24', 10, '??');
like($help, qr/ line 1 of (\d+) *\n\z/, 'the list says which of its lines is at the top');
my ($lines) = $help =~ /line 1 of (\d+)/;
my %top = ('<PageDown>' => 23, '<Space>' => 23, '^F' => 23, 'j' => 2, '<Down>' => 2, 'jjk' => 2, 'k' => 1, '<PageUp>' => 1,
           'G' => $lines - 21, '<End>' => $lines - 21, 'Gg' => 1, 'G<Home>' => 1, 'G<PageUp>' => $lines - 43,
           '<PageDown>' x 9 . 'k' => $lines - 22, '<PageDown><Backspace>' => 1);
for my $keys (sort keys %top) {
    (my $pressed = $keys) =~ s/\^F/<^F>/;
    like(frame('80x24', 10, "??$pressed"), qr/ line $top{$keys} of $lines *\n\z/, "$keys stands at line $top{$keys}");
}
my @seen = map { split /\n/, frame('80x24', 10, '??' . '<PageDown>' x $_) } 0 .. 9;
like(join("\n", @seen), qr/draw everything again/, 'paging comes to its last line');
is(frame('80x24', 10, "??${_}q"), $plain, "$_ does nothing beneath the list") for 's', 'n', 'v', 'i', '+', '<Tab>', '5', ':';
is(frame('80x24', 10, "??$_"), $plain, "$_ closes it") for '?', 'q', '<Esc>', '<F1>', '<Enter>';
is(frame('80x24', 10, "?$_"), $plain, "$_ closes the first page") for 'q', '<Esc>', '<Enter>';
for my $size ('20x5', '20x3', '10x2', '40x8', '40x10', '60x20') {
    my ($width, $height) = split /x/, $size;
    my $all = join "\n", map { frame($size, 10, '??' . 'j' x $_) } map { $_ * ($height > 2 ? $height - 2 : 1) } 0 .. 5;
    like($all, qr/stepping|Digits/, "$size: the list is there");
    like(row(frame($size, 10, '?'), $height - 1), qr/^ q close/, "$size: and says how it closes") if $height > 2;
}
like(frame('40x10', 10, '??jjj'), qr/^ s Space  step\n   go on by one event, or N; memory and\n/m, 'a narrow list is to be read');

# ---- a measure ----
my ($question) = map { /^(\d+) lesson\.ask.*How many/ ? $1 : () } `$ringside events $trace lesson.ask`;
my ($before_question) = frame('80x24', $question, 'N') =~ /step (\d+)\//;
like(row(frame('80x24', 13, 'v5s'), 22), qr/^ from event 13 to here: 0 ns, \d+ events; v ends it/, 'v measures');
like(row(frame('80x24', 13, 'v5sy'), 22), qr/^ no command has the key y.* 0 ns from event 13$/, 'what is said stands beside it');
like(row(frame('80x24', $before_question, 'vnn'), 22), qr/^ first your answer.* us from event $before_question$/, 'so does a question');
like(row(frame('40x10', 13, 'v5sy'), 8), qr/^ no command has the key y/, 'without room the message is what stands');
like(row(frame('80x24', 13, 'v:ste'), 22), qr/^ :ste *$/, 'a prompt has its line alone');
is(frame('80x24', 13, 'v5svS'), frame('80x24', 13, '5sS'), 'v again ends it');

# ---- who has the keys ----
sub focus { return $_[0] =~ /[─┬]►\s?(\S*)/ ? $1 || 'tabs' : 'timeline' }
is(focus(frame('80x24', 13, $_->[0])), $_->[1], "80x24 $_->[0]: $_->[1] has the keys")
    for ['', 'timeline'], ['<Tab>', 'Lesson'], ['<Tab><Tab>', 'Source'], ['<Tab><Tab><Tab>', 'timeline'],
    ['i<Tab>', 'Lesson'], ['i<Tab><Tab>', 'Tasks'], ['i<Tab><Tab><Tab>', 'timeline'], ['<BackTab>', 'Source'];
isnt(frame('80x24', 13, "${_}<Tab><Tab>j"), frame('80x24', 13, "${_}<Tab><Tab>"), "after '$_' the keys move what has them")
    for '', 'i';
isnt(frame('80x24', 13, ':pane source<Enter>j'), frame('80x24', 13, ':pane source<Enter>'), ':pane source finds it among the tabs');
my %wide = map { focus(frame('120x40', 13, '<Tab>' x $_)) => 1 } 0 .. 3;
like(join(' ', sort keys %wide), qr{^\S+:\d+ Lesson Tasks timeline$|^Lesson Tasks \S+:\d+ timeline$}, '120x40: all four in turn');
is(focus(frame('40x10', 10, '<Tab>')), 'timeline', 'without panes the timeline keeps the keys');

like(row(frame('80x24', 10, ":$_->[0]<Tab>"), 22), qr/^ :\Q$_->[1]\E *$/, "Tab makes :$_->[0] to :$_->[1]")
    for ['wh', 'where'], ['rfi', 'rfinish'], ['zo', 'zoom-  zoom-in zoom-out'], ['nonsense', 'nonsense'], ['where x', 'where x'];

# ---- small screens ----
for my $size ('40x8', '40x10', '40x12', '59x12', '60x12', '80x12') {
    my ($told) = grep { /lanes/ } split /\n/, frame($size, 10, '');
    like($told, qr/^ \+\d+ lanes\b.* j\/k scroll$/, "$size: how many more lanes there are is to be read");
}
like(frame('20x5', 10, '?'), qr/^ it 0  step 10\/[\d?]+\s*\n/, '20x5: where one stands is whole');
unlike(frame('40x10', 10, ''), qr/^.d2 cop/m, '40x10: a lane is out of sight');
like(frame('40x10', 10, 'jjjjjjjjj'), qr/^►d2 cop/m, 'until j scrolls to it');

# ---- zoom ----
for my $keys ('+++', '+++++++++++++', '<Enter>', '+++++++++++++ddddd', '+++++++++++++d]') {
    for my $at (0, 10, 300, 621) {
        my $minimap = row(frame('80x24', $at, $keys), 2);
        like($minimap, qr/\[.*\]/, "event $at, $keys: the minimap has both ends of the window");
    }
}
for my $size ('80x24', '100x30', '120x40', '200x60') {
    my %ruler = map { $_ => row(frame($size, 300, $_), 1) } '', map { '+' x 12 . 'a' x $_, '+' x 12 . 'd' x $_ } 1 .. 4;
    for my $keys (sort keys %ruler) {
        like($ruler{$keys}, qr/virtual \(classroom\)/, "$size, '$keys': the clock's name is whole");
        last if $ruler{$keys} !~ /virtual/;
    }
    ok((grep { /virtual.*\x{25bc}/ } values %ruler), "$size: and makes room where the cursor comes to it");
}

# ---- a first screen, small screens with words ----
like(row(frame($_, 0, ''), -3), qr/^ n: next stop   \?: all keys$/, "$_: the first screen says what to press")
    for '40x12', '80x24', '120x40';
unlike(frame('80x24', 1, ''), qr/n: next stop/, 'and the next no more');
my ($asked) = map { /^(\d+) / ? $1 : () } `$ringside events $trace lesson.ask`;
for my $size ('40x12', '59x13', '80x12', '80x17', '40x24') {
    my ($width) = split /x/, $size;
    like(frame($size, $asked, ''), qr/^─ Lesson ─{@{[ $width - 9 ]}}$/m, "$size: a question has the whole width");
    is(focus(frame($size, $asked, '<Tab>')), 'Lesson', "$size: and Tab gives its pane the keys");
}
like(frame('40x12', $asked, ''), qr/^   work\?\s*\n   a\) 2   b\) 3   c\) 4   d\) I do not know\s*\n/m, 'choices stand on one line');
done_testing;
