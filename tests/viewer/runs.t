#!/usr/bin/env perl
# Runs of a session in the viewer, on a real terminal by tmux: ':kill' and ':switch' in the past make another run, ':runs'
# lists them, ':run N' shows the record of the one that was left, and goes on from there.
use strict;
use warnings;
use Test::More;
use File::Temp qw(tempdir);
use FindBin;
use Time::HiRes qw(sleep time);
chdir "$FindBin::Bin/../.." or die "no root: $!";

plan skip_all => 'tmux is not installed' if system('command -v tmux >/dev/null 2>&1') != 0;

my $out      = $ENV{RINGSIDE_OUT} || 'build/release';
my $ringside = ($out =~ m{^/} ? '' : "$FindBin::Bin/../../") . "$out/ringside";
my $folder   = tempdir(CLEANUP => 1);
my @tmux = ('env', '-u', 'TMUX', '-u', 'NO_COLOR', 'TERM=xterm-256color', 'LC_ALL=C.UTF-8',
            'tmux', '-S', "$folder/tmux", '-f', '/dev/null', '-u');
sub tmux { system(@tmux, @_) == 0 }

sub screen {
    open my $in, '-|', @tmux, 'capture-pane', '-p', '-t', 'v' or return '';
    local $/;
    my $text = <$in>;
    close $in;
    return $text // '';
}

sub shows {    # polls, at most ten seconds
    my ($pattern, $name) = @_;
    my $until = time + 10;
    my $text  = '';
    while (time < $until) {
        $text = screen();
        last if $text =~ $pattern;
        sleep 0.02;
    }
    like($text, $pattern, $name);
}
sub line { tmux('send-keys', '-t', 'v', '-l', $_[0]); tmux('send-keys', '-t', 'v', 'Enter') }

open my $lesson, '>', "$folder/two.lua" or die "no lesson: $!";
print $lesson <<'END_LESSON';
local rs = require "ringside"
rs.lesson { title = "Two ranks", seed = 1 }
rs.distributed.spawn(function(rank)
  local t = rs.ones(4) * (rank + 1)
  for i = 1, 3 do rs.distributed.all_reduce(t) end
end, { world = 2 })
rs.say "over"
END_LESSON
close $lesson;
my ($hop) = `$ringside step --batch 'until comm.hop; where' $folder/two.lua` =~ /^(\d+) comm\.hop/m;
my ($end) = `$ringside step --batch 'continue; where' $folder/two.lua` =~ /^(\d+) lesson\.end/m;
ok(defined $hop && defined $end, 'a lesson with messages');

ok(tmux('new-session', '-d', '-s', 'v', '-x', '100', '-y', '30', 'env PS1=ready: sh'), 'a terminal of 100x30')
    or BAIL_OUT('tmux does not start');
shows(qr/ready:/, 'with a shell');
line("cd $folder; TMPDIR=$folder XDG_RUNTIME_DIR=$folder $ringside step two.lua; echo ended \$?");
shows(qr/step 0\/[\d?]+/, 'a live run waits at its first event');
line(':continue');
shows(qr/step $end\/$end\b/, 'it goes to its end');
line(":goto $hop");
shows(qr/step $hop\/$end\b/, 'and back to the first message');
line(':kill 1');
shows(qr/rank 1 was killed/, 'where rank 1 is killed');
shows(qr/this is run 2 now, from event $hop\b/, 'which makes run 2');
shows(qr/for that the run/, 'and says what that cost');
line(':continue');
shows(qr/the run has failed \(exit status 3\) at event (\d+)/, 'that run fails');
line(':runs');
shows(qr/1: as the lesson is; @{[$end + 1]}\b.*\* 2: as run 1, at event $hop: kill\b/s, ':runs lists both');
line(':run 1');
shows(qr/step $hop\/$end\b/, ':run 1 shows the record of the first, which is whole');
shows(qr/run 1, at event $hop/, 'where one looked');
line(':switch 1');
shows(qr/this is run 3 now/, 'from there one goes on otherwise');
line(':continue');
shows(qr/step $end\/$end\b/, 'to another end');
line(':run 2');
shows(qr/run 2, at event \d+/, 'run 2 is still there');
line(':pane runs');
shows(qr/ 1 +\S+ finished at $end\b.*\*2 +\S+ +failed at \d+, kill 1 at $hop.* 3 +\S+ finished/s, 'a pane draws the runs as branches');
tmux('send-keys', '-t', 'v', 'j', 'k', '=');
shows(qr/A is run 1, B this one, run 2: \d+ differences/, '= compares the chosen run with the present one');
line(':pane runs');
tmux('send-keys', '-t', 'v', 'Enter');
shows(qr/run 1, at event/, 'Enter goes to it');
tmux('send-keys', '-t', 'v', 'Q');
shows(qr/ended 0/, 'Q leaves');
my $until = time + 10;    # the session tidies up behind the viewer
sleep 0.02 while time < $until && grep { !/tmux$|two\.lua$/ } glob "$folder/*";
is(join(' ', grep { !/tmux$|two\.lua$/ } glob "$folder/*"), '', 'and no record stays behind');
tmux('kill-server');
done_testing();
