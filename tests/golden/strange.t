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

# One step of a model on one device: 3 against 1.
my $net    = '"models":{"net":{"module":"Linear(in_features=2, out_features=1, bias=False)","params":{"weight":' . $weight
    . '},"buffers":{}}}';
my $one    = '{"dtype":"f32","shape":[1,1],"data":[1]}';
my $in     = '{"x":{"dtype":"f32","shape":[1,2],"data":[1,2]},"target":' . $one . '}';
my $came   = '"output":{"dtype":"f32","shape":[1,1],"data":[3]},"loss":{"dtype":"f32","shape":[],"data":[4]},'
    . '"param_grads":{"weight":{"dtype":"f32","shape":[1,2],"data":[4,8]}}';
my $step   = "\"name\":\"n\",\"model\":\"net\",\"devices\":1,\"batch\":1,\"loss_kind\":\"mse\",\"replicas_used\":1,\"chunk_sizes\":[1],"
    . "\"inputs\":$in,$came,\"calls_forward\":[\"scatter sizes [1] dim 0\",\"module forward\"],\"calls_backward\":[]";
my $cut    = '"name":"n","devices":2,"dim":0,"kwargs":{"dict":[]},"replicas":2,"out_kwargs":[{"dict":[]},{"dict":[]}]';
my $halves = '"out_args":[{"tuple":[{"tensor":[1],"first":5}]},{"tuple":[{"tensor":[1],"first":6}]}]';
my $joined = '"name":"n","dim":0,"outputs":[{"list":[{"tensor":[1],"first":2}]},{"list":[{"tensor":[2],"first":3}]}],"warnings":0';
my $text   = '"name":"n","module":"MultiheadAttention((out_proj): NonDynamicallyQuantizableLinear(in_features=4, out_features=4, '
    . 'bias=False))","buffers":{},"parameters":{"in_proj_weight":[12,4],"out_proj.weight":[4,4]}';

# Two ranks that add up 1 and 2.
my $one_each = '[{"t":"f32","s":[1],"d":[1]},{"t":"f32","s":[1],"d":[2]}]';
my $summed   = '"all_reduce/SUM/f32/in":' . $one_each . ',"all_reduce/SUM/f32/out":{"every_rank":{"t":"f32","s":[1],"d":[3]}}';
my $world    = '"world":2,"results":{' . $summed;

