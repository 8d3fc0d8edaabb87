#!/usr/bin/perl
# What scripts/golden does not know fails, with a word that names it: nothing of a golden file is passed over.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Basename qw(dirname);
use File::Temp qw(tempdir);
use Test::More;

my $here   = dirname(abs_path($0));
my $out    = $ENV{RINGSIDE_OUT} || 'build/release';
my $folder = tempdir(CLEANUP => 1);

my $x        = '{"dtype":"f32","shape":[2],"data":[1,2]}';
my $op       = "\"name\":\"n\",\"op\":\"neg\",\"attrs\":{},\"inputs\":{\"x\":$x},\"outputs\":[{\"dtype\":\"f32\",\"shape\":[2],\"data\":[-1,-2]}]";
my $buckets  = '"numel":[4,4],"limits":[16],"sparse":[],"indices":[],"buckets":[[0,1]],"bucket_limits":[16]';
my $parts    = '"buckets":[[0,1]],"bucket_limits":[16],"sparse":[],"indices":[]';
my $linear   = '"module":"Linear","attrs":{"in_features":2,"out_features":1,"bias":false}';
my $in_out   = "\"inputs\":{\"x\":$x},\"outputs\":[{\"dtype\":\"f32\",\"shape\":[1],\"data\":[3]}]";
my $weight   = '{"dtype":"f32","shape":[1,2],"data":[1,1]}';
my $adam     = "\"name\":\"n\",\"optimizer\":\"AdamW\",\"params\":[$x],\"steps\":[],\"attrs\":{\"lr\":0.1";
my $drawn    = '"seed":0,"n":1,"out":{"dtype":"f32","shape":[1],"data":[0.4962566]}';
my $sampler  = '"n":2,"replicas":1,"drop_last":false,"indices":[[0,1]]';

# Section, case, what the failure says ('' none: the case is right).
my @cases = (
    [ 'cases',        "{$op}",                                         '' ],
    [ 'cases',        "{$op,\"axis\":0}",                              "the field 'axis' of the case" ],
    [ 'cases',        $op =~ s/"neg"/"negate_all"/r =~ s/(.*)/{$1}/r,  'not understood' ],
    [ 'cases',        $op =~ s/"f32"/"f8"/r =~ s/(.*)/{$1}/r,          "the dtype 'f8'" ],
    [ 'cases',        $op =~ s/"data"/"memory_format":1,"data"/r =~ s/(.*)/{$1}/r, "the field 'memory_format' of a tensor" ],
    [ 'assignment',   "{\"name\":\"n\",\"dtype\":[\"f32\",\"f32\"],$buckets}", 'buckets: got 2' ],
    [ 'assignment',   "{\"name\":\"n\",\"dtype\":[\"f16\",\"f16\"],$buckets}", '' ],
    [ 'assignment',   "{\"name\":\"n\",\"dtype\":[\"bf16\",\"bf16\"],$buckets}", '' ],
    [ 'assignment',   "{\"name\":\"n\",\"dtype\":[\"c64\",\"f16\"],$buckets}", "the dtype 'c64'" ],
    [ 'assignment',   "{\"name\":\"n\",\"dtype\":[\"f16\",\"f16\"],\"device\":[0,1],$buckets}", "the field 'device'" ],
    [ 'assignment',   "{\"name\":\"n\",\"numel\":[8,8],\"limits\":[16],\"dtype\":[\"u8\",\"u8\"],$parts}", '' ],
    [ 'cases',        "{\"name\":\"n\",$linear,$in_out,\"params\":{\"weight\":$weight}}", '' ],
    [ 'cases',        "{\"name\":\"n\",$linear,$in_out,\"params\":{\"weight\":$weight,\"scale\":$x}}", "the field 'scale'" ],
    [ 'cases',        "{\"name\":\"n\",$linear,$in_out,\"params\":{\"weight\":$weight},\"hooks\":[]}", "the field 'hooks'" ],
    [ 'cases',        "{\"name\":\"n\",$linear,$in_out,\"params\":{\"weight\":$weight},\"input_grads\":{\"y\":$x}}",
      'the input y' ],
    [ 'cases',        "{$adam,\"decoupled_weight_decay\":true}}",      '' ],
    [ 'cases',        "{$adam,\"decoupled_weight_decay\":false}}",     "decoupled_weight_decay" ],
    [ 'cases',        "{$adam,\"momentum_decay\":0.1}}",               "the option 'momentum_decay'" ],
    [ 'draws',        "{\"op\":\"rand\",$drawn}",                      '' ],
    [ 'draws',        "{\"op\":\"rand\",\"args\":[1],$drawn}",         'the arguments of rand' ],
    [ 'draws',        "{\"op\":\"rand\",\"generator\":1,$drawn}",      "the field 'generator'" ],
    [ 'draws',        "{\"op\":\"dice_\",$drawn}",                     "the op 'dice_'" ],
    [ 'not_shuffled', "{$sampler}",                                    '' ],
    [ 'not_shuffled', "{$sampler,\"len\":3}",                          'len: got 2' ],
    [ 'not_shuffled', "{$sampler,\"weights\":[]}",                     "the field 'weights'" ],
    [ 'table',        '[5,2,[3,2]]',                                   '' ],
    [ 'table',        '[5,2,[3,1]]',                                   'sizes: got' ],
    [ 'table',        '[5,2,[3,2],1]',                                 'not understood' ],
    [ 'cases',        '{"name":"n","story":"x"}',                      'not understood' ],
);

sub golden {
    my ($text) = @_;
    open my $file, '>', "$folder/rng-strange.json" or die $!;
    print $file $text;
    close $file or die $!;
    return scalar `RINGSIDE='$out/ringside' '$here/../../scripts/golden' --executor stepped '$folder' 2>&1`;
}

sub fails_with {
    my ($output, $word) = @_;
    return $output =~ /^ok 1 /m && $output !~ /^not ok/m if $word eq '';
    return $output =~ /^not ok 1 /m && $output =~ /^# .*\Q$word\E/m;
}

my $header = '"header":{"format":"ringside-golden-1"}';
for (@cases) {
    my ($section, $case, $word) = @$_;
    my $output = golden("{$header,\"$section\":[$case]}");
    my $short  = length $case > 90 ? substr($case, 0, 40) . ' ... ' . substr($case, -45) : $case;
    ok(fails_with($output, $word), "$section $short: " . ($word || 'passes')) or diag($output);
}
ok(fails_with(golden('{"header":{"format":"ringside-golden-2"},"table":[[5,2,[3,2]]]}'), 'no golden file of the format'),
    'a file of another format is refused');
ok(fails_with(golden("{$header,\"heaps\":[[5,2,[3,2]]]}"), 'not understood'), 'so is a section that nobody knows');
done_testing();
