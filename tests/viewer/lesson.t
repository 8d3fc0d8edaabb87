#!/usr/bin/env perl
# What a student and a teacher have beside the timeline: hints and failed checks, the lesson's text and its notes, what
# comes next, `predict`, the source at its width, the projector's layout.
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
my $trace  = "$folder/fails.trace";

sub record {
    my ($name, $text) = @_;
    open my $lesson, '>', "$folder/$name.lua" or die "no lesson: $!";
    print $lesson $text;
    close $lesson;
    return system("$ringside run --quiet --trace $folder/$name.trace $folder/$name.lua >/dev/null 2>&1") >> 8;
}

sub frame {
    my ($size, $keys, @more) = @_;
    return decode('UTF-8', scalar `$viewer $trace --print --size $size @more --at 0 --keys '$keys'`);
}

is(record('fails', <<'END_LESSON'), 1, 'a lesson with failed checks fails');
local rs = require "ringside"
rs.lesson { title = "Fails" }
rs.say "first"
rs.close("one is two", 1, 2, { hints = { "count again", "on your fingers" } })
rs.check("that holds", true, { hints = { "NEVER" } })
rs.hint "look up line 4"
rs.check("nothing is something", nil)
rs.say "last"
rs.teacher("NOTES of one line")
END_LESSON

# ---- hints ----
my $at = frame('80x24', 'nn');
like($at, qr/┬  Hints .*\n.*│[+ ]× one is two  line 4 *\n.*│.  got 1, expected 2 *\n.*│.  H: a hint/, 'at a check that fails the pane follows: its name, line and numbers');
like(frame('80x24', 'nnH'), qr/hint 1 of 2: count again\n.*H: one more hint/, 'H: the first hint');
like(frame('80x24', 'nnHH'), qr/hint 1 of 2: count again\n.*hint 2 of 2: on your fingers\n(?!.*more hint)/, 'and the next');
like(frame('80x24', 'nnsss:pane hints<Enter>HHH'), qr/× nothing is something  line 7\n.*got nil\n.*the lesson has no hint for it/, 'of the check that failed last');
like(frame('80x24', 'nnss:pane hints<Enter>HHH'), qr/hint 3 of 3: look up line 4/, 'what the lesson says as a hint is one');
like(frame('80x24', 'nnsss:pane hints<Enter>'), qr/failed before *\n.*× one is two  line 4/, 'those that failed before stand below');
unlike(frame('80x24', 'nnsG:pane hints<Enter>HHHH'), qr/hint \d.*NEVER/, 'of a check that holds there is no hint');
like(frame('80x24', ':pane hints<Enter>'), qr/no check has failed, no question was put off/, 'nothing of what comes');
my @checks = `$ringside events $trace lesson.check --json`;
like($checks[0], qr/"detail": ?"got 1, expected 2"/, 'the trace has what was expected');
like($checks[1], qr/"hints": ?""/, 'and of a check that holds nothing');

# ---- notes ----
like(frame('100x30', ':pane notes<Enter>', '--teacher'), qr/NOTES of one line/, '--teacher: the notes');
unlike(frame('100x30', ':pane notes<Enter>'), qr/│ NOTES/, 'without it none');

# ---- the lesson's text ----
like(frame('80x24', 'nL'), qr/^─►fails\.lua:3 .*^►   3 rs\.say "first"/ms, 'L: the lesson, where it runs');
unlike(frame('80x24', 'nL'), qr/virtual/, 'on the whole screen');
like(frame('80x24', 'nLL'), qr/─ Lesson ─.*virtual|virtual.*─ Lesson ─/s, 'again: back');
like(frame('80x8', 'GL<Up><Up><Up><Up><Up><Up><Up><Up>'), qr/1 local rs/, 'it scrolls up to its first line');
like(frame('80x8', 'L<Down><Down><Down><Down><Down>'), qr/9 rs\.teacher/, 'and down to its last');

# ---- what comes ----
like(frame('80x24', 'n'), qr/next: lesson\.check/, 'the next event is told');
unlike(frame('80x24', 'G'), qr/next:/, 'at the end there is none');

# ---- the source at its width ----
is(record('wide', <<'END_LESSON'), 0, 'a lesson with a long line');
local rs = require "ringside"
rs.lesson { title = "Wide" }
local function deep()
                                        rs.say("BEGIN " .. ("x"):rep(3) .. " a line that is longer than any pane at eighty columns END")
