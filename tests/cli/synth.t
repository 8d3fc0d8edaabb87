#!/usr/bin/perl
# ringside synth: a made trace is a whole one, of exactly what was asked for, and what cannot be made is refused.
use strict;
use warnings;
use lib 'tests/cli';
use JSON::PP qw(decode_json);
use Ringside;
use Test::More;

my $folder = folder();

sub synth { return ringside('synth', @_) }

sub made {
    my ($name, @options) = @_;
    my $run = synth(@options, '-o', "$folder/$name");
    is($run->{status}, 0, "synth @options") or diag($run->{err});
    return $run;
}

sub events_of {
    my ($name) = @_;
    my $run = ringside('events', "$folder/$name", '--json');
    is($run->{err}, '', "nothing is to be said of $name");
    return map { decode_json($_) } split /\n/, $run->{out};
}

# What a lane opens it closes, in the right order; time never goes back; a flow leaves before it arrives, on another rank.
sub judge {
    my (@events) = @_;
    my (%open, %left, %faults, $deepest, $back, $crossed, $wrong) = ();
    my ($last, $arrived) = (0, 0);
    $deepest = $back = $crossed = $wrong = 0;
    for my $event (@events) {
        my $stack = $open{ $event->{lane} } ||= [];
        $back++ if $event->{t} < $last;
        $last = $event->{t};
        $crossed++ if $event->{phase} eq 'end' && (pop @$stack // '') ne $event->{kind};
        push @$stack, $event->{kind} if $event->{phase} eq 'begin';
        $deepest = @$stack if @$stack > $deepest;
        $faults{ $event->{kind} }++ if $event->{kind} =~ /^fault/;
        next unless defined $event->{flow};
        if ($event->{kind} eq 'comm.hop') {
            $wrong++ if $event->{phase} ne 'begin' || $left{ $event->{flow} };
            $left{ $event->{flow} } = $event;
        } else {
            my $from = $left{ $event->{flow} };
            $wrong++ unless $from && $event->{kind} eq 'comm.receive' && $event->{phase} eq 'end'
                && $from->{rank} != $event->{rank} && $from->{args}{bytes} == $event->{args}{bytes}
                && $from->{args}{peer} == $event->{rank} && $event->{args}{peer} == $from->{rank};
            $arrived++;
        }
    }
    my $still = grep { @$_ > 0 } values %open;
    my $faults = 0;
    $faults += $_ for values %faults;
    return { back => $back, crossed => $crossed, still => $still, deepest => $deepest, wrong => $wrong,
             left => scalar keys %left, arrived => $arrived, faults => $faults, lanes => \%open };
}

sub is_whole {
    my ($name, $judged, $flows, $faults) = @_;
    return is_deeply([@$judged{qw(back crossed still wrong left arrived faults)}],
                     [0, 0, 0, 0, $flows, $flows, $faults],
                     "$name: times in order, stages nested and closed, $flows messages that arrive, $faults faults");
}

# ---- what is made ----
made('a', qw(--events 5000 --lanes 12 --ranks 4 --seed 3 --faults 7 --flows 150 --depth 9));
my @events = events_of('a');
is(scalar @events, 5000, 'exactly as many events as were asked for');
my $judged = judge(@events);
is_whole('12 lanes', $judged, 150, 7);
is($judged->{deepest}, 9, 'stages in stages as deep as was asked for, and no deeper');
is_deeply([sort keys %{ $judged->{lanes} }],
          [sort map { ("r$_ main", "device:$_", "r$_ comm") } 0 .. 3], 'host, compute and comm of each rank');
my @lengths = do {
    my (%open, @all);
    for my $event (@events) {
        push @{ $open{ $event->{lane} } }, $event->{t} if $event->{phase} eq 'begin';
        push @all, $event->{t} - pop @{ $open{ $event->{lane} } } if $event->{phase} eq 'end';
    }
    sort { $a <=> $b } grep { $_ > 0 } @all;
};
cmp_ok($lengths[-1] / $lengths[0], '>=', 1e4, 'lengths over four decades');
cmp_ok((sort { $b <=> $a } map { $_->{iter} } @events)[0], '>=', 1, 'more than one iteration');

for my $size (1, 2, 3, 7, 100) {
    made("s$size", '--events', $size, '--seed', $size);
    is(scalar(@events = events_of("s$size")), $size, "$size events");
    is_whole("$size events", judge(@events), int($size / 100), 0);
}
made('one', qw(--events=300 --lanes=1 --depth=1));
is_whole('one lane', judge(@events = events_of('one')), 0, 0);
made('flows', qw(--events 404 --lanes 6 --flows 101));
is_whole('nothing but messages', judge(@events = events_of('flows')), 101, 0);
made('faults', qw(--events 50 --faults 50));
is_whole('nothing but faults', judge(@events = events_of('faults')), 0, 50);
made('deep', qw(--events 3000 --lanes 1 --depth 600));
is(judge(@events = events_of('deep'))->{deepest}, 600, 'deeper than an event can tell');

# ---- the same again ----
made('b', qw(--events 5000 --lanes 12 --ranks 4 --seed 3 --faults 7 --flows 150 --depth 9));
ok(slurp("$folder/a") eq slurp("$folder/b"), 'the same options make the same file');
made('b', qw(--events 5000 --lanes 12 --ranks 4 --seed 4 --faults 7 --flows 150 --depth 9));
ok(slurp("$folder/a") ne slurp("$folder/b"), 'another seed makes another one, over the one that was there');

# ---- what is refused ----
for my $case (
    [[qw(--events 5)], qr/where to\?/, 'no file'],
    [[qw(-o x)], qr/how many events\?/, 'no number of events'],
    [[qw(--events 5 -o)], qr/-o takes the name/, 'no name behind -o'],
    [[qw(--events 0 -o x)], qr/--events takes a whole number from 1 to 4294967295, not '0'/, 'no events'],
    [[qw(--events 4294967296 -o x)], qr/not '4294967296'/, 'more events than a trace numbers'],
    [[qw(--events 12e3 -o x)], qr/not '12e3'/, 'what is no whole number'],
    [[qw(--events 5 --lanes 0 -o x)], qr/--lanes takes/, 'no lanes'],
    [[qw(--events 5 --lanes 3 --ranks 4 -o x)], qr/4 ranks on 3 lanes/, 'more ranks than lanes'],
    [[qw(--events 5 --lanes 3 --flows 1 -o x)], qr/--lanes 6 at least/, 'messages of a rank to itself'],
    [[qw(--events 5 --ranks 1 --flows 1 -o x)], qr/--ranks 2 at least/, 'messages without a second rank'],
    [[qw(--events 5 --flows 2 -o x)], qr/2 flows \(4 events each\) and 0 faults are more than 5 events/,
     'more messages than events'],
    [[qw(--events 5 --lane 2 -o x)], qr/did you mean --lanes\?/, 'an option that there is not'],
    [[qw(--events 5 x)], qr/takes no 'x'/, 'a word too many'],
    [[qw(--events 5 -o), $folder], qr/it is a directory/, 'a folder for a file'],
) {
    refused("$case->[2] is refused", synth(@{ $case->[0] }), 2, $case->[1]);
}
spill("$folder/text", 'not a trace');
refused('a file that is no trace is left alone', synth('--events', 5, '-o', "$folder/text"), 2, qr/no Ringside trace/);
is(slurp("$folder/text"), 'not a trace', 'it is as it was');

# ---- no room ----
my $full = synth('--events', 4000000000, '-o', "$folder/full");
SKIP: {
    skip 'this disk takes 256 GB', 2 if $full->{status} == 0;
    refused('a disk that is too small is told at once', $full, 3, qr/4000000000 events take 256000\.0 MB/);
    ok(!-e "$folder/full", 'nothing was begun');
}
refused('a file that finds no more room is one line',
        ringside({ ulimit => '-f 8192' }, 'synth', '--events', 200000, '-o', "$folder/cut"), 3, qr/no room for it/);
ok(!-e "$folder/cut" && !glob("$folder/.cut*"), 'nothing of it is left');

like(synth('--help')->{out}, qr/--flows N/, '--help names the options');
done_testing();
