#!/usr/bin/perl
# scripts/setup and scripts/build: who waits for whom, and what is said meanwhile. Package manager and make are stand-ins.
use strict;
use warnings;
use lib 'tests/cli';
use Cwd qw(getcwd);
use Ringside;
use Test::More;

my $folder = folder();
my $tools  = "$folder/tools";
mkdir $tools;
sub tool { my ($name, $text) = @_; spill("$tools/$name", "#!/bin/sh\n$text"); chmod 0755, "$tools/$name"; return }

# Runs a script of ours with those tools before all others; answers (status, both outputs together). Its standard input
# stays open: script(1) ends with it.
sub script {
    my (@words) = @_;
    local $ENV{PATH} = "$tools:$ENV{PATH}";
    pipe my $input, my $held or die "pipe: $!";
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        alarm 60;
        close $held;
        open STDIN,  '<&', $input      or die "stdin: $!";
        open STDOUT, '>', "$folder/.s" or die "stdout: $!";
        open STDERR, '>&', \*STDOUT    or die "stderr: $!";
        exec @words or die "exec: $!";
    }
    waitpid $pid, 0;
    my $ended = $? >> 8;
    close $held;
    return ($ended, slurp("$folder/.s"));
}

# ---- setup waits for locks ----
tool('id', 'echo 0');
tool('sudo', 'exec "$@"');
tool('sleep', "echo \"\$1\" >> $folder/slept");
tool('apt-cache', 'exit 0');
tool('pkg-config', "test -e $folder/installed");
tool('apt-get', <<"END");
echo "\$*" >> $folder/asked
case "\$*" in
*update*)
    echo x >> $folder/tries
    if [ \$(wc -l < $folder/tries) -le 2 ]; then
        echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)' >&2
        exit 100
    fi ;;
*install*) touch $folder/installed ;;
esac
END
my ($status, $said) = script('scripts/setup', '--build');
SKIP: {
    skip 'something else is missing here, or all is there without pkg-config', 6 if $said !~ /missing: (?:\w+ )*lua /;
    is($status, 0, 'setup ends well once the lock is free') or diag($said);
    my @asked = split /\n/, slurp("$folder/asked");
    is(scalar(grep { /update/ } @asked), 3, 'the package lists are tried again while somebody holds their lock');
    is(slurp("$folder/slept"), "1\n2\n", 'with pauses between');
    is(() = $said =~ /another program holds the package lists/g, 2, 'which is said');
    is(scalar(grep { !/-o DPkg::Lock::Timeout=\d+ / } @asked), 0, 'apt waits for the lock of dpkg by itself');
    like($asked[-1], qr/install -y .*liblua5\.4-dev/, 'and then what is missing is installed');
}
unlink "$folder/$_" for qw(installed tries asked slept);
tool('apt-get', "case \"\$*\" in *update*) echo 'E: no network' >&2; exit 100 ;; *) touch $folder/installed ;; esac");
($status, $said) = script('scripts/setup', '--build');
unlike($said, qr/trying again/, 'what is no lock is not waited for');

# ---- build says how far it is ----
tool('make', 'echo "gcc -std=gnu11 -c -o build/x/a.o src/a.c"; echo "gcc -o build/x/ringside"; echo "$*" >&2; exit ${MAKE_ENDS:-0}');
($status, $said) = script('scripts/build', 'demo', 'BUILD=debug', 'tests');
is($status, 0, 'build ends as make does');
like($said, qr/\Ademo: building[^\r\n]*\n/, 'away from a terminal it says one line');
unlike($said, qr/\r/, 'and nothing that moves');
like($said, qr/^-s -j \d+ BUILD=debug tests$/m, 'make is asked for what was wanted');
{
    local $ENV{MAKE_ENDS} = 2;
    is((script('scripts/build', 'test'))[0], 2, 'a failure of make is one of build');
}
SKIP: {
    skip 'no script(1) to make a terminal', 3 if system('script -qec true /dev/null >/dev/null 2>&1') != 0;
    ($status, $said) = script('script', '-qec', 'scripts/build demo tests', '/dev/null');
    is($status, 0, 'on a terminal, too');
    like($said, qr/\rdemo: building, file 1: src\/a\.c {5,}/, 'a line there counts the files') or diag($said =~ s/\r/\\r/gr);
    local $ENV{MAKE_ENDS} = 2;
    is((script('script', '-qec', 'scripts/build demo', '/dev/null'))[0], 2, 'and a failure is one there');
}

done_testing();
