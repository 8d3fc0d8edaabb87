#!/usr/bin/env perl
# The timeline as people arrange it: lanes of a rank together, folded and pinned, messages between them, idle time left
# out, ranks side by side, filters and curves. Each frame is printed, as the terminal would show it.
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

sub record {
    my ($name, $text) = @_;
    open my $lesson, '>', "$folder/$name.lua" or die "no lesson: $!";
    print $lesson qq(local rs = require "ringside"\nlocal dist = rs.distributed\n), $text;
    close $lesson or die $!;
    is(system("$ringside run --quiet --trace $folder/$name.trace $folder/$name.lua >/dev/null 2>&1") & 127, 0, "$name runs");
    return [map { /^(\d+) (\S+) (\w+)(?: (r\d+))?/ ? { seq => $1, kind => $2, phase => $3, rank => $4 // '' } : () }
            `$ringside events $folder/$name.trace`];
}
sub frame {
    my ($name, $size, $at, $keys, $more) = @_;
    $at = $at->{seq} if ref $at;
    return decode('UTF-8', scalar `$viewer $folder/$name.trace --print --size $size --at $at --keys '$keys' @{[$more // '']}`);
}
sub find { my ($events, $kind, $phase, $rank) = @_;
    my ($found) = grep { $_->{kind} eq $kind && $_->{phase} eq $phase && $_->{rank} eq $rank } @$events;
    return $found // die "no $kind $phase $rank"; }
sub title { (split /\n/, $_[0])[0] }
sub lanes { # the rows of lanes alone, left of what stands beside them
    my ($frame, $columns) = @_;
    my (@rows) = split /\n/, $frame;
    splice @rows, 0, 3;
    my ($end) = grep { $rows[$_] =~ /^─/ } 0 .. $#rows;
    return join "\n", map { substr $_, 0, $columns } @rows[0 .. $end - 1];
}
sub row_of { my ($frame, $name) = @_; my ($row) = grep { /^.\Q$name\E/ } split /\n/, $frame; return $row // '' }

my $late = record(late => <<'LUA');
rs.lesson { title = "Late", devices = 0 }
dist.spawn(function(rank)
  dist.all_reduce(rs.ones(4))
  if rank == 1 then rs.sleep(200) end
  dist.all_reduce(rs.ones(4))
  rs.sleep(2000)
  dist.all_reduce(rs.ones(4))
end, { world = 3 })
LUA
my $hop    = find($late, 'comm.hop', 'begin', 'r0');
my @issues = grep { $_->{kind} eq 'c10d.issue' && $_->{rank} eq 'r1' } @$late;

# ---- lanes ----
my $frame = frame('late', '80x24', 0, '');
my @gutter = map { substr $_, 1, 11 } (split /\n/, $frame)[3 .. 9];
is(join('|', map { s/ +\+\d+//r =~ s/\s+$//r } @gutter), 'main|r0 main|   comm|r1 main|   comm|r2 main|   comm',
    'lanes of a rank stand together, its name once');
like(row_of(frame('late', '80x24', $hop, ''), '   comm'), qr/^►   comm/, 'the selected one has its arrow');
my $wide = frame('late', '120x40', $hop, '');
like($wide, qr/^►   comm .*\n    └ in 1 /m, 'the selected lane is unfolded');
like($wide, qr/^ r2 main .*\n    └ in 1 /m, 'where rows are left so are the others');
unlike(frame('late', '120x40', $hop, 'o'), qr/^►   comm .*\n    └/m, 'o folds it');
like(frame('late', '120x40', $hop, 'oo'), qr/^►r0 2 lanes /m, 'o again folds its rank into one row');
like(frame('late', '120x40', $hop, 'ooo'), qr/^►   comm .*\n    └ in 1 /m, 'and once more unfolds both');
like((split /\n/, frame('late', '80x24', $hop, 'jjjp'))[3], qr/^►r2 main/, 'p takes a lane to the top');
like((split /\n/, frame('late', '80x24', $hop, 'jjjpkkkk'))[3], qr/^■(?:r\d|   )/, 'keeps it at the top');
like(row_of(frame('late', '80x24', $hop, 'r'), 'r1 main'), qr/^►/, 'r goes to the next rank');
like(row_of(frame('late', '80x24', $hop, 'rR'), 'r0 main'), qr/^►/, 'R back');
like(row_of(frame('late', '80x24', $hop, '2r'), 'r2 main'), qr/^►/, '2r to rank 2');
like(row_of(frame('late', '80x24', $hop, ':rank 1<Enter>'), 'r1 main'), qr/^►/, ':rank 1 to rank 1');
like(frame('late', '80x24', $hop, '7r'), qr/^ no lane of rank 7/m, 'a rank that there is not is said');
like(frame('late', '80x18', 0, ''), qr{^ \+2 lanes +\S.* j/k scroll$}m, 'lanes without a row are counted, and shaded');

# ---- many ranks ----
my $alike = record(alike => <<'LUA');
rs.lesson { title = "Alike", devices = 0 }
dist.spawn(function(rank)
  rs.sleep(rank == 5 and 1000 or rank % 2)
  local t = rs.ones(4)
  for i = 1, 3 do t = t + 1 end
end, { world = 16 })
LUA
my $many = frame('alike', '80x24', 0, '');
like($many, qr/^ r\d+-r\d+/m, 'ranks that do the same share a row');
like(frame('alike', '100x24', 0, ''), qr/^ r\d+-r\d+ \+-[\d.]+us/m, 'which says by how much they differ');
ok(!(grep { /^ r(\d+)-r(\d+)/ && $1 <= 5 && $2 >= 5 } split /\n/, $many), 'the one that is late is not among them');
my ($first) = $many =~ /^ r(\d+)-r\d+/m;
like(frame('alike', '80x24', 0, "${first}r"), qr/^►r$first +main/m, 'the selected one comes out of it');

# ---- messages ----
like(lanes(frame('late', '120x40', $hop, '<Enter>--'), 84), qr/[▼▲]/, 'at a message its route has an arrow');
unlike(lanes(frame('late', '120x40', $hop, '<Enter>--:flows off<Enter>'), 84), qr/[▼▲]/, ':flows off draws none');
my $routes = sub { scalar(() = lanes(frame('late', '200x60', $hop, ":flows $_[0]<Enter>"), 102) =~ /[▼▲]/g) };
cmp_ok($routes->('all'), '>', $routes->('selection'), ':flows all draws more than those of the selection');
cmp_ok($routes->('iteration'), '>', $routes->('selection'), ':flows iteration those of the iteration');
like(frame('late', '80x24', $hop, ':flows some<Enter>'), qr/flows selection, iteration, all, or off/, 'other words are refused');
my $arrived = frame('late', '80x24', $hop, ']');
unlike(title($arrived), qr/step $hop->{seq}\//, '] goes to the receiver');
like(title(frame('late', '80x24', $hop, '][')), qr/step $hop->{seq}\//, '[ back to the sender');
like(frame('late', '80x24', $hop, '['), qr/this is where it left|step \d+/, '[ at a sender says so');
my $issue = find($late, 'c10d.allreduce', 'begin', 'r0');
unlike(title(frame('late', '80x24', $issue, ']')), qr/step $issue->{seq}\//, 'from a collective ] follows its first message');
like(frame('late', '120x40', $hop, '<Enter>++++'), qr/►r\d|►/, 'a receiver out of sight is named at the border');

# ---- time ----
my $squeezed = frame('late', '80x24', 0, 'z');
like(title($squeezed), qr/squeezed/, 'z: the title says that time is squeezed');
like($squeezed, qr{^ r0 main.*╱╱}m, 'what is idle is two columns');
like((split /\n/, $squeezed)[1], qr/(?:1\.9|2\.0|1\.\d)ms/, 'with its length above');
like(frame('late', '80x24', 0, 'z', '--ascii'), qr{^ r0 main.*//}m, 'in ASCII too');
is(frame('late', '80x24', 0, 'zz0') =~ s/\n[^\n]*\n[^\n]*\z//sr, frame('late', '80x24', 0, '0') =~ s/\n[^\n]*\n[^\n]*\z//sr,
    'z again shows it');
like(title(frame('late', '80x24', $hop, 't')), qr/aligned/, 't aligns ranks');
like(frame('late', '80x24', $hop, 't'), qr/aligned by iteration 0\n/, 'by the iteration');
like(frame('late', '80x24', $issues[1], ':align collective<Enter>'), qr/^ ?.?r1 \+20\d(?:\.\d)?us!/m,
    'by a collective: the last to arrive stands out, with how late it is');
like(frame('late', '120x40', $issues[1], 'tt'), qr/^.r1 \S* ?\+20\d(?:\.\d)?us(?: last|!)/m, 'in a wide gutter in words');
unlike(title(frame('late', '80x24', $hop, 'ttt')), qr/aligned/, 'and t comes back to times as recorded');
like(frame('late', '80x24', $hop, ':align moon<Enter>'), qr/align wall, iteration, or collective/, 'others are refused');

# ---- filters ----
my $filtered = frame('late', '80x24', $hop, '&comm.hop<Enter>');
like(title($filtered), qr/filtered/, '&: the title says that not everything is shown');
unlike($filtered, qr/^ r\d main/m, 'lanes without a match are left out');
like($filtered, qr/^.r0 comm/m, 'those with one stay');
like(frame('late', '80x24', $hop, '&comm.hop<Enter>&<Enter>'), qr/everything is shown/, '& alone ends it');
like(frame('late', '80x24', $hop, '&comm.hopp<Enter>'), qr/did you mean comm\.hop/, 'a wrong word is told');

# ---- curves ----
my $curves = frame('late', '120x40', $hop, ':curves on<Enter>');
like($curves, qr/^ flight +\d+\S* .*[▁▂▃▄▅▆▇█]/m, ':curves on draws bytes in flight, with the most of them');
like($curves, qr/^ calls +[123]\b/m, 'and collectives that are under way');
unlike(frame('late', '120x40', $hop, ''), qr/^ flight/m, 'at this size only if asked for');
like(frame('late', '200x60', $hop, ''), qr/^ in flight/m, 'on a large screen by themselves');
unlike(frame('late', '200x60', $hop, ':curves off<Enter>'), qr/^ in flight/m, 'until :curves off');
like(frame('late', '120x40', $hop, ':curves on<Enter>', '--ascii'), qr/^ flight +\d+\S* .*[.:\-=+*#]/m, 'in ASCII');

# ---- the window ----
my $whole = frame('late', '80x24', $hop, '');
is(frame('late', '80x24', $hop, $_), frame('late', '80x24', $hop, '+-'), "$_ comes back") for 'w-', '++--', '+-+W';
is(frame('late', '80x24', $hop, '<Enter><Esc>'), $whole, 'Enter goes in, Esc comes out');
is(frame('late', '80x24', $hop, '<Enter>+++<Enter><Esc><Esc>'), $whole, 'out of each in turn');
isnt(frame('late', '80x24', 0, '++++D'), frame('late', '80x24', 0, '++++'), 'D pans a screen');
is(frame('late', '80x24', 0, '++++DDA'), frame('late', '80x24', 0, '++++D'), 'A back');
like(frame('late', '100x40', 0, 'vG'), qr/├─+ [\d.]+ \w+ .*events.*busy ─+┤/, 'a measure stands under the ruler');
# ---- following ----
my $bytes = do { open my $in, '<:raw', "$folder/late.trace" or die $!; local $/; <$in> };
open my $cut, '>:raw', "$folder/cut.trace" or die $!;
substr($bytes, 64, 8) = "\0" x 8; # its head does not say that it is complete
print $cut $bytes;
close $cut or die $!;
SKIP: {
    my $last = frame('cut', '80x24', 0, 'G');
    skip 'the cut trace is not one that may still grow', 2 if $last !~ /cut short/;
    like(title($last), qr/following/, 'G of a trace that is not ended follows it');
    unlike(title(frame('cut', '80x24', 0, "G$_")), qr/following/, "$_ leaves it") for 'h', 'a', 'S', 'g';
}
unlike(title(frame('late', '80x24', 0, 'G')), qr/following/, 'of one that is ended there is nothing to follow');

for my $size ('40x10', '80x24', '120x40', '200x60') {
    for my $keys ('z', 't', 'tt', ':flows all<Enter>', ':curves on<Enter>', '&comm.hop<Enter>', 'oo', 'p') {
        my ($width, $height) = split /x/, $size;
        my @lines = split /\n/, frame('late', $size, $hop, $keys);
        ok(@lines == $height && !(grep { length > $width } @lines), "$size, $keys: the frame is whole");
    }
    unlike(frame('late', $size, $hop, 'z:flows all<Enter>:curves on<Enter>', '--ascii'), qr/[^\n\x20-\x7e]/, "$size: in ASCII");
}

like(frame('late', '80x24', $hop, '&r1<Enter>'), qr/unknown kind 'r1'.*& takes ddp\.\*, rank 1/, 'a filter that is none says what one is');
like(frame('late', '80x24', $hop, ':align collective<Enter>'), qr/^ aligned by the end of this collective; beside each rank how late it came$/m,
     'what is aligned by fits 80 columns');
record(still => qq(rs.lesson { title = "Still", devices = 0 }\nrs.say "one"\nrs.say "two"\n));
like(frame('still', '80x24', 1, '<Enter>'), qr/^ no time passes here: there is nothing to zoom into/m, 'Enter where no time passes says so');
is((split /\n/, frame('still', '80x24', 1, '<Enter>'))[2], (split /\n/, frame('still', '80x24', 1, ''))[2], 'and sets no window');
record(wordy => qq(rs.lesson { title = "Wordy", devices = 0 }\nrs.say "go"\n@{[qq(rs.say "@{['many words ' x 12]}"\n) x 4]}));
unlike(frame('wordy', '80x24', 1, 'c'), qr/─ Lesson ─+┬/, 'a long text has the whole width');
like(frame('wordy', '80x24', 1, 'cB'), qr/─ Lesson ─+┬► Breaks/, 'a pane that has the keys is seen beside it');
my $waits = record(waits => <<'LUA');
rs.lesson { title = "Waits", devices = 0 }
dist.spawn(function(rank) for _ = 1, 5 do dist.all_reduce(rs.ones(4)) end end, { world = 2 })
LUA
my $coloured = decode('UTF-8', scalar `$viewer $folder/waits.trace --print=ansi --color=256 --size 80x24 --at 0`) =~ s/\e\[[0-9;]*m//gr;
like($coloured, qr/wait╌\w+…\w+╌wait/, 'waits that meet keep their words apart');
unlike($coloured, qr/…\w+wait/, 'all of them');
done_testing;
