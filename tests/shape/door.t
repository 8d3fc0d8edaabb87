#!/usr/bin/perl
# Who writes to a stream: a few places, each with its reason. What is written from elsewhere would not pass the door
# (base/visible.h) through which text from outside leaves.
use strict;
use warnings;
use Test::More;
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

# Files that may write, and why. In cli/ and in the viewer's main each program prints its own words with printf too.
my %may = (
    'src/base/visible.c'         => 'the door itself',
    'src/lua/narration.c'        => 'put_text, where a trusted lesson\'s words pass',
    'src/cli/launch_lines.c'     => 'lines of processes, which went through the door or are a trusted lesson\'s own',
    'src/cli/launch_start.c'     => 'a number, whose reader is the launcher',
    'src/lua/trace_job.c'        => 'a trace that came from another host, into memory',
    'src/lua/progress.c'         => 'the bar; the text goes through the door',
    'src/data/safetensors_save.c' => 'a file of tensors',
    'src/c10d/store_server.c'    => 'a store\'s wire, whose reader is a client',
    'src/control/socket.c'       => 'the debugger\'s wire, whose reader is the viewer',
    'trace_viewer/cast.c'        => 'a film; frames go through the door',
    'trace_viewer/look_export.c' => 'a frame and a script, whose cells and words passed it',
    'trace_viewer/guard.c'       => 'what restores the terminal',
    'trace_viewer/loop.c'        => 'words of its own',
    'trace_viewer/term.c'        => 'the modes of the terminal that curses does not ask for',
    'trace_viewer/main.c'        => 'words of its own, and the frame: cells have passed the door',
    (map { ("src/cli/$_.c" => 'words of its own') }
        qw(bench bench_ddp bench_dp bench_train bench_viewer devices events exercise explore findings hang help lessons main message options step story synth view watch)),
);
# A text handed to printf, fputs or puts as it is, in cli/: "%s" for what the program itself says.
my %outside = (
    'src/cli/help.c' => 'the reference, made of tables of the program',
    'src/cli/events.c' => 'lines of trace/print.c, which went through the door; the help',
);

my $writers = 'v?f?printf|v?dprintf|fwrite|fputs|fputc|putc|puts|putchar|perror|write|writev';
my (%writes, @texts);
for my $file (glob 'src/*/*.[ch] src/*/*/*.[ch] trace_viewer/*.[ch]') {
    open my $in, '<', $file or die "$file: $!";
    local $/;
    my $text = <$in>;
    $text =~ s{/\*.*?\*/}{}gs;
    $writes{$file} = 1 if $text =~ /(?<![\w.>])(?:$writers)\s*\((?!\s*printf)/;
    push @texts, $file
        if $file =~ m{^src/cli/} && !$outside{$file} && $text =~ /(?<![\w.>])(?:f?puts\(str_text|fwrite\()/;
}
is_deeply([ grep { !$may{$_} } sort keys %writes ], [], 'nobody else writes to a stream');
is_deeply([ grep { !$writes{$_} } sort keys %may ], [], 'and each of them does');
is_deeply(\@texts, [], 'the subcommands send no text that was put together past the door');
done_testing();
