#!/usr/bin/perl
# Exercises: the solution holds in every variant, the unsolved exercise fails and is told nothing that would solve it, and
# whatever a student's file does, checks stay what they are. Then the command that a student uses.
use strict;
use warnings;
use Cwd qw(abs_path);
use List::Util qw(shuffle);
use lib 'tests/cli';
use Ringside;
use Test::More;

my @names = map { m{([^/]+)\.lua$} ? $1 : () } glob 'lessons/checks/*.lua';
ok(@names >= 5, 'there are exercises');
is_deeply([ map { m{([^/]+)\.lua$} ? $1 : () } glob 'lessons/exercises/*.lua' ], \@names, 'each exercise has its checks');
is_deeply([ map { m{([^/]+)\.lua$} ? $1 : () } glob 'lessons/solutions/*.lua' ], \@names, 'and its solution');

# The lines of a TAP run: how many hold, which fail, what is told of them; whether the plan counts them.
sub read_tap {
    my ($out, $name) = @_;
    my %tap = (held => 0, failed => [], told => [], strange => []);
    for my $line (split /\n/, $out) {
        if    ($line =~ /^1\.\.(\d+)$/)                      { $tap{plan} = $1 }
        elsif ($line =~ /^ok \d+ - \Q$name\E\/./)            { $tap{held}++ }
        elsif ($line =~ /^not ok \d+ - \Q$name\E\/(.*)/)     { push @{ $tap{failed} }, $1 }
        elsif ($line =~ /^#   (?!hint: )(.*)/)               { push @{ $tap{told} }, $1 }
        elsif ($line !~ /^#/)                                { push @{ $tap{strange} }, $line }
    }
    $tap{count}    = $tap{held} + @{ $tap{failed} };
    $tap{complete} = defined $tap{plan} && $tap{plan} == $tap{count};
    return \%tap;
}

sub check {
    my ($name, $file, @options) = @_;
    my $run = ringside('run', '--tap', @options, "lessons/checks/$name.lua", '--', $file);
    return ($run, read_tap($run->{out}, $name));
}

# How a value may be wrong; what would be right is not among it.
my $number = 'too small|too large|nan|a number where there is none';
my $shape  = 'too (?:many|few) elements|yours is \[[\d, ]*\]';
my $types  = '(?:nothing|true or false|something else|an? \w+)';
my $wrong  = qr/(?:at \S+: )?(?:$number|another value|another type: $types instead of $types(?:: t:item\(\) makes one)?|another shape: (?:$shape)|another order: the elements are right|\d+ of \d+ elements differ; element \d+ is (?:$number)|got nil)/;

# Variant 0 is the exercise as written; of the twenty others three by chance, or all.
my $seed     = $ENV{RINGSIDE_SEED} || time;
srand $seed;
note "RINGSIDE_SEED=$seed";
my @variants = (0, $ENV{RINGSIDE_LONG} ? 1 .. 20 : (sort { $a <=> $b } (shuffle(1 .. 20))[ 0 .. 2 ]));

for my $name (@names) {
    my (%counts, @bad, @leaks, @passed, $hash, $unsolved);
    for my $variant (@variants) {
        for my $executor ('stepped', 'free') {
            my @options = ('--variant', $variant, '--executor', $executor, $executor eq 'stepped' ? '--hash' : ());
            my ($run, $tap) = check($name, "lessons/solutions/$name.lua", @options);
            $hash = $1 if $run->{out} =~ s/^(trace hash \w+)\n//m;
            $tap  = read_tap($run->{out}, $name);
            push @bad, "variant $variant, $executor: $run->{status} @{ $tap->{failed} } $run->{err}"
                if $run->{status} != 0 || $run->{err} ne '' || !$tap->{complete} || @{ $tap->{strange} };
            $counts{ $tap->{count} } = 1;
        }
        my ($run, $tap) = check($name, "lessons/exercises/$name.lua", '--variant', $variant);
        push @passed, "variant $variant: $run->{status} $run->{err}"
            if $run->{status} != 1 || $run->{err} ne '' || !$tap->{complete} || !@{ $tap->{failed} };
        push @leaks, grep { !/^$wrong$/ } @{ $tap->{told} };
        $counts{ $tap->{count} } = 1;
        $unsolved //= $run->{out};
    }
    is("@bad", '', "$name: the solution holds in every variant, in both executors");
    is("@passed", '', "$name: unsolved it fails in all of them, and runs to its end");
    is(join(' | ', @leaks), '', "$name: what is told of a check that fails holds no expected value");
    is(scalar keys %counts, 1, "$name: solved or not, the checks are as many");
    like($unsolved, qr/^#   hint: \S/m, "$name: a check that fails has a hint");
    my ($again) = check($name, "lessons/solutions/$name.lua", '--variant', $variants[-1], '--hash');
    like($again->{out}, qr/^\Q$hash\E$/m, "$name: a variant repeats");
}

# ---- files that are wrong ----

# Each with what has to be told of it. FILE stands for its name.
my @wrong = (
    [ 'empty', '', qr/TypeError: FILE: returns nothing instead of a plain table/ ],
    [ 'a number', 'return 7', qr/TypeError: FILE: returns number instead of a plain table/ ],
    [ 'a table of another kind', 'return setmetatable({}, { __index = print })',
        qr/TypeError: FILE: returns a table with a metatable instead of a plain table/ ],
    [ 'no Lua', "return {\n  x =\n", qr/FILE:3: unexpected symbol near <eof>/ ],
    [ 'an empty table', 'return {}', qr/TypeError: FILE: your file returns no number 'again'/ ],
    [ 'a number for a function', 'return { again = 3, dense = 3, strides = 4 }',
        qr/TypeError: FILE: 'dense' is a number in what your file returns, and has to be a function/ ],
    [ 'a tensor for a number', "return { again = require 'ringside'.ones {} }",
        qr/TypeError: FILE: 'again' is a tensor instead of a number: t:item\(\) makes one/ ],
    [ 'Python', "import torch\nreturn {}", qr/FILE:1: syntax error near 'torch'; instead of import torch write local rs/ ],
    [ 'an error', "local x = nil\nreturn { x = x.y }", qr/FILE:2: attempt to index a nil value \(local 'x'\)/ ],
    [ 'an error of the engine', "local rs = require 'ringside'\nlocal t = rs.zeros { 2 } + rs.zeros { 3 }",
        qr/RuntimeError: FILE:2: add: shapes \[2\] and \[3\]/ ],
    [ 'os.exit', 'os.exit(0)', qr/FILE:1: attempt to call a nil value \(field 'exit'\)/ ],
    [ 'its own check', "local rs = require 'ringside'\nrs.check('mine', true)", qr/FILE:2: rs\.check belongs to the checks/ ],
    [ 'checks that always hold', "local rs = require 'ringside'\nrs.close = function() end",
        qr/FILE:2: an exercise changes nothing in rs: 'close'/ ],
    [ 'another namespace', "local rs = require 'ringside'\nrs.trace.count = function() return 4 end",
        qr/FILE:2: an exercise changes nothing in rs: 'count'/ ],
    [ 'rawset', "local rs = require 'ringside'\nrawset(rs, 'check', print)\nrawset(rs, 'close', print)\nreturn {}", qr/returns no number 'again'/ ],
    [ 'the library of texts', "getmetatable('').__index.format = nil", qr/FILE:1: attempt to index a nil value/ ],
    [ 'a library of its own', "string.format = nil\ntable.concat = nil\npcall = nil\ntostring = nil\nreturn {}",
        qr/returns no number 'again'/ ],
    [ 'debug', 'debug.getinfo(2)', qr/FILE:1: attempt to call a nil value \(field 'getinfo'\)/ ],
    [ 'upvalues', 'debug.setupvalue(print, 1, 2)', qr/attempt to call a nil value \(field 'setupvalue'\)/ ],
    [ 'the metatable of rs', "local rs = require 'ringside'\ngetmetatable(rs).__index = nil", qr/FILE:2: / ],
    [ 'load', 'return load("local rs = require [[ringside]] return { rs.exercise() }")()',
        qr/rs\.exercise belongs to the checks/ ],
    [ 'load of bytecode', 'return { load("\27Lua", "x", "b") }', qr/returns no number 'again'/ ],
    [ 'another module', 'require "os"', qr/FILE:1: require "os": an exercise can require "ringside" only/ ],
    [ 'a lesson', "local rs = require 'ringside'\nrs.lesson { title = 'mine' }", qr/rs\.lesson belongs to the checks/ ],
    [ 'a deadlock', "local rs = require 'ringside'\nrs.distributed.spawn(function(rank)\n  if rank == 0 then rs.distributed.recv("
        . "rs.zeros { 1 }, 1) else rs.distributed.recv(rs.zeros { 1 }, 0) end\nend, { world = 2 })", qr/DeadlockError/ ],
);
for my $case (@wrong) {
    my ($what, $text, $told) = @$case;
    my $file = spill(folder() . '/wrong.lua', $text);
    $told = (my $pattern = "$told") =~ s/FILE/wrong\\.lua/r;
    my ($run, $tap) = check('02-views-and-storage', $file);
    is("$run->{status} $run->{err}", '1 ', "$what: a check that fails, and no crash") or diag($run->{out});
    like($run->{out}, qr/^#   .*$told/m, "$what: what is wrong is said");
    ok($tap->{complete} && !@{ $tap->{strange} }, "$what: the plan counts the checks");
}

# In checks of another kind: answers of every type, where functions and numbers are expected. Each exercise meets three of
# them, in turn, and with RINGSIDE_LONG all.
my @values = ('"text"', 'true', '{}', '{ {} }', '0/0', 'math.huge', 'function() end', 'function() error("x") end', 'setmetatable({}, '
    . '{ __index = function() return 1 end, __eq = function() return true end, __lt = function() return true end })',
    'require "ringside".zeros { 2, 2 }', 'require "ringside".none');
for my $at (0 .. $#values) {
    my $value = $values[$at];
    my $file = spill(folder() . '/types.lua', "local any = $value\nreturn setmetatable({}, { __index = function() return any end })");
    my @bad;
    for my $i (0 .. $#names) {
        next if !$ENV{RINGSIDE_LONG} && ($at - 3 * $i) % @values >= 3;
        my $name = $names[$i];
        my ($run, $tap) = check($name, $file);
        push @bad, "$name: $run->{status} $run->{err}" if $run->{status} != 1 || !$tap->{complete} || $run->{signal};
        push @bad, map { "$name: $_" } grep { /expected \S+$/ } @{ $tap->{told} };
    }
    is("@bad", '', "every answer is $value: checks fail, and none crashes");
}

# What a function is given belongs to it alone: what it makes of it is not what the checks expect.
for my $case ([ '04-scatter', 5, <<'END' ], [ '06-apply-and-gather', 2, <<'END2' ]) {
return {
  columns = function(x, devices) for i = #devices, 2, -1 do devices[i] = nil end return { x } end,
  wrong = function(n) return require "ringside".ones { n, n } end,
  repair = function(x, mask) x:fill_(0) return x, x:gt(0) end,
}
END
return {
  forward = function(fc, x) return fc(x):sum() end,
  mean = function(out, rows) return out:sum() / rows end,
  whose = function(failing) for i = #failing, 2, -1 do failing[i] = nil end return failing[1].replica end,
}
END2
    my ($name, $fail, $text) = @$case;
    my ($run, $tap) = check($name, spill(folder() . '/alters.lua', $text));
    is("$run->{status} " . @{ $tap->{failed} }, "1 $fail", "$name: a file that alters what it is given does not pass")
        or diag($run->{out});
}

my ($run, $tap) = check('11-ring-by-hand', spill(folder() . '/ever.lua', "local n = 0\nwhile true do n = n + 1 end\n"),
    '--limit-seconds', 5);
isnt($run->{status}, 0, 'a file that never ends does not pass');
like($run->{err}, qr/BudgetError/, 'it meets the budget');
ok(!defined $tap->{plan} && !$tap->{held}, 'and no check holds');

my $solution = slurp('lessons/solutions/11-ring-by-hand.lua');
($run, $tap) = check('11-ring-by-hand', spill(folder() . '/fake.lua', <<'END' . $solution));
print("ok 1 - 11-ring-by-hand/mine")
print("x\nok 2 - 11-ring-by-hand/mine\n1..9")
require "ringside".say("y\nok 3 - 11-ring-by-hand/mine")
END
is("$run->{status} $tap->{held} $tap->{count}", '0 5 5', 'a line that looks like a check is none');
unlike($run->{out}, qr/^ok \d+ - \S+mine/m, 'it is a comment');
($run, $tap) = check('11-ring-by-hand', spill(folder() . '/fake.lua', 'error("z\nok 4 - 11-ring-by-hand/mine\n1..1")'));
is("$run->{status} $tap->{count} @{ $tap->{strange} }", '1 1 ', 'nor is one in an error');

my $untouched = ringside('run', 'lessons/checks/01-six-rows.lua', '--', 'lessons/exercises/01-six-rows.lua')->{out};
unlike($untouched, qr/RuntimeError/, 'while part 1 is open, nothing is said of part 2');
my ($answers) = slurp('lessons/checks/01-six-rows.lua') =~ /^  checks = \{(.*?)^  \}/ms;
unlike($answers, qr/__init__|torch|device 0|kwargs/, "the titles of part 1 do not give its answers away");

my $bare = ringside('run', '--tap', 'lessons/checks/11-ring-by-hand.lua');
is_deeply([ $bare->{status}, read_tap($bare->{out}, '11-ring-by-hand')->{count} ], [ 1, 5 ],
    'checks without a file take the exercise beside them');
like(ringside('run', '--tap', 'lessons/checks/11-ring-by-hand.lua', '--', 'absent.lua')->{out},
    qr/cannot read absent\.lua: no such file/, 'a file that is not there is told');
is(ringside('run', 'lessons/checks/11-ring-by-hand.lua', '--variant', 'x')->{status}, 2, 'a variant is a number');

# ---- ringside exercise ----

my $own = folder() . '/own';
mkdir $own or die "$own: $!";
my $mine = "$own/11-ring-by-hand.lua";
sub exercise { return ringside({ in_folder => $own }, 'exercise', @_) }

$run = exercise('11', '--once');
is($run->{status}, 1, 'exercise 11 --once: status 1 while a check fails');
is(slurp($mine), slurp('lessons/exercises/11-ring-by-hand.lua'), 'the exercise was copied');
like($run->{out}, qr/^0 of 5 checks hold\nnext: the sizes of the chunks.*\n  at \[1\]: too small\n  hint 1 of 3: /m,
    'the next check that fails, how, and its first hint');
spill($mine, $solution);
$run = exercise('ring-by-hand', '--once');
is("$run->{status} $run->{out}", "0 all 5 checks hold\n", 'solved: status 0, and the file was not written over');
is(exercise('11')->{status}, 0, 'solved there is nothing to wait for');
is(exercise('11', '--variant=7', '--once')->{out}, "all 5 checks hold in variant 7\n", 'a variant');
$run = exercise('11', '--reset');
is($run->{out}, "your file is now 11-ring-by-hand.lua.1\nyour copy of the exercise: 11-ring-by-hand.lua\n",
    '--reset keeps the old file, and does no more');
is($run->{status}, 0, 'which is no failure');
is(slurp("$mine.1"), $solution, 'whole');
exercise('11', '--reset', '--once');
ok(-e "$mine.2" && slurp("$mine.1") eq $solution, 'and writes over none');
$run = exercise('11', abs_path('lessons/solutions/11-ring-by-hand.lua'), '--tap', '--variant', 2);
is($run->{status}, 0, 'a file of any name, as TAP') or diag($run->{out}, $run->{err});
like($run->{out}, qr/^ok 5 - .*\n1\.\.5$/m, 'with a plan');

for my $case ([ [], qr/which one\? There are 01-six-rows, / ], [ ['99'], qr/no exercise '99'; there are 01-six-rows, / ],
    [ [ '../x' ], qr/no exercise/ ], [ [ '01', '--variant' ], qr/--variant takes a whole number/ ],
    [ [ '01', '--variant', '-3' ], qr/whole number from 0 to \d+, not '-3'/ ], [ [ '01', '--onec' ], qr/did you mean --once\?/ ],
    [ [ '01', 'a', 'b' ], qr/one exercise and one file/ ], [ [ '01', 'absent.lua' ], qr/absent\.lua: no such file/ ],
    [ [ '01', '--reset', 'a.lua' ], qr/--reset is for your copy/ ], [ [ '01', '.' ], qr/\. is a folder/ ]) {
    my ($words, $told) = @$case;
    $run = exercise(@$words);
    is($run->{status}, 2, "exercise @$words: status 2");
    like($run->{err}, qr/^ringside: .*$told.*\n\z/, "exercise @$words: one line says why");
}
$run = exercise('11', '--once', spill("$own/ever.lua", "local n = 0\nwhile true do\nend\n"));
like($run->{out}, qr/^line [23] of your file did not come to an end: an endless loop\?\n\z/, 'an endless loop is told by its line');
is("$run->{status} $run->{err}", '2 ', 'and by nothing else');
(my $tensors = $solution) =~ s/longest_bytes = function.*?\n  end/longest_bytes = function() return require "ringside".ones { 2 } end/s;
$run = exercise('11', '--once', spill("$own/tensors.lua", $tensors));
like($run->{out}, qr/^  another type: a tensor instead of a number: t:item\(\) makes one$/m, 'a tensor for a number');
$run = exercise('11', '--once', spill("$own/long.lua", 'error(("some words "):rep(40), 0)'));
is((join ' ', map { length > 80 ? length : () } split /\n/, $run->{out}), '', 'lines end between words, before column 80');
like($run->{out}, qr/\n(?:    (?:(?:some|words)(?: |$))+\n){4,}/m, 'and go on further in');
unlike($run->{out}, qr/hint/, 'an error is told without a hint');
$run = exercise('11', '--once', spill("$own/steers.lua", 'error("\27[31m red\nok 1 - mine")'));
unlike($run->{out} . $run->{err}, qr/\e|^ok/m, 'what steers a terminal is spelled out');
like($run->{out}, qr/\\x1b\[31m red$/m, 'in the student\'s own message');
mkdir "$own/15-hooks-and-order.lua" or die $!;
$run = exercise('15');
is_deeply([ $run->{status}, $run->{err} =~ /15-hooks-and-order\.lua is a folder/ ? 1 : 0 ], [ 2, 1 ], 'a folder in its place');
SKIP: {
    skip 'root writes everywhere', 1 if $> == 0;
    mkdir "$own/closed", 0555 or die $!;
    like(ringside({ in_folder => "$own/closed" }, 'exercise', '01')->{err}, qr/cannot write .*: Permission denied/,
        'a folder that cannot be written');
}

# Saving as editors do it: in place, beside and renamed; deleting; the last save solves it.
sub words_until {
    my ($out) = @_;
    my $text = '';
    local $SIG{ALRM} = sub { die "nothing more came after: $text" };
    alarm 120;
    while (my $line = <$out>) {
        $text .= $line;
        last if $line =~ /^(?:waiting until|gone, waiting|all \d+ checks)/;
    }
    alarm 0;
    return $text;
}
chdir $own or die $!;
unlink $mine;
my $pid = open my $out, '-|', program(), 'exercise', '11' or die "exercise: $!";
like(words_until($out), qr/hint 1 of 3/, 'it waits with the first hint');
spill($mine, slurp($mine) . "-- more\n");
like(words_until($out), qr/hint 2 of 3/, 'saved in place, the same check fails: the second hint');
spill("$mine~", "return {\n");
rename "$mine~", $mine or die $!;
like(words_until($out), qr/next: 11-ring-by-hand\.lua runs\n  11-ring-by-hand\.lua:2: unexpected symbol/, 'renamed over: noticed');
unlink $mine;
like(words_until($out), qr/^gone, waiting until it is back: /m, 'deleted: it waits');
spill($mine, slurp("$mine.2"));
like(words_until($out), qr/hint 1 of 3/, 'back again: another check fails than before, its first hint');
spill("$mine~", $solution);
rename "$mine~", $mine or die $!;
like(words_until($out), qr/^all 5 checks hold$/m, 'solved');
close $out;
is($?, 0, 'it ends with status 0');
chdir '/' or die $!;
done_testing();
