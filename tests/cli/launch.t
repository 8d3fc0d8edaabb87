#!/usr/bin/perl
# ringside launch: who is who, whose lines come how, who was first, and that all processes end when one does. Processes say what
# they do in a page of shared memory; here trusted lessons write it themselves, so each order of events can be had.
use strict;
use warnings;
use lib 'tests/cli';
use IO::Select;
use IO::Socket::INET;
use POSIX qw(:sys_wait_h);
use Ringside;
use Test::More;
use Time::HiRes qw(sleep time);

my $patience = program() =~ m{/(?:asan|tsan)/} ? 120 : 60;

sub launch { return ringside('launch', '--trust', @_) }

# What trusted lessons share: their environment, their page, ends of many kinds.
my $words = <<'LUA';
local env, rank = os.getenv, tonumber(os.getenv "RANK")
local function page(at, bytes)           -- where the run has it in its memory: its descriptor is closed by now
  local from
  for line in io.lines "/proc/self/maps" do from = line:match "^(%x+)%-.*memfd:ringside%-page" or from end
  local file = assert(io.open("/proc/self/mem", "r+b"))
  file:seek("set", tonumber(from, 16) + at) file:write(bytes) file:close()
end
local function call(text, line, inside)  -- "barrier #1 of group 2", as the page has it
  local what, number, group = text:match "^(.-) #(%d+)(.*)$"
  group = tonumber(group:match "%d+") or 0
  page(8, string.pack("<I4 B xxx i4 xxxx i8 c32", line, inside and 1 or 0, group, tonumber(number), what))
end
local function fail(ns, line, kind) page(912, string.pack("<I4 z", line, kind)) page(904, string.pack("<I8", ns)) end
local function joined() page(2996, "\1") end
local function left() page(2997, "\1") end
local function die(signal) os.execute("kill -" .. signal .. " $PPID") end
local function say(...) io.write(...) io.stdout:flush() end
local function print(...) say(table.concat({ ... }, "\t"), "\n") end    -- what others print is the run's business
local function err(...) io.stderr:write(...) end
local function sleep(s) os.execute("sleep " .. s) end
local function wait_for(path)
  for _ = 1, 6000 do
    local file = io.open(path)
    if file then file:close() return end
    sleep "0.01"
  end
  error "it never came"
end
local function touch(path) io.open(path, "w"):close() end
LUA

sub program_of {
    my ($name, $text) = @_;
    return lesson($name, $words . $text);
}

# Starts launch; answers its process, what to read from, and what it wrote on stderr so far.
my $started = 0;
sub start {
    my @words = @_;
    my $path  = folder() . '/launched.' . ++$started;
    pipe(my $read, my $write) or die "pipe: $!";
    my $pid = fork() // die "fork: $!";
    if ($pid == 0) {
        open STDIN,  '<', '/dev/null'   or die;
        open STDOUT, '>&', $write       or die;
        open STDERR, '>', "$path.err"   or die;
        alarm 300;
        hear_signals();
        exec program(), 'launch', '--trust', @words;
        die "exec: $!";
    }
    close $write;
    return { pid => $pid, out => $read, err => "$path.err" };
}

# The next line that it writes; undef at its end, or if none comes.
sub next_line {
    my ($run) = @_;
    my $line = '';
    my $ready = IO::Select->new($run->{out});
    while ($line !~ /\n/) {
        return undef if !$ready->can_read($patience);
        return undef if !sysread $run->{out}, $line, 1, length $line;
    }
    return $line;
}

sub gone { return !kill 0, $_[0] }
sub all_gone {
    my @pids = @_;
    my $end  = time + $patience;
    sleep 0.01 while time < $end && grep { !gone($_) } @pids;
    return !grep { !gone($_) } @pids;
}

