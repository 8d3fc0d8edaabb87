#!/usr/bin/env perl
# A trace of more than a million events: its index lies beside it, is used again, and is made anew where it is wrong; the
# frame is the same whichever way it came about.
use strict;
use warnings;
use Test::More;
use File::Temp qw(tempdir);
use FindBin;
use Time::HiRes qw(sleep time);
chdir "$FindBin::Bin/../.." or die "no root: $!";

my $out    = $ENV{RINGSIDE_OUT} || 'build/release';
my $viewer = ($out =~ m{^/} ? '' : "$FindBin::Bin/../../") . "$out/trace_viewer";
my $folder = tempdir(CLEANUP => 1);
my $trace  = "$folder/large.trace";
my $index  = "$trace.index";
delete $ENV{XDG_CACHE_HOME};
$ENV{HOME} = $folder;

is(system("$out/ringside synth --events 1001000 --lanes 9 --faults 9 -o $trace >/dev/null"), 0, 'a trace of a million events');

sub frame { my ($more) = @_; return scalar `$viewer $trace --print --size 90x30 $more 2>&1` }

sub slurp {
    open my $in, '<:raw', $_[0] or return '';
    local $/;
    return scalar <$in>;
}

sub spit {
    my ($path, $bytes) = @_;
    open my $to, '>:raw', $path or die "$path: $!";
    print $to $bytes;
    close $to;
}

my $first = frame('');
like($first, qr/step 1000999\/1000999/, 'it is drawn');
unlike($first, qr/approximate/, 'a printed frame is exact');
my $made = slurp($index);
ok(length $made > 1_000_000, 'its index lies beside it');
my $inode = (stat $index)[1];
is(frame(''), $first, 'with the index the frame is the same');
is((stat $index)[1], $inode, 'and it was not made anew');

my $bent = $made;
substr($bent, length($bent) / 2, 1) ^= "\x40";
my %wrong = ('bent' => $bent, 'cut' => substr($made, 0, length($made) / 3), 'something else' => 'x' x 5000, 'empty' => '');
for my $how (sort keys %wrong) {
    spit($index, $wrong{$how});
    is(frame(''), $first, "an index that is $how changes nothing");
    is(slurp($index), $made, '... and is made anew');
}
unlink $index;
mkdir $index;
is(frame(''), $first, 'where a folder has its name, nothing changes');
ok(-d $index, '... and the folder stays');
rmdir $index;
is_deeply([ grep { !/large\.trace$|\.cache$/ } glob "$folder/{.[a-z]*,*}" ], [], 'nothing else was left behind');

SKIP: {
    skip 'tmux is not installed', 6 if system('command -v tmux >/dev/null 2>&1') != 0;
    my @tmux = ('env', '-u', 'TMUX', '-u', 'NO_COLOR', 'TERM=xterm-256color', 'LC_ALL=C.UTF-8',
                'tmux', '-S', "$folder/tmux", '-f', '/dev/null', '-u');
    my $screen = sub { scalar `@tmux capture-pane -p -t v` };
    my $shows = sub {
        my ($pattern, $name) = @_;
        my ($until, $text) = (time + 20, '');
        while (time < $until) {
            $text = $screen->();
            last if $text =~ $pattern;
            sleep 0.02;
        }
        like($text, $pattern, $name);
    };
    system(@tmux, 'new-session', '-d', '-s', 'v', '-x', '90', '-y', '30', "$viewer $trace");
    $shows->(qr/^(?!.*approximate).*step 0\/1000999/, 'without an index it opens on a terminal, and is exact in the end');
    ok(-f $index, '... with an index beside it');
    system(@tmux, 'send-keys', '-t', 'v', 'e');
    $shows->(qr/^! \d+ fault\./m, 'e stands at the first fault');
    system(@tmux, 'send-keys', '-t', 'v', '0', 'G');
    $shows->(qr/^(?!.*approximate).*step 1000999\/1000999/, '0 and G show all of it, exactly in the end');
    my ($shown) = $screen->() =~ /^( all .*)$/m;
    my ($printed) = $first =~ /^( all .*)$/m;
    is($shown =~ s/\s+$//r, $printed =~ s/\s+$//r, '... with the minimap of the printed frame');
    system(@tmux, 'send-keys', '-t', 'v', 'Q');
    my $until = time + 10;
    sleep 0.02 while time < $until && system("@tmux has-session -t v 2>/dev/null") == 0;
    isnt(system("@tmux has-session -t v 2>/dev/null"), 0, 'and Q leaves');
    system("@tmux kill-server 2>/dev/null");
}
done_testing();
