#!/usr/bin/perl
# In stepped two runs write the same file, byte for byte, wherever and however they are started.
use strict;
use warnings;
use lib 'tests/cli';
use Cwd qw(getcwd);
use Ringside;
use Test::More;

my $root    = getcwd();
my @lessons = map { m{([^/]+)\.lua$} } glob 'lessons/[0-9]*.lua';
my %long    = map { ("RINGSIDE_FILLER_$_" => 'x' x 500) } 1 .. 200;
my %scenes  = (
    'a second run'                    => {},
    'another current directory'       => { in_folder => '/' },
    'another locale'                  =>
        { env => { LC_ALL => 'de_DE.UTF-8', LANG => 'tr_TR.UTF-8', LANGUAGE => 'de' } },
    'another time zone'               => { env => { TZ => 'Pacific/Kiritimati' } },
    'another umask'                   => { umask => 0077 },
    'a long environment'              => { env => \%long },
    'another user, home and terminal' => { env => { HOME => '/', USER => 'nobody', TERM => 'dumb', COLUMNS => 10 } },
    'Lua settings'                    =>
        { env => { LUA_PATH => '/x/?.lua', LUA_CPATH => '/x/?.so', LUA_INIT => 'error("no")' } },
    'an allocator that fills memory'  => { env => { MALLOC_PERTURB_ => 165, MALLOC_ARENA_MAX => 1 } },
);

# Runs the lesson, answers its trace and what it printed.
sub trace_of {
    my ($scene, $lesson, @options) = @_;
    my $path = folder() . '/run.trace';
    unlink $path;
    my $run = ringside($scene, 'run', '--tap', @options, '--trace', $path, $lesson);
    return $run->{status} == 0 ? { bytes => slurp($path), out => $run->{out} } : { bytes => '', out => $run->{err} };
}

for my $name (@lessons) {
    my $lesson = "$root/lessons/$name.lua";
    my $first  = trace_of({}, $lesson);
    cmp_ok(length $first->{bytes}, '>', 1000, "$name writes a trace") or diag($first->{out});
    for my $scene (sort keys %scenes) {
        my $other = trace_of($scenes{$scene}, $lesson);
        ok($other->{bytes} eq $first->{bytes}, "$name: $scene gives the same bytes");
        is($other->{out}, $first->{out}, "$name: $scene prints the same");
    }
    ok(trace_of({}, "lessons/$name.lua")->{bytes} eq $first->{bytes}, "$name: a relative path gives the same bytes");
    ok(trace_of({}, $lesson, '--exact')->{bytes} eq $first->{bytes},
        "$name: --exact changes nothing, it is the default");
    unlike($first->{bytes}, qr/\Q$root\E|\/tmp\//, "$name: no absolute path is in the trace");

    # Under load: two processes of our own that spin, ended by their numbers.
    my @spinning = map {
        my $pid = fork() // die "fork: $!";
        if ($pid == 0) { 1 while 1 }
        $pid;
    } 1, 2;
    ok(trace_of({}, $lesson)->{bytes} eq $first->{bytes}, "$name: load on the machine changes no byte");
    kill 'KILL', @spinning;
    waitpid $_, 0 for @spinning;

    my @hashes = map { ringside($_, 'run', '--quiet', '--hash', $lesson)->{out} }
        {}, { in_folder => '/' }, { umask => 0 };
    like($hashes[0], qr/^trace hash [0-9a-f]{6}$/m, "$name: --hash prints six digits");
    is($hashes[$_], $hashes[0], "$name: --hash prints the same again ($_)") for 1, 2;
    my $traced = ringside('run', '--quiet', '--hash', '--trace', folder() . '/hash.trace', $lesson);
    is($traced->{out}, $hashes[0], "$name: --trace does not change the hash");
}

# What Lua itself would make different from run to run.
my $lua = lesson('lua', <<'END_LESSON');
local t, f = {}, function() end
for _, word in ipairs { "delta", "alpha", "echo", "bravo", "charlie" } do t[word] = #word end
t[3], t[1], t[2.5], t[true] = 3, 1, 2.5, 0
for key, value in pairs(t) do print(key, value) end
for key in next, t do print(key) end
print(t, f, print, coroutine.create(f), io, string.format("%s %p", t, f))
print(math.random(), math.random(100), math.random(-5, 5))
math.randomseed(7)
print(math.random(1000000))
print(os.clock ~= nil and os.clock() or "no clock", os.time, os.date, os.getenv)
local list = {}
for i = 1, 50 do list[i] = { key = i * 7 % 11, at = i } end
table.sort(list, function(a, b) return a.key < b.key end)
for _, item in ipairs(list) do io = nil; print(item.key, item.at) end
END_LESSON
my @runs = map { ringside($_, 'run', $lua) } {}, { env => \%long }, { env => { MALLOC_PERTURB_ => 90 } };
is($runs[0]{status}, 0, 'pairs, tostring, random numbers and sort work in a lesson') or diag($runs[0]{err});
is($runs[$_]{out}, $runs[0]{out}, "and come out the same in every run ($_)") for 1, 2;
unlike($runs[0]{out}, qr/0x[0-9a-f]{6,}/, 'without an address');
done_testing();
