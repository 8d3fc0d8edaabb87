# What the tests of the command line share: run the program, write a lesson, judge how it ended.
package Ringside;
use strict;
use warnings;
use Cwd qw(abs_path);
use Exporter 'import';
use File::Temp qw(tempdir);
use Test::More;
our @EXPORT = qw(ringside lesson slurp spill refused folder program hear_signals);

my $program = abs_path($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $folder  = tempdir(CLEANUP => 1);

sub program { return $program }
sub folder  { return $folder }

sub slurp {
    my ($path) = @_;
    open my $file, '<:raw', $path or die "$path: $!";
    local $/;
    my $text = <$file>;
    return defined $text ? $text : '';
}

sub spill {
    my ($path, $text) = @_;
    open my $file, '>:raw', $path or die "$path: $!";
    print $file $text;
    close $file or die "$path: $!";
    return $path;
}

# A lesson of its own name in this test's folder.
sub lesson {
    my ($name, $text) = @_;
    return spill("$folder/$name.lua", $text);
}

# Runs the program; answers { status, signal, out, err }. A first argument { env =>, in_folder =>, umask =>, out =>,
# ulimit => '-v 400000', program => } sets the scene; out: where stdout goes instead of into the answer; program: another.
sub ringside {
    my %scene = ref $_[0] eq 'HASH' ? %{ shift() } : ();
    my @words = @_;
    my $start = $scene{program} || $program;
    my $pid   = fork() // die "fork: $!";
    if ($pid == 0) {
        %ENV = (%ENV, %{ $scene{env} || {} });
        chdir $scene{in_folder} or die "chdir: $!" if $scene{in_folder};
        umask $scene{umask} if defined $scene{umask};
        open STDIN,  '<', '/dev/null'     or die "stdin: $!";
        open STDOUT, '>', $scene{out} || "$folder/.out" or die "stdout: $!";
        open STDERR, '>', "$folder/.err"  or die "stderr: $!";
        alarm 300;                # a hang is a failure, not the end of the suite
        exec 'sh', '-c', "ulimit $scene{ulimit} && exec \"\$0\" \"\$@\"", $start, @words if $scene{ulimit};
        exec $start, @words;
        die "exec $start: $!";
    }
    waitpid $pid, 0;
    spill("$folder/.out", '') if $scene{out};
    return { status => $? >> 8, signal => $? & 127, out => slurp("$folder/.out"), err => slurp("$folder/.err") };
}

# For a child before exec, where the test will send it a signal: a shell's background job has SIGINT and SIGQUIT ignored,
# nohup's SIGHUP, and so would the program, which means it. What the test itself ignores, it goes on ignoring.
sub hear_signals {
    $SIG{$_} = 'DEFAULT' for qw(INT QUIT HUP TERM);
    return;
}

# One clear line on stderr (of the program that `view` becomes, for view), the right status, nothing about C.
sub refused {
    my ($name, $run, $status, $pattern) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    my $line = $run->{err} =~ /\A(?:ringside|trace_viewer): [[:print:]\x80-\xff]+\n(?:  [[:print:]\x80-\xff]*\n)*\z/;
    my $good = $line && $run->{signal} == 0 && $run->{status} == $status && $run->{err} =~ $pattern
        && $run->{err} !~ /\w\.[ch]:\d|\w\.c\b/;
    ok($good, $name)
        or diag("status $run->{status} (wanted $status), signal $run->{signal}, stderr:\n$run->{err}wanted $pattern");
    return $good;
}

1;