# A run of DDP, which is told by its order, one step of training, an average, and an error.
sub one { my ($data, $shape) = @_; return '{"t":"f32","s":[' . ($shape // 1) . "],\"d\":[$data]}" }
my $both  = '{"events":["g1","g0"],"buckets":[]}';
my $ran   = '"model":"deep","world":1,"cap_bytes":600,"first_bucket_bytes":200,"find_unused_parameters":false,"static_graph":false,'
    . '"gradient_as_bucket_view":false,"hook":false,"param_numel":[2,1],"param_dtype":["f32","f32"],'
    . "\"iterations\":[$both,$both,$both],\"log_before\":{\"bucket_sizes\":\"12\",\"bucket_cap_bytes\":600},"
    . '"log_after":{"has_rebuilt_buckets":1},"same_on_every_rank":true';
my $views = '"find_unused_parameters":false,"zero_grad":"set_to_none","iterations":[],"detach_in_place":"RuntimeError",'
    . '"param_shapes":[[1,2],[1]],"cap_bytes":200,"first_bucket_bytes":64';
my $train = '"name":"n","model":["Linear",1,1],"kind":"dense","world":1,"batch":1,"lr":0.5,"momentum":0,"init_rank0":{"weight":'
    . one(1, '1,1') . ',"bias":' . one(0) . '},"inputs":[[' . one(2, '1,1') . ']],"targets":[[' . one(1, '1,1') . ']],'
    . '"grads_and_params_same_on_every_rank":true,"steps":[{"losses":[[1]],"grads":{"weight":' . one(4, '1,1') . ',"bias":'
    . one(2) . '},"params":{"weight":' . one(-1, '1,1') . ',"bias":' . one(-1) . '}}]';
my $average = '"world":1,"modes":[{"mode":"default","iterations":[{"local":[' . one(3) . '],"reduced":' . one(3) . '}]}]';
my $misuse  = '"case":"send to self","world":1,"by_rank":[{"type":"ValueError","mentions":[],"ranks":[],"numbers":[],"names":[]}]';

# Section, case, what the failure says ('' none: the case is right), other sections.
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
    [ 'cases',        "{$step}",                                       '', $net ],
    [ 'cases',        "{$step,\"hooks\":[]}",                          "the field 'hooks'", $net ],
    [ 'cases',        $step =~ s/"mse"/"hinge"/r =~ s/(.*)/{$1}/r,     "the loss 'hinge'", $net ],
    [ 'cases',        $step =~ s/"net"/"nut"/r =~ s/(.*)/{$1}/r,       "the model 'nut'", $net ],
    [ 'cases',        $step =~ s/"x":/"y":1,"x":/r =~ s/(.*)/{$1}/r,   "the field 'y' of inputs", $net ],
    [ 'cases',        $step =~ s/module forward/a forward/r =~ s/(.*)/{$1}/r, 'forwards: got', $net ],
    [ 'cases',        $step =~ s/_backward":\[\]/_backward":{"first":"x","last":1}/r =~ s/(.*)/{$1}/r,
      "the field 'last' of calls_backward", $net ],
    [ 'cases',        "{$step,\"replica_buffers_after\":[{\"mean\":$x}]}", 'mean', $net ],
    [ 'cases',        "{$step}", "the field 'seed' of the model",      $net =~ s/"module"/"seed":1,"module"/r ],
    [ 'cases',        "{$step}", "the class 'Linearly'",               $net =~ s/Linear/Linearly/r ],
    [ 'cases',        "{$step}", "rank",                               $net =~ s/bias=/rank=1, bias=/r ],
    [ 'cases',        "{$step}", "was read as",                        $net =~ s/bias=False/bias=False, bias=False/r ],
    [ 'cases',        "{$step}", "no numbers for the parameter bias",  $net =~ s/bias=False/bias=True/r ],
    [ 'cases',        "{$step}", "the attribute 'num_heads'",          $net =~ s/"params"/"attrs":{"num_heads":2},"params"/r ],
    [ 'cases',        "{$cut,\"args\":{\"tuple\":[{\"tensor\":[2],\"first\":5}]},$halves}", '' ],
    [ 'cases',        "{$cut,\"args\":{\"tuple\":[{\"tensor\":[2],\"first\":4}]},$halves}", 'first: got 4' ],
    [ 'cases',        "{$cut,\"args\":{\"tuple\":[{\"tensor\":[2],\"first\":5}]},$halves,\"streams\":1}", "the field 'streams'" ],
    [ 'cases',        "{$cut,\"args\":{\"tuple\":[{\"set\":[]}]},$halves}", "the structure 'set'" ],
    [ 'cases',        "{$cut,\"args\":{\"tuple\":[{\"tensor\":[2],\"dtype\":\"f64\"}]},$halves}", 'is not understood' ],
    [ 'cases',        "{$cut,\"args\":{\"tuple\":[{\"dict\":[[1,{\"value\":1}]]}]},$halves}", "the key '1'" ],
    [ 'cases',        "{$joined,\"result\":{\"list\":[{\"tensor\":[3],\"first\":2}]}}", '' ],
    [ 'cases',        "{$joined,\"result\":{\"tuple\":[{\"tensor\":[3],\"first\":2}]}}", 'of another type' ],
    [ 'cases',        "{$joined,\"result\":{\"list\":[{\"tensor\":[3],\"first\":2},{\"value\":null}]}}", 'items: got 1' ],
    [ 'cases',        "{$joined,\"raises\":[\"ValueError\",\"x\"]}",   'nothing was raised' ],
    [ 'cases',        '{"name":"limit 8","sizes_in_f32_elements":[1,1,1],"groups":[[0,1],[2]]}', '' ],
    [ 'cases',        '{"name":"limit 8","sizes_in_f32_elements":[1,1,1],"groups":[[0],[1,2]]}', 'groups of the sum: got' ],
    [ 'cases',        '{"name":"no bound","sizes_in_f32_elements":[1],"groups":[[0]]}', 'without a limit' ],
    [ 'cases',        '{"name":"limit 8","sizes_in_f32_elements":[1],"chunks":[[0]],"groups":[[0]]}', "the field 'chunks'" ],
    [ 'worlds',       "{$world}}",                                     '' ],
    [ 'worlds',       '{' . $world =~ s/"d":\[3\]/"d":[4]/r . '}}',     'element 0: got 3' ],
    [ 'worlds',       '{' . $world =~ s/SUM/NORM/gr . '}}',             "'NORM'" ],
    [ 'worlds',       '{' . $world =~ s/all_reduce/all_sum/gr . '}}',   "'all_sum/SUM/f32' is not understood" ],
    [ 'worlds',       '{' . $world =~ s/every_rank/each_rank/r . '}}',  'rank 0' ],
    [ 'worlds',       '{' . $world =~ s/SUM.f32.out/SUM\/f32\/end/r . '}}', 'nothing is expected' ],
    [ 'runs',         "{$ran}",                                        '' ],
    [ 'runs',         "{$ran,\"lazy\":true}",                          "the field 'lazy'" ],
    [ 'runs',         $ran =~ s/"deep"/"deeper"/r =~ s/(.*)/{$1}/r,    "the model 'deeper'" ],
    [ 'runs',         $ran =~ s/"deep"/"odd"/r =~ s/(.*)/{$1}/r,       "the model 'Odd'" ],
    [ 'runs',         $ran =~ s/"deep"/"late"/r =~ s/(.*)/{$1}/r,      "is not understood" ],
    [ 'runs',         $ran =~ s/"g1","g0"/"g0","g1"/r =~ s/(.*)/{$1}/r, 'iteration 0 events: got' ],
    [ 'runs',         $ran =~ s/"events"/"hooks":1,"events"/r =~ s/(.*)/{$1}/r, "the field 'hooks' of an iteration" ],
    [ 'runs',         $ran =~ s/"buckets":\[\]/"buckets":[{"index":0}]/r =~ s/(.*)/{$1}/r, 'buckets: got 0' ],
    [ 'runs',         $ran =~ s/"12"/"16"/r =~ s/(.*)/{$1}/r,          'bucket_sizes: got 12' ],
    [ 'runs',         $ran =~ s/"bucket_sizes"/"bucket_count":1,"bucket_sizes"/r =~ s/(.*)/{$1}/r, "the field 'bucket_count'" ],
    [ 'runs',         $ran =~ s/\[2,1\]/[1,2]/r =~ s/(.*)/{$1}/r,      'param_numel: got' ],
    [ 'runs',         $views =~ s/"set_to_none"/"late"/r =~ s/(.*)/{$1}/r, "the zero_grad 'late'" ],
    [ 'runs',         "{$views,\"hook\":true}",                        "the field 'hook'" ],
    [ 'scenarios',    "{$train}",                                      '' ],
    [ 'scenarios',    "{$train,\"scheduler\":1}",                      "the field 'scheduler'" ],
    [ 'scenarios',    "{$train,\"odd\":\"bbff\"}",                     "the odd 'bbff'" ],
    [ 'scenarios',    "{$train,\"zero\":\"late\"}",                    "the zero 'late'" ],
    [ 'scenarios',    "{$train,\"hook\":\"zip\"}",                     "the hook 'zip'" ],
    [ 'scenarios',    "{$train,\"kw\":{\"bucket_cap_gb\":1}}",         "bucket_cap_gb" ],
    [ 'scenarios',    $train =~ s/"Linear"/"Line"/r =~ s/(.*)/{$1}/r,  "the model 'Line'" ],
    [ 'scenarios',    $train =~ s/"dense"/"thin"/r =~ s/(.*)/{$1}/r,   "the kind 'thin'" ],
    [ 'scenarios',    $train =~ s/\[\[1\]\]/[[2]]/r =~ s/(.*)/{$1}/r,  'loss: element 0: got 1' ],
    [ 'scenarios',    $train =~ s/"d":\[4\]/"d":[5]/r =~ s/(.*)/{$1}/r, 'gradient weight: element 0: got 4' ],
    [ 'scenarios',    $train =~ s/"losses"/"norms":[],"losses"/r =~ s/(.*)/{$1}/r, "the field 'norms' of a step" ],
    [ 'scenarios',    $train =~ s/"losses"/"sparse_layout":["bias"],"losses"/r =~ s/(.*)/{$1}/r, 'is sparse: bias' ],
    [ 'division',     "{$average}",                                    '' ],
    [ 'division',     $average =~ s/default/fast/r =~ s/(.*)/{$1}/r,   "the mode 'fast'" ],
    [ 'division',     $average =~ s/"local"/"sum":1,"local"/r =~ s/(.*)/{$1}/r, "the field 'sum' of an iteration" ],
    [ 'division',     $average =~ s/(.*)\[3\]/$1\[3.0000002]/r =~ s/(.*)/{$1}/r, 'element 0: got 3' ],
    [ 'cases',        "{$misuse}",                                     '' ],
    [ 'cases',        "{$misuse,\"level\":1}",                         "the field 'level'" ],
    [ 'cases',        $misuse =~ s/self/oneself/r =~ s/(.*)/{$1}/r,    "the case 'send to oneself'" ],
    [ 'cases',        $misuse =~ s/Value/Runtime/r =~ s/(.*)/{$1}/r,   'got ValueError, expected RuntimeError' ],
    [ 'cases',        $misuse =~ s/"names":\[\]/"names":["fc.bias"]/r =~ s/(.*)/{$1}/r, 'no fc.bias in' ],
    [ 'cases',        $misuse =~ s/"ranks":\[\]/"ranks":[77]/r =~ s/(.*)/{$1}/r, 'no 77 in' ],
    [ 'cases',        $misuse =~ s/\{.*\}/"sleeps"/r =~ s/(.*)/{$1}/r, "'sleeps' is not understood" ],
    [ 'cases',        $misuse =~ s/\{.*\}/"hangs"/r =~ s/(.*)/{$1}/r,  'where PyTorch hangs' ],
    [ 'cases',        $misuse =~ s/\{.*\}/{"returns":null}/r =~ s/(.*)/{$1}/r, 'rank 0: ' ],
    [ 'cases',        $misuse =~ s/"mentions":\[\]/"said":[]/r =~ s/(.*)/{$1}/r, "the field 'said'" ],
    [ 'cases',        $misuse =~ s/"mentions".*\}/"transport":"lost"}/r =~ s/(.*)/{$1}/r, "the transport 'lost'" ],
    [ 'printed',      "{$text,\"attrs\":{\"num_heads\":2}}",             '' ],
    [ 'printed',      "{$text}",                                       'does not print its num_heads' ],
    [ 'printed',      "{$text,\"attrs\":{\"num_heads\":2,\"heads\":2}}", "the attribute 'heads'" ],
    [ 'printed',      "{$text,\"attrs\":{\"num_heads\":2,\"out_proj\":{\"bias\":true}}}", "the attribute" ],
);

