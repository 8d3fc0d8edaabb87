#!/usr/bin/env perl
# What a person types and clicks: words and predicates that are looked for, places, marks, completion, keys and options of
# one's own, the mouse. Each frame is printed, as the terminal would show it; what needs a terminal is typed into one.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
use Time::HiRes qw(sleep time);
chdir "$FindBin::Bin/../.." or die "no root: $!";

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);
my $trace  = "$folder/ddp.trace";
open my $lesson, '>', "$folder/ddp.lua" or die "ddp.lua: $!";
print $lesson <<'END_LESSON';
local rs = require "ringside"
rs.lesson { title = "Words", seed = 1 }
rs.say "First the model, then its gradients."
local model = rs.nn.Linear(4, 2)
local loss = model(rs.ones { 3, 4 }):sum()
loss:backward()
rs.distributed.spawn(function(rank)
  local t = rs.ones(4) * (rank + 1)
  for i = 1, 3 do rs.distributed.all_reduce(t) end
end, { world = 2 })
rs.ask { "What is the answer?", answer = "forty-two", why = "because of the mice" }
rs.ask { "And how many?", choices = { "a dozen", "a score" }, answer = "a dozen", why = "so it is" }
rs.say "over"
END_LESSON
close $lesson;
is(system("$ringside run --quiet --trace $trace $folder/ddp.lua >/dev/null 2>&1"), 0, 'a lesson makes a trace');
my @events = `$ringside events $trace`;
sub first_of { my ($what) = @_; return (map { /^(\d+) $what/ ? $1 : () } @events)[0] }
my ($hop, $ask) = (first_of('comm\.hop begin'), first_of('lesson\.ask'));
my ($ask2) = reverse map { /^(\d+) lesson\.ask/ ? $1 : () } @events;
cmp_ok($hop, '>', 10, 'with a hop in it');

