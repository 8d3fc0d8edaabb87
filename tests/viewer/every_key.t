#!/usr/bin/env perl
# Every key and every command, typed into a real terminal, and what the screen says then. The list of keys is that of
# src/control/commands.def: a key or a command that has no row here fails.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
use Time::HiRes qw(sleep time);
chdir "$FindBin::Bin/../.." or die "no root: $!";
plan skip_all => 'tmux is not installed' if system('command -v tmux >/dev/null 2>&1') != 0;

my $out    = $ENV{RINGSIDE_OUT} || 'build/release';
my $viewer = ($out =~ m{^/} ? '' : "$FindBin::Bin/../../") . "$out/trace_viewer";
my $folder = tempdir(CLEANUP => 1);
open my $lesson, '>', "$folder/two.lua" or die "two.lua: $!";
print $lesson <<'END_LESSON';
local rs = require "ringside"
rs.lesson { title = "Two ranks", seed = 1 }
rs.distributed.spawn(function(rank)
  local t = rs.ones(4) * (rank + 1)
  for i = 1, 3 do rs.distributed.all_reduce(t) end
end, { world = 2 })
rs.check("this fails", false)
rs.say "over"
END_LESSON
close $lesson;
is(system("$out/ringside run --quiet --trace $folder/two.trace $folder/two.lua >/dev/null 2>&1") & 127, 0, 'a lesson runs');
my @events = `$out/ringside events $folder/two.trace`;
my $last   = $#events;
my ($hop, $hop2) = map { /^(\d+) comm\.hop begin r0/ ? $1 : () } @events;
my ($hopped) = map { /^(\d+) comm\.hop end r0/ ? $1 : () } @events;
my ($wait)  = map { /^(\d+) c10d\.wait begin r0/ ? $1 : () } @events;
my ($failed) = map { /^(\d+) lesson\.check/ ? $1 : () } @events;
my ($op)    = map { /^(\d+) op begin r0/ ? $1 : () } @events;
cmp_ok($last, '>', 100, 'its record has events');
my @told   = map { /^\d+  (\d+)  / ? $1 : () } `$out/ringside story $folder/two.trace`;
my @stages = map { /^(\d+) c10d\.(?!store|rendezvous)\S+ begin/ ? $1 : () } @events;
my $summed = $told[4];
my ($next, $stage) = map { (grep { $_ > $summed } @$_)[0] } \@told, \@stages;
my ($before, $stage_before) = map { (grep { $_ < $summed } @$_)[-1] } \@told, \@stages;
ok($next != $stage && $before != $stage_before, 'around the last hop the story and the stages stop elsewhere');

