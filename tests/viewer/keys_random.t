#!/usr/bin/env perl
# The viewer under random hands: keys, pieces of escape sequences, mouse reports, any bytes; resizes to every size and
# storms of them; stopped and continued; its terminal closed. It neither crashes nor hangs, gives the terminal back as
# it was each time, and ends on q. RINGSIDE_LONG: a hundred thousand keys; KEYS_SEED says which hands, KEYS_SECONDS how
# long at least.
use strict;
use warnings;
use Cwd qw(abs_path);
use Errno qw(EAGAIN EINTR);
use Fcntl;
use File::Temp qw(tempdir);
use FindBin;
use POSIX qw(:sys_wait_h :termios_h :signal_h setsid setpgid tcsetpgrp);
use Test::More;
use Time::HiRes qw(time);
chdir "$FindBin::Bin/../.." or die "no root: $!";

# Pseudo-terminals by hand: their numbers are Linux's.
use constant { TIOCSPTLCK => 0x40045431, TIOCGPTN => 0x80045430, TIOCSWINSZ => 0x5414, TIOCSCTTY => 0x540e };
plan skip_all => 'the numbers of its ioctls are those of Linux' if $^O ne 'linux';
plan skip_all => 'there are no pseudo-terminals' unless -w '/dev/ptmx';

my $out    = abs_path($ENV{RINGSIDE_OUT} || 'build/release');
my $folder = tempdir(CLEANUP => 1);
my $trace  = "$folder/01.trace";
my $long   = $ENV{KEYS_SECONDS} || 0;
my $most   = $ENV{RINGSIDE_LONG} ? 100_000 : 0;
my $rounds = 10;
# Whoever looks for leaks at the end traces himself, and hangs when he is stopped meanwhile.
$ENV{ASAN_OPTIONS} = join ':', 'detect_leaks=0', $ENV{ASAN_OPTIONS} // ();
my $seed   = $ENV{KEYS_SEED} || 1 + int rand 1e9;
is(system("$out/ringside run --quiet --trace $trace lessons/01-six-rows.lua >/dev/null 2>&1"), 0,
    'lesson 01 makes a trace');
diag("KEYS_SEED=$seed") if $long || $most;
@ENV{qw(VISUAL XDG_CONFIG_HOME)} = ('true', $folder);
note("KEYS_SEED=$seed");

# ---- a terminal and who sits in it ----

sub open_terminal {
    sysopen my $master, '/dev/ptmx', O_RDWR | O_NONBLOCK | O_NOCTTY or die "/dev/ptmx: $!";
    my ($number, $unlocked) = (pack('i', 0), pack('i', 0));
    ioctl $master, TIOCSPTLCK, $unlocked or die "unlock: $!";
    ioctl $master, TIOCGPTN, $number or die "number: $!";
    return ($master, '/dev/pts/' . unpack('i', $number));
}

sub resize {
    my ($master, $width, $height) = @_;
    my $size = pack 'S4', $height, $width, 0, 0;
    return ioctl $master, TIOCSWINSZ, $size;
}

sub modes {
    my $termios = POSIX::Termios->new;
    return 'gone' unless defined $termios->getattr(0);
    return join ' ', $termios->getiflag, $termios->getoflag, $termios->getcflag & ~0, $termios->getlflag,
        map { $termios->getcc($_) } 0 .. NCCS - 1;
}

# Starts the program as a shell would, in the foreground of its terminal; says in lines what became of it:
# "pid N", "stopped same|raw", "ended STATUS same|raw|gone". What is stopped goes on at once.
sub be_the_shell {
    my ($tell, @words) = @_;
    $SIG{$_} = 'IGNORE' for qw(HUP TTOU TTIN INT QUIT TSTP);
    my $before = modes();
    my $child  = fork() // die "fork: $!";
    if ($child == 0) {
        setpgid(0, 0);
        tcsetpgrp(0, $$);
        $SIG{$_} = 'DEFAULT' for qw(HUP TTOU TTIN INT QUIT TSTP);
        exec @words;
        die "exec: $!";
    }
    setpgid($child, $child);
    tcsetpgrp(0, $child);
    syswrite $tell, "pid $child\n";
    while (waitpid($child, WUNTRACED) == $child) {
        my $now = modes();
        my $as  = $now eq 'gone' ? 'gone' : $now eq $before ? 'same' : 'raw';
        if (kill 0, $child) {    # it is still there: only stopped, which $? does not say
            tcsetpgrp(0, $$);
            syswrite $tell, "stopped $as\n";
            tcsetpgrp(0, $child);
            kill 'CONT', -$child;
            next;
        }
        my $status = $? & 127 ? 1000 + ($? & 127) : $? >> 8;
        syswrite $tell, "ended $status $as\n";
        last;
    }
    POSIX::_exit(0);
}

