# Traces of a job's processes, written down here byte by byte (src/trace/format.h), so that nothing of them depends on a clock.
#
#     write_trace(FILE, {rank => 1, size => 2, offset => "LOCAL OFFSET ERROR", ...}, [time_ns, kind, phase, lane, flow, args...], ...)
package Job;
use strict;
use warnings;
use Exporter 'import';
our @EXPORT = qw(write_trace job_traces);

my @kinds = (
    ['lesson.say',     0, 'text:text'],
    ['comm.hop',       1, 'chunk, bytes:bytes, peer:rank, reduce:flag'],
    ['comm.receive',   1, 'chunk, bytes:bytes, peer:rank, reduce:flag'],
    ['c10d.allreduce', 1, 'sequence, bytes:bytes, elements, world'],
);
my %kind  = map { $kinds[$_][0] => $_ + 1 } 0 .. $#kinds;
my %phase = (begin => 1, end => 2, instant => 3);

sub text { my ($text) = @_; return pack('V', length $text) . "$text\0" }

sub record {
    my ($type, $payload) = @_;
    return pack('vvV', $type, 0, length $payload) . $payload . "\0" x (-length($payload) % 8);
}

sub chunk {
    my ($kind, $bytes) = @_;
    my $head = pack('VVVV', 0x4b4e4843, $kind, 0, 0) . "\0" x 48;
    die 'more than a chunk' if length($head . $bytes) > 256 * 1024;
    return $head . $bytes;
}

# Lanes: 0 "main" of no rank, 1 "rN main", 2 "rN comm".
sub write_trace {
    my ($file, $is, @events) = @_;
    my $rank = $is->{rank};
    my $records = '';
    for my $i (0 .. $#kinds) {
        my ($name, $stage, $args) = @{ $kinds[$i] };
        $records .= record(1, pack('vCC', $i + 1, $stage, 0) . text($name) . text('function') . text('') . text($args) . text('file.c') . pack('VV', 1, 1) . text(''));
    }
    my @lanes = (['main', -1, 1], ["r$rank main", $rank, 1], ["r$rank comm", $rank, 3]);
    $records .= record(2, pack('Vvvvv', $_, $lanes[$_][1] & 0xffff, 0xffff, $lanes[$_][2], 0) . text($lanes[$_][0])) for 0 .. $#lanes;
    $records .= record(3, pack('V', 1) . text($is->{says} // "rank $rank speaks"));
    my %options = (title => 'a job', executor => 'free', job => $is->{job} // 'one', 'job.rank' => $rank, 'job.size' => $is->{size});
    $options{'job.clock.begin'} = $is->{offset} if defined $is->{offset};
    $records .= record(4, text($_) . text($options{$_})) for sort keys %options;
    $records .= record(5, text('job.lua') . text("local rs = require 'ringside'\n-- a lesson\n"));
    my $bytes = '';
    for (@events) {
        my ($time, $kind, $phase, $lane, $flow, @args) = @$_;
        $bytes .= pack('Q<q<4VVVVs<s<CCv', $time, (map { $args[$_] // 0 } 0 .. 3), $flow, 0, 0, $lane, $lanes[$lane][1], -1, $phase{$phase}, 0, $kind{$kind});
    }
    my $page = "ringside-trace\n\0" . pack('VVVV', 1, 64, 256 * 1024, 2);
    my $body = chunk(2, $records);
    $body .= "\0" x (256 * 1024 - length $body) . chunk(1, $bytes);
    $page .= pack('Q<5', $is->{complete} // 1 ? 4096 + length $body : 0, 0, 1_000_000, 0, $is->{complete} // 1);
    open my $out, '>:raw', $file or die "$file: $!";
    print $out $page . "\0" x (4096 - length $page) . $body;
    close $out or die $!;
}

# Ranks 0 to size - 1 send round a ring; rank N was started N ms after rank 0, and its clock is taken for 3 us earlier than it is.
sub job_traces {
    my ($folder, $size) = @_;
    for my $rank (0 .. $size - 1) {
        my $zero = $rank * 1_000_000;
        my $wrong = $rank * 3_000;
        my ($next, $last) = (($rank + 1) % $size, ($rank - 1) % $size);
        my ($sent, $came) = map { 10_000_000 + $_ - $zero } 20_000 * $rank, 20_000 * $last + 2_000;
        my @events = ([10_000_000 - $zero, 'lesson.say', 'instant', 0, 0, 1],
                      [10_000_000 - $zero, 'c10d.allreduce', 'begin', 2, 0, 0, 64, 16, $size],
                      [$sent, 'comm.hop', 'begin', 2, 0x80000001 + $rank, 0, 64, $next, 1],
                      [$sent + 1_000, 'comm.hop', 'end', 2, 0, 0, 64, $next, 1],
                      [$came - 1_500, 'comm.receive', 'begin', 1, 0, 0, 64, $last, 1],
                      [$came, 'comm.receive', 'end', 1, 0x80000001 + $last, 0, 64, $last, 1],
                      [10_200_000 - $zero, 'c10d.allreduce', 'end', 2, 0, 0, 64, 16, $size]);
        write_trace("$folder/rank$rank.trace", { rank => $rank, size => $size, offset => '1000 ' . ($zero - $wrong) . ' ' . ($rank ? 20_000 : 0) },
                    sort { $a->[0] <=> $b->[0] } @events);
    }
}
1;
