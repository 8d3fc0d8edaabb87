#!/usr/bin/perl
# What reaches the terminal: texts with everything that steers one, through every way out of the programs. None of it
# arrives, all of it can be read, and honest writing is not touched. Under --tap no text can pass for a check.
use strict;
use warnings;
use lib 'tests/cli';
use Encode qw(decode encode);
use JSON::PP;
use Ringside;
use TAP::Parser;
use Test::More;

my $lua = qq{local rs = require "ringside"\nlocal nn, dist = rs.nn, rs.distributed\n};
(my $viewer = program()) =~ s/ringside$/trace_viewer/;

# ---- the texts ----
my @marks  = (0x61c, 0x200e, 0x200f, 0x2028, 0x2029, 0x202a .. 0x202e, 0x2066 .. 0x2069);
my @honest = map { encode('UTF-8', $_) } "\x{65e5}\x{672c}\x{8a9e}", "\x{1f680}\x{1f469}\x{200d}\x{1f52c}",
    "e\x{301}o\x{308}", "\x{250c}\x{2500}\x{2510}\x{2588}", "\x{e9}\x{b5}\x{a0}\x{df}", "\x{ff21}\x{ac00}\x{5d0}";
my @harmful = (
    (map { chr } 1 .. 8, 11 .. 31, 127),
    (map { chr } 0x80 .. 0x9f),                                     # C1 as bytes
    (map { encode('UTF-8', chr) } 0x80 .. 0x9f),                    # C1 as characters
    (map { encode('UTF-8', chr) } @marks),
    (map { chr } 0xa0, 0xc0, 0xc1, 0xc2, 0xe0, 0xed, 0xf0, 0xf4 .. 0xff),
    "\xc0\x80", "\xc0\xaf", "\xc1\x9b", "\xe0\x80\x9b", "\xe0\x9f\xbf", "\xf0\x80\x80\x9b", "\xf0\x8f\xbf\xbf",
    "\xed\xa0\x80", "\xed\xbf\xbf", "\xed\xa0\xbd\xed\xb8\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xfc\x84",
    "\xe3\x81", "\xf0\x9f\x9a", "\xc2", "\xe3\xe3\x81\x82", "\xe3\x81\x82\x82", "\xc2\x1b[2J", "\xe2\x80\x1b\xae",
    "\x1b[2J", "\x1b[H", "\x1b[31mred", "\x1b[1A\x1b[2K", "\x1b[?1049h", "\x1b[?1000h", "\x1b[200~rm\x1b[201~",
    "\x1b[?2004h", "\x1b[6n", "\x1b[c", "\x1b[>c", "\x1b[21t", "\x1bc", "\x1b7\x1b8", "\x1b(0", "\x1b%G", "\x9b2J",
    "\xc2\x9b2J", "\x1b]0;title\x07", "\x1b]2;title\x1b\x5c", "\x1b]52;c;cm0=\x07", "\x1b]8;;http://x\x1b\x5c",
    "\x9d0;t\x9c", "\xc2\x9d0;t\xc2\x9c", "\x1bPq~\x1b\x5c", "\x1bP+q544e\x1b\x5c", "\x90q~\x9c", "\x1b_Ga=T\x1b\x5c",
    "\x1b^x\x1b\x5c", "\x1bX\x1b\x5c", "\x1bk\x1b\x5c",
    "ab\rxy", "\r", "ab\b\b", "\x0e\x0f", "\x05", "\x7f\x7f", "\x0b\x0c", "\x1b\x1b\x1b", "\x1b" x 30, "\x9b" x 30,
    encode('UTF-8', "\x{202e}txt.exe\x{202c}"), encode('UTF-8', "\x{2066}a\x{2069}\x{61c}"), "\xff" x 30,
    "\n", "a\nb", "\t", "\n\x1b[2J\n", "\r\n",
);
my @texts = map { sprintf 'b%03d%se', $_, (@harmful, @honest)[$_] } 0 .. $#harmful + @honest;
cmp_ok(scalar @texts, '>=', 200, 'there are ' . @texts . ' texts');

