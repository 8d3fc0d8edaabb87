# Lessons that mean harm (hostile.lessons): each must come to the end that is noted, say it in one clear line, and stay
# within the limits of a run. CPU time is judged, not the wall's: how busy the machine is shall not matter.
package Hostile;
use strict;
use warnings;
use Exporter 'import';
use File::Temp qw(tempdir);
our @EXPORT = qw(hostile_lessons hostile_run);

# A run may take two CPU seconds more than its limit before it is ended.
use constant { GRACE_MS => 2000, MOST_KIB => 1.3 * 1024 * 1024 };

my $prelude = 'local rs = require "ringside" local nn, optim, dist = rs.nn, rs.optim, rs.distributed '
    . 'local F, data = nn.functional, rs.utils.data rs.lesson { title = "hostile", devices = 4 };';
my %statuses = (budget => [2], error => [2, 3], hang => [3], stuck => [3], done => [0]);
my %word     = (budget => qr/BudgetError/, error => qr/\S/, hang => qr/DeadlockError/,
                stuck => qr/BudgetError: ranks? [^\n]* waits? in [^\n]*\n  cause: /);
my $folder   = tempdir(CLEANUP => 1);
my $measured;

# The program that measures, built once.
sub measured {
    return $measured if $measured;
    $measured = "$folder/measured";
    system("cc -O1 -o '$measured' tests/faults/measured.c") == 0 or die 'nothing to measure with';
    return $measured;
}

sub slurp {
    my ($path) = @_;
    open my $file, '<:raw', $path or return '';
    local $/;
    my $text = <$file>;
    return defined $text ? $text : '';
}

# The list: { line, section, short, end, options, source }, numbered by their lines in the file.
sub hostile_lessons {
    my ($section, @lessons) = ('');
    open my $file, '<', 'tests/faults/hostile.lessons' or die "hostile.lessons: $!";
    while (my $text = <$file>) {
        chomp $text;
        $section = $1 if $text =~ /^# ---- (.*) ----/;
        next if $text =~ /^(#|\s*$)/;
        my ($end, $options, $source) = split /\t/, $text, 3;
        die "hostile.lessons:$.: END, OPTIONS and SOURCE are wanted" if !defined $source;
        my $short = $end =~ s/\*$//;
        die "hostile.lessons:$.: no end is called $end" if !$statuses{$end} && $end ne 'either';
        push @lessons, { line => $., section => $section, short => $short, end => $end,
                         options => [split ' ', $options], source => $source };
    }
    return @lessons;
}

# How the run is not as it should, which was given so many seconds; '': it is.
sub fault_of {
    my ($lesson, $run, $seconds) = @_;
    my @fault;
    my ($how, $number) = @$run{qw(how number)};
    my $end = $lesson->{end} ne 'either' ? $lesson->{end} : $number eq '0' ? 'done' : 'budget';
    # Whether a rank waited already for the one that the limit cut off is a matter of speed.
    $end = 'stuck' if $end eq 'budget' && $number eq '3' && $run->{err} =~ $word{stuck};
    push @fault, "ended by $how $number" if $how ne 'exit';
    push @fault, "exit status $number"   if $how eq 'exit' && !grep { $_ == $number } @{ $statuses{$end} };
    if ($end eq 'done') {
        push @fault, 'stderr' if $run->{err} ne '';
    } else {
        push @fault, 'not one message' if $run->{err} !~ /\Aringside: [^\n]+\n(?:  [^\n]*\n)*\z/;
        push @fault, "no $end in it" if $run->{err} !~ $word{$end};
        push @fault, 'control characters' if $run->{err} =~ /[\x00-\x09\x0b-\x1f\x7f]/;
    }
    push @fault, sprintf '%.1f s of CPU time', $run->{cpu} / 1000 if $run->{cpu} > $seconds * 1000 + GRACE_MS;
    push @fault, sprintf '%.0f MiB', $run->{own} / 1024 if $run->{own} > MOST_KIB;
    return join ', ', @fault;
}

sub start {
    my ($how, $lesson) = @_;
    my $base = "$folder/$lesson->{line}";
    open my $file, '>:raw', "$base.lua" or die "$base.lua: $!";
    print $file "$prelude\n$lesson->{source}\n";
    close $file or die "$base.lua: $!";
    my @command = (measured(), "$base.out", "$base.err", $how->{program}, 'run', '--limit-seconds', $how->{seconds},
                   @{ $lesson->{options} }, "$base.lua");
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        open STDOUT, '>', "$base.took" or die "$base.took: $!";
        exec @command;
        die "exec: $!";
    }
    return $pid;
}

sub judged {
    my ($lesson, $seconds) = @_;
    my $base = "$folder/$lesson->{line}";
    my %run  = (err => slurp("$base.err"), how => 'nothing', number => '', cpu => 0, wall => 0, peak => 0, own => 0);
    @run{qw(how number cpu wall peak own)} = ($1, $2, $3, $4, $5, $6)
        if slurp("$base.took") =~ /^(\w+) (\w+) cpu (\d+) wall (\d+) peak (\d+) own (\d+)$/;
    $run{fault} = fault_of($lesson, \%run, $seconds);
    unlink map { "$base.$_" } qw(lua out err took);
    return \%run;
}

# Runs the lessons with `program`, `at_a_time` beside each other, each for at most `seconds` of CPU time, and tells
# `$told->($lesson, $run)` of each when it has ended.
sub hostile_run {
    my ($how, $told, @lessons) = @_;
    my %running;
    measured();
    while (@lessons || %running) {
        while (@lessons && keys %running < $how->{at_a_time}) {
            my $lesson = shift @lessons;
            $running{ start($how, $lesson) } = $lesson;
        }
        my $lesson = delete $running{ waitpid -1, 0 } or next;
        $told->($lesson, judged($lesson, $how->{seconds}));
    }
}

1;