sub finish {
    my ($run) = @_;
    my $end = time + $patience;
    my ($done, $out) = (0, '');
    my $ready = IO::Select->new($run->{out});
    while (time < $end && !($done = waitpid $run->{pid}, WNOHANG)) {
        sysread $run->{out}, $out, 65536, length $out if $ready->can_read(0.02);
    }
    my $status = $?;
    if (!$done) {
        kill 'KILL', $run->{pid};
        waitpid $run->{pid}, 0;
    }
    1 while sysread $run->{out}, $out, 65536, length $out;
    return { late => !$done, status => $done ? $status >> 8 : -1, signal => $done ? $status & 127 : 9, out => $out,
             err => slurp($run->{err}) };
}

# ---- options ----

my $plain = lesson('plain', 'io.write "done\\n"');
for my $case (
    [ 'no lesson',                    [],                                        qr/which lesson/ ],
    [ 'no processes',                 [qw(--nproc 0)],                           qr/'0' is no number of processes/ ],
    [ 'processes that are no number', [qw(--nproc many)],                        qr/'many' is no number of processes/ ],
    [ 'too many processes',           [qw(--nproc 5000)],                        qr/1 to 1024/ ],
    [ 'GPUs where there are none',    [qw(--nproc gpu)],                         qr/no GPU .*--devices/ ],
    [ 'no devices',                   [qw(--nproc gpu --devices 0)],             qr/'0' is no N for --devices/ ],
    [ 'machines of an elastic job',   [qw(--nnodes 1:2)],                        qr/elastic/ ],
    [ 'no machines',                  [qw(--nnodes 0)],                          qr/'0' is no number of machines/ ],
    [ 'which machine is not said',    [qw(--nnodes 2 --master-addr 127.0.0.1)],  qr/which is this\?/ ],
    [ 'a machine beyond the last',    [qw(--nnodes 2 --node-rank 2)],            qr/'2' is no R .* 0 to 1/ ],
    [ 'a second machine of one',      [qw(--node-rank 1)],                       qr/'1' is no R/ ],
    [ 'where the first is not said',  [qw(--nnodes 2 --node-rank 1)],            qr/where is the first/ ],
    [ 'too large a world',            [qw(--nnodes 3 --node-rank 0 --nproc 1000 --master-addr h)], qr/3000 ranks/ ],
    [ 'a port that is none',          [qw(--master-port 99999)],                 qr/'99999' is no port/ ],
    [ 'a host that is none',          [ '--master-addr', '' ],                   qr/master-addr/ ],
    [ 'a place said twice',           [qw(--rdzv-endpoint h:1 --master-port 1)], qr/either, not both/ ],
    [ 'an endpoint without a port',   [qw(--rdzv-endpoint h:x)],                 qr/'x' is no port/ ],
    [ 'a foreign rendezvous',         [qw(--rdzv-backend etcd)],                 qr/static and c10d/ ],
    [ 'restarts',                     [qw(--max-restarts 3)],                    qr/takes 0 alone/ ],
    [ 'one machine and two',          [qw(--standalone --nnodes 2 --node-rank 0)], qr/--standalone is one machine/ ],
    [ 'the stepped executor',         [qw(--executor stepped)],                  qr/--executor free only/ ],
    [ 'an option misspelt',           [qw(--noodes 1)],                          qr/did you mean --nnodes/ ],
    [ 'an address of nobody here',    [qw(--nnodes 2 --node-rank 0 --master-addr 192.0.2.1)], qr/no address of this machine/ ],
) {
    my ($name, $words, $pattern) = @$case;
    refused("refused: $name", ringside('launch', @$words, $name eq 'no lesson' ? () : $plain), 2, $pattern);
}
refused('refused: a lesson that is not there, in one line', ringside(qw(launch --nproc 4), folder() . '/none.lua'), 2,
        qr/none\.lua: no such file/);
my $no_lua = lesson('no_lua', "local x = 1\nlocal y = = 2\n");
{
    my $run = ringside(qw(launch --nproc 4 --trace), folder() . '/never', $no_lua);
    refused('refused: a lesson that is no Lua, in one line', $run, 2, qr/no_lua\.lua:2: unexpected symbol near '='/);
    is($run->{err}, ringside('run', $no_lua)->{err}, 'which is that of a run');
    ok(!-e folder() . '/never', 'and nothing is made for it');
}
spill(folder() . '/is-a-file', 'x');
refused('refused: traces of several ranks in a file', ringside(qw(launch --nproc 2 --trace), folder() . '/is-a-file', $plain),
        2, qr/is there and no folder/);
