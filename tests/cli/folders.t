#!/usr/bin/perl
# From any folder: lessons by number and name, in the source tree and after `make install`.
use strict;
use warnings;
use lib 'tests/cli';
use Cwd qw(abs_path getcwd);
use File::Temp qw(tempdir);
use Ringside;
use Test::More;

my $tree  = getcwd();
my $out   = $ENV{RINGSIDE_OUT} || 'build/release';
my $empty = tempdir(CLEANUP => 1);
my @names = map { m{([^/]+)\.lua$} } glob 'lessons/[0-9]*.lua';

# The words of `ringside run --quiet --tap` for one lesson: by which of its names it is found.
sub found {
    my ($name, $folder, $run_in, $word, $program) = @_;
    my $run = run_with($program, { in_folder => $run_in }, 'run', '--tap', $word);
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    return like("$run->{status} $run->{err}$run->{out}", qr/\A[01] (?:.*^)?(?:not )?ok 1 - \Q$name\E\//ms, "run $word, $folder");
}

# As ringside() does, with another program.
sub run_with {
    my ($program, $scene, @words) = @_;
    return ringside($scene, @words) if !$program;
    return ringside({ %$scene, program => $program }, @words);
}

sub everything_is_found {
    my ($where, $program, $course) = @_;
    my $lessons = run_with($program, { in_folder => $empty }, 'lessons');
    is("$lessons->{status} $lessons->{err}", '0 ', "$where: lessons are listed from any folder");
    for my $name (@names) {
        my ($path) = $lessons->{out} =~ /^\Q$name\E +\d+ min .*?(\S+)$/m;
        is($path // 'none', "$course/$name.lua", "$where: $name is listed with its file");
    }
    for my $word ('01', '1', '01-six-rows', '01-six-rows.lua', 'six-rows', 'six', 'lessons/01-six-rows.lua') {
        found('01-six-rows', $where, $empty, $word, $program);
    }
    found('15-hooks-and-order', $where, $empty, '15', $program);
    for ('copied', 'found') {
        my $exercise = run_with($program, { in_folder => $empty }, 'exercise', '01', '--once');
        like("$exercise->{status} $exercise->{err}$exercise->{out}", qr/\A1 .*hint 1 of/s, "$where: exercise 01 is $_");
    }
    unlink "$empty/01-six-rows.lua";
    found('train_digits', "$where, with the data", $empty, 'examples/train_digits', $program);
    my $clinic = run_with($program, { in_folder => $empty }, 'run', 'hang_clinic');
    like("$clinic->{status} $clinic->{out}", qr/\A0  1  skipped-call /, "$where: an example is found by its name alone");
    my $step = run_with($program, { in_folder => $empty }, 'step', '--batch', 'next; where', '15');
    like("$step->{status} $step->{err}$step->{out}", qr/\A0 .*lesson/s, "$where: step 15");
    my $none = run_with($program, { in_folder => $empty }, 'run', '99');
    refused("$where: a lesson that there is not", $none, 2, qr/run: no lesson '99'.*ringside lessons/);
    my $near = run_with($program, { in_folder => $empty }, 'run', 'six-row');
    is($near->{status}, 0, "$where: a beginning is enough");
    $near = run_with($program, { in_folder => $empty }, 'run', 'sixrows');
    refused("$where: a name misspelt", $near, 2, qr/no lesson 'sixrows'; did you mean 01-six-rows\?/);
    my $exercises = run_with($program, { in_folder => $empty }, 'lessons', 'exercises');
    like($exercises->{out}, qr/^01-six-rows +repair the model/m, "$where: exercises are listed by their first line");
    my $checks = run_with($program, { in_folder => $empty }, 'run', '--tap', 'checks/six-rows');
    like("$checks->{status} $checks->{err}$checks->{out}", qr/\A1 (?:.*^)?not ok 1 - 01-six-rows/ms, "$where: so are their checks");
    my $own = spill("$empty/own.lua", 'local rs = require "ringside" print(#rs.data.digits { split = "test" })');
    my $digits = run_with($program, { in_folder => $empty }, 'run', 'own');
    is("$digits->{status} $digits->{err}$digits->{out}", "0 359\n", "$where: a lesson of one's own finds the digits");
    unlink $own;
    my $view = run_with($program, { in_folder => $empty }, 'view', '01');
    refused("$where: view wants a trace", $view, 2, qr/01 is a lesson.*ringside step 01/);
}

everything_is_found('in the tree', undef, "$tree/lessons");
my $here = ringside('lessons');
like($here->{out}, qr{^01-six-rows .* lessons/01-six-rows\.lua$}m, 'from the tree the files are told from here');

# ---- installed ----
my $place = tempdir(CLEANUP => 1);
my ($build) = $out =~ m{([^/]+)/?$};
sub install {
    my (@words) = @_;
    return system(qw(make -s install), "BUILD=$build", "OUT=$out", @words, '-o', "$out/ringside", '-o', "$out/trace_viewer",
        '-o', "$out/allocations.so");
}
SKIP: {
    skip 'no make here', 3 if system('make --version >/dev/null 2>&1') != 0;
    is(install("PREFIX=$place/usr"), 0, 'make install PREFIX=...');
    everything_is_found('installed', "$place/usr/bin/ringside", "$place/usr/share/ringside/lessons");
    my $viewer = run_with("$place/usr/bin/ringside", { in_folder => $empty }, 'view', '--help');
    like($viewer->{out}, qr/trace_viewer/, 'installed: the viewer is found');

    symlink "$place/usr/bin/ringside", "$place/linked";
    found('01-six-rows', 'by a link to the installed program', $empty, '01', "$place/linked");
    rename "$place/usr", "$place/moved" or die "rename: $!";
    found('01-six-rows', 'after the folder was moved', $empty, '01', "$place/moved/bin/ringside");

    spill("$place/moved/share/ringside/lessons/01-six-more.lua", '');
    my $several = sub { run_with("$place/moved/bin/ringside", { in_folder => $empty }, 'run', $_[0]) };
    refused("run $_: two lessons fit", $several->($_), 2, qr/'$_' could be several lessons: 01-six-\w+, 01-six-\w+$/)
        for '01', 'six', '01-six';
    is($several->('six-rows')->{status}, 0, 'run six-rows: a whole name fits one alone');

    is(install("PREFIX=/opt/it", "DESTDIR=$place/stage"), 0, 'make install DESTDIR=... PREFIX=...');
    found('02-views-and-storage', 'staged', $empty, '02', "$place/stage/opt/it/bin/ringside");
    is(join(' ', glob "$place/stage/*"), "$place/stage/opt", 'nothing lies outside of the prefix');
}

# ---- whose lesson is it ----
my $mine = tempdir(CLEANUP => 1);
my $says = 'local rs = require "ringside" rs.lesson { title = "mine" } rs.check("mine", true)';
spill("$mine/01-six-rows.lua", $says);
for my $word ('01-six-rows', '01-six-rows.lua', './01-six-rows', './01-six-rows.lua') {
    my $run = ringside({ in_folder => $mine }, 'run', $word);
    like($run->{out}, qr/ - 01-six-rows\/mine$/m, "run $word: a file in the current folder goes before the course");
}
like(ringside({ in_folder => $mine }, 'run', '01')->{out}, qr/six indices|16 checks/, 'run 01: a number is the course');
mkdir "$mine/01";
like(ringside({ in_folder => $mine }, 'run', '01')->{out}, qr/16 checks/, 'run 01: a folder of that name is in nobody\'s way');
refused('run ./02', ringside({ in_folder => $mine }, 'run', './02'), 2, qr{\./02: no such file}i);
refused('run 0', ringside({ in_folder => $mine }, 'run', '0'), 2, qr/no lesson '0'/);
refused('a folder of the course', ringside({ in_folder => $mine }, 'run', 'exercises/'), 2, qr/no lesson|no such file/i);
refused('an empty word', ringside({ in_folder => $mine }, 'run', ''), 2, qr/which lesson|no lesson/);
refused('a way out of the course', ringside({ in_folder => $mine }, 'run', 'exercises/../../x'), 2, qr/no such file|no lesson/i);

done_testing();
