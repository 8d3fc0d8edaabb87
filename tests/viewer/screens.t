#!/usr/bin/env perl
# Several viewers of one session, and those that behave badly: half a line, a flood that reads no answer, a connection
# closed in the middle, more of them than there is room for. The others go on.
use strict;
use warnings;
use File::Temp qw(tempdir);
use FindBin;
use IO::Select;
use IO::Socket::UNIX;
use Test::More;
use Time::HiRes qw(sleep time);
chdir "$FindBin::Bin/../.." or die "no root: $!";

my $out    = $ENV{RINGSIDE_OUT} || 'build/release';
my $folder = tempdir(CLEANUP => 1);
@ENV{qw(TMPDIR XDG_RUNTIME_DIR)} = ($folder, $folder);
$SIG{PIPE} = 'IGNORE';

# The first viewer, in words, so that no terminal is needed; it waits for its next line.
my $pid = open my $first, '|-', "exec $out/ringside step --plain lessons/01-six-rows.lua >$folder/said 2>&1"
    or die "no session: $!";
my $until = time + 20;
my ($socket) = ();
until ($socket || time > $until) {
    ($socket) = grep { -S } glob "$folder/*/*";
    sleep 0.02;
}
ok($socket, 'a session waits for viewers') or BAIL_OUT('no session');

sub viewer { return IO::Socket::UNIX->new(Peer => $socket, Type => SOCK_STREAM) }

# All up to the line ".", at most twenty seconds; "" the connection has ended, undef nothing came.
sub reply {
    my ($viewer) = @_;
    my ($text, $end) = ('', time + 20);
    while ($text !~ /^\.\n/m) {
        return undef unless IO::Select->new($viewer)->can_read($end - time);
        return '' unless sysread $viewer, $text, 4096, length $text;
    }
    return $text;
}
sub asks { my ($viewer, $line) = @_; syswrite $viewer, "$line\n"; return reply($viewer) // 'no reply' }

my ($good, $half) = (viewer(), viewer());
like(asks($good, 'where'), qr/^at 0 state=paused/, 'a second viewer is answered');
syswrite $half, 'got';
like(asks($good, 'where'), qr/^at 0 /, 'half a line of a third keeps nobody waiting');
syswrite $half, "o 2\nwhe";
like(reply($half), qr/^at 2 /, 'its other half makes it whole');
like(reply($good), qr/^now 2 /, 'and the others are told');
syswrite $half, 'r';
close $half;
like(asks($good, 'where'), qr/^at 2 /, 'one that leaves in the middle of a line leaves alone');

my $flood = viewer();
my $lines = "info memory\n" x 300;
$flood->blocking(0);
for (my $sent = time; time - $sent < 10;) {
    next if IO::Select->new($flood)->can_write(0.1) && defined syswrite $flood, $lines;
    last;
}
like(asks($good, 'goto 3'), qr/^at 3 /, 'one that asks and asks and reads no answer is not waited for');
close $flood;

my @crowd  = map { viewer() } 1 .. 20;
my @answer = map { asks($_, 'where') } @crowd;
cmp_ok(scalar(grep { /^at 3 / } @answer), '>=', 10, 'of twenty more as many are answered as there is room for');
is((grep { $_ ne '' && !/^at 3 / } @answer), 0, 'and the others are turned away');
close $_ for @crowd;
@crowd = ();
like(asks($good, 'where'), qr/^at 3 /, 'when they have left all goes on');
my $again = time + 20;
my $told  = '';
while ($told !~ /^at/ && time < $again) { $told = asks(viewer(), 'where') }
like($told, qr/^at 3 /, 'and there is room again');

syswrite $good, "quit\n";
reply($good);
close $first;
$until = time + 20;
sleep 0.02 while (() = glob "$folder/*/*") && time < $until;
is((() = glob "$folder/*/*"), 0, 'at its end nothing of the session is left');
done_testing;