sub golden {
    my ($text, $name) = @_;
    my $path = "$folder/" . ($name || 'rng-strange.json');
    open my $file, '>', $path or die $!;
    print $file $text;
    close $file or die $!;
    my $output = `RINGSIDE='$out/ringside' '$here/../../scripts/golden' --executor stepped '$folder' 2>&1`;
    unlink $path;
    return $output;
}

sub fails_with {
    my ($output, $word) = @_;
    return $output =~ /^ok 1 /m && $output !~ /^not ok/m if $word eq '';
    return $output =~ /^not ok 1 /m && $output =~ /^# .*\Q$word\E/m;
}

my $built  = '"deep":"Deep 2 1, x [1, 2]","odd":"Odd 2 1, x [1, 2]","late":"Order 1 2, used late 0 1, x [1]"';
my $header = "\"header\":{\"format\":\"ringside-golden-1\",\"built\":{$built}}";
for (@cases) {
    my ($section, $case, $word, $others) = @$_;
    my $output = golden("{$header,\"$section\":[$case]" . ($others ? ",$others}" : '}'));
    my $short  = length $case > 90 ? substr($case, 0, 40) . ' ... ' . substr($case, -45) : $case;
    ok(fails_with($output, $word), "$section $short: " . ($word || 'passes')) or diag($output);
}
ok(fails_with(golden('{"header":{"format":"ringside-golden-2"},"table":[[5,2,[3,2]]]}'), 'no golden file of the format'),
    'a file of another format is refused');