# ---- what each does: where one stands, keys before it, keys behind it, what is to be seen then. 'changes' and 'stays'
# compare the screen with the one before the key. A command without a key is typed as a line. ----
my %does = (
    step      => [$hop, '', '', sub { step_is('>', $hop) }],
    back      => [$hop, '', '', sub { step_is('<', $hop) }],
    next      => [$summed, '', '', qr/step $next\//],
    rnext     => [$summed, '', '', qr/step $before\//],
    stage     => [$summed, '', '', qr/step $stage\//],
    rstage    => [$summed, '', '', qr/step $stage_before\//],
    finish    => [$hop, '', '', qr/step $hopped\//],
    rfinish   => [$hopped, '', '', qr/step $hop\//],
    continue  => [$hop, '', '', qr/step $last\/.* end of the record/s],
    rcontinue => [$hop, '', '', qr/step 0\/.* start of the record/s],
    until     => [0, '', 'comm.hop<Enter>', qr/step $hop\//],
    runtil    => [$last, '', 'comm.hop and rank 0 and chunk = 1<Enter>', sub { step_is('>', $hop) }],
    pause     => [$hop, '', '', qr/nothing is under way/],
    goto      => [$hop, '', ' +10us<Enter>', sub { step_is('>', $hop) }],
    break     => [$hop, '', '', qr/breakpoint \d+: comm\.hop/],
    delete    => [$hop, '', ' 1<Enter>', qr/breakpoint 1 is gone/],
    enable    => [$hop, '', ' 1<Enter>', qr/no breakpoint 1/],
    disable   => [$hop, '', ' 1<Enter>', qr/no breakpoint 1/],
    once      => [$hop, '', ' 1<Enter>', qr/no breakpoint 1/],
    ignore    => [$hop, '', ' 1 5<Enter>', qr/no breakpoint 1/],
    condition => [$hop, '', ' 1 comm.hop<Enter>', qr/no breakpoint 1/],
    points    => [$hop, '', '', qr/─►\s?Breaks|┬►\s?Breaks/],
    show      => [$hop, '', ' memory<Enter>', qr/memory/],
    info      => [$hop, '', '', qr/breakpoint|breaks|comm\.hop/],
    where     => [$hop, '', '', qr/^ $hop comm\.hop begin r0.*chunk/m],
    print     => [$hop, '', ' t<Enter>', qr/print needs the running engine/],
    set       => [$hop, '', ' fps 30<Enter>', qr/fps is 30/],
    switch    => [$hop, '', '', qr/switch needs the running engine/],
    delay     => [$hop, '', ' 1 5<Enter>', qr/delay needs the running engine/],
    kill      => [$hop, '', ' 1<Enter>', qr/kill needs the running engine/],
    runs      => [$hop, '', '<Enter>', qr/runs needs the running engine/],
    compare   => [$hop, '', ' 1<Enter>', qr/compare needs the running engine/],
    run       => [$hop, '', ' 1<Enter>', qr/run needs the running engine/],
    help      => [$hop, '', '', qr/six keys are enough/],
    quit      => [$hop, '?', '', sub { $_[0] !~ /six keys/ }],
    leave     => 'at the end',
    pane      => [$hop, '', '', qr/─►\s?Lesson/],
    rpane     => [$hop, '', '', qr/[─┬]►/],
    'lane-up'     => [$hop, '', '', 'changes'],
    'lane-down'   => [$hop, '', '', 'changes'],
    'page-up'     => [$hop, '', '', 'changes'],
    'page-down'   => [0, '', '', 'changes'],
    'event-left'  => [$hop, '', '', sub { step_is('<', $hop) }],
    'event-right' => [$hop, '', '', sub { step_is('>', $hop) }],
    flow      => [$hop, '', '', sub { step_is('>', $hop) }],
    rflow     => [$hop, ']', '', qr/step $hop\//],
    rank      => [$hop, '', '', 'changes'],
    rrank     => [$hop, '', '', 'changes'],
    iteration  => [$hop, '', '', qr/no further iteration/],
    riteration => [$hop, '', '', qr/step 0\//],
    wait      => [0, '', '', sub { step_is('>', 0) }],
    rwait     => [$last, '', '', sub { step_is('<', $last) }],
    fault     => [$hop, '', '', qr/step $failed\//],
    rfault    => [$last, '', '', qr/step $failed\//],
    first     => [$hop, '', '', qr/step 0\//],
    last      => [$hop, '', '', qr/step $last\//],
    mark      => [$hop, '', 'a', qr/event $hop is mark a.*/],
    jump      => [$hop, "\"aG", 'a', qr/step $hop\//],
    marks     => [$hop, '"b', '<Enter>', qr/b +2 us +$hop comm\.hop/],
    'zoom-in'   => [$hop, '', '', 'changes'],
    'zoom-out'  => [$hop, '++++', '', 'changes'],
    'pan-left'  => [$last, '+++', '', 'changes'],
    'pan-right' => [0, '+++', '', 'changes'],
    fit       => [$hop, '+++', '', 'changes'],
    'screen-left'  => [$last, '++++', '', 'changes'],
    'screen-right' => [0, '++++', '', 'changes'],
    squeeze   => [$hop, '', '', qr/squeezed/],
    clock     => [$hop, 'z', '', qr/aligned by iteration/],
    align     => [$hop, '', ' collective<Enter>', qr/aligned by collective/],
    flows     => [0, ':align wall<Enter>', ' all<Enter>', 'changes'],
    fold      => [$hop, '', '', qr/the lane in one row|rank 0 in one row/],
    pin       => [$hop, 'oo', '', qr/stays at the top/],
    filter    => [$hop, 'p', 'comm.hop<Enter>', qr/filtered/],
    curves    => [$hop, '&<Enter>', ' on<Enter>', 'changes'],
    into      => [$hop, '', '', 'changes'],
    inspect   => [$hop, '', '', 'changes'],
    measure   => [$hop, '', 's', qr/from event $hop/],
    full      => [$hop, '<Tab>', '', sub { $_[0] !~ /virtual/ }],
    search    => [0, '', 'all_reduce<Enter>', qr{/all_reduce  1/\d+.*n next match.*/all_reduce 1/\d+}s],
    match     => [0, '/comm.hop<Enter>', '', qr{/comm\.hop +2/}],
    rmatch    => [0, '/comm.hop<Enter>n', '', qr{/comm\.hop +1/}],
    read      => [$hop, "", "", qr/two\.lua:\d+ ─.*rs\.lesson \{/s],
    layout    => [$hop, '', ' teach<Enter>', 'changes'],
    answer    => [$hop, '', '<Enter>', qr/no question waits here/],
    later     => [$hop, '', '<Enter>', qr/no question waits here/],
    question  => [$hop, '', '<Enter>', qr/no question is open/],
    reveal    => [$hop, '', ' all<Enter>', qr/all answers are shown/],
    hint      => [$last, '', '', qr/ Hints .*this fails.*the lesson has no hint for it/s],
    predict   => [$hop, '', ' on<Enter>', qr/next asks first/],
    same      => [$hop, '', '', sub { step_is('>', $hop) }],
    rflow     => [$hopped, '', '', 'changes'],
    rrank     => [$hop, '', '', 'changes'],
    'screen-left'  => [$last, '+++', '', 'changes'],
    'screen-right' => [0, '+++', '', 'changes'],
    squeeze   => [$hop, '+++++', '', qr/squeezed|no idle|nothing/],
    clock     => [$hop, '', '', 'changes'],
    align     => [$hop, '', ' wall<Enter>', 'changes'],
    flows     => [$hop, '', ' all<Enter>', 'changes'],
    fold      => [$hop, '', '', 'changes'],
    pin       => [$hop, '', '', 'changes'],
    filter    => [$hop, '', 'comm.hop<Enter>', qr/filtered/],
    curves    => [$hop, '', ' off<Enter>', qr/curves are not shown/],
    edit      => [$hop, '', '', qr/set VISUAL or EDITOR/],
    bind      => [$hop, '', ' F9 goto 7<Enter><F9>', qr/step 7\//],
    unbind    => [$hop, '', ' F9<Enter><F9>', qr/no command has the key F9/],
    mouse     => [$hop, '', '', qr/the mouse is the (?:terminal|screen)'s/],
    theme     => [$hop, '', ' none<Enter>', qr/the theme is none/],
    suspend   => 'at the end',
    type      => [$hop, '', 'goto 5<Enter>', qr/step 5\//],
    out       => [$hop, '<Tab>', '', sub { $_[0] !~ /─►/ }],
    events    => [$hop, '', ' all<Enter>', qr/all events/],
    explain   => [$last, '', '', 'changes'],
    look      => [$hop, '', ' lanes<Enter>', 'changes'],
    frame     => [$hop, '', " $folder/frame.txt<Enter>", sub { -s "$folder/frame.txt" }],
    cast      => [$hop, '', " $folder/film.cast<Enter>", qr/filming into/],
    script    => [$hop, '', " $folder/script.txt<Enter>", sub { -s "$folder/script.txt" }],
    redraw    => [$hop, '', '', 'stays'],
);

# ---- a terminal ----
my @tmux = ('env', '-u', 'TMUX', '-u', 'NO_COLOR', 'TERM=xterm-256color', 'LC_ALL=C.UTF-8', 'tmux', '-S', "$folder/tmux",
            '-f', '/dev/null', '-u');
sub screen {
    open my $in, '-|', @tmux, 'capture-pane', '-p', '-t', 'v' or return '';
    local $/;
    my $text = decode('UTF-8', <$in> // '');
    close $in;
    return $text;
}
sub step_is {
    my ($how, $than) = @_;
    my ($now) = screen() =~ /step (\d+)\//;
    return defined $now && ($how eq '>' ? $now > $than : $now < $than);
}
sub wait_for {    # at most ten seconds
    my ($holds) = @_;
    my $until = time + 10;
    while (time < $until) {
        my $screen = screen();
        return $screen if $holds->($screen);
        sleep 0.01;
    }
    return;
}

# "ab<Enter>" as tmux wants it: letters as they are, names by its own.
my %named = (Enter => 'Enter', Esc => 'Escape', Tab => 'Tab', BackTab => 'BTab', Space => 'Space', Backspace => 'BSpace',
             PageUp => 'PPage', PageDown => 'NPage', Up => 'Up', Down => 'Down', Left => 'Left', Right => 'Right',
             Home => 'Home', End => 'End', Delete => 'DC', map { ("F$_" => "F$_") } 1 .. 12);
sub type {
    my ($keys) = @_;
    my @words;
    while ($keys =~ /\G(?:<([^<>]+)>|([^<]+|<))/g) {
        push @words, ';' if @words;
        push @words, 'send-keys', '-t', 'v',
            defined $1 ? ($1 =~ /^\^(.)$/ ? 'C-' . lc $1 : $named{$1} // die "no key $1") : ('-l', $2 =~ s/;\z/\\;/r);
    }
    system @tmux, @words;
}
system(@tmux, 'new-session', '-d', '-s', 'v', '-x', '80', '-y', '24', 'env PS1=ready: sh') == 0 or BAIL_OUT('no tmux');
type("cd $folder; unset VISUAL EDITOR; XDG_CONFIG_HOME=$folder $viewer two.trace; echo ended \$?<Enter>");
ok(wait_for(sub { $_[0] =~ /step 0\/$last/ }), 'the viewer opens') or BAIL_OUT('no viewer');

# ---- the table ----
my (%keys_of, @names);
open my $table, '<', 'src/control/commands.def' or die "commands.def: $!";
while (<$table>) {
    my ($name, undef, $keys) = /^COMMAND\(\s*\w+,\s*"([^"]*)",\s*"((?:[^"\\]|\\.)*)",\s*"((?:[^"\\]|\\.)*)"/ or next;
    push @names, $name;
    $keys_of{$name} = [map { s/\\(.)/$1/gr } split ' ', $keys];
}
close $table;

sub try {
    my ($name, $typed, $row) = @_;
    my ($at, $before, $behind, $seen) = @$row;
    type("<Esc><Esc>:goto $at<Enter>0$before");
    wait_for(sub { $_[0] =~ /step \d+\// && $_[0] !~ /^ :goto/m }) or return fail("$name: a place to begin");
    wait_for(sub { $_[0] =~ /step $at\// }) if $before !~ /[Gns]|Enter/;
    my ($last_screen, $same) = ('', 0);
    wait_for(sub { $same = $_[0] eq $last_screen ? $same + 1 : 0; $last_screen = $_[0]; $same == 3 });
    type($typed . $behind);
    my $holds = $seen eq 'changes' ? sub { $_[0] ne $last_screen }
        : $seen eq 'stays' ? sub { $_[0] eq $last_screen } : ref $seen eq 'CODE' ? $seen : sub { $_[0] =~ $seen };
    ok(wait_for($holds), "$typed: $name") or diag(map { "# $_\n" } split /\n/, screen());
}

# In the order of the table: some need what those before have done.
for my $name (@names) {
    my $row = $does{$name};
    ok($row, "$name has a row in this test") or next;
    next unless ref $row;
    my @keys = @{ $keys_of{$name} };
    for my $key (@keys) {
        my $typed = length $key == 1 ? $key : "<$key>";
        $typed = '<' if $key eq '<';
        try($name, $typed, $row);
    }
    try($name, ":$name", [@$row[0, 1], $row->[2] =~ /^ |^<Enter>$/ ? $row->[2] : "<Enter>$row->[2]", $row->[3]])
        unless @keys;
}
is(join(' ', grep { my $name = $_; !grep { $_ eq $name } @names } sort keys %does), '', 'and every row has its command');

# Those that leave the screen.
type('<Esc><^Z>');
ok(wait_for(sub { $_[0] =~ /ready:\s*\z/ }), '^Z gives the shell back');
type('fg<Enter>');
ok(wait_for(sub { $_[0] =~ /step \d+\/$last/ }), 'and fg comes back');
type(':suspend<Enter>');
ok(wait_for(sub { $_[0] =~ /ready:\s*\z/ }), ':suspend, too');
type('clear; fg; echo ended $?<Enter>');
ok(wait_for(sub { $_[0] =~ /step \d+\/$last/ }), 'and it comes back');
type('Q');
ok(wait_for(sub { $_[0] =~ /ended 0/ }), 'Q leaves at once');
system @tmux, 'kill-server';
done_testing;
