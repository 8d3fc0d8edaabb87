#!/usr/bin/perl
# ringside hang: what is told of recorded and of made dumps, pickles and JSON alike, of files that are none, and that
# the lesson made of a hang hangs for the same reason.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $data   = 'tests/data/flight';
my $folder = folder();

sub hang { return ringside('hang', @_) }
sub turned_down { my ($run, $why, $name) = @_; return refused($name, $run, 2, $why) }

# Lines that were wrapped are one again; places in the source are not in JSON that PyTorch writes.
sub joined {
    my ($text) = @_;
    $text =~ s/\s+/ /g;
    return $text;
}
sub without_places { my ($text) = @_; return joined($text) =~ s/ \(\w+\.(?:py|lua):\d+\)//gr =~ s/ \(line \d+\)//gr }
sub head_of { my ($report) = @_; return (split /\n\n/, $report)[0] }
sub who_waits { my ($report) = @_; return (split /\n\n/, $report)[1] }

sub pickles { my ($job) = @_; return grep { !/\.json$/ } sort { rank($a) <=> rank($b) } glob "$data/$job/*" }
sub jsons   { my ($job) = @_; return sort { rank($a) <=> rank($b) } glob "$data/$job/*.json" }
sub rank    { return $_[0] =~ /_(\d+)(?:\.json)?$/ ? $1 : 0 }

# What the first two sentences must say: the cause, its ranks and its numbers.
my %jobs = (
    other_operation => [ 'different calls', qr/rank 1 .*broadcast #4.* rank 0 .*all_reduce #4/,
        qr/broadcast .*rank 0 .*all_reduce|broadcast on rank 1, all_reduce on rank 0/ ],
    skipped_call    => [ 'skipped call', qr/rank 1 .*barrier #8.* in all_reduce #8/,
        qr/rank 1 left out all_reduce #8/ ],
    other_shape     => [ 'shape',           qr/all_reduce #3/, qr/\[24\] on rank 1, \[16\] on rank 0/ ],
    uneven_batches  => [ 'stuck outside',   qr/rank 1 waits in all_reduce #9 .*for rank 0/, qr/rank 0/ ],
    groups_crossed  => [ 'crossed groups', qr/all_reduce #2 of group rows/,
        qr/group pair first.* group rows/ ],
    stuck_outside   => [ 'stuck outside', qr/ranks 0, 1, 3 wait in all_reduce #4 .*for rank 2/,
        qr/rank 2/ ],
    timed_out       => [ 'different calls', qr/rank 1 .*broadcast #4.* rank 0 .*all_reduce #4/,
        qr/broadcast .*rank 0 .*all_reduce|broadcast on rank 1, all_reduce on rank 0/ ],
    made_missing_rank => [ 'no dump', qr/ranks 0, 1, 3 wait in all_reduce #7 .*for rank 2/,
        qr/rank 2 left none/ ],
    made_other_dtype  => [ 'dtype', qr/all_reduce #2/, qr/Half on rank 1, Float on rank 0/ ],
    made_other_state  => [ 'late', qr/ranks? 0.* all_reduce #2.* rank 2/,
        qr/rank 2 / ],
    made_all_to_all   => [ 'different calls', qr/rank 3 .*_all_gather_base #2.* in all_to_all #2/,
        qr/_all_gather_base .*rank 3\b.* rank 0/ ],
    made_coalesced    => [ 'skipped call', qr/rank 1 .*#2.* rank 0 .*_reduce_scatter_base #2/,
        qr/rank 1 left out _reduce_scatter_base #2/ ],
    made_pipeline     => [ 'unmatched', qr/rank 1 waits in send to rank 2/,
        qr/rank 2 .*receive.* rank 1/ ],
    made_batched_p2p  => [ 'unmatched', qr/rank 0 waits in send to rank 1/,
        qr/rank 1 does not receive what rank 0 sends/ ],
    made_ring_lost    => [ 'stuck outside', qr/ranks 0(?:,| and) 2 wait in all_reduce #2000 .*for rank 1/,
        qr/rank 1/ ],
    made_only_active  => [ 'stuck outside', qr/ranks 0(?:,| and) 2 wait in all_reduce #2000 .*for rank 1/,
        qr/rank 1/ ],
    made_subgroups    => [ 'stuck outside', qr/all_reduce #2 of group dp .*for rank 3/, qr/rank 3/ ],
    made_older        => [ 'different calls', qr/rank 1 .*all_gather #2.* rank 0 .*all_reduce #2/,
        qr/all_gather .*rank 0 .*all_reduce|all_gather on rank 1, all_reduce on rank 0/ ],
    made_sixty_four   => [ 'skipped call', qr/rank 17 .*all_reduce #2/,
        qr/rank 17 left out all_reduce #2/ ],
);
my @folders = map { m{([^/]+)$} } grep { -d } glob "$data/*";
is_deeply([ sort @folders ], [ sort keys %jobs ], 'each folder of dumps is a case');

# ---- what is told ----

for my $job (sort keys %jobs) {
    my ($cause, @says) = @{ $jobs{$job} };
    my $run  = hang(pickles($job));
    my $head = joined(head_of($run->{out}));
    is($run->{status}, 3, "$job: status 3");
    like($head, qr/ cause: \Q$cause\E: /, "$job: the cause is '$cause'");
    like($head, $_, "$job: the head says $_") for @says;
    unlike($run->{out}, qr/[^\n]{81}/, "$job: no line is over 80 columns");
    my $json = hang(jsons($job));
    is($json->{status}, 3, "$job: JSON too");
    if ($job !~ /^made_/) {    # without places there is room for other words in the head
        like(joined(head_of($json->{out})), $_, "$job: JSON says $_") for qr/ cause: \Q$cause\E: /, @says;
        my @below = map { without_places(who_waits($_->{out})) } $json, $run;
        is($below[0], $below[1], "$job: JSON says the same below");
    }
    is($json->{out}, $run->{out}, "$job: JSON says the same to the letter") if $job =~ /^made_/;
    is($json->{err}, $run->{err}, "$job: and notes the same");
}
is(hang(pickles('made_missing_rank'))->{err},
    "ringside: no dump of rank 2: the job has 4 ranks at least, and 3 left one\n", 'who left no dump is noted');
is(hang(pickles('skipped_call'))->{err}, '', 'a whole job is noted nothing of');

my $order = hang(reverse pickles('skipped_call'));
is($order->{out}, hang(pickles('skipped_call'))->{out}, 'the order of the files does not matter');
my $mixed = hang((pickles('made_older'))[0], (jsons('made_older'))[1]);
is($mixed->{out}, hang(pickles('made_older'))->{out}, 'pickles and JSON may be mixed');

# ---- whose dump a file is ----

my @plain = map { spill("$folder/dump$_", slurp((pickles('skipped_call'))[ ord($_) - 97 ])) } qw(a b c);
is(hang(map { ('--rank', $_, $plain[$_]) } 0 .. 2)->{out}, $order->{out}, '--rank says whose each file is');
is(hang('--rank=0,1,2', @plain)->{out}, $order->{out}, 'also all at once');
turned_down(hang(@plain), qr/does not say whose dump it is.*--rank/, 'a file without a rank is refused');
turned_down(hang('--rank', 0, @plain), qr/--rank is given 1 times, for 3 files/, 'too few --rank are refused');
turned_down(hang('--rank', $_, @plain), qr/--rank wants a rank/, "--rank $_ is refused") for 'x', -1, '1,', '8192', '';
turned_down(hang('--rank=0,1,1', @plain), qr/second dump of rank 1; the first is \S+dumpb/,
    'two dumps of a rank are refused');

mkdir "$folder/job";
spill("$folder/job/trace_$_", slurp((pickles('skipped_call'))[$_])) for 0 .. 2;
spill("$folder/job/README", 'words');
is(hang("$folder/job")->{out}, $order->{out}, 'a folder stands for the files whose names end in a rank');
spill("$folder/job/trace_1.json", slurp((jsons('skipped_call'))[1]));
turned_down(hang("$folder/job"), qr/second dump of rank 1/, 'but not for two of one rank');
mkdir "$folder/nothing";
turned_down(hang("$folder/nothing"), qr/no file in this folder/, 'a folder without dumps is refused');

my $two = '{"version":"2.4","pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[%s]"}},"entries":[' .
    '{"profiling_name":"nccl:barrier","process_group":["0","default_pg"],"collective_seq_id":1,"state":"completed"}]}';
spill("$folder/a_0", sprintf $two, '0, 1');
spill("$folder/a_1", sprintf $two, '0, 1');
spill("$folder/b_1", sprintf $two, '0, 1, 2');
turned_down(hang("$folder/a_0", "$folder/b_1"),
    qr/b_1: is of another job than the dump of rank 0: group 0 has 3 ranks here, 2 there/,
    'dumps of two jobs are refused');
my $over = hang("$folder/a_0", "$folder/a_1");
is("$over->{status} $over->{err}", '0 ', 'where every call is over the status is 0');

# ---- files that are none, and worse ----

my %bad = (
    code      => [ "cos\nsystem\n(S'touch $folder/ran'\ntR.", qr/wants to run code \(GLOBAL os\.system at byte 0\)/ ],
    stack     => [ "\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.", qr/wants to run code \(STACK_GLOBAL/ ],
    empty     => [ '', qr/is empty/ ],
    words     => [ "The dump is elsewhere.\n", qr/cut short, or no dump/ ],
    json      => [ '{"entries": [', qr/no JSON that can be read: line 1/ ],
    other     => [ '{"traceEvents": []}', qr/no dump of the Flight Recorder/ ],
    number    => [ 'I5' . "\n.", qr/no dump of the Flight Recorder/ ],
    itself    => [ "]q\0h\0a.", qr/contain itself/ ],
    deep      => [ ']' x 100 . 'a' x 99 . '.', qr/more than 64 deep/ ],
    deepjson  => [ '[' x 100_000, qr/no JSON that can be read/ ],
    long      => [ "\x80\x04\x8d" . "\xff" x 8, qr/cut short/ ],
    terminal  => [ "{\"entries\":[{\"profiling_name\":3,\"\x1b[2J\":1}]}", qr/no JSON|profiling_name/ ],
);
for my $name (sort keys %bad) {
    my ($bytes, $why) = @{ $bad{$name} };
    spill("$folder/${name}_0", $bytes);
    turned_down(hang("$folder/${name}_0"), $why, "$name is refused");
}
ok(!-e "$folder/ran", 'and nothing was run');
turned_down(hang("$folder/none_0"), qr/none_0: no such file/, 'a file that is not there is refused');
turned_down(hang(), qr/which dumps/, 'no file at all is refused');
turned_down(hang('--frob', "$folder/a_0"), qr/there is no option --frob/, 'an unknown option is refused');
open my $large, '>', "$folder/large_0" or die;
truncate $large, 300 << 20;
close $large;
turned_down(hang("$folder/large_0"), qr/larger than 256 MiB/, 'a file that is too large is refused');

my $whole = slurp((pickles('other_shape'))[0]);
my @said;
for (my $length = 0; $length < length $whole; $length += 1 + int($length / 40)) {
    spill("$folder/cut_0", substr $whole, 0, $length);
    my $run = hang("$folder/cut_0");
    push @said, $length if $run->{status} != 2 || $run->{out} ne '' || $run->{err} !~ /\Aringside: [^\n]*\n\z/;
}
is("@said", '', 'a pickle that ends anywhere is refused in one line');

spill("$folder/steer_0", '{"entries":[{"profiling_name":"nccl:\u001b[31mall_reduce\ncause: none",' .
    '"process_group":["0","\u202e"],"collective_seq_id":1,"state":"started","input_sizes":[["\u0007"]],' .
    '"frames":[{"filename":"a\u001b]0;x\u0007.py","line":1}]}]}');
my $steer = hang("$folder/steer_0", '--lesson', "$folder/steer.lua");
unlike("$steer->{out}$steer->{err}", qr/[\x00-\x09\x0b-\x1f\x7f]|\xe2\x80\xae/, 'what a dump says steers no terminal');
unlike($steer->{out}, qr/^cause: none/m, 'and adds no line');

# ---- the lesson ----

# How a run of ours names the cause of a hang. It tells a mismatch when it is issued, and does not see what would have
# come behind it as a loop in the job's record shows it: so a call may also have been moved.
sub cause_in { my ($text) = @_; return joined($text) =~ /cause: ([a-z_ ]+):/ ? $1 =~ s/ or other order//r : '' }

my %lesson_says = (   # where what keeps a rank cannot be repeated, or is not known
    made_missing_rank => 'ended early',
    made_other_state  => 'stuck outside',
);
for my $job (sort keys %jobs) {
    my $file = "$folder/$job.lua";
    my $run  = hang(pickles($job), '--lesson', $file);
    is($run->{status}, 3, "$job: a lesson is written");
    my $text  = slurp($file);
    my @lines = grep { /\S/ && !/^--/ } split /\n/, $text;
    cmp_ok(scalar @lines, '<=', 24, "$job: of some twenty lines");
    my $repeated = ringside('run', $file);
    is($repeated->{status}, 3, "$job: its lesson hangs") or diag($text, $repeated->{err});
    is(cause_in("$repeated->{out}$repeated->{err}"), $lesson_says{$job} // $jobs{$job}[0], "$job: for the same reason")
        or diag($text, $repeated->{out}, $repeated->{err});
}
my $there = hang(pickles('other_shape'), '--lesson', "$folder/other_shape.lua");
is($there->{status}, 2, 'a lesson that is there is not overwritten');
like($there->{err}, qr/\Aringside: \S+other_shape\.lua is there already: [^\n]*\n\z/, 'which is said');
my $default = ringside({ in_folder => $folder }, 'hang', 'job/trace_0', 'job/trace_1', 'job/trace_2', '--lesson');
ok(-e "$folder/hang.lua", 'without a name it is hang.lua');
my $printed = hang(pickles('other_shape'), '--lesson', '-');
is($printed->{out}, slurp("$folder/other_shape.lua"), '- is standard output');
turned_down(hang(pickles('other_shape'), '--lesson', "$folder/nowhere/x.lua"), qr/cannot write .*nowhere/,
    'a folder that is not there is told');
my $none = hang("$folder/a_0", "$folder/a_1", '--lesson', "$folder/none.lua");
like($none->{err}, qr/no lesson/, 'where nobody waits there is nothing to repeat');
ok(!-e "$folder/none.lua", 'and no file');

# ---- a dump of ours ----

my $calls = 'dist.all_reduce(rs.ones { 4 })
  if rank ~= 1 then dist.all_reduce(rs.ones { 8 }) end
  dist.barrier()';
my $own  = lesson('own', qq{local rs = require "ringside"\nlocal dist = rs.distributed\nrs.lesson { title = "own" }
pcall(dist.spawn, function(rank)\n  $calls\nend, { world = 3 })\nprint(dist._dump_fr_trace_json())\n});
spill("$folder/own.json", ringside('run', $own)->{out});
my $again = hang("$folder/own.json");
is($again->{status}, 3, 'a dump of ours is read');
my $told = ringside('run', lesson('told', qq{local rs = require "ringside"\nlocal dist = rs.distributed
rs.lesson { title = "own" }\ndist.spawn(function(rank)\n  $calls\nend, { world = 3 })\n}));
is(cause_in($again->{out}), cause_in($told->{err}), 'and says the same cause as the run that it is of');
isnt(cause_in($again->{out}), '', 'which is one');
like(joined($again->{out}), qr/rank 1 left out all_reduce #1 \(line 6\)/, 'rank, number and line');
my $rank = lesson('rank', qq{local rs = require "ringside"\nlocal dist = rs.distributed\nrs.lesson { title = "own" }
dist.spawn(function(rank)\n  dist.barrier()
  if rank == 1 then print(dist._dump_fr_trace_json()) end\nend, { world = 2 })});
spill("$folder/of_rank", ringside('run', $rank)->{out});
like(hang("$folder/of_rank")->{err}, qr/no dump of rank 0/, 'inside of a rank it is that one rank\'s, and says whose');

done_testing();