sub frame {
    my ($size, $at, $keys) = @_;
    open my $in, '-|', $viewer, $trace, '--print', '--size', $size, '--at', $at, '--keys', $keys or die "$viewer: $!";
    local $/;
    return decode('UTF-8', <$in> // '');
}
sub row { return (split /\n/, $_[0], -1)[$_[1]] }
sub said { return row(frame('120x24', @_), 22) }
sub step { return frame('80x24', @_) =~ /step (\d+)\// ? $1 : 'none' }

# ---- / ----
like(said(0, '/addmm<Enter>'), qr{^ /addmm  1/\d+  in labels, kinds, names, texts, lanes}, 'a label is found, and it says where it looked');
my %found = ('/AddmmBackward<Enter>' => qr/autograd\.node .*AddmmBackward/, '/ADDMM<Enter>' => qr/ADDMM|addmm/,
             '/gradients<Enter>' => qr/lesson\.say/, '/"the model"<Enter>' => qr/lesson\.say/, '/weight<Enter>' => qr/weigh/,
             '/c1 to r1<Enter>' => qr/comm\.hop .*chunk=1 .*peer=1/, '/r1 comm<Enter>' => qr/ r1 /,
             '/rank 1 and comm.hop<Enter>' => qr/comm\.hop begin r1/, '/bytes > 8 and c10d<Enter>' => qr/c10d/,
             '/What is the<Enter>' => qr/lesson\.ask/);
like(row(frame('120x24', 0, $_), 21), $found{$_}, "$_ stands at one") for sort keys %found;
like(said(0, '/forty<Enter>'), qr{^ no match for /forty}, 'the answer of a question is not found before it was given');
like(said($ask, '/mice<Enter>'), qr{^ no match for /mice}, 'nor why it is so, at the question');
like(said(0, '/byts > 3<Enter>'), qr/^ unknown field 'byts'; did you mean bytes\?/, 'a wrong predicate is told as one');
like(said(0, '/admm<Enter>'), qr{^ no match for /admm; did you mean addmm\?}, 'a wrong word, too');
is(step(0, '/nonsense<Enter>n'), step(0, 'n'), 'with nothing found n is the next stop of the story');
is(step(0, '/comm.hop<Enter>n'), step(0, '/comm.hop<Enter>><') + 0 ? step(0, '/comm.hop<Enter>>') : 'none', 'n and > are the next match');
is(step(0, '/comm.hop<Enter>n<F10>'), step(0, '/comm.hop<Enter>><F10>'), 'F10 is the next stop of the story all the same');
is(step(0, '/comm.hop<Enter>nN'), $hop, 'N is the match before');
is(step(0, '/comm.hop<Enter><Esc>n'), step($hop, 'n'), 'Esc ends it, and n steps');
is(step(0, '/comm.hop<Enter>sn'), step($hop, 'sn'), 'so does a step');
is(step(0, '/comm.hop<Enter>=n'), step(0, '/comm.hop<Enter>>'), 'asking where one is does not');
like(row(frame('80x24', 0, '/comm.hop<Enter>n'), 23), qr{ /comm\.hop 2/12 *$}, 'the last line counts');
is(step(0, '/comm.hop<Enter>:goto 3<Enter>/<Up><Enter>'), $hop, 'Up recalls what was looked for');

# ---- places, marks, jumps ----
is(step($hop, ":goto $_->[0]<Enter>"), $_->[1], ":goto $_->[0]")
    for ['5', 5], ['it 0', 0], ['0%', 0], ['0us', 0];
cmp_ok(step(0, ':goto 100%<Enter>'), '>', $hop, ':goto 100% is at the end');
like(frame('80x24', 0, ':goto 10us<Enter>'), qr/^\S+ \d+ \S+ .* 1[0-9]\.?\d* us/m, ':goto 10us stands at the first event from there on');
cmp_ok(step($hop, ':goto +10us<Enter>'), '>', $hop, '+10us is behind');
cmp_ok(step($hop, ':goto -1us<Enter>'), '<', $hop, '-1us before');
is(step($hop, ':7<Enter>'), 7, 'so is a number alone');
is(step($hop, '7g'), 7, 'and 7g');
like(said($hop, ':goto it 9<Enter>'), qr/iteration 9 is not in this record/, 'what is not there is said');
like(said($hop, ':goto 9ms<Enter>'), qr/the record has events 0 to \d+, and ends at /, 'a time behind the end, too');
like(said($hop, ':goto nowhere<Enter>'), qr/a place is an event \(118\), a time/, 'and what a place is');
is(step($hop, "\"aG\"b'a"), $hop, "'a goes to the mark");
is(step($hop, "G''"), $hop, "'' goes back to where one jumped from");
my $end = step($hop, 'G');
is(step($hop, "G''''"), $end, 'and again to where one was');
is(step($hop, "Gg2''"), $hop, "2'' the jump before");
is(step($hop, "/lesson.say<Enter>''"), $hop, 'a search is a jump');
like(frame('120x40', $hop, "\"aG\"b:marks<Enter>"), qr/a   \S+ us  $hop comm\.hop.*b   \S+ \S+  $end /s, ':marks lists them');
like(row(frame('80x24', 0, ":goto ${hop}<Enter>\"zg"), 2), qr/z/, 'the minimap shows the letter');
like(said($hop, '"1'), qr/a mark is a letter, not 1/, 'marks are letters');
like(said($hop, "'x"), qr/there is no mark x/, 'and have to be set');

# ---- the line that is typed ----
sub typed { return row(frame('120x24', 10, $_[0]), 22) }
my %typed = (':step<Left><Left>X' => ' :stXep', ':ab<Home>X' => ' :Xab', ':ab<^A><Delete>' => ' :b', ':a bc<^W>d' => ' :a d',
             ':abc<Left><^U>' => ' :c', ':x<^E>y' => ' :xy', ':wh<Tab>' => ' :where', ':pane buc<Tab>' => ' :pane Buckets',
             ':set mou<Tab>' => ' :set mouse', ':set keys pe<Tab>' => ' :set keys perfetto', ':help fini<Tab>' => ' :help finish',
             '/autograd.acc<Tab>' => ' /autograd.accumulate', ':until comm.h<Tab>and r<Tab>' => ' :until comm.hop and r',
             ':print weig<Tab>' => ' :print weight', ':show mem<Tab>' => ' :show memory');
like(typed($_), qr/^\Q$typed{$_}\E\b/, "$_ makes '$typed{$_}'") for sort keys %typed;
like(typed(':s<Tab>'), qr/^ :s +step stage show set switch .*search/, 'several are shown');
like(typed(':nonsense<Enter>'), qr/^ no command is called 'nonsense'/, 'an error has a line of its own');
is(step(10, ':goto 20<Enter>:<Enter>'), 20, 'an empty line does the last again');
is(step(10, ':step<Enter>:<Enter>'), step(10, 'ss'), 'such as a step');
is(step(10, '<Paste sss>'), 10, 'pasted text is no keys');
like(typed(':<Paste goto 3>'), qr/^ :goto 3/, 'but goes into a line');
is(step(10, ':<Paste goto 3><Enter>'), 3, 'that Enter does');

# ---- keys and options of one's own ----
is(step(10, ':bind F9 goto 3<Enter><F9>'), 3, ':bind gives a key a command');
is(step(10, ':bind n goto 3<Enter>n'), 3, 'a taken one, too');
is(step(10, ':bind n goto 3<Enter>:unbind n<Enter>n'), step(10, 'n'), ':unbind takes it back');
like(said(10, ':bind F9 nonsense<Enter>'), qr/no command is called 'nonsense'/, 'no other words');
like(said(10, ':bind Foo step<Enter>'), qr/no key is called 'Foo'/, 'no other keys');
like(frame('120x40', 10, ':bind F9 goto 3<Enter>:bind<Enter>:pane answer<Enter>Z'), qr/F9 +goto 3 +\(bound\).*s Space +step/s, ':bind alone is the table');
like(frame('120x24', 10, ':bind F9 goto 3<Enter>??'), qr/your own.*F9 .*goto 3/s, 'the list of keys has them');
isnt(row(frame('80x24', $hop, ':set keys perfetto<Enter>ww'), 1), row(frame('80x24', $hop, ''), 1), "Perfetto's w zooms in");
is(step($hop, ':set keys perfetto<Enter>s'), $hop, 's does not step then');
isnt(step($hop, ':set keys perfetto<Enter><Space>'), $hop, 'Space does');
unlike(row(frame('80x24', $hop, ':set keys perfetto<Enter>'), 23), qr/ s step/, 'and the last line says so');
is(step($hop, ':set keys vi<Enter>/comm.hop<Enter>n'), step($hop, '/comm.hop<Enter>>'), "vi's n is a match");
isnt(scalar `$viewer $trace --print=ansi --keys ':set theme none<Enter>'`, scalar `$viewer $trace --print=ansi --keys ':<Esc>'`, 'a command that takes one of several words is an option, too');
like(said($hop, ':set fps 1000<Enter>'), qr/^ fps is one of 1-240, not '1000'/, 'a wrong value is told');
like(said($hop, ':set mouse<Enter>'), qr/^ mouse is on \(on\|off\)/, 'an option alone is what it is');
like(frame('120x40', $hop, ':set<Enter>'), qr/mouse +on +on\|off/, ':set alone lists them');
like(said($hop, ':set x[0] 3<Enter>'), qr/set needs the running engine/, "with [ it is the debugger's");
like(said($hop, ':help finish<Enter>'), qr/^ f  finish : to the end of the stage/, ':help explains one');
like(said($hop, ':help nothing<Enter>'), qr/no command is called 'nothing'/, 'or says that there is none');
like(said($hop, '%'), qr/^ no command has the key %; \? lists them/, 'an unknown key is said');
my $list = frame('120x60', $hop, '<Tab>??');
like($list, qr/in this pane, Lesson.*stepping/s, '? lists the keys of the pane first');

# ---- the mouse: a cell is found on the frame, then clicked ----
sub cell {    # of the first that matches, from 1
    my ($frame, $pattern) = @_;
    my @rows = split /\n/, $frame;
    for my $y (0 .. $#rows) { return ($-[0] + 1, $y + 1) if $rows[$y] =~ $pattern }
    return (0, 0);
}
my $plain = frame('80x24', $hop, '');
my ($x, $y) = cell($plain, qr/^ +comm +\+1 +\S*?\K[▐■▼▲]c0/);
like(frame('80x24', $hop, "<Click @{[ $x + 1 ]},$y>"), qr/^\S+ \d+ (?:c10d|comm|memory)\S* \S+ r1/m, 'a click selects lane and event');
($x, $y) = cell($plain, qr/r0 main/);
like(row(frame('80x24', $hop, "<Click $x,$y>"), $y - 1), qr/^►/, 'on a name: the lane');
($x, $y) = cell($plain, qr/\? help/);
like(frame('80x24', $hop, "<Click $x,$y>"), qr/six keys are enough/, 'on a key of the last line: does it');
is(step($hop, "<Click 2,24>"), step($hop, 's'), 's, too');
($x, $y) = cell($plain, qr/ Memory /);
like(frame('80x24', $hop, "<Click @{[ $x + 1 ]},$y>"), qr/►\s*Memory/, 'on a tab: opens it');
($x, $y) = cell($plain, qr/ Lesson ─/);
like(frame('80x24', $hop, "<Click @{[ $x + 1 ]},$y>"), qr/─►\s?Lesson/, "on a pane's title: gives it the keys");
isnt(step($hop, '<Click 70,3>'), $hop, 'on the minimap: jumps');
($x, $y) = cell($plain, qr/^ +comm +\+1 +\S*?\K[▐■▼▲]c0/);
like(frame('80x24', $hop, "<Drag $x,$y @{[ $x + 20 ]},$y>"), qr/from event \d+ to here: [1-9]\S* us|[1-9]\S* us from event/, 'a drag measures');
isnt(row(frame('80x24', $hop, "<DoubleClick @{[ $x + 1 ]},$y>"), 1), row($plain, 1), 'a double click zooms into');
isnt(row(frame('80x24', $hop, "<CtrlWheelUp 40,6>"), 1), row($plain, 1), 'Ctrl-wheel zooms');
isnt(row(frame('80x24', $hop, "<CtrlWheelUp 40,6><ShiftWheelDown 40,6>"), 1), row(frame('80x24', $hop, "<CtrlWheelUp 40,6>"), 1), 'Shift-wheel pans');
isnt(frame('80x24', $hop, '<WheelUp 30,6>'), $plain, 'the wheel moves over lanes');
isnt(frame('80x24', $hop, ':pane source<Enter><Esc><WheelDown 60,18>'), frame('80x24', $hop, ':pane source<Enter><Esc>'), 'and scrolls the pane under it');
my $asked = frame('80x24', $ask2, '');
($x, $y) = cell($asked, qr/(?<![a-z])[a-c]\) a score/);
like(frame('80x24', $ask2, "<Click @{[ $x + 4 ]},$y>"), qr/no, it is a dozen/, 'a click on a choice answers it');
is(frame('80x24', $hop, ':set mouse off<Enter><Click 2,24>:<Esc>'), frame('80x24', $hop, ':<Esc>'), 'mouse off: nothing');
is(frame('80x24', $hop, "<Click $_>"), $plain, "a click at $_ is nothing") for '0,0', '500,500', '80,1';
is(frame('80x24', $hop, "<Click 5,5"), frame('80x24', $hop, '<Click 5,5'), 'half a report is keys');
for my $size ('40x10', '19x3', '1x1', '200x60', '120x40') {
    for my $keys ('<Click 1,1>', '<DoubleClick 20,8>', '<Drag 3,3 30,9>', '<WheelUp 9,9>', '<CtrlWheelDown 15,5>', '?<WheelDown 3,3>') {
        frame($size, $hop, $keys x 3);
        is($?, 0, "$size: $keys") if $? != 0;
    }
}

# ---- what needs a terminal ----
SKIP: {
    skip 'tmux is not installed', 1 if system('command -v tmux >/dev/null 2>&1') != 0;
    my @tmux = ('env', '-u', 'TMUX', '-u', 'NO_COLOR', 'TERM=xterm-256color', 'LC_ALL=C.UTF-8', 'tmux', '-S', "$folder/tmux",
                '-f', '/dev/null', '-u');
    my $screen = sub { decode('UTF-8', scalar `@{[ join ' ', @tmux ]} capture-pane -p -t v`) };
    my $shows = sub {
        my ($pattern, $name) = @_;
        my ($until, $text) = (time + 10, '');
        while (time < $until && ($text = $screen->()) !~ $pattern) { sleep 0.02 }
        like($text, $pattern, $name);
    };
    my $type = sub { system @tmux, 'send-keys', '-t', 'v', @_ };
    my $line = sub { system @tmux, 'send-keys', '-t', 'v', '-l', $_[0]; $type->('Enter') };
    my $there = $viewer =~ m{^/} ? $viewer : "$FindBin::Bin/../../$viewer";
    mkdir "$folder/ringside";
    open my $conf, '>', "$folder/ringside/viewer.conf" or die "viewer.conf: $!";
    print $conf "# mine\nbind F9 goto 7\nset fps 30\nset moose off\nstep\n";
    close $conf;
    open my $editor, '>', "$folder/editor" or die "editor: $!";
    print $editor "#!/bin/sh\necho edits \$1 \$2 > $folder/edited\nstty -a > $folder/modes\nexit \${EDITS:-0}\n";
    close $editor;
    chmod 0755, "$folder/editor";
    system @tmux, 'new-session', '-d', '-s', 'v', '-x', '80', '-y', '24', 'env PS1=ready: sh';
    $line->("cd $FindBin::Bin/../..; export XDG_CONFIG_HOME=$folder VISUAL=$folder/editor; stty -g > $folder/before");
    $line->("clear; $there $trace");
    $shows->(qr/viewer\.conf:4: no option is called 'moose'; :set lists them; there are more/, 'the config file is read, and what is wrong in it is told with its line');
    $type->('F9');
    $shows->(qr/step 7\//, 'its keys hold');
    $line->(':set fps');
    $shows->(qr/fps is 30/, 'its options, too');
    $line->(":goto $hop");
    $shows->(qr/step $hop\//, 'a place with a file');
    $type->('O');
    my $until = time + 10;
    sleep 0.02 until -s "$folder/modes" || time > $until;
    like(do { local (@ARGV, $/) = "$folder/edited"; <> }, qr{^edits \+\d+ src/c10d/\w+\.c$}m, 'O opens the line in the editor');
    like(do { local (@ARGV, $/) = "$folder/modes"; <> }, qr/\bicanon\b.*\becho\b/s, 'which has a terminal as programs expect it');
    $shows->(qr/step $hop\//, 'and gives the screen back');
    system @tmux, 'send-keys', '-t', 'v', '-l', "\e[<0;2;24M\e[<0;2;24m";
    $shows->(qr/step (?!$hop\/)\d+\//, 'a click on the last line, as terminals report it');
    system @tmux, 'send-keys', '-t', 'v', '-l', "\e[200~gGg\e[201~";
    $shows->(qr/pasted text is no keys/, 'a paste, too');
    $type->('Q');
    $shows->(qr/ready:\s*\z/, 'Q leaves');
    $line->("clear; EDITS=3 $there --no-config $trace");
    $shows->(qr/step 0\//, 'without a config file');
    $type->('F9');
    $shows->(qr/no command has the key F9/, 'keys are as they were');
    $type->('n', 'n', 'O');
    $shows->(qr/editor ended with status 3|the trace names no file|is not here/, 'an editor that fails is told');
    $type->('Q');
    $line->("clear; VISUAL= EDITOR=/no/such/editor $there $trace");
    $line->(":goto $hop");
    $shows->(qr/step $hop\//, 'another');
    $type->('O');
    $shows->(qr{/no/such/editor is not there \(status 127\)}, 'one that is missing, too');
    $type->('Q');
    $line->("clear; stty -g | cmp - $folder/before && echo same");
    $shows->(qr/^same/m, 'the terminal is as it was');
    system @tmux, 'kill-server';
}
like(`$viewer $trace --color=blue --print 2>&1`, qr/--color=blue: never, 8, 16 or 256 is meant/, '--color is checked');
unlike(`$viewer $trace --color=never --print=ansi`, qr/\x1b\[[0-9;]*3[0-9]/, '--color=never has none');
like(`$viewer $trace --color=8 --print=ansi`, qr/\x1b\[0;[0-9;]*4[0-7]/, '--color=8 has eight');
done_testing;
