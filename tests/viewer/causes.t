#!/usr/bin/env perl
# The cause of a hang is found within ten keystrokes: the keys that are typed, and the frame then shows the culprit's
# rank, its call and its line of the lesson. Lesson 24's three hangs and a rank that is killed inside a backward, each of
# two ranks, and of eight of which one is wrong.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

binmode Test::More->builder->$_, ':encoding(UTF-8)' for qw(output failure_output);
my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);

sub record {
    my ($name, $lesson, $arguments, @options) = @_;
    system("$ringside run --quiet --trace $folder/$name.trace @options tests/viewer/causes/$lesson.lua -- $arguments "
            . '>/dev/null 2>&1');
    is($? >> 8, 3, "$name stands still");
    return "$folder/$name.trace";
}
sub frame {
    my ($trace, $keys, %option) = @_;
    my ($size, $at) = ($option{size} || '80x24', $option{at} // 0);
    return decode('UTF-8', scalar `$viewer $trace --print --size $size --at $at --keys '$keys' @{[$option{more} || '']}`);
}
sub strokes { () = $_[0] =~ /<\w+>|./g }

sub finds {
    my ($trace, $keys, $name, @shows) = @_;
    cmp_ok(scalar(strokes($keys)), '<=', 10, "$name: at most ten keystrokes ($keys)");
    my $frame = frame($trace, $keys);
    like($frame, $_, "$name: $keys") or diag $frame for @shows;
}

my %hang = (
    validates_alone => {
        2 => [ '2 0', [ 'e', qr/^ r0\s+\S+► r1\s+broadcast #7 .*(?::|line )14$/m, qr/^ r1\s+calls\s+barrier #7 .*16$/m ] ],
        8 => [ '8 3', [ 'e', qr/^×r3\s+calls\s+broadcast #7 .*(?::|line )14$/m, qr/^ r0-r2, r7\s.*barrier #7/m ],
               [ 'e<Tab><Enter>', qr/c10d\.issue instant r3 / ], [ 'e<Tab><Enter>L', qr/^►\s+14 .*ddp\(/m ] ],
    },
    other_order => {
        2 => [ '2 1', [ 'e', qr/^ r0\s+\S.*► r1\s+all_reduce #0 .*13$/m, qr/^ r1\s+calls\s+broadcast #0 .*10$/m ] ],
        8 => [ '8 5', [ 'e', qr/^×r5\s+calls\s+broadcast #0 .*(?::|line )10$/m, qr/^ r0-r4\s.*all_reduce #0/m ],
               [ 'e<Tab><Enter>', qr/c10d\.issue instant r5 / ], [ 'e<Tab><Enter>L', qr/^►\s+10 .*broadcast/m ] ],
    },
    fewer_batches => {
        2 => [ '2 0', [ 'e', qr/^×r0\s+returned after\s+all_reduce #7 .*(?::|line )11$/m, qr/^ r1\s.*► r0\s+all_reduce #8/m ] ],
        8 => [ '8 6', [ 'e', qr/^×r6\s+returned after\s+all_reduce #7 .*(?::|line )11$/m, qr/ranks wait: r6 has returned$/m ] ],
    },
);
for my $name (sort keys %hang) {
    for my $world (2, 8) {
        my ($arguments, @keys) = @{ $hang{$name}{$world} };
        my $trace = record("$name$world", $name, $arguments);
        finds($trace, $_->[0], "$name, $world ranks", @{$_}[1 .. $#$_]) for @keys;
        finds($trace, '/fault<Enter>', "$name, $world ranks, by /", @{ $keys[0] }[1 .. $#{ $keys[0] }]);
        my $whole = frame($trace, 'E', at => 99999999);
        like($whole, qr/^ why   \S.*rank \d.*\(line \d+\)$/m, "$name, $world ranks: from the end E says why, too") or diag $whole;
    }
}

# Which point of a rank lies in a backward the engine knows; the screen says where it was.
for my $case ([ 2, 1 ], [ 8, 5 ]) {
    my ($world, $rank) = @$case;
    my ($trace, $at);
    for ($at = 300; $at < 400; $at += 9) {
        $trace = "$folder/killed$world.trace";
        system("$ringside run --quiet --trace $trace --fault 'kill $rank at $at' tests/viewer/causes/killed.lua -- $world "
                . '>/dev/null 2>&1');
        last if frame($trace, 'e') =~ /^ in    backward/m;
    }
    cmp_ok($at, '<', 400, "a rank of $world is killed inside a backward");
    my @shows = (qr/^×r$rank\s+killed after\s+\w+ #\d+ .*(?::|line )11$/m, qr/^ r0\S*(?:, r\d+)*\s.*► r$rank/m);
    finds($trace, 'e', "killed of $world", @shows, qr/^ ON PURPOSE  kill r$rank/m);
    finds($trace, 'eee', "killed of $world, where the others notice", @shows, qr/^ DEADLOCK .*r$rank was killed$/m);
    finds($trace, '/fault<Enter>', "killed of $world, by /", @shows);
    finds($trace, 'e<Tab><Enter>', "killed of $world, its event", qr/fault\.injected instant r$rank/);
}

# The screen itself.
my $trace = "$folder/validates_alone8.trace";
like(frame($trace, 'e:explain<Enter>', size => '80x40'), qr/ranks\s+last enqueued\s+started/, ':explain is the whole report');
unlike(frame($trace, 'e', more => '--ascii'), qr/[^\n\x20-\x7e]/, 'in ASCII it is ASCII');
like(frame($trace, 'e', more => '--ascii'), qr/^xr3 /m, 'and the culprit is marked');
like(frame($trace, 'e', size => '160x50'), qr/^×r3 .*validates_alone\.lua:14\b/m, 'at 160 columns the lesson is named');
like(frame($trace, 'e', size => '200x60'), qr/──wait for───► /, 'at 200 it is said in words');
like(frame($trace, 'e', size => '40x10'), qr/MISMATCH  call #7.*\n(?:.*\n)?×r3\s+calls.*:14$/m, 'at 40x10 the culprit is the first to be told');
like(frame($trace, 'eS'), qr/─ Lesson ─/, 'one event before it the panes are what they were');
like(frame($trace, 'es'), qr/found at event \d+/, 'an error that repeats it says where it was found');
like(frame($trace, 'e:pane Fault<Enter>jj<Enter>'), qr/c10d\.wait begin r0 /, 'each line leads to its event');

done_testing;
