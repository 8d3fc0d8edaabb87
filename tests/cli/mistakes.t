#!/usr/bin/perl
# What people who come from Python write first, tried one by one: tests/cli/mistakes.lessons. Each message is one line,
# names the line of the mistake and says what to write instead.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

# The lesson around a mistake: what a first lesson has at hand. Its lines come before the mistake's.
my $before = <<'END_LESSON';
local rs = require "ringside"
local nn, optim, dist, data, F = rs.nn, rs.optim, rs.distributed, rs.utils.data, rs.nn.functional
local x, w = rs.tensor { { 1., 2., 3. }, { 4., 5., 6. } }, rs.ones(3, 2, { requires_grad = true })
local model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
local opt, loss = optim.SGD(model:parameters(), { lr = 0.1 }), model(x):sum() + w:sum()
END_LESSON
my $lines = () = $before =~ /\n/g;

# "== name", the lesson's lines, then "LINE> what the message says", or "~> what is noted while the lesson goes on", or
# "ok>": an honest lesson.
my (@cases, $case);
for (split /\n/, slurp('tests/cli/mistakes.lessons')) {
    if (/^== (.+)/)               { push @cases, $case = { name => $1, lesson => '', says => [] } }
    elsif (/^(\d+|~|ok)> ?(.*)/) { $case->{line} = $1; push @{ $case->{says} }, $2 }
    elsif (defined $case && !defined $case->{line}) { $case->{lesson} .= "$_\n" }
}

sub judge {
    my ($case, $number) = @_;
    my ($name, $at) = ($case->{name}, $case->{line});
    my $run = ringside('run', lesson("mistake$number", $before . $case->{lesson}));
    if ($at !~ /\d/) {
        my @missing = grep { index($run->{out}, $_) < 0 } @{ $case->{says} };
        ok($run->{status} == 0 && $run->{err} eq '' && !@missing, $name) or diag("$run->{out}$run->{err}wanted @missing");
        return;
    }
    my $place   = "ringside: mistake$number.lua:" . ($lines + $at) . ': ';
    my $line    = $run->{err} =~ s{/\S*/(?=mistake)}{}r;
    my @missing = grep { index($line, $_) < 0 } @{ $case->{says} };
    ok($run->{status} == 2 && $line =~ /\A\Q$place\E[[:print:]]+\n\z/ && !@missing, $name)
        or diag("$case->{lesson}status $run->{status}: ${line}wanted $place ... @missing");
}

judge($cases[$_], $_) for 0 .. $#cases;
cmp_ok(scalar(grep { $_->{line} =~ /\d/ } @cases), '>=', 50, 'fifty mistakes and more are told');

# ---- the page that is made from the same table ----

my $page = ringside('help', 'python');
is($page->{status}, 0, 'ringside help python is a page');
like($page->{out}, qr/^  \Q$_\E/m, "it tells of $_")
    for 'a != b', 'name[1:3]', 'len(x)', 'super().__init__()', 'f(x, name=v)', 'True', 't.append(x)', 'if 0:';
my ($untold) = $page->{out} =~ /^What no message can tell\n(.*)/ms;
unlike($untold, qr/x < y/, 'what a message tells is not among what none can');
unlike($page->{out}, qr/%[123]|NAME|PATH/, 'and shows no form as it stands in the table');

done_testing();
