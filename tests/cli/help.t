#!/usr/bin/perl
# What the program says of itself, and that the README speaks of the same program.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my @common = qw(trace seed policy executor timeout check-races teacher hardware device backend world tap trust exact
    variant quiet no-color ascii help);
my %options = (
    run     => [ @common, 'hash' ],
    step    => [ @common, 'batch' ],
    launch  => [ (grep { !/^(?:policy|check-races)$/ } @common), 'hash', 'fault', 'nproc', 'nproc-per-node', 'devices', 'nnodes',
        'node-rank', 'master-addr', 'master-port', 'rdzv-endpoint', 'standalone', 'max-restarts', 'grace' ],
    view    => [ 'print', 'size' ],
    events  => ['json'],
    story   => [qw(count seed policy fault hardware world variant limit-seconds trust exact help)],
    explore => [qw(schedules seed policy exhaustive faults fault world trust limit-seconds help)],
    devices => [],
    lessons => [],
    exercise => [ 'once', 'variant', 'reset', 'tap' ],
    hang    => [ 'rank', 'lesson' ],
    bench   => ['json'],
    synth   => [ 'events', 'lanes', 'ranks', 'depth', 'flows', 'faults', 'seed' ],
    help    => ['all'],
);

for my $command (sort keys %options) {
    my $run = ringside($command, '--help');
    is("$run->{status} $run->{signal} $run->{err}", '0 0 ', "$command --help ends with status 0 and an empty stderr");
    my $itself = $command eq 'view' ? 'trace_viewer TRACE' : "ringside $command"; # view becomes the other program
    like($run->{out}, qr/^(?:usage: )?\Q$itself\E\b/m, "$command --help has a usage line");
    like($run->{out}, qr/--\Q$_\E\b/, "$command --help names --$_") for @{ $options{$command} };
    unlike($run->{out}, qr/[^\n]{121}/, "$command --help has no line over 120 columns");
}

my $version = ringside('--version');
is($version->{status}, 0, '--version ends with status 0');
like($version->{out}, qr/\Aringside \d+\.\d+/, '--version begins with the name and the number');
like($version->{out}, qr/^  \Q$_\E\b/m, "--version says what was built in: $_")
    for qw(executors devices backends scripting);

my $alone = ringside();
is($alone->{status}, 2, 'alone it ends with status 2');
like("$alone->{out}$alone->{err}", qr/^  ringside $_\b/m, "alone it lists $_") for sort keys %options;
is(ringside($_)->{status}, 0, "$_ prints the same list with status 0") for '--help', 'help', '-h';
is(ringside('--help')->{out}, $alone->{out} || $alone->{err}, 'the list is the same one');

my $lessons = ringside('lessons');
is($lessons->{status}, 0, 'lessons ends with status 0');
my @names = map { m{([^/]+)\.lua$} } glob 'lessons/[0-9]*.lua';
like($lessons->{out}, qr/^\Q$_\E +\d+ min  \S/m, "lessons lists $_ with its minutes and title") for @names;
is(() = $lessons->{out} =~ /\n/g, scalar @names, 'lessons lists nothing else');
my %there = map { /^(\d+)-/ ? ($1 => 1) : () } @names;
my @needs = map { [ /(\d\d)( \(to come\))?/ ] } map { /needs ((?:\d\d(?: \(to come\))?(?:, )?)+)/ ? split /, /, $1 : () } split /\n/, $lessons->{out};
cmp_ok(scalar @needs, '>', 5, 'lessons tells what they need');
is(join(' ', map { $_->[0] } grep { !$there{ $_->[0] } != !!$_->[1] } @needs), '', 'and marks what is not there yet');
my $table = slurp('README.md');
like($table, qr/^\| ${\substr($_, 0, 2)} \| /m, "the README's table has $_") for @names;

my $devices = ringside('devices');
is($devices->{status}, 0, 'devices ends with status 0');
like($devices->{out}, qr/^host /m,      'devices names the host');
like($devices->{out}, qr/\bclassroom\b/, 'devices lists the hardware presets');
like($devices->{out}, qr/^  $_ /m, "devices tells of $_") for qw(cuda nccl mpi gloo);

# Every command that the README shows exists, with every option that it shows.
my $readme = slurp('README.md');
my %asked;
while ($readme =~ m{^[ \t]*(?:\$ )?(?:build/)?ringside ([a-z]+)([^\n]*)}mg) {
    my ($command, $rest) = ($1, $2);
    $asked{$command} ||= {};
    $asked{$command}{$1} = 1 while $rest =~ /\s--([a-z][a-z-]*)/g;
}
cmp_ok(scalar keys %asked, '>', 2, 'the README shows commands');
for my $command (sort keys %asked) {
    ok($options{$command}, "the README's ringside $command exists") or next;
    my $help = ringside($command, '--help')->{out};
    like($help, qr/--\Q$_\E\b/, "the README's ringside $command --$_ exists") for sort keys %{ $asked{$command} };
}
for my $path ($readme =~ m{\b((?:lessons|scripts)/[\w./-]+\w)}g) {
    ok(-e $path, "the README's $path exists");
}
done_testing();