# How a text is to be shown, said a second time and in another way than in the program: as "lines", as a "line" or as
# the "name" of a check.
sub shown {
    my ($bytes, $form) = @_;
    my $out = '';
    while ($bytes =~ /\G([\x20-\x7e]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}
                        |\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}
                        |\xf4[\x80-\x8f][\x80-\xbf]{2}|.)/gsx) {
        my $one = $1;
        my $code = length $one > 1 ? ord decode('UTF-8', my $copy = $one) : undef;
        if (defined $code) {
            $out .= $code < 0xa0 || grep({ $_ == $code } @marks) ? sprintf('\\u{%x}', $code) : $one;
        } elsif ($one eq "\n") {
            $out .= $form eq 'lines' ? $one : '\\n';
        } elsif ($one eq "\t") {
            $out .= $form eq 'line' ? '\\t' : $one;
        } elsif ($one =~ /[\x20-\x7e]/) {
            $out .= $one eq '\\' && $form eq 'name' ? '\\\\' : $one;
        } else {
            $out .= sprintf '\\x%02x', ord $one;
        }
    }
    return $out;
}

sub arrived {
    my ($bytes) = @_;
    my @found = map { sprintf 'byte %02x', ord } $bytes =~ /[\x00-\x08\x0b-\x1f\x7f]/g;
    my $text = eval { decode('UTF-8', my $copy = $bytes, Encode::FB_CROAK) };
    push @found, 'no UTF-8' if !defined $text;
    for my $character (split //, $text // '') {
        my $code = ord $character;
        push @found, sprintf 'U+%04x', $code if ($code >= 0x80 && $code < 0xa0) || grep { $_ == $code } @marks;
    }
    return @found;
}

# Nothing harmful in what came out, and each of `texts` in it as it is to be shown.
sub safe {
    my ($name, $bytes, $form, @wanted) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my @found = arrived($bytes);
    ok(!@found, "$name: nothing that steers a terminal") or diag("arrived: @found[0 .. ($#found < 9 ? $#found : 9)]");
    my @missing = grep { index($bytes, shown($_, $form)) < 0 } @wanted;
    ok(!@missing, "$name: everything can be read")
        or diag(scalar @missing . ' missing, first: ' . shown($missing[0], 'line'));
}

