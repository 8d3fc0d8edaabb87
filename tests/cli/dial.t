#!/usr/bin/perl
# What a lesson says of its own story, rs.lesson's story and tell: it stands in the trace, one answer for a kind; no event, no
# number of an event and no hash knows of it; and what is refused.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

my $count = 0;
sub training {
    my ($options) = @_;
    return lesson('dial' . ++$count, <<"END_LESSON");
local rs = require "ringside"
local nn, dist = rs.nn, rs.distributed
rs.lesson { title = "Two ranks", seed = 3, devices = 2$options }
dist.spawn(function(rank)
  local ddp = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
  ddp(rs.ones(2, 3)):sum():backward()
end, { world = 2 })
rs.check("both have trained", true)
END_LESSON
}

# The run's trace as { hash, events without the engine's lines, dial: "KEY VALUE, KEY VALUE" in the file's order }.
sub run_of {
    my ($options) = @_;
    my $trace  = folder() . '/dial.trace';
    my $run    = ringside('run', '--hash', '--trace', $trace, training($options));
    is($run->{status}, 0, "it runs:$options") or diag($run->{err});
    my ($said) = $run->{out} =~ /trace hash ([0-9a-f]{6})/;
    is(ringside('events', '--hash', $trace)->{out}, "trace hash $said\n", 'the file has the hash that the run said');
    my $bytes = slurp($trace);
    my @dial;
    push @dial, "$1 $2" while $bytes =~ /....((?:story|tell):[\w.]+)\0....([^\0]+)\0/gs;
    return { hash => $said, events => ringside('events', $trace)->{out}, dial => join(', ', @dial) };
}

my $plain = run_of('');
is($plain->{dial}, '', 'who says nothing has none');

sub dialled {
    my ($what, $options, $dial) = @_;
    my $run = run_of(", $options");
    is($run->{dial}, $dial, "$what: in the trace");
    is($run->{hash}, $plain->{hash}, "$what: the hash is what it was");
    is($run->{events}, $plain->{events}, "$what: so is each event and its number");
}
dialled('a list',            'story = { "ddp.mark_variable_ready" }', 'story:ddp.mark_variable_ready scene');
dialled('names',             'story = { ["op"] = true, ["ddp.forward"] = false }', 'story:op scene, story:ddp.forward silent');
dialled('a list and names',  'story = { "op", "kernel", ["ddp.forward"] = false }',
    'story:op scene, story:kernel scene, story:ddp.forward silent');
dialled('a family',          'story = { "c10d.store.*" }', 'story:c10d.store.set scene, story:c10d.store.wait scene');
dialled('a kind and what is below', 'story = { ["dp.scatter.*"] = false }',
    'story:dp.scatter silent, story:dp.scatter.chunk silent, story:dp.scatter.shared silent, story:dp.scatter.backward silent');
dialled('a kind out of a family that is silent', 'story = { "c10d.store.wait", ["c10d.store.*"] = false }',
    'story:c10d.store.set silent, story:c10d.store.wait scene');
dialled('a family out of a larger one', 'story = { "c10d.store.*", ["c10d.*"] = false, ["c10d.store.set"] = false }',
    join ', ', map { "story:$_ " . ($_ eq 'c10d.store.wait' ? 'scene' : 'silent') } kinds_below('c10d'));
dialled('the same twice',    'story = { "op", "op", op = true }', 'story:op scene');
dialled('a sentence',        'tell = { ["ddp.mark_bucket_ready"] = "Bucket {bucket} is full." }',
    'tell:ddp.mark_bucket_ready Bucket {bucket} is full.');
dialled('both',              'tell = { op = "An op." }, story = { op = false, "kernel" }',
    'story:op silent, tell:op An op., story:kernel scene');
dialled('as many as there are', 'story = {}, tell = {}', '');
my $long = "\xc3\xbc" x 200;
dialled('200 characters',    "tell = { op = '$long' }", "tell:op $long");

# A record of type 3 is a text, and the title's is written for lesson.begin, the first event.
my $early = slurp(folder() . '/dial.trace');
$early =~ /\x03\0\0\0.{12}Two ranks\0/s or BAIL_OUT('no text of the title');
cmp_ok(index($early, 'tell:op'), '<', $-[0], "it lies before the lesson's first event");

# In the order in which the engine lists them.
sub kinds_below {
    my ($family) = @_;
    return slurp('src/stages.def') =~ /^(?:STAGE|POINT)_KIND\([^"]*"(\Q$family\E\.[^"]*)"/mg;
}

# ---- what is refused, with the lesson's line ----
sub refuses {
    my ($options, $told) = @_;
    my $run  = ringside('run', training(", $options"));
    refused($options, $run, 2, qr/^ringside: \S+dial\d+\.lua:3: $told/);
}
refuses('story = { "dp.scater" }',          qr/ValueError: rs\.lesson: story names no kind of event: "dp\.scater"; did you mean dp\.scatter\?/);
refuses('story = { "dp.scat.*" }',          qr/ValueError: rs\.lesson: story names no kind of event: "dp\.scat\.\*"/);
refuses('story = { "dp" }',                 qr/ValueError: rs\.lesson: story names no kind of event: "dp"/);
refuses('story = { "" }',                   qr/ValueError: rs\.lesson: story names no kind of event: ""/);
refuses('story = { ".*" }',                 qr/ValueError: rs\.lesson: story names no kind of event: "\.\*"/);
refuses('story = { "op", ["dp.x"] = true }', qr/ValueError: rs\.lesson: story names no kind of event: "dp\.x"/);
refuses('story = { op = 1 }',               qr/TypeError: rs\.lesson: story's \["op"\] is true \(told\) or false \(silent\), not a number/);
refuses('story = { 4 }',                    qr/TypeError: rs\.lesson: story's list holds names of kinds, as "dp\.scatter\.chunk", not a number/);
refuses('story = { [true] = "op" }',        qr/TypeError: rs\.lesson: story's list holds names/);
refuses('story = "op"',                     qr/TypeError: rs\.lesson: story is a table, not a string/);
refuses('story = { "op", op = false }',     qr/ValueError: rs\.lesson: story has "op" twice, told and silent/);
refuses('tell = { ["dp.scater"] = "x" }',   qr/ValueError: rs\.lesson: tell names no kind of event: "dp\.scater"; did you mean dp\.scatter\?/);
refuses('tell = { ["dp.*"] = "x" }',        qr/ValueError: rs\.lesson: tell names no kind of event: "dp\.\*"/);
refuses('tell = { op = 5 }',                qr/TypeError: rs\.lesson: tell is a table like/);
refuses('tell = { "op" }',                  qr/TypeError: rs\.lesson: tell is a table like/);
refuses('tell = 5',                         qr/TypeError: rs\.lesson: tell is a table, not a number/);
refuses('tell = { op = " " }',              qr/ValueError: rs\.lesson: tell's \["op"\] is one line of words/);
refuses('tell = { op = "a\nb" }',           qr/ValueError: rs\.lesson: tell's \["op"\] is one line of words/);
refuses("tell = { op = '${long}x' }",       qr/ValueError: rs\.lesson: tell's \["op"\] has 201 characters: at most 200/);
refuses('tel = {}',                         qr/TypeError: unknown option 'tel': did you mean 'tell'\?/);

# ---- what it cannot reach ----
my $twice = ringside('run', lesson('twice', <<'END_LESSON'));
local rs = require "ringside"
rs.lesson { title = "Once" }
print(pcall(rs.lesson, { title = "Twice", story = { "op" } }))
END_LESSON
like($twice->{out}, qr/^false\t.*called once/, 'a second rs.lesson is refused');

done_testing;
