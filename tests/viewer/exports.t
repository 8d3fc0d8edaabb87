#!/usr/bin/env perl
# A frame as a picture and as a page; themes. Nothing of a clock, a host or a path is in them.
use strict;
use warnings;
use utf8;
use Test::More;
use Encode qw(decode);
use File::Temp qw(tempdir);
use FindBin;
chdir "$FindBin::Bin/../.." or die "no root: $!";

my $out = $ENV{RINGSIDE_OUT} || 'build/release';
my ($ringside, $viewer) = ("$out/ringside", "$out/trace_viewer");
my $folder = tempdir(CLEANUP => 1);
my $lesson = "$folder/marked.lua";
open my $file, '>', $lesson or die $!;
print $file <<'LUA';
local rs = require "ringside"
rs.lesson { title = "a < b & \"c\"", devices = 2, hardware = "classroom" }
rs.say "<script>alert(1)</script>"
local x = rs.ones({ 2, 2 }, { requires_grad = true })
x:matmul(x):sum():backward()
LUA
close $file or die $!;
my $trace = "$folder/marked.trace";
is(system("$ringside run --quiet --trace $trace $lesson >/dev/null 2>&1"), 0, 'a lesson full of angle brackets makes a trace');
sub frame { decode('UTF-8', scalar `$viewer $trace @_`) }

my $text = frame('--print');
for my $format ('svg', 'html') {
    my $frame = frame("--print=$format");
    unlike($frame, qr/<script/, "$format: what a lesson says is text, no markup");
    like($frame, qr/a &lt; b &amp; &quot;c&quot;/, "$format: and is spelled by the format's own rules");
    unlike($frame, qr/\Q$folder\E|\x1b/, "$format: no path and no escape is in it");
    is(frame("--print=$format"), $frame, "$format: twice the same");
    like($frame, qr/prefers-color-scheme|color-scheme/, "$format: light or dark as the reader prefers");
    SKIP: {
        skip 'no xmllint here', 1 if $format eq 'html' || system('command -v xmllint >/dev/null 2>&1') != 0;
        open my $svg, '>:utf8', "$folder/frame.svg" or die $!;
        print $svg $frame;
        close $svg or die $!;
        is(system("xmllint --noout $folder/frame.svg"), 0, 'the picture is well-formed XML');
    }
}
my $html = frame('--print=html');
$html =~ s/.*<pre>\n//s;
$html =~ s/<\/pre>.*//s;
$html =~ s/<[^>]*>//g;
$html =~ s/&lt;/</g, $html =~ s/&gt;/>/g, $html =~ s/&quot;/"/g, $html =~ s/&amp;/&/g;
my $plain = join '', map { s/ +$//r . "\n" } split /\n/, frame('--print=ansi') =~ s/\x1b\[[0-9;]*m//gr;
is(join('', map { s/ +$//r . "\n" } split /\n/, $html), $plain, 'the page has the cells of the frame in colour');
like(frame('--print=svg'), qr/<title>backward: /, 'who points at a span of the picture is told what it is');

# ---- themes ----
my $dark = frame('--print=ansi');
is(frame('--print=ansi --theme dark'), $dark, 'dark is the usual theme');
isnt(frame("--print=ansi --theme $_"), $dark, "$_ is another one") for 'light', 'high-contrast', 'colour-blind', 'none';
unlike(frame('--print=ansi --theme none'), qr/\x1b\[[0-9;]*[34]8;5/, 'none has no colour');
like(frame('--print=ansi --theme high-contrast'), qr/[FBK▐▌]/, 'high contrast has letters for fills');
my $wrong = `$viewer $trace --print --theme pink 2>&1`;
is($? >> 8, 2, 'an unknown theme is refused');
like($wrong, qr/\Atrace_viewer: --theme pink: dark, light, high-contrast, colour-blind or none is meant\n\z/, 'and the others are named');

# ---- files from the screen ----
my $keys = sub { frame("--print --size 100x30 --keys '$_[0]'") };
like($keys->(":frame $folder/a.svg 60x20<Enter>"), qr/a\.svg holds this frame, 60x20/, ':frame FILE WxH keeps a frame of that size');
like(do { local (@ARGV, $/) = "$folder/a.svg"; <> }, qr/\A<svg .*viewBox="0 0 480 340"/, 'as a picture by its name');
like($keys->(":frame $folder/a.svg<Enter>"), qr/a\.svg: File exists/, 'a file that is there is left alone');
like($keys->(":frame $folder/none/a.txt<Enter>"), qr/none\/a\.txt: No such file or directory/, 'no folder: said');
like($keys->(":frame<Enter>"), qr/frame needs FILE \[WxH\]/, 'no name: said how');
like($keys->("nn:goto 30<Enter>sS:script $folder/done<Enter>"), qr/holds what was done/, ':script keeps what was done');
is(do { local (@ARGV, $/) = "$folder/done"; <> }, "next\nnext\ngoto 30\nstep\nback\n", 'as commands, a line each');
is(frame("--print --size 100x30 --at 0 --commands $folder/done"), frame("--print --size 100x30 --at 0 --keys 'nn:goto 30<Enter>sS'"),
    '--commands does it again');
my $missing = `$viewer $trace --print --commands $folder/nothing 2>&1`;
is($? >> 8, 2, 'commands that are not there end it');
like($missing, qr/nothing: No such file/, 'and it is said');
done_testing;
