#!/usr/bin/perl
# Lesson 01's weights against the PyTorch of this machine, bit for bit, and its outputs and gradients within 1e-5.
use strict;
use warnings;
use File::Temp qw(tempdir);
use Test::More;

my ($python) = grep { system("$_ -c 'import torch' >/dev/null 2>&1") == 0 } qw(/usr/bin/python3 python3);
plan skip_all => 'PyTorch is not installed here' unless $python;
my $ringside = ($ENV{RINGSIDE_OUT} || 'build/release') . '/ringside';
my $folder   = tempdir(CLEANUP => 1);

sub write_file {
    my ($name, $text) = @_;
    open my $file, '>', "$folder/$name" or die $!;
    print $file $text;
    close $file;
}

write_file('twin.py', <<'END');
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(1)
embedding, rnn = nn.Embedding(1000, 10), nn.Linear(10, 10)
out = rnn(embedding(torch.tensor([1, 2, 3, 4, 5, 6])))
out.sum().backward()
def show(name, t):
    print(name, *["%.9g" % v for v in t.detach().flatten().tolist()])
show("embedding.weight", embedding.weight)
show("rnn.weight", rnn.weight)
show("rnn.bias", rnn.bias)
show("out", out)
show("rnn.weight.grad", rnn.weight.grad)
show("embedding.weight.grad", embedding.weight.grad[:8])
END
write_file('twin.lua', <<'END');
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "twin", devices = 4, seed = 1 }
local embedding, rnn = nn.Embedding(1000, 10), nn.Linear(10, 10)
local net = nn.Sequential { embedding, rnn }
net:to("device:0")
local out = nn.DataParallel(net)(rs.tensor { 1, 2, 3, 4, 5, 6 })
out:sum():backward()
local function show(name, t)
  local words = { name }
  for _, value in ipairs(t:detach():reshape(-1):tolist()) do words[#words + 1] = string.format("%.9g", value) end
  print(table.concat(words, " "))
end
show("embedding.weight", embedding.weight)
show("rnn.weight", rnn.weight)
show("rnn.bias", rnn.bias)
show("out", out)
show("rnn.weight.grad", rnn.weight.grad)
show("embedding.weight.grad", embedding.weight.grad:narrow(0, 0, 8))
END

sub values_of {
    my ($command) = @_;
    my %values;
    for my $line (`$command`) {
        my ($name, @numbers) = split ' ', $line;
        $values{$name} = \@numbers if @numbers;
    }
    return \%values;
}
my $theirs = values_of("$python '$folder/twin.py'");
my $ours   = values_of("'$ringside' run '$folder/twin.lua'");

is("@{ $ours->{$_} || [] }", "@{ $theirs->{$_} }", "$_ equals PyTorch's to the bit")
    for 'embedding.weight', 'rnn.weight', 'rnn.bias';
for my $name ('out', 'rnn.weight.grad', 'embedding.weight.grad') {
    my ($mine, $other) = ($ours->{$name} || [], $theirs->{$name});
    my $far = @$mine == @$other ? 0 : 1;
    for my $i (0 .. $#$other) { $far = 1 if @$mine == @$other && abs($mine->[$i] - $other->[$i]) > 1e-5 + 1e-4 * abs $other->[$i] }
    ok(!$far, "$name is PyTorch's within 1e-5");
}
done_testing();
