#!/usr/bin/perl
# The plants of the hang clinic (lessons/examples/hang_clinic.lua): each ends by itself in both executors with status 3, its report
# names rank, call, number and line, and whoever reads only the first two rows of a terminal with 80 columns knows the cause.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $clinic  = 'hang_clinic.lua';
my %there   = (in_folder => 'lessons/examples');
my @source  = split /\n/, slurp("lessons/examples/$clinic");
my $timeout = $ENV{RINGSIDE_LONG} ? 3 : 1;

# The line of this text in this plant.
sub line_of {
    my ($name, $text) = @_;
    my ($begin) = grep { $source[$_] =~ /^plant\("\Q$name\E"/ } 0 .. $#source;
    for my $at ($begin .. $#source) {
        return $at + 1 if index($source[$at], $text) >= 0;
        last if $source[$at] =~ /^end\)/;
    }
    die "no '$text' in $name";
}

# By plant: kind of the error; what the first two lines say (LINE:TEXT: stands for the number of TEXT's line in the plant); what
# the whole report says, too. Where `free` cannot know as much or says it in other words: free_kind, free_head.
my %plants = (
    'skipped-call' => {
        kind => 'MismatchError', head => [ qr/skipped call: rank 1 left out all_reduce #4/ ],
        all => [ qr/broadcast/, 'line LINE:dist.all_reduce(loss):', 'line LINE:dist.broadcast(weights, 0):' ],
    },
    'other-order' => {
        kind => 'MismatchError', head => [ qr/rank 1/, qr/all_reduce #0/, qr/broadcast/, qr/other order/ ],
        all => [ 'line LINE:function sum_losses:', 'line LINE:function share_weights:' ],
    },
    'shape' => {
        kind => 'MismatchError', head => [ qr/rank 1/, qr/all_reduce #0/, qr/shape/, qr/\[4\]/, qr/\[3\]/ ],
        all => [ 'line LINE:dist.all_reduce(losses):' ],
    },
    'dtype' => {
        kind => 'MismatchError', head => [ qr/rank 1/, qr/all_reduce #0/, qr/dtype/, qr/float32/i, qr/int64/i ],
        all => [ 'line LINE:dist.all_reduce(right):' ],
    },
    'root' => {
        kind => 'MismatchError', head => [ qr/broadcast #0/, qr/root 2 on rank 2/ ],
        all => [ 'line LINE:dist.broadcast(:' ],
    },
    'operation' => {
        kind => 'MismatchError', head => [ qr/rank [01]/, qr/all_reduce/, qr/\breduce\b/, qr/#0/ ],
        all => [ 'line LINE:dist.reduce(loss, 0):' ],
    },
    'wrong-group' => {
        kind => 'DeadlockError', head => [ qr/rank 1/, qr/all_reduce #0/, qr/group/ ],
        all => [ 'line LINE:dist.all_reduce(loss:' ],
    },
    'parameters-order' => {
        kind => 'MismatchError', head => [ qr/rank 1/, qr/decoder\.weight/, qr/encoder\.weight/ ],
        all => [ qr/\[2, 2\]/, qr/in the same order/ ],
    },
    'batches-differ' => {
        kind => 'DeadlockError', head => [ qr/rank 1/, qr/all_reduce #\d+/, qr/ended|returned/ ],
        all => [ qr/all_reduce #8/, 'line LINE:backward():' ],
    },
    'returns' => {
        kind => 'DeadlockError', head => [ qr/rank 2/, qr/all_reduce #0/, qr/ended|returned/ ],
        all => [ qr/ranks? [01]\b/, 'line LINE:dist.all_reduce(loss):' ],
    },
    'throws' => {
        kind => '', head => [ qr/rank 1/, qr/cannot decode shard-0001\.tar/ ],
        all => [ qr/rank [02]|ranks 0/, qr/all_reduce #1/, 'line LINE:dist.all_reduce(batch):' ],
    },
    'sleeps' => {
        kind => 'TimeoutError', head => [ qr/rank 2/, qr/all_reduce #0/, qr/line LINE:rs.sleep:|own code|outside|sleep/ ],
        all => [ qr/ranks? 0/, 'line LINE:dist.all_reduce(:', 'line LINE:rs.sleep:' ],
    },
    'loops' => {
        kind => 'BudgetError|TimeoutError', head => [ qr/rank 1/, qr/line LINES:tries ~= 0.5:tries = tries + 1:/ ],
        all => [ qr/ranks? 0/, qr/all_reduce #0/, 'line LINE:dist.all_reduce(:' ],
    },
    'stuck-outside' => {
        kind => 'DeadlockError', head => [ qr/rank 0/, qr/store/, qr/nobody sets 'vocabulary'/ ],
        all => [ qr/barrier #0/, 'line LINE:store:get(:', 'line LINE:dist.barrier:' ],
    },
    'killed' => {
        kind => 'DeadlockError', head => [ qr/rank 1/, qr/killed/, qr/all_reduce #2/ ],
        all => [ qr/\b[02] -> (?:0, )?1|ranks 0 and 2/, 'line LINE:dist.all_reduce(:' ],
    },
    'inside-no-sync' => {
        kind => 'MismatchError', head => [ qr/rank 0 left out all_reduce #3/, qr/barrier #3/ ],
        all => [ qr/all_reduce/, qr/barrier/, 'line LINE:local function step:', 'line LINE:dist.barrier:' ],
    },
    'all-send-first' => {
        kind => 'DeadlockError', head => [ qr/ranks? 0/, qr/send/, qr/0 -> 1 -> 2 -> 0|each other|circle|nobody receives/ ],
        all => [ 'line LINE:dist.send(:' ],
    },
    'wrong-tag' => {
        kind => 'DeadlockError', head => [ qr/rank [01]/, qr/send/, qr/recv/, qr/tag 1/, qr/tag 2/ ],
        all => [ 'line LINE:dist.send(:' ],
    },
    'no-new-group' => {
        kind => 'MismatchError', head => [ qr/new_group #0 differs/, qr/skipped call or other order/ ],
        all => [ qr/rank [02] calls it for ranks \{0, 2\}/, qr/rank 1 calls it for ranks \{0, 1, 2\}/, 'line LINE:local ends:',
                 'line LINE:dist.new_group():' ],
    },
    'groups-crossed' => {
        kind => 'DeadlockError', head => [ qr/rank 2/, qr/all_reduce #0/, qr/crossed groups/, qr/group 1/, qr/group 2/ ],
        all => [ 'line LINE:{ group = back }:', 'line LINE:-- rank 3:' ],
    },
    'locks-crossed' => {
        kind => 'DeadlockError', head => [ qr/rank 0/, qr/rank 1/, qr/store/, qr/crossed locks/ ],
        all => [ qr/log/, qr/disk/, 'line LINE:queue_pop(second):' ],
    },
    'missing-wait' => {
        kind => 'RaceError', head => [ qr/rank [01]/, qr/all_reduce #0/, qr/wait\(\)/ ],
        all => [ 'line LINE:loss:item():', 'line LINE:dist.all_reduce(:' ],
    },
);

# Patterns with the numbers of lines put in.
sub pattern {
    my ($name, $pattern) = @_;
    my $text = ref $pattern ? "$pattern" : qr/\Q$pattern\E/ =~ s/\\([:= ~.,+])/$1/gr;
    $text = ref $pattern ? $text : $pattern;
    return qr/@{[ $text =~ s{LINES:(.*?):(.*?):}{'(?:' . line_of($name, $1) . '|' . line_of($name, $2) . ')'}er ]}/ if $text =~ /LINES:/;
    my ($before, $wanted) = $text =~ /^(.*?)LINE:(.*):(?:\)?)$/ or return ref $pattern ? $pattern : qr/\Q$pattern\E/;
    return qr/$before@{[ line_of($name, $wanted) ]}\b/;
}

# What a terminal of 80 columns shows in two rows; a line that is longer goes on in the next one.
sub first_rows {
    my ($text) = @_;
    my @rows = map { /(.{1,80})/g } split /\n/, $text;
    my $line = (split /\n/, $text)[0];
    return substr $line, 0, 160 if length $line > 80;
    return join "\n", @rows > 1 ? @rows[0, 1] : @rows;
}

my @listed = ringside(\%there, 'run', $clinic)->{out} =~ /^ *\d+  (\S+)  /mg;
is_deeply([ sort @listed ], [ sort keys %plants ], 'the menu lists each plant, and each is tried here');
cmp_ok(scalar @listed, '>=', 20, 'they are twenty or more');
refused('a name that is none', ringside(\%there, 'run', $clinic, '--', 'frobnicate'), 2, qr/no such program: 'frobnicate'/);
is(ringside(\%there, 'run', $clinic, '--', 1)->{out} =~ s/\n.*//sr, ringside(\%there, 'run', $clinic)->{out} =~ /skipped-call +(.*)/ ? $1 : '',
    'a number is as good, and the question comes first');

for my $name (@listed) {
    my $plant = $plants{$name} or next;
    for my $way ([ 'stepped', '--limit-seconds', 2 ], [ 'free', '--timeout', $timeout, '--limit-seconds', 5 ]) {
        my ($executor, @words) = @$way;
        my $run   = ringside(\%there, 'run', '--quiet', '--executor', $executor, @words, $clinic, '--', $name);
        my $kind  = $executor eq 'free' ? "(?:$plant->{kind}|TimeoutError)" : "(?:$plant->{kind})";
        refused("$name in $executor: status 3 and a report", $run, 3, $plant->{kind} eq '' ? qr/./ : qr/\b$kind: /);
        my $head = first_rows($run->{err});
        is((join "\n", grep { length > 80 } split /\n/, $run->{err} =~ s/.*--limit-seconds.*//r), '',
            "$name in $executor: no line of a report is longer than 80") if $run->{err} =~ /^  cause: /m && $name ne 'throws';
        for my $said (@{ $plant->{head} }) {
            my $pattern = pattern($name, $said);
            like($head, $pattern, "$name in $executor: the first two lines say it");
        }
        for my $said (@{ $plant->{all} }) {
            my $pattern = pattern($name, $said);
            like($run->{err}, $pattern, "$name in $executor: the report says it");
        }
        is($run->{signal}, 0, "$name in $executor: it ends by itself");
        is(ringside(\%there, 'run', '--quiet', '--executor', $executor, @words, $clinic, '--', $name)->{err}, $run->{err},
            "$name: stepped says it in the same words every time") if $executor eq 'stepped' && $name ne 'loops';
    }
}

# Lesson 24's three, each alone and caught by nobody.
for my $case ([ 'a', 'MismatchError: rank 1 in barrier #7, rank 0 in broadcast #7' ],
    [ 'b', 'MismatchError: rank 1 in broadcast #0, rank 0 in all_reduce #0' ], [ 'c', 'DeadlockError: rank 1 waits in all_reduce #8' ]) {
    my ($job, $told) = @$case;
    for my $executor ('stepped', 'free') {
        my $run = ringside('run', '--quiet', '--executor', $executor, 'lessons/24-hang-clinic.lua', '--', $job);
        refused("lesson 24, ($job) alone in $executor", $run, 3, qr/\Q$told\E/);
    }
}
done_testing();