ok(fails_with(golden("{$header,\"heaps\":[[5,2,[3,2]]]}"), 'not understood'), 'so is a section that nobody knows');

# What Lua cannot have is told and not counted; a hook that nobody knows is no such thing.
my $annotated = '"case":"comm hook wrong annotation","world":1,"by_rank":[{"type":"ValueError","mentions":[],"ranks":[],"numbers":[],"names":[]}]';
my $skipped   = golden("{$header,\"cases\":[{$annotated}],\"division\":[{$average}]}");
like($skipped, qr/^# SKIP rng-strange\.json: comm hook wrong annotation: .*annotations/m, 'what Lua cannot have is told as skipped');
is(() = $skipped =~ /^(?:not )?ok/mg, 1, 'and is no check');
ok(fails_with(golden("{$header,\"scenarios\":[{$train,\"hook\":\"fancy\"}]}"), 'fancy'), 'a hook that nobody knows fails its case');

# A program in words is found by its name; what its twin does not answer, or is not given, fails.
my $program = '"name":"parallel_apply grad mode, caller grad True, 1 module(s)","events":["grad enabled: True, main thread: True"]';
my $apply = '"name":"parallel_apply: replica 2 fails","replicas_that_ran":[0,1,2],"raises":"ValueError","message_start":'
    . '"Caught ValueError in replica';
my @programs = (
    [ "{$program}",                                                     '' ],
    [ $program =~ s/caller/the caller/r =~ s/(.*)/{$1}/r,               'not understood' ],
    [ $program =~ s/: True"/: False"/r =~ s/(.*)/{$1}/r,                'events: got' ],
    [ "{$program,\"program\":\"x\"}",                                   'not understood' ],
    [ "{$program,\"devices\":2}",                                       "the field 'devices'" ],
    [ "{$program,\"outputs\":[[1]]}",                                   'outputs: there is none' ],
    [ "{$program,\"raises\":\"ValueError\",\"message_start\":\"x\"}",   'nothing was raised' ],
    [ "{$apply" . ' 2 on device 2."}',                                  '' ],
    [ "{$apply" . ' 1 on device 1."}',                                  'without 1' ],
    [ '{' . $apply =~ s/:"ValueError/:"TypeError/r . ' 2 on device 2."}', 'kind: got' ],
    [ '{' . $apply =~ s/0,1,2/0,2/r . ' 2 on device 2."}',              'replicas_that_ran: got' ],
);
for (@programs) {
    my ($case, $word) = @$_;
    my $output = golden("{$header,\"cases\":[$case]}", 'dp_behaviour-programs.json');
    ok(fails_with($output, $word), 'a program ' . substr($case, 0, 90) . ': ' . ($word || 'passes')) or diag($output);
}
done_testing();