my @terminals = ('xterm-256color', 'xterm', 'linux', 'vt100', 'screen-256color');

sub start {
    my (@words) = @_;
    my ($master, $name) = open_terminal();
    my $term = $terminals[rand @terminals];
    $term = 'xterm' if system("infocmp $term >/dev/null 2>&1") != 0;
    pipe my $told, my $tell or die "pipe: $!";
    pipe my $gone, my $held or die "pipe: $!";
    fcntl $held, F_SETFD, 0 or die "keep: $!";    # all processes of the round have it: its end says that none is left
    resize($master, 80, 24);
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        close $master;
        close $_ for $told, $gone;
        setsid();
        sysopen my $tty, $name, O_RDWR or die "$name: $!";
        ioctl $tty, TIOCSCTTY, 0;
        POSIX::dup2(fileno $tty, $_) for 0, 1;
        open STDERR, '>', "$folder/err" or die "err: $!";
        @ENV{qw(TERM LC_ALL TMPDIR)} = ($term, rand() < 0.5 ? 'C.UTF-8' : 'C', $folder);
        be_the_shell($tell, @words);
    }
    close $_ for $tell, $held;
    my $hands = { gone => $gone, master => $master, told => $told, shell => $pid, said => '', seen => '' };
    while ($hands->{said} !~ /^pid (\d+)$/m) {
        sysread $told, $hands->{said}, 200, length $hands->{said} or die 'no shell';
    }
    ($hands->{pid}) = $hands->{said} =~ /^pid (\d+)$/m;
    return $hands;
}

