#!/usr/bin/perl
# Said clearly: what a first hour meets, each message read aloud.
use strict;
use warnings;
use lib 'tests/cli';
use File::Temp qw(tempdir);
use Ringside;
use Test::More;

my $six    = 'lessons/01-six-rows.lua';
my $folder = folder();

# ---- values of options ----
refused('--world 0',         ringside('run', '--world', '0', $six), 2, qr/'0' is no N for --world: .*1 to 1024$/);
refused('--world 1025',      ringside('run', '--world', '1025', $six), 2, qr/'1025' is no N for --world: .*1 to 1024$/);
refused('--executor foo',    ringside('run', '--executor', 'foo', $six), 2, qr/'foo' is no NAME for --executor: .*stepped or free$/);
refused('--limit-seconds 0', ringside('run', '--limit-seconds', '0', $six), 2, qr/--limit-seconds: .*more than 0/);
refused('--seed -1',         ringside('run', '--seed', '-1', $six), 2, qr/'-1' is no N for --seed: .*whole number from 0/);
refused('--timeout nan',     ringside('run', '--timeout', 'nan', $six), 2, qr/--timeout: .*more than 0 and at most/);
refused('--backend foo',     ringside('run', '--backend', 'foo', $six), 2, qr/built without --backend foo, there is local/);
refused('--device foo',      ringside('step', '--device', 'foo', $six), 2, qr/built without --device foo, there is cpu/);
refused('bench --case nope', ringside('bench', '--case', 'nope'), 2,
    qr/no case 'nope': trace_cost has .*mlp64.*train_step has .*lstm32x32.*switch has .*tasks-512/);
refused('bench switch --case mlp64', ringside('bench', 'switch', '--case', 'mlp64'), 2, qr/no case 'mlp64': switch has tasks-2[^;]*$/);
refused('bench --case',        ringside('bench', '--case'), 2, qr/--case takes the name of a case/);
refused('bench --threads two', ringside('bench', '--threads', 'two'), 2, qr/--threads takes a number of threads/);
my $bench = ringside('bench', '--help')->{out};
my %cases = map { $_ => 1 } map { split ' ' } $bench =~ /^ {15}(\S.*)$/mg;
my $counted = ringside('bench', 'switch', '--quick', '--case', 'tasks-8');
like($counted->{out}, qr/^switch +ringside-stepped +tasks-8 /m, 'a case that the help lists is measured');
ok($cases{$_}, "bench --help lists the case $_") for qw(stage-event embed6 tfm8x64 lstm32x32 tasks-2);

# ---- ringside version ----
is(ringside('version')->{out}, ringside('--version')->{out}, 'ringside version says what --version says');
is(ringside('version', '--help')->{status}, 0, 'version has --help');
refused('version takes nothing', ringside('version', 'x'), 2, qr/version takes no 'x'/);

done_testing();