end
deep()
END_LESSON
$trace = "$folder/wide.trace";
my $narrow = frame('80x24', 'n');
like($narrow, qr/►   4 rs\.say\("BEGIN .*…$/m, 'in a narrow pane the line that runs begins at the left, and an ellipsis says that it goes on');
unlike(frame('80x24', 'n:pane source<Enter>' . '<Right>' x 8), qr/►   4 rs\.say/, 'Right slides it');
like(frame('80x24', 'n:pane source<Enter>' . '<Right>' x 9), qr/END"\)/, 'to its end');
is(frame('80x24', 'n:pane source<Enter><Right><Right><Left><Left>'), frame('80x24', 'n:pane source<Enter>'), 'Left slides it back');
system("$ringside run --quiet --trace $folder/dp.trace lessons/07-dp-backward.lua >/dev/null 2>&1");
$trace = "$folder/dp.trace";
for my $size ('120x40', '200x60') {
    my $long = 0;
    for my $line (split /\n/, frame($size, ':reveal all<Enter>:goto 40<Enter>nnn')) {
        next unless $line =~ /(?:^|│)[► +]{1,2} *\d+ (STAGE|[ a-z].*;)/;
        $long++ if $line =~ /…$/;
    }
    is($long, 0, "$size: no line of a stage's function is cut");
}

# ---- predict ----
my $walk = ':reveal all<Enter>:predict on<Enter>' . 'n' x 9;
my @seen = map { frame('80x24', $walk . '<Enter>n' x $_) } 0 .. 12;
my ($question) = grep { /a-[bcd] choose  Enter show it  Esc go on/ } @seen;
ok($question, 'predict on: next asks');
like($question, qr/\? (?:Which|On which|How many|The next)/, 'for a rank, a bucket, bytes');
my ($first) = grep { $seen[$_] eq $question } 0 .. $#seen;
my $here = $walk . '<Enter>n' x $first;
my ($from) = $question =~ /step (\d+)/;
unlike(frame('80x24', "${here}n"), qr/step (?!$from)\d+\//, 'who is asked stays there');
like(frame('80x24', "${here}n"), qr/a to [bcd] choose, Enter confirms or shows it/, 'and is told how it goes on');
my @answers = map { frame('120x40', "$here$_<Enter>") } 'a', 'b';
is(scalar(grep { /^ yes, / } map { split /\n/ } @answers), 1, 'one of two answers is right') if $question =~ /a-b/;
like($_, qr/^ (?:yes|no), .*\d+ [a-z]+\.\S+ /m, 'what came is told with the event') for @answers;
like(frame('80x24', "$here<Enter>"), qr/^ -> .*: \d+ \w+\./m, 'Enter alone shows it');
unlike(frame('80x24', "$here<Esc>"), qr/^ -> /m, 'Esc goes on without');
like(frame('80x24', $here), qr{step $from/\?}, 'nothing of what comes is shown before');
ok(!(grep { /a-[bcd] choose  Enter show it/ && !/\? (?:Which|On which|How many|The next)/ } @seen), 'at 80x24 each from its first word');
unlike(frame('80x24', ':reveal all<Enter>:predict on<Enter>:predict off<Enter>' . 'n' x 25), qr/Esc go on/, 'predict off: it asks nothing');

# ---- for a projector ----
my $large = frame('80x24', ':layout teach<Enter>nn');
like($large, qr/^►main.*\n►main/m, 'layout teach: the lane of the cursor twice as high');
my @lanes = $large =~ /^.(?:d\d compute|main|r\d main)/mg;
is(scalar @lanes, 2, 'and no other');
like($large, qr/^ {10,}Forward is done|^ {10,}\(a\)|^ {10,}\S/m, 'what is said in the middle');
unlike(frame('80x24', ':layout teach<Enter>:layout step<Enter>'), qr/^►main.*\n►main/m, 'layout step: all lanes again');

# ---- an answer is the screen's alone ----
my $before = `$ringside events $trace --hash`;
frame('80x24', 'nnnnnnn<Enter>a<Enter>nnnn<Enter>b<Enter>nn<Enter><Enter>:reveal all<Enter>G');
is(`$ringside events $trace --hash`, $before, 'a record that was answered has the same hash');

# ---- a live run: continue stops at each question, and an answer changes neither run nor record ----
SKIP: {
    skip 'tmux is not installed', 5 if system('command -v tmux >/dev/null 2>&1') != 0;
    my $tmux = "tmux -L lesson$$ -f /dev/null";
    my $screen = '';
    my $wait = sub {
        my ($wanted) = @_;
        for (1 .. 300) {
            $screen = decode('UTF-8', `$tmux capture-pane -p -t v`);
            return 1 if $screen =~ $wanted;
            select undef, undef, undef, 0.05;
        }
        return 0;
    };
    my $here = -e "$out/ringside" && $out =~ m{^/} ? $ringside : "$FindBin::Bin/../../$ringside";
    system("LC_ALL=C.UTF-8 $tmux new-session -d -x 80 -y 24 -s v '$here step --trace $folder/live.trace $FindBin::Bin/../../lessons/04-scatter.lua; sleep 60'");
    ok($wait->(qr/step 0\//), 'a live run waits');
    my $asked = 0;
    for my $round (1 .. 8) {
        system("$tmux send-keys -t v c");
        last if !$wait->(qr/^ a-\w choose  Enter answer|run has ended/m) || $screen =~ /run has ended/;
        $asked++;
        like($screen, qr/paused/, "question $asked: the run itself waits") if $asked < 3;
        system("$tmux send-keys -t v Enter a Enter");
        $wait->(qr/^ (?:yes|no, it is)/m) or last;
    }
    my $asks = () = `$ringside events $folder/live.trace lesson.ask`;
    is($asked, $asks, 'continue stopped at each question');
    like($screen, qr/run has ended/, 'and at the end');
    system("$tmux send-keys -t v q; $tmux send-keys -t v s");
    $wait->(qr/\A\s*\z/);
    system("$tmux kill-server 2>/dev/null");
    system("$ringside run --quiet --trace $folder/run.trace lessons/04-scatter.lua >/dev/null 2>&1");
    is(`$ringside events $folder/live.trace --hash`, `$ringside events $folder/run.trace --hash`, 'the record is that of a run that nobody answered');
}
done_testing;