# Takes what was drawn, so that the viewer never waits for its terminal; at most so many seconds, less if it is silent.
sub look {
    my ($hands, $seconds) = @_;
    my $bits = '';
    vec($bits, fileno $_, 1) = 1 for grep { defined } @$hands{qw(master told)};
    while (select(my $ready = $bits, undef, undef, $seconds) > 0) {
        if ($hands->{master} && vec($ready, fileno $hands->{master}, 1)) {
            my $got = sysread $hands->{master}, my $drawn, 65536;
            vec($bits, fileno $hands->{master}, 1) = 0 if !$got && !$!{EAGAIN};
            $hands->{seen} = substr($hands->{seen} . ($drawn // ''), -20000);
        }
        if (vec($ready, fileno $hands->{told}, 1)) {
            last unless sysread $hands->{told}, $hands->{said}, 4000, length $hands->{said};
        }
        $seconds = 0;
    }
    return $hands->{said} =~ /^ended/m;
}

my $typed = 0;
sub type { $typed++; syswrite $_[0]{master}, $_[1] }

# ---- what hands do ----

my @keys = (
    split(//, q(snmfcuwSNMFCUbBxhjklgG+-=WadivptoyreERADLZOH"'*&z/?:[]{}()|<>,.1234567890 )), "\r", "\t", "\x7f", "\x0c", "\e[A",
    "\e[B", "\e[C", "\e[D", "\e[H", "\e[F", "\e[5~", "\e[6~", "\eOP", "\e[15~", "\e[21~", "\e[Z",
);
my @lines = (
    'until dp', 'goto 30', '99999999999999999999', 'break op', 'info memory', 'print x', 'set x 1', 'step 5',
    'nonsense', 'help', 'find', 'where', 'show all', 'switch 1', 'delay 1 5', 'pane values', 'rank 3', 'break (((',
    'until bytes ~ ~', 'goto it 1', 'goto 50%', 'goto +3us', 'goto at 1.2 ms', 'set', 'set keys perfetto', 'set keys vi',
    'set fps 1', 'set fps 240', 'set mouse off', 'set mouse on', 'set theme none', 'bind', 'bind s step 3', 'bind F9 :set',
    'unbind s', 'marks', 'mark x', 'jump x', 'help step', 'addmm', '"a b"', 'dp', 'rank 0 and op', "\t", "s\t", "set \t",
    "break d\t", "\e[A\e[A", 'abc' . "\e[D" x 5 . "\x17\x15\x0b",
);
sub report {
    my ($button, $up) = @_;
    return sprintf "\e[<%d;%d;%d%s", $button, 1 + int rand 90, 1 + int rand 30, $up ? 'm' : 'M';
}
my @pieces = (
    "\e", "\e[", "\e[1;", "\eO", "\e[200~", "\e[201~", "\e[<0;", "\e[<0;10;5M", "\e[<64;300;100m", "\e[M !!",
    "\e[M\xff\xff\xff",
    "\e]0;x\a", "\eP", "\e\e\e", "\e[?1;2c", "\xc3", "\xe2\x94", "\xf0\x9f\x98\x80", "\xff\xfe", "\x00", "\x9b1~",
    "\e[9999999999A",
);
sub bytes { return join '', map { my $c = chr int rand 256; $c =~ /[qQ\x03\x1a\x1c]/ ? 'n' : $c } 1 .. 1 + rand $_[0] }

my @does = (
    sub { type($_[0], $keys[rand @keys]) for 1 .. 1 + rand 12 },
    sub { type($_[0], $keys[rand @keys]) for 1 .. 1 + rand 12 },
    sub { type($_[0], $pieces[rand @pieces]) for 1 .. 1 + rand 4 },
    sub { type($_[0], bytes(40)) },
    sub { type($_[0], ':' . $lines[rand @lines] . (rand() < 0.8 ? "\r" : '')) },
    sub { type($_[0], '/' . $lines[rand @lines] . (rand() < 0.8 ? "\r" : "\e")) },
    sub { type($_[0], report((0, 0, 0, 1, 2, 4, 16, 64, 65, 66, 68, 69, 80, 81)[rand 14])) for 1 .. 1 + rand 8 },
    sub { type($_[0], join '', report(0), map({ report(32) } 1 .. 1 + rand 9), rand() < 0.8 ? report(0, 1) : '') },
    sub { my $twice = report(0); type($_[0], $twice . $twice) },
    sub { type($_[0], "\e[200~" . bytes(60) . (rand() < 0.8 ? "\e[201~" : '')) },
    sub { resize($_[0]{master}, 1 + int rand 300, 1 + int rand 100) },
    sub { resize($_[0]{master}, 1 + int rand 12, 1 + int rand 6) },
    sub { resize($_[0]{master}, 1 + int rand 300, 1 + int rand 100) for 1 .. 30 },
    sub { kill 'WINCH', -$_[0]{pid} for 1 .. 50 },
    sub { resize($_[0]{master}, 0, 0) },
    sub { kill 'TSTP', -$_[0]{pid} },
);

# Keys for the viewer; while the terminal is the shell's they are signals, at which it drops what was not read yet.
my @signals = (
    sub { type($_[0], "\cZ"); $_[0]{signalled} = 1 },
    sub { $_[0]{seen} =~ /\e\[/ or return; type($_[0], "\cC"); $_[0]{signalled} = 1 },
);

# From outside, where nobody can put a terminal back before: not in every round.
my @pushes = (
    sub { kill 'STOP', -$_[0]{pid}; $_[0]{pushed} = 1 },
    sub { kill 'CONT', -$_[0]{pid} for 1 .. 3; $_[0]{pushed} = 1 },
);

# ---- how a round ends ----

sub ended {
    my ($hands) = @_;
    my ($status, $as) = $hands->{said} =~ /^ended (\d+) (\w+)$/m;
    return ($status, $as);
}

# Out of whatever is typed or shown, then q, until it has ended; a minute of silence is a hang.
sub leave {
    my ($hands) = @_;
    my $until = time + 60;
    resize($hands->{master}, 80, 24);
    while (!look($hands, 0.05) && time < $until) {
        kill 'CONT', -$hands->{pid} if $hands->{pushed};    # the shell's own may have come before the last was stopped
        type($hands, "\cQ\e");    # ^S may have been among the bytes, while the terminal was the shell's
        last if look($hands, 0.06);
        type($hands, 'q');
        type($hands, 's') if $hands->{live};    # a run that is not over is not ended by one key
    }
    kill 'KILL', -$hands->{pid} unless ended($hands);
    while (sysread $hands->{master}, my $last, 65536) { $hands->{seen} .= $last }    # what it said at last
    return defined +(ended($hands))[0];
}

# The session's own processes go with it, its folders too.
sub hang_up {
    my ($hands) = @_;
    my $until = time + 60;
    close delete $hands->{master};
    look($hands, 0.05) until ended($hands) || time >= $until;
    kill 'KILL', -$hands->{pid} unless ended($hands);
    return defined +(ended($hands))[0];
}

my %fault;
sub wrong { my ($round, $what) = @_; push @{ $fault{$what} }, $round }

sub check {
    my ($hands, $round, $left) = @_;
    note("round $round did$hands->{did}");
    my ($status, $as) = ended($hands);
    wrong($round, 'it hangs') unless $left;
    wrong($round, "it ends on q with 0, not with $status")
        if $left && $hands->{master} && $status != 0 && !($hands->{signalled} && $status == 130);
    wrong($round, "it ends by no signal, not by " . ($status - 1000)) if $left && $status > 1000;
    wrong($round, 'the terminal is left raw') if $left && $as eq 'raw';
    wrong($round, 'it stops with a raw terminal') if $hands->{said} =~ /^stopped raw/m && !$hands->{pushed};
    wrong($round, 'the alternate screen is left')
        if $hands->{master} && $left && !$hands->{signalled}
        && rindex($hands->{seen}, "\e[?1049h") > rindex($hands->{seen}, "\e[?1049l");
    wrong($round, 'the mouse or marked pastes are left on')
        if $hands->{master} && $left && !$hands->{signalled} && grep {
            rindex($hands->{seen}, "\e[?${_}h") > rindex($hands->{seen}, "\e[?${_}l") } 1002, 1006, 2004;
    open my $err, '<', "$folder/err";
    my $said = join '', <$err>;
    wrong($round, 'it complains: ' . substr $said, 0, 3000)
        if $said =~ /Sanitizer|runtime error|terminated|signal: (?!Interrupt|Hangup)/;
}

sub round {
    my ($round) = @_;
    srand($seed + $round);
    my $live    = $round % 3 == 2;
    my @program = $live ? ("$out/ringside", 'step', 'lessons/01-six-rows.lua') : ("$out/trace_viewer", $trace);
    my $hands   = start(@program);
    $hands->{live} = $live;
    my @may     = (@does, $round % 2 ? @pushes : (), $round % 4 ? @signals : ());
    look($hands, 1) if rand() < 0.7;
    for (1 .. 20 + rand 40) {
        my $what = int rand @may;
        $hands->{did} .= " $what";
        $may[$what]->($hands);
        last if look($hands, rand() < 0.3 ? 0.01 : 0);
    }
    my $left = $round % 5 == 4 ? hang_up($hands) : leave($hands);
    check($hands, $round, $left);
    all_gone($hands, $round);
}

sub all_gone {
    my ($hands, $round) = @_;
    my $bits = '';
    vec($bits, fileno $hands->{gone}, 1) = 1;
    kill 'CONT', -$hands->{pid} if $hands->{pushed};    # perhaps the viewer had ended when its session was stopped
    wrong($round, 'processes are left') unless select($bits, undef, undef, 60);
    waitpid $hands->{shell}, 0;
    my @files = grep { !/\.trace$|err$/ } glob "$folder/*";
    wrong($round, "files are left: @files") if @files;
}

# Before there is a viewer the interrupt is a signal, for all that have begun by then.
sub interrupt {
    my ($moment) = @_;
    my $hands = start("$out/ringside", 'step', 'lessons/01-six-rows.lua');
    $hands->{live} = 1;
    look($hands, 0.004 * $moment);
    type($hands, "\cC");
    my $left = leave($hands);
    wrong("interrupted $moment", 'it hangs') unless $left;
    wrong("interrupted $moment", 'the terminal is left raw') if $left && (ended($hands))[1] eq 'raw';
    all_gone($hands, "interrupted $moment");
}

my $end = time + $long;
my $round = 0;
while ($round < $rounds || time < $end || $typed < $most) { round($round++) }
interrupt($_) for 0 .. 19;
is_deeply(\%fault, {}, 'it neither crashes nor hangs, ends on q, leaves the terminal as it was, and nothing else')
    or diag("KEYS_SEED=$seed, rounds @{[ map { \"$_: @{ $fault{$_} }; \" } sort keys %fault ]}");
note("$round rounds, $typed times typed");
done_testing;