sub quoted { return '"' . join('', map { sprintf '\\%03d', ord } split //, $_[0]) . '"' }
sub groups { my ($size, @list) = @_; my @out; push @out, [ splice @list, 0, $size ] while @list; return @out }

my $table = 'local texts = { ' . join(', ', map { quoted($_) } @texts) . " }\n";
my $source = '--[====[ ' . join(' ', grep { !/[\r\n]/ } @texts) . " ]====]\n";

# ---- a lesson that says it all ----
my $said = lesson('said', $lua . $table . <<'END' . $source);
rs.lesson { title = texts[60] .. texts[1], devices = 1, prefix = texts[61] }
rs.check("a check that fails brings the hints", false)
for _, text in ipairs(texts) do
  rs.say("say " .. text)
  print("print " .. text, text)
  rs.teacher("teacher " .. text)
  rs.hint("hint " .. text)
  rs.check("check " .. text, true)
  rs.skip("skip " .. text, "reason " .. text)
  rs.close("close", { [text] = 1 }, { [text] = 2 })
  rs.close("close", text, "what")
  rs.ask { "question " .. text, choices = { "choice " .. text, 2, "answer " .. text }, answer = "answer " .. text, why = "why " .. text }
end
dist.spawn(function(rank)
  for _, text in ipairs(texts) do
    rs.say("rank " .. text)
    print("rank print " .. text)
    rs.check("rank " .. text, rank >= 0)
  end
end, { world = 2 })
END
my $trace = folder() . '/said.trace';
my @one = grep { !/\n/ } @texts;
for my $options ([], ['--tap'], [ '--executor', 'free' ], [ '--tap', '--quiet' ]) {
    my $run   = ringside('run', '--teacher', @$options, ('--trace', $trace) x !@$options, $said);
    my $name  = "run @$options";
    my $tap   = grep { $_ eq '--tap' } @$options;
    my $quiet = grep { $_ eq '--quiet' } @$options;
    is($run->{status}, 1, "$name: the lesson comes to its end");
    is($run->{err}, '', "$name: nothing on stderr");
    my @ways  = ('print', ('say', 'teacher', 'hint') x !$quiet);
    safe($name, $run->{out}, 'lines', map { my $text = $_; map { "$_ $text" } @ways } $tap ? @one : @texts);
    safe("$name: questions", $run->{out}, 'lines', map { ("choice $_", "answer $_", "why $_") } @one) if !$quiet;
    safe("$name: checks", $run->{out}, 'name', map { ("check $_", "skip $_", "reason $_", "rank $_") } @texts);
    next if !$tap;
    my $parser = TAP::Parser->new({ tap => $run->{out} });
    $parser->run;
    ok($parser->is_good_plan && !$parser->parse_errors, "$name: the plan is right") or diag($parser->parse_errors);
    is($parser->tests_run, 1 + 4 * @texts + 2 * @texts, "$name: the checks are those of the lesson");
    is((grep { !/^(?:(?:not )?ok \d+ - |#|1\.\.\d+$)/ } split /\r\n?|\n/, $run->{out}), 0,
        "$name: every line is a check, a comment or the plan");
}

# ---- its trace ----
my $events = ringside('events', $trace);
safe('events', $events->{out}, 'line', map { ("say $_", "check $_", "answer $_", "rank $_") } @texts);
my $json = ringside('events', '--json', $trace);
safe('events --json', $json->{out}, 'line');
my (%said, @stops, $bad);
for (split /\n/, $json->{out}) {
    my $event = eval { decode_json($_) };
    $bad //= $_ if !defined $event;
    next if !defined $event || $event->{kind} ne 'lesson.say';
    $said{ $event->{args}{text} } = 1;
    push @stops, $event->{seq};
}
is($bad, undef, 'events --json: every line is JSON');
my @good = grep { defined } map { my $copy = $_; eval { decode('UTF-8', $copy, Encode::FB_CROAK) } } @texts;
is((grep { !$said{"say $_"} } @good), 0, 'events --json: a reader gets the texts back as they were');
like($json->{out}, qr/\\u001b.*\\u202e/s, 'events --json: in JSON\'s own spelling');

my $look = 'continue; where; info tasks; info locks; ' x @texts;
my $batch = ringside('step', '--batch', "break lesson.say; $look", $said);
safe('step --batch', $batch->{out}, 'line', map { "say $_" } @texts);
is($batch->{err}, '', 'step --batch: nothing on stderr');

sub frame {
    my ($seq, @options) = @_;
    open my $in, '-|', $viewer, $trace, '--at', $seq, @options or die "$viewer: $!";
    local $/;
    return scalar <$in>;
}
my ($frames, $pages) = ('', '');
for my $stop (@stops[grep { $_ % 9 == 0 || $_ > $#harmful } 0 .. $#texts]) {
    $frames .= frame($stop, '--print', '--size', '200x60');
    $pages  .= frame($stop, '--print=ansi', '--size', '79x24', '--keys', 'i<Tab><Tab><Enter>');
}
$pages =~ s/\x1b\[[0-9;]*m//g;    # ours
my @seen = @texts[grep { $_ % 9 == 0 && $texts[$_] !~ /[\n\t]/ } 0 .. $#harmful];
safe('the viewer', $frames, 'line', map { "say $_" } @seen);
safe('the viewer in colours, on its pages', $pages, 'line');
for my $plain (grep { $_ !~ /\xcc|\xe2\x80|\xc2\xa0/ } @honest) {    # it has no cells for marks, joiners and odd blanks
    ok(index($frames, $plain) >= 0, 'the viewer shows ' . unpack('H*', $plain));
}
safe('the viewer: what was typed', frame(0, '--print', '--keys', ":search \xe2\x80\xae\x1b[2J\x9b<Enter>"), 'line');

# ---- errors on stderr: what has lines of its own is indented, so that only we begin a line with "ringside: " ----
my @raised = (
    'error(%s)', 'error(%s, 0)', 'rs.error("ValueError", %s)', 'error({ message = %s })', 'local x = rs[%s].y',
    'assert(load("?", %s))', 'nn.Linear(1, 2)[%s]()', 'rs.zeros({ 2 }, { dtype = %s })', 'rs.zeros({ 2 }):to(%s)',
    'error(setmetatable({}, { __tostring = function() return %s end }))', 'rs.zeros({ 2 }, { [%s] = 1 })',
    'dist.spawn(function() error(%s) end, { world = 2 })', 'coroutine.wrap(function() error(%s) end)()',
);
my ($lines, $all) = (0, '');
for my $raise (@raised) {
    for my $group (groups(32, @texts)) {
        my $run = ringside('run', lesson('raises', $lua . sprintf($raise, quoted(join ' ', @$group)) . "\n"));
        $all .= $run->{err};
        $lines++ if $run->{status} >= 2 && $run->{err} =~ /\Aringside: [^\n]+\n(?:  [^\n]*\n)*\z/;
    }
}
is($lines, @raised * groups(32, @texts), 'errors: each is one message, whose further lines are indented');
safe('errors', $all, 'line', grep { !/\n/ } @texts);
safe('errors, their lines', $all =~ s/\n  /\n/gr, 'lines', grep { !/\t/ } @texts);
my $forged = lesson('forged', "error('mine\\nringside: forged.lua: RuntimeError: not mine\\n\\27[2J\\n\\n', 0)\n");
is(ringside('run', $forged)->{err}, "ringside: $forged:1: mine\n  ringside: forged.lua: RuntimeError: not mine\n  \\x1b[2J\n",
    'errors: no lesson can write a line that looks like ours');
is(ringside('step', '--batch', 'continue', $forged)->{err}, ringside('run', $forged)->{err}, 'errors: step tells the same');
is(ringside('run', '--tap', $forged)->{err},
    "ringside: $forged:1: mine\\nringside: forged.lua: RuntimeError: not mine\\n\\x1b[2J\\n\\n\n", 'errors: beside TAP it is one line');

# What stands on the command line, each word of it alone.
my @commands = (
    ['%s'], [ 'run', '%s' ], [ 'run', '--%s' ], [ 'run', '--seed', '%s', $said ], [ 'run', $said, '%s' ],
    [ 'run', '--hardware', '%s', $said ], [ 'run', '--trace', '/nowhere/%s', $said ], [ 'events', '%s' ],
    [ 'events', $trace, '%s' ], [ 'events', '--%s' ], [ 'help', '%s' ], [ 'help', '-%s' ], [ 'lessons', '%s' ],
    [ 'bench', '%s' ], [ 'devices', '%s' ], [ 'view', '%s' ], [ 'view', '--size', '%s', $trace ], [ 'view', '--%s' ],
    [ 'view', '--attach', '%s' ], map { [ 'step', '--batch', $_, $said ] } '%s', 'print %s', 'break %s', 'goto %s',
);
for my $command (@commands) {
    my ($told, $each) = ('', 0);
    for my $group (groups(34, @texts)) {
        my $word = join '', @$group;
        my $run  = ringside(map { s/%s/$word/r } @$command);
        $told .= $run->{out} . $run->{err};
        $each++ if "$run->{status} $run->{signal}" eq '2 0'
            && $run->{err} =~ /\A(?:ringside|trace_viewer): [^\n]+\n\z/;
    }
    my @words = map { $_ eq $said ? 'LESSON' : $_ eq $trace ? 'TRACE' : $_ } @$command;
    safe("ringside @words", $told, 'line');
    is($each, groups(34, @texts), "ringside @words: one line, status 2") if $each;
}
my %variables = (OPENBLAS_CORETYPE => "Prescott\x1b[2J", ONEDNN_MAX_CPU_ISA => "\x1b[2J");
safe("environment: $_", ringside({ env => \%variables }, $_)->{out}, 'line') for 'devices', '--version';

# ---- files with such names ----
my ($named, $listed) = ('', folder() . '/course');
my $fails = qq{${lua}rs.lesson { title = "named" }\nrs.check("fails", false)\nrs.say(rs.nothing)\nnil_value()\n};
mkdir $listed or die "$listed: $!";
for my $group (groups(8, map { s{/}{_}gr } @texts)) {
    my $path = folder() . '/named.trace';
    my $file = lesson(join('', @$group), $fails);
    my @runs = (ringside('run', '--trace', $path, $file), ringside('step', '--batch', 'continue; where', $file),
        ringside('run', "$file.lost"), ringside('events', '--json', $path), ringside('view', '--print', $path));
    $named .= join '', map { $_->{out} . $_->{err} } @runs;
    next if @$group < 8;
    my ($title, $needs) = map { s/\n/ /gr } "title @$group[0 .. 3]", "@$group[4 .. 5]";
    spill("$listed/$group->[0].lua", qq{rs.lesson { title = "$title", minutes = 7, needs = "$needs" }\n});
}
safe('names of files', $named, 'line', map { s{/}{_}gr } @texts);
my $course = ringside('lessons', $listed);
safe('lessons', $course->{out}, 'line');
is(($course->{out} =~ tr/\n//), int(@texts / 8), 'lessons: a line for each, whatever it is called');
like($course->{out}, qr/title b000\\x01e b001\\x02e/, 'lessons: titles can be read');

# ---- names within the run ----
my $names = lesson('names', $lua . $table . <<'END');
rs.lesson { title = "names", devices = 2 }
local Net = nn.Module("Net")
function Net:init()
  for i, text in ipairs(texts) do
    if i % 10 == 0 then self[text:gsub("%.", "_")] = nn.Linear(2, 2) end
  end
end
function Net:forward(x)
  for _, part in self:named_children() do x = part(x) end
  return x
end
local net = Net()
print(net)
for name in pairs(net:state_dict()) do print(name) end
for name in net:named_parameters() do print(name) end
dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(net)
  for i, text in ipairs(texts) do dist.store:set("key " .. text, text) end
  pcall(function() return ddp.nothing end)
  ddp(rs.ones { 1, 2 }):sum():backward()
end, { world = 2 })
END
my $kept = folder() . '/names.trace';
my $run = ringside('run', '--trace', $kept, $names);
is("$run->{status} $run->{err}", '0 ', 'names of modules and keys: the lesson runs');
safe('names of modules', $run->{out}, 'lines', map { s/\./_/gr } @texts[grep { $_ % 10 == 9 } 0 .. $#texts]);
safe('keys of the store', ringside('events', $kept)->{out}, 'line', map { "key $_" } @texts);
$trace = $kept;
$frames = join '', map { frame(100 * $_, '--print', '--size', '160x50', '--keys', 'i') } 1 .. 20;
safe('the viewer: keys and names', $frames, 'line');

# ---- --trust ----
my $raw = lesson('raw', $lua . <<'END');
rs.say "say \27[1mbold\27[0m"
print "print \27[1m \0"
rs.check("name \27[1m\nok 9", true)
error "\27[2J"
END
$trace = folder() . '/raw.trace';
$run = ringside('run', '--trust', '--tap', '--trace', $trace, $raw);
is($run->{out}, "# say \x1b[1mbold\x1b[0m\n# print \x1b[1m \0\nok 1 - raw/name \x1b[1m\\nok 9\n",
    '--trust: the lesson\'s own text goes out as it is, behind a # all the same');
safe('--trust: errors', $run->{err}, 'line', "\x1b[2J");
safe('--trust: events', ringside('events', $trace)->{out}, 'line', "say \x1b[1mbold\x1b[0m");
safe('--trust: step --batch', ringside('step', '--trust', '--batch', 'next; next; where', $raw)->{out}, 'line');
safe('--trust: the viewer', frame(0, '--print', '--keys', '3s'), 'line', "say \x1b[1mbold\x1b[0m");

# ---- print, to the byte ----
my $print = lesson('print', $lua . <<'END');
print() print("") print("a", 1, nil, { }) print("b\n") print("\nc") print("d\0e\127\r") print("ok 1 - fake")
print("\rok 2 - fake") print("x\nok 3 - fake\n\n1..9") rs.check("true", true)
END
my @printed = ('', '', "a\t1\tnil\t{}", 'b', '', '', 'c', 'd\\x00e\\x7f\\x0d', 'ok 1 - fake',
    '\\x0dok 2 - fake', 'x', 'ok 3 - fake', '', '1..9');
is(ringside('run', $print)->{out}, join('', map { "$_\n" } @printed, 'ok 1 - print/true', '1 check holds'),
    'print: its lines as ever, but for what is spelled out');
@printed = map { "# $_" } @printed;
is(ringside('run', '--tap', $print)->{out}, join('', map { "$_\n" } @printed, 'ok 1 - print/true', '1..1'),
    'print under --tap: every line is a comment');
my $long = 'x' x 100000 . "\n";
is(ringside('run', '--tap', lesson('long', qq{print(("x"):rep(100000) .. "\\n" .. ("ok 1\\n"):rep(1000))\n}))->{out},
    "# $long" . "# ok 1\n" x 1000 . "# \n1..0\n", 'print under --tap: long texts too');

my $tables = lesson('tables', <<'END');
local rs = require "ringside"
local t = { 1 }
t[2] = t
local long = {}
for i = 1, 300 do long[i] = 7 end
print(rs.arange(4):view(2, 2):tolist(), {}, { 1.5, nil, 3, [-1] = true, x = "a\27", y = { rs.ones { 1 } } })
print(t) print(setmetatable({}, { __tostring = function() return "mine" end }), { [{}] = 1 })
print(long)
END
is(ringside('run', $tables)->{out},
    qq({{0, 1}, {2, 3}}\t{}\t{[-1] = true, 1.5, [3] = 3, x = "a\\x1b", y = {tensor([1.])}}\n)
    . "{1, {1, {1, {1, {1, {1, {...}}}}}}}\nmine\ttable: 1\n" . '{' . '7, ' x 200 . "...}\n",
    'print: tables as what is in them, deep and long ones cut');

# ---- a line that comes and goes on a terminal ----
SKIP: {
    my ($master, $unlock, $number) = (undef, pack('i', 0), pack('i', 0));
    my $there = $^O eq 'linux' && open($master, '+<', '/dev/ptmx') && ioctl($master, 0x40045431, $unlock)
        && ioctl($master, 0x80045430, $number);
    skip 'no terminal can be made here', 2 if !$there;
    my $terminal = '/dev/pts/' . unpack 'i', $number;
    my $told = '';
    for my $group (groups(8, @texts)) {
        my $file = lesson('progress', $lua . 'rs.progress(1, 2, ' . quoted(join '', @$group) . ")\n");
        open my $slave, '+<', $terminal or skip "$terminal: $!", 2;
        my $pid = fork() // die "fork: $!";
        if ($pid == 0) {
            open STDOUT, '>', '/dev/null' or die $!;
            open STDERR, '>&', $slave or die $!;
            exec program(), 'run', $file;
        }
        waitpid $pid, 0;
        syswrite $slave, "!END!\n";
        my $piece = '';
        while ($piece !~ /!END!/ && sysread $master, my $more, 4096) {
            $piece .= $more;
        }
        $told .= $piece =~ s/\r?\n//gr;
    }
    $told =~ s/\r\x1b\[K//g;    # ours
    safe('rs.progress', $told, 'line', @texts[grep { $_ % 8 == 0 && length $texts[$_] < 50 } 0 .. $#texts]);
}
done_testing();