is(launch($plain)->{out}, "done\n", 'one process if nothing is said');
is(launch(qw(--nnodes 1:1 --max-restarts 0 --nproc_per_node=2 --rdzv-backend c10d --rdzv_endpoint localhost:0), $plain)
       ->{out} =~ s/\[1\] //r, "done\ndone\n", 'options go by torchrun\'s spellings');
like(ringside(qw(launch --help))->{out}, qr/--nproc N .*--trace DIR .*rank0\.trace/s, '--help lists them');
like(ringside(qw(launch --help))->{out}, qr/--backend NAME +gloo if not given.*mpirun -n 4 ringside run --backend mpi/s,
     'and that MPI is for mpirun');
like(ringside(qw(help launch))->{out}, qr/^ringside launch \[options\]/, 'help launch is the same');

# ---- who is who ----

my $names = join ' ', qw(RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_NAME ROLE_RANK
    ROLE_WORLD_SIZE MASTER_ADDR TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS TORCHELASTIC_RUN_ID
    TORCHELASTIC_USE_AGENT_STORE OMP_NUM_THREADS);
my $who = program_of('who', <<"LUA");
local words, file = {}, io.open "/proc/self/environ"      -- as it came: the run sets some for libraries
local given = "\\0" .. file:read "a"
for name in ("$names MINE"):gmatch "%S+" do words[#words + 1] = tostring(given:match("%z" .. name .. "=(%Z*)")) end
say("rank " .. rank .. " is " .. table.concat(words, " ") .. " " .. table.concat({ ... }, ","), "\\n")
LUA
sub lines_of { return join '', sort $_[0] =~ /^.*\n/mg }
{
    delete local $ENV{OMP_NUM_THREADS};
    local $ENV{MINE} = 'kept';
    local $ENV{RANK} = '77';
    my $run = launch(qw(--nproc 2), $who, '--', 'a', '--nproc');
    is(lines_of($run->{out}),
       "rank 0 is 0 0 2 2 0 1 default 0 2 127.0.0.1 0 0 none True 1 kept a,--nproc\n"
     . "rank 1 is 1 1 2 2 0 1 default 1 2 127.0.0.1 0 0 none True 1 kept a,--nproc\n",
       'each process has torchrun\'s variables, the parent\'s own, and the words behind --');
    like(launch(qw(--rdzv-id job7), $who)->{out}, qr/job7 True nil kept/,
         'a single process keeps as many threads as it likes; the job has a name');
    local $ENV{OMP_NUM_THREADS} = 5;
    like(launch(qw(--nproc 2), $who)->{out}, qr/ True 5 /, 'a number of threads that was set stays');
}
{
    my $second = start(qw(--nproc 2 --nnodes 2 --node-rank 1 --master-addr 127.0.0.1 --master-port 1), $who);
    my $out    = lines_of(finish($second)->{out});
    like($out, qr/\Arank 2 is 2 0 4 2 1 2 .*\nrank 3 is 3 1 4 2 1 2 .*\n\z/, 'the second of two machines has the later ranks');
}
is(lines_of(launch(qw(--nproc auto --devices 3), $plain)->{out}), "[1] done\n[2] done\ndone\n", 'auto counts devices');

# ---- lines ----

my $lines = program_of('lines', <<'LUA');
if rank == 1 then
  say("first\nrank 1 speaks\nrank 12 does not\nrank 1\n")
  err("to stderr\n")
end
say("last \27[1mbold\27[0m\n")
err("\27[31mred\27[0m \226\128\174 \255\n")
LUA
{
    my $run = launch(qw(--nproc 2), $lines);
    my @one = grep { /1\]|rank/ } split /\n/, $run->{out};
    is_deeply(\@one, [ '[1] first', 'rank 1 speaks', '[1] rank 12 does not', 'rank 1', "[1] last \e[1mbold\e[0m" ],
              'lines of others stand behind their rank, unless they begin with it');
    like($run->{out}, qr/^last \e\[1mbold/m, 'rank 0\'s lines come as they are');
    is(lines_of($run->{err}), lines_of("[1] to stderr\n" . join '', map { "$_\\x1b[31mred\\x1b[0m \\u{202e} \\xff\n" } '', '[1] '),
       'stderr stays apart, and what would steer a terminal is spelled out');
}
my $half = program_of('half', <<'LUA');
say("whole\nhal") err("a wo")
die "KILL"
LUA
{
    my $run = launch(qw(--nproc 2), $half);
    is(lines_of($run->{out}), "[1] hal\n[1] whole\nhal\nwhole\n", 'what a killed process had written of a line is a line');
    like($run->{err}, qr/^\[1\] a wo$/m, 'on stderr, too');
}
my $huge = program_of('huge', <<'LUA');
say(("\195\164"):rep(400000), "\n", ("y"):rep(70000), "\n")
LUA
{
    my $run = launch(qw(--nproc 2), $huge);
    my ($zero, $one) = map { my $which = $_; join '', map { s/^\[1\] //r } grep { /^\[1\]/ == $which } split /\n/, $run->{out} } 0, 1;
    is($one, "\xc3\xa4" x 400000 . 'y' x 70000, 'a huge line comes in pieces, of which none cuts a character');
    is($zero, $one, 'rank 0\'s, too');
    cmp_ok((sort { $b <=> $a } map { length } split /\n/, $run->{out})[0], '<', 300000, 'and each has a bound');
}
my $stdin = program_of('stdin', 'print(rank, io.read "a")');
{
    open my $pipe, '-|', 'sh', '-c', 'echo words | "$0" launch --trust --nproc 2 "$1"', program(), $stdin or die;
    local $/;
    is(lines_of(scalar <$pipe>), lines_of("0\twords\n\n[1] 1\t\n"), 'rank 0 has the launcher\'s stdin, the others none');
}
{
    my $many = program_of('many', 'for i = 1, 20000 do print(rank, i) end');
    my $out  = `sh -c '"\$0" launch --trust --nproc 2 "\$1" 2>&1; echo "status \$?" >&3' '@{[program()]}' '$many' 3>'@{[folder()]}/status' | head -n 1`;
    is(slurp(folder() . '/status'), "status 0\n", 'a reader that goes away is no error');
    like($out, qr/\A\S.*\n\z/, 'and hears what it wanted to');
    my $run = launch(qw(--nproc 3), $many);
    my %next;
    my $good = 1;
    for (split /\n/, $run->{out}) {
        $good &&= /\A(?:\[[12]\] )?(\d)\t(\d+)\z/ && $2 == ++$next{$1};
    }
    ok($good && $next{0} == 20000 && $next{1} == 20000 && $next{2} == 20000, 'no line is lost, cut or out of its order');
}
SKIP: {
    skip 'no /dev/full', 1 if !-e '/dev/full';
    my $run = ringside({ out => '/dev/full' }, 'launch', '--trust', $plain);
    refused('a full disk is told', $run, 2, qr/cannot write standard output/);
}

# ---- what a process inherits ----

my $descriptors = program_of('descriptors', <<'LUA');
local list = env "MINE" .. "." .. (rank or "run")
os.execute("ls -l /proc/$PPID/fd > " .. list)
for line in io.lines(list) do
  local number, what = line:match "(%d+) %-> (.*)"
  if number and tonumber(number) > 2 and number ~= env "RINGSIDE_PAGE" then say(what, "\n") end
end
LUA
{
    local $ENV{MINE} = folder() . '/descriptors';
    my %had    = map { s/\d+\z//r => 1 } split /\n/, ringside('run', '--trust', '--executor', 'free', $descriptors)->{out};
    my @leaked = grep { s/^\[\d\] //; /socket|pipe|signalfd|ringside-page|\/dev\/null/ && !$had{s/\d+\z//r} } split /\n/, launch(qw(--nproc 3), $descriptors)->{out};
    is_deeply(\@leaked, [], 'no descriptor of the launcher leaks but the page');
}

# ---- traces ----

{
    my $dir = folder() . '/traces';
    is(launch(qw(--nproc 2 --trace), $dir, $plain)->{status}, 0, 'each rank keeps its trace in a folder');
    is_deeply([ map { s{.*/}{}r } sort glob "$dir/*" ], [ 'rank0.trace', 'rank1.trace' ], 'under its name');
    launch(qw(--nproc 4 --trace), $dir, $plain);
    spill("$dir/rank7.trace", "ringside-trace, but not ours\n");
    spill("$dir/rank8.trace", '');
    symlink 'rank2.trace', "$dir/rank9.trace" or die "symlink: $!";
    rename "$dir/rank2.trace", "$dir/rank02.trace" or die "rename: $!";
    symlink 'rank02.trace', "$dir/rank2.trace" or die "symlink: $!";
    my $again = launch(qw(--nproc 2 --trace), $dir, $plain);
    is_deeply([ map { s{.*/}{}r } sort glob "$dir/*" ], [ map { "rank$_.trace" } qw(0 02 1 2 7 8 9) ],
              'traces that ranks of a larger job left there go, nothing else does');
    is($again->{err}, '', 'without a word');
    is(launch('--trace', "$dir/one.trace", $plain)->{status}, 0, 'one process keeps it in a file');
    ok(-f "$dir/one.trace", 'of that name');
}

# ---- ends ----

sub ends_with {
    my ($name, $run, $status, $pattern) = @_;
    my @lines = split /\n/, $run->{err};
    ok($run->{status} == $status && $run->{signal} == 0 && @lines && $lines[-1] =~ $pattern, $name)
        or diag("status $run->{status} (wanted $status), signal $run->{signal}, stderr:\n$run->{err}wanted $pattern");
}

ends_with('one that is killed is named, with what it was in', launch(qw(--nproc 3), program_of('killed', <<'LUA')), 3,
if rank == 2 then call("all_reduce #8", 13, true) die "KILL" end
LUA
    qr/^ringside launch: rank 2 was killed by signal 9 \(Killed\) in all_reduce #8 \(line 13\); ranks 0, 1 ended without an error$/);
ends_with('or had been in last', launch(program_of('aborts', 'call("barrier #1 of group 2", 4, false) die "ABRT"')), 3,
    qr/^ringside launch: rank 0 was killed by signal 6 \(Aborted\) after barrier #1 of group 2 \(line 4\)$/);
ends_with('one that ends with a status gives it to the job', launch(qw(--nproc 2), program_of('status', <<'LUA')), 7,
if rank == 1 then os.exit(7) end
LUA
    qr/^ringside launch: rank 1 ended with status 7; rank 0 ended without an error$/);
ends_with('an error is told with its kind and line', launch(qw(--nproc 2), program_of('error', <<'LUA')), 2,
if rank == 1 then fail(1000, 17, "ValueError") os.exit(2) end
LUA
    qr/^ringside launch: rank 1 ended with status 2: ValueError at line 17; rank 0 ended without an error$/);
ends_with('checks that fail end nobody, and the status is 1',
    ringside(qw(launch --nproc 2), lesson('checks', 'local rs = require "ringside" rs.lesson { title = "x" } rs.check("no", false)')),
    1, qr/^ringside launch: checks failed$/);
is(launch(qw(--nproc 2), '--fault', 'kill 1 at 100000', program_of('faults', ''))->{err}, '',
   'no process of several says of a fault that it did not strike: it may have in another');
like(launch('--fault', 'kill 0 at 100000', program_of('faults', ''))->{err}, qr/did not strike/, 'one alone does');
is(launch(qw(--nproc 2), program_of('well', ''))->{err}, '', 'of a job that ends well nothing is said');
{
    my $run = launch(qw(--nproc 2), program_of('hostile', <<'LUA'));
if rank == 1 then page(32, ("\27"):rep(96)) page(24, ("\255"):rep(8)) page(128, ("\255"):rep(4)) die "KILL" end
LUA
    ends_with('a page that is nonsense harms nobody', $run, 3, qr/was killed by signal 9 \(Killed\) after (?:\\x1b)+; rank 0/);
}

# The first in time is shown first, in whatever order they say it; until then nobody else's error is.
my $dir   = folder();
my $order = program_of('order', <<"LUA");
local at = { [0] = 3000, 1000, 2000 }
err("before ", rank, "\\n")
if rank ~= 1 then wait_for("$dir/order." .. (rank == 0 and 2 or 3)) end
if rank == 1 then wait_for "$dir/order.0" end
fail(at[rank], rank + 10, "RuntimeError")
err("rank ", rank, ": RuntimeError\\n  more of it\\n")
touch("$dir/order." .. rank)
os.exit(2)
LUA
{
    spill("$dir/order.3", '');        # 2, 0, 1 is the order in which they say it
    my $run = launch(qw(--nproc 3 --grace 100), $order);
    my $tail = $run->{err} =~ s/^(?:\[\d\] )?before \d\n//mgr;
    is($tail, "rank 1: RuntimeError\n[1]   more of it\n[2] rank 2: RuntimeError\n" =~ s/\[2\] //r . "[2]   more of it\n"
            . "rank 0: RuntimeError\n  more of it\n"
            . "ringside launch: rank 1 ended with status 2: RuntimeError at line 11; ranks 0, 2 failed after it\n",
       'errors come in the order of their times, each with its rank');
    my @before = $run->{err} =~ /^(?:\[\d\] )?before (\d)$/mg;
    is(scalar @before, 3, 'what was said before comes at once');
}
{
    my $run = launch(qw(--nproc 2 --grace 100), program_of('killed_first', <<"LUA"));
if rank == 1 then
  call("all_reduce #3", 5, true)
  touch "$dir/killed.1"
  die "KILL"
end
wait_for "$dir/killed.1"
fail(os.time() * 1000000000 + 2000000000, 6, "RuntimeError")
err("rank 0: rank 1 was killed\\n")
os.exit(3)
LUA
    is($run->{err}, "ringside launch: rank 1 was killed by signal 9 (Killed) in all_reduce #3 (line 5)\n"
                  . "rank 0: rank 1 was killed\n"
                  . "ringside launch: rank 1 was killed by signal 9 (Killed) in all_reduce #3 (line 5); rank 0 failed after it\n",
       'one that can say nothing stands in its place among those that do');
}

{
    my $run = launch(qw(--nproc 4), lesson('boom', "local x = 1\nerror 'boom'\n"));
    is(lines_of($run->{err} =~ s/^ringside launch: .*\n\z//mr), lines_of(join '', map { "${_}ringside: " . folder() . "/boom.lua:2: boom\n" } '', '[1] ', '[2] ', '[3] '),
       'of those that have told their error themselves it is not told again');
}

{
    my $run = launch(qw(--nproc 3 --grace 100), program_of('reports', <<"LUA"));
if rank > 0 then wait_for("$dir/reports." .. rank - 1) end
fail(1000 + rank, 6, "DeadlockError")
err("ringside: DeadlockError: rank 1 waits\\n  cause: of it\\n  \\n  more\\n  FILE:6\\nanother of ", rank, "\\n")
touch("$dir/reports." .. rank)
os.exit(3)
LUA
    my $head = "ringside: DeadlockError: rank 1 waits\n";
    is($run->{err} =~ s/^ringside launch.*\n\z//mr, "$head  cause: of it\n  \n  more\n  FILE:6\nanother of 0\n" . join('', map {
           "[$_] ${head}[$_]   cause: of it\n[$_]   (the rest as above)\n[$_] another of $_\n" } 1, 2),
       'a report of a hang stands there once: of the others its head and its cause');
}

# ---- the others learn of it ----

my $log = program_of('log', <<'LUA');
local dist = require "ringside".distributed
joined()
if rank == 1 then call("all_reduce #3", 5, true) die "KILL" end
local store = dist.TCPStore(env "MASTER_ADDR", tonumber(env "MASTER_PORT"), -1, false)
say(store:get "job/end/0", "\n")
left()
LUA
like(launch(qw(--nproc 2 --grace 100), $log)->{out},
     qr/^rank 1\nworld -1\nhow killed\nexact 1\nns \d+\nline 5\ninside all_reduce #3\n.*^why was killed by signal 9 \(Killed\)$/ms,
     'the job\'s log in its store says how a process died');
my $quiet = program_of('leaves', <<'LUA');
local dist = require "ringside".distributed
joined()
if rank == 1 then left() return end
if rank == 2 then wait_for(env "MINE") os.exit(0) end
touch(env "MINE")
local store = dist.TCPStore(env "MASTER_ADDR", tonumber(env "MASTER_PORT"), -1, false)
say(store:get "job/end/0", "\n")
left()
LUA
{
    local $ENV{MINE} = "$dir/leaves.0";
    like(launch(qw(--nproc 3 --grace 100), $quiet)->{out}, qr/^rank 2\n.*^why ended with status 0 without a word$/ms,
         'one that went without a word is told, one that took its leave is not');
}

# ---- those that do not end ----

my $stuck = program_of('stuck', <<'LUA');
local file = assert(io.open "/proc/self/stat")
say("pid ", file:read "n", "\n")
file:close()
if ... == "dies" then
  touch(env "MINE" .. rank)
  if rank == 0 then wait_for(env "MINE" .. 1) wait_for(env "MINE" .. 2) os.exit(9) end
end
if rank == 1 and ... == "stops" then die "STOP" end
for _ = 1, 2000 do sleep "0.05" end
LUA
sub pids_of {
    my ($run, $count) = @_;
    my @pids = map { (next_line($run) // '') =~ /pid (\d+)/ ? $1 : () } 1 .. $count;
    is(scalar @pids, $count, "$count processes are there");
    return @pids;
}
{
    local $ENV{MINE} = "$dir/dies.";
    my $run  = start(qw(--nproc 3 --grace 0.1), $stuck, '--', 'dies');
    my @pids = pids_of($run, 3);
    ends_with('who does not end in time is ended', finish($run), 9,
              qr/^ringside launch: rank 0 ended with status 9; ranks 1, 2 (?:had to be ended|failed after it)$/);
    ok(all_gone(@pids), 'and no process is left');
}
{
    my $run  = start(qw(--nproc 2 --grace 0.1), $stuck, '--', 'stops');
    my @pids = pids_of($run, 2);
    kill 'KILL', $pids[0];
    ends_with('who does not hear that is killed', finish($run), 3,
              qr/^ringside launch: rank \d was killed by signal 9 \(Killed\); rank \d (?:had to be ended|failed after it)$/);
    ok(all_gone(@pids), 'so that no process is left');
}


# What a lesson prints is out at once, though its stdout is a pipe.
my $prints = lesson('prints', <<'LUA');
local file = assert(io.open "/proc/self/stat")
print("pid", (file:read "n"))
file:close()
io.write("written\n")
while true do end
LUA
{
    my $run = start(qw(--nproc 2 --grace 0.1), $prints);
    my %heard = map { my $line = next_line($run) // 'nothing'; ($line =~ s/\d+\n/N/r => $line) } 1 .. 3;
    is_deeply([ sort keys %heard ], [ '[1] written' . "\n", "pid\tN", "written\n" ], 'what is printed is heard while its process still runs');
    my ($pid) = ($heard{"pid\tN"} // '') =~ /(\d+)/;
    kill 'KILL', $pid if $pid;
    ends_with('also of one that is killed', finish($run), 3, qr/^ringside launch: rank 0 was killed by signal 9 \(Killed\)/);
}

# ---- signals ----

for my $signal (qw(INT TERM HUP)) {
    my $run  = start(qw(--nproc 3), $stuck);
    my @pids = pids_of($run, 3);
    kill $signal, $run->{pid};
    ends_with("SIG$signal reaches everybody", finish($run), 3, qr/^ringside launch: stopped by signal \d+ \(\w+\)$/);
    ok(all_gone(@pids), 'and no process is left');
}
{
    my $run  = start(qw(--nproc 2 --grace 100), $stuck, '--', 'stops');
    my @pids = pids_of($run, 2);
    my $end  = time + $patience;
    my $done = 0;
    while (!$done && time < $end) {
        kill 'INT', $run->{pid};
        sleep 0.1;
        $done = waitpid $run->{pid}, WNOHANG;
    }
    is($? >> 8, 3, 'a second interrupt kills who has not heard the first');
    ok($done && all_gone(@pids), 'at once, and no process is left');
}
{
    my $run  = start(qw(--nproc 3), $stuck);
    my @pids = pids_of($run, 3);
    kill 'KILL', $run->{pid};
    waitpid $run->{pid}, 0;
    ok(all_gone(@pids), 'a launcher that is killed takes its processes with it');
}
{
    my $run  = start(qw(--nproc 2 --grace 0.2), program_of('talks', 'while true do say(("x"):rep(1000), "\n") end'));
    next_line($run);    # more of it fills the pipe, which nobody reads from here on
    kill 'TERM', $run->{pid};
    my $end  = time + $patience;
    my $done = 0;
    sleep 0.02 while time < $end && !($done = waitpid $run->{pid}, WNOHANG);
    ok($done && $? >> 8 == 3, 'a reader that stands still does not keep a job that was stopped') or kill 'KILL', $run->{pid};
}

# ---- places ----

sub free_port {
    my $listener = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1', ReuseAddr => 1) or die "listen: $!";
    return $listener->sockport;
}
{
    my $port = free_port();
    my $first = start('--nproc', 2, '--master-port', $port, $stuck);
    my @pids  = pids_of($first, 2);
    refused('two launches on one port: the second is told so', ringside('launch', '--nproc', 2, '--master-port', $port, $stuck), 2,
            qr/port $port of 127\.0\.0\.1 is taken/);
    ok(!(grep { gone($_) } @pids), 'and the first goes on');
    kill 'TERM', $first->{pid};
    finish($first);
    like(launch('--rdzv-endpoint', "localhost:$port", program_of('where', 'print(env "MASTER_ADDR", env "MASTER_PORT")'))->{out},
         qr/^localhost\t$port$/, 'then the port is free again');
}
{
    my @place = ('--nnodes', 2, '--master-addr', '127.0.0.1', '--master-port', free_port());
    my $later = program_of('later', <<"LUA");
if rank == 0 then wait_for "$dir/later.1" print "rank 0 goes" return end
local dist  = require "ringside".distributed
local store = dist.TCPStore(env "MASTER_ADDR", tonumber(env "MASTER_PORT"), -1, false)
store:set("early", "1")
touch "$dir/later.1"
wait_for "$dir/later.go"
store:set("late", "2")
print("rank 1 has " .. store:get "late")
LUA
    my $first  = start(@place, '--node-rank', 0, $later);
    my $second = start(@place, '--node-rank', 1, $later);
    is(next_line($first), "rank 0 goes\n", 'the first machine is done');
    spill("$dir/later.go", '');
    my $run = finish($second);
    is($run->{out} . $run->{err}, "rank 1 has 2\n", 'its store stays until the others have left it');
    is(finish($first)->{status}, 0, 'then it ends, too');
}
SKIP: {
    skip 'no IPv6 here', 1 if !-e '/proc/net/if_inet6' || !grep { /^0{31}1/ } split /\n/, slurp('/proc/net/if_inet6');
    like(launch('--rdzv-endpoint', '[::1]:0', program_of('six', 'print(env "MASTER_ADDR")'))->{out}, qr/^::1$/,
         'an address may be IPv6');
}
refused('too few descriptors are told, and nobody is left', ringside({ ulimit => '-n 24' }, qw(launch --nproc 20), $stuck), 3,
        qr/no file descriptor is left for rank \d+: 'ulimit -n'/);
{
    my $copy = folder() . '/copy';
    my $err  = `cp '@{[program()]}' '$copy'; sh -c 'exec 9<"\$0"; rm "\$0"; exec /proc/self/fd/9 launch "\$1"' '$copy' '$plain' 2>&1`;
    is($? >> 8, 3, 'a program whose file is gone ends with status 3');
    like($err, qr/\Aringside: launch: cannot run \S+copy \(deleted\) as rank 0: No such file or directory\n\z/, 'and one line');
}

done_testing();
