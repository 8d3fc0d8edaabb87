#!/usr/bin/perl
# The course: each lesson's checks hold, and the order in which workers and ranks take their turns changes no number. Its
# exercises are exercises.t's.
use strict;
use warnings;
use lib 'tests/cli';
use Ringside;
use Test::More;

# Every check of the curriculum, by the name it has in the lesson. A number: of how many lines it is the beginning.
my %checks = (
    '01-six-rows' => [
        'a module that is not on device 0 is refused', 'three chunks leave', 'the chunks have 2, 2 and 2 rows',
        'each chunk moves 16 bytes', 'nothing happens on device 3', 'the model has 10110 parameters',
        'they are 40440 bytes', 'replicate copies 80880 bytes to devices 1 and 2',
        'and none to device 0, which keeps its own', 'gather brings 160 bytes to device 0',
        'the output is 6 rows of 10', 'the output is on device 0', 'one device alone computes the same',
        'each element of rnn.bias.grad is 6', 'exactly rows 1 to 6 of the embedding have a gradient',
        "the first weights are PyTorch's",
    ],
    '02-views-and-storage' => [
        'from one row to the next it is 6 elements, within a row 1', 'chunk(3, 0) makes two pieces',
        'of 2 rows each', 'their offsets are 0 and 12', "their strides are x's: 6 and 1",
        "two memory.alias, both of x's storage", 'and no memory.alloc: a view costs no bytes',
        'after the write x[2, 0] is -1', 'the write is counted: x and its views share a version',
        "chunk(2, 1)'s second piece is 4 rows of 3", 'it begins at element 3', 'from row to row it is still 6 elements',
        'so its rows have gaps between them: not contiguous', 't() only swaps the strides: 1 and 6',
        "all of them read x's storage", 'three more memory.alias, still no memory.alloc',
        'to makes one memory.alloc, on device 1', 'of 48 bytes, the piece and not the whole storage',
        'it has a storage of its own', 'a write there leaves x as it was', 'to the device where it is, to copies nothing',
    ],
    '03-autograd-graph' => [
        'the graph has 5 nodes', 'two products, one sum, two leaves', 'both uses of w lead to one node',
        'and that node knows its w', 'w.grad is 7', 'b.grad is 1', 'backward ran the 5 nodes, each once',
        'b was ready first: w had to wait for its second part', 'its graph has 15 nodes',
        '6 of them are AccumulateGrad: one a parameter',
        '3 AddmmBackward0, 3 TBackward0, 2 ReluBackward0, 1 SumBackward0',
        'the gradients come last layer first, the bias before the weight', 'backward ran the 15 nodes',
        'when 4.bias is ready, twelve nodes are still to come',
    ],
    '04-scatter' => [
        '10 rows on 4 devices are 3, 3, 3 and 1', 'the chunks have 72, 72, 72 and 24 bytes',
        'they begin at elements 0, 18, 36 and 54', 'chunk r is for device r', "device 0's chunk is a view of x",
        "all but device 0's view move: 168 bytes", '5 rows on 4 devices are 2, 2, 1', '9 rows on 4 devices are 3, 3, 3',
        '17 rows on 8 devices are 3, 3, 3, 3, 3, 2', '100 rows on 8 devices are 13, 13, 13, 13, 13, 13, 13, 9',
        "each replica's mask is as long as its rows", '2 objects are shared',
        "'tag' and 7 arrive everywhere as they were", "x.grad has x's shape, [10, 6]", "and lies on x's device",
        "each row's gradient came from the device that had the row",
    ],
    '05-replicate' => [
        'three devices: count is still 0', 'three devices: steps is 3', 'three forwards, three dp.replicate',
        'each has two broadcasts: 2 parameters, then 1 buffer',
        'each forward copies 2 times 24 bytes of parameters, 2 times 4 of the buffer',
        "device 0's are aliases, the others are copies", 'replica 1 lists no parameters', 'its weight is no leaf',
        'its grad_fn is BroadcastBackward', "replica 0 reads the model's own storage, replica 1 another",
        'replica 1 computes with the weight that was changed between forwards',
        'each forward has a weight of its own there', 'one device: count is 3, steps is 3',
        'one device: no dp.replicate, and the model lists its 2 parameters',
    ],
    '06-apply-and-gather' => [
        'the output is 4, 10, 16 and 20', 'gather puts it on device 0',
        'gather unsqueezed 4 single numbers, and warned', 'four workers start, four are joined',
        'each stores its result under one lock', 'backward refuses a vector',
        'replica 1 fails: 4 joins come before the error is raised', 'the three others ended well',
        "the error's kind stays ValueError", 'its message names replica 1 on device 1',
        'replica 3 was the first to fail', "and replica 1's error was raised",
    ],
    '07-dp-backward' => [
        'the chunks have 3, 3, 3 and 1 rows', 'the gradient of the output goes back in the same pieces',
        'four devices work in the backward', 'the parts are 0.6, 1.5, 2.4 and 1.0', '(a) w.grad is 5.5, their sum',
        'one device alone gives 5.5, too', "one reduction, of four devices' gradients, on device 0",
        'one gradient is kept, on device 0', 'device 1 holds no .grad', 'the optimizer steps once, for one parameter',
        'and moves w by lr times 5.5', '(b) four losses: 4, 10, 16 and 20',
        'the parts are a quarter of 2, 5, 8 and 10', '(b) w.grad is 6.25',
    ],
    '08-embeddings' => [
        (map {
            my $rank = $_;
            ((map { "dense, rank $rank: $_" } 'one bucket of 40000 bytes', 'and so many are all-reduced', 'rows 1 to 6 are 0.5',
                'all other rows are 0'),
                (map { "sparse, rank $rank: $_" } '6 rows, of the indices 1 to 6', 'their values are 0.5',
                'it sends 24 bytes of indices and 120 of values', 'no dense tensor is all-reduced'))
        } 0, 1),
        "lesson 01's model, dense: one bucket of 40440 bytes", 'sparse: two buckets, and the table alone in one of them',
        '{3, 3, 5}: 3 rows, 2 after coalesce', 'row 3 is 2, row 5 is 1',
    ],
    '09-dp-costs' => [
        'four devices and one compute the same', 'parallel_apply lasts 20020 us',
        "Lua's lock is held for 20000 us of them", 'never by two at a time',
        'a thread works 5000 us and waits three times as long', 'each device runs 100 kernels',
        'they take 2000 us on each: it is idle nine tenths of the time', 'one device is through after 8050 us',
        'four ranks take 5020 us each', 'gather allocates 4000000 bytes on device 0, nothing on the others',
        'device 0 needs more than the output above the others, which are alike',
    ],
    '11-ring-by-hand' => [
        (map { ("rank $_ has the sum", "rank $_ sends 48 bytes") } 0 .. 3), '24 hops: 4 ranks, 6 steps',
        '12 of them add', '12 of them copy', 'in step 3 rank 3 sends chunk 1 to rank 0',
        'the all-reduce lasts 6 hops of 10.0008 us', 'with 8 ranks each sends 56 bytes', 'in 14 steps, 112 hops in all',
    ],
    '13-constructor' => [
        'the ranks drew different weights', "rank 0's weights stay as they were", "rank 1 has rank 0's, bit by bit",
        (map {
            my $rank = $_;
            map { "rank $rank: $_" } 'the broadcast carries 32 bytes, from rank 0', 'the shapes are compared before it',
                'there is one bucket, with both parameters', 'the model sees the 4 rows that it was given',
                'nothing is sent in the forward', 'the gradient is 2 in both steps'
        } 0, 1),
        'there is no scatter', 'Linear(3, 3) is refused: rank 1 is named',
        'what is told names params[0], the weight, and its sizes [3, 3]',
        'it fails before it takes any weight', 'rank 0: w ends at 0.6', 'rank 1: w ends at 0.2',
    ],
    '14-buckets' => [
        (map {
            my ($cap, $bytes) = @$_;
            map { ("$cap, rank $_: the buckets have $bytes bytes", "$cap, rank $_: each iteration all-reduces the buckets it has") } 0, 1
        } [ 'no cap given', '4202496, 1050624, 3151872' ], [ 'a cap of 25 MiB', '4202496, 4202496' ],
            [ 'a cap of 2 MiB', '4202496, 2101248, 2101248' ], [ '2 MiB and find_unused_parameters', '2048, 2101248, 2099200' ]),
        (map {
            ("rank $_: the first bucket of iteration 1 holds fc4.bias, then fc4.weight",
                "rank $_: buckets are rebuilt once, before the model runs in iteration 1")
        } 0, 1),
        '2 MiB: each bucket reaches the cap, and would not without its last parameter',
        'with find_unused_parameters they are never rebuilt',
    ],
    '16-unused' => [
        "(i) what is told names the parameters 2 3 4 5: b's and c's",
        map {
            my $rank = $_;
            ((map { "(i) rank $rank: $_" } '2 of 6 parameters are ready, 4 are missing', 'iteration 0 makes no all-reduce',
                'the second forward began, the second backward did not'),
                (map { "(ii) rank $rank: $_" } 'a.weight.grad is 0.5', 'b.weight.grad is 1.0', 'c has no gradient',
                'one bucket of 72 bytes is reduced in each iteration', 'so is the map of 6 int32, 24 bytes',
                'each backward marks 4 parameters as unused', 'they are ready before the first that was used', 'the buckets are never rebuilt'))
        } 0, 1,
    ],
    '15-hooks-and-order' => [
        'both ranks end with the same gradient',
        map {
            my $rank = $_;
            map { "rank $rank: $_" } 'in each iteration a.bias, a.weight, b.bias, b.weight are ready in this order',
                'one bucket of 2101248 bytes, after the rebuild two of 1050624',
                'the rebuilt ones hold parameters 1 0 and 3 2', 'buckets start in index order',
                'three all-reduces, and the first of each iteration starts before its backward ends',
                'in iteration 0 bucket 0 starts when all are ready, in iteration 1 before b.bias is',
                'every wait for a gradient lies inside finalize_backward',
                'an all-reduce of 1050624 bytes lasts 125.0624 us',
                'the backwards last 1000 + 230.1248 and 1000 + 125.0624 us'
        } 0, 1,
    ],
    '17-no-sync' => [
        (map {
            my ($way, $count) = @$_;
            map { ("$way: rank ${_}'s all-reduces are $count", "$way: rank $_ sends 40 bytes in each",
                "$way: rank ${_}'s forwards that prepare a backward are $count", "$way: rank ${_}'s weight.grad[0, 0] is 14")
            } 0, 1
        } [ 'without no_sync', 4 ], [ 'no_sync around both', 1 ], [ 'no_sync around the backward', 4 ],
            [ 'no_sync around the forward', 1 ]),
        'ddp.module(x): the gradients are 1 and 2', 'ddp.module(x): no rank has sent anything',
    ],
    '18-batchnorm' => [
        (map {
            my ($iteration, $rank, $mean, $variance) = @$_;
            map { "iteration $iteration, rank $rank: $_" } 'its own batch is normalised to -1 and 1',
                "running mean $mean, running variance $variance", 'weight.grad is 4',
                '16 bytes of buffers come before each forward'
        } [ 1, 0, 0.1, 1.1 ], [ 1, 1, 0.7, 2.7 ], [ 2, 0, 0.19, 1.19 ], [ 2, 1, 0.79, 2.79 ]),
        (map { "rank $_ evaluates with rank 0's mean 0.19 and variance 1.19" } 0, 1),
        'SyncBatchNorm, rank 0: the output is -1.0690 and -0.5345', 'SyncBatchNorm, rank 1: the output is 0.0000 and 1.6036',
        (map {
            my $rank = $_;
            map { "SyncBatchNorm, rank $rank: $_" } 'running mean 0.4, running variance 2.766667', 'weight.grad is 7.4833',
                '12 bytes are gathered in the forward, 8 reduced in its backward'
        } 0, 1),
        "DataParallel: device 1's replica came to 0.7", "DataParallel: the model has device 0's mean 0.1, and variance 1.1",
        'DataParallel: the output is -1, 1, -1, 1',
    ],
    '19-join' => [
        'without Join: a DeadlockError', 'without Join: it says that rank 1 waits for rank 0, which has returned',
        'without Join: fault.deadlock is told of rank 1',
        (map {
            my ($way, $last, $w) = @$_;
            "divided $way: rank 0's gradients are 2 2 2", "divided $way: rank 1's gradients are 2 2 2 $last $last",
                "divided $way: w is $w on rank 0", "divided $way: w is $w on rank 1",
                "divided $way: rank 0 shadows two iterations, rank 1 none",
                "divided $way: both ranks all-reduce five buckets", "divided $way: the final state comes from rank 1"
        } [ 'by all ranks', 1.5, '0.1' ], [ 'by those left', 3, '-0.2' ]),
    ],
    '20-comm-hooks' => [
        map { ("rank $_: without a division the gradient is 3", "rank $_: with allreduce_hook it is 1.5",
            "rank $_: 2049 and 2049 make 2048 in float16", "rank $_: the all-reduce is issued inside ddp.comm_hook",
            "rank $_: one kernel casts to float16 before the all-reduce, one casts back after it",
            "rank $_: 4000000 bytes without a hook, 2000000 with fp16_compress_hook",
            "rank $_: the hook's result lands before finalize_backward ends",
            "rank $_: a second hook is a RuntimeError") } 0, 1
    ],
    '21-bucket-view-static' => [
        (map { ("copied, rank $_: in both iterations storages: 5, bytes: 240",
            "copied, rank $_: the gradients begin at 0 0 0 0, then at 0 0 0 0",
            "copied, rank $_: 8 copies from a bucket to a gradient",
            "views, rank $_: in both iterations storages: 1, bytes: 120",
            "views, rank $_: the gradients begin at 0 16 20 28, then at 14 10 2 0",
            "views, rank $_: 0 copies from a bucket to a gradient",
            "rank $_: the gradients are bit by bit the same in both runs") } 0, 1),
        (map { ("rank $_: three iterations make 6 all-reduces with find_unused_parameters, 4 with static_graph",
            "rank $_: the other branch is an error, in iteration 1") } 0, 1),
    ],
    '22-sampler' => [
        '12 draws, and all ten samples among them', 'samples 0 and 1 are drawn twice',
        (map { ("rank $$_[0] draws $$_[1]", "rank $$_[0]: each batch is one data.index with its samples") }
            [ 0, '0 3 6 9' ], [ 1, '1 4 7 0' ], [ 2, '2 5 8 1' ]),
        (map { "drop_last: rank $$_[0] draws $$_[1]" } [ 0, '0 3 6' ], [ 1, '1 4 7' ], [ 2, '2 5 8' ]),
        (map { "$_: the three shares cover all ten samples" } 'Epoch 0', 'Epoch 0 again', 'Epoch 1'),
        (map { ("rank $_: epoch 0 twice is twice the same", "rank $_: epoch 1 is another order") } 0 .. 2),
        (map { "two samples, four ranks: rank $_ draws " . $_ % 2 } 0 .. 3), 'with drop_last nobody draws anything',
    ],
    '38-streams-and-workers' => [
        (map { ("$$_[0]: each item is read $$_[1] times", "$$_[0]: $$_[2] items come to the ranks", "$$_[0]: $$_[3] readers") }
            [ 'Ranks alone', 3, 36, 3 ], [ 'Two workers each', 6, 72, 6 ], [ 'Split by worker', 3, 36, 6 ],
            [ 'Split by both', 1, 12, 6 ]),
        'what a worker counts in its copy, its rank does not see', 'there is no worker info outside of workers',
        'without workers 12 items take 240 us', 'with one worker 130 us',
        'of those the rank has waited 10 us for its worker',
    ],
    '23-averages' => [
        "mean: rank 0's gradient is 6", "mean: rank 1's gradient is 6", 'one process with all samples has 4',
        "sum: rank 0's gradient is 8", "sum: rank 1's gradient is 8", "weighted: rank 0's gradient is 4",
        "weighted: rank 1's gradient is 4", 'the printed losses are 2 and 10',
        'rank 0: nothing is sent between its loss and its backward',
        'rank 0: one all-reduce, of the 4 bytes of the gradient, and none for the loss',
        'rank 1: nothing is sent between its loss and its backward',
        'rank 1: one all-reduce, of the 4 bytes of the gradient, and none for the loss',
        'the all-reduced mean of the losses is 6', 'sum over count is 4',
        'rank 0, 8 of 16 samples: after three steps its weights are those of one process with all',
        'rank 1, 8 of 16 samples: after three steps its weights are those of one process with all',
    ],
    '24-hang-clinic' => [
        '(a) is a MismatchError: alone it would end the run with status 3', '(a) who waits for whom: 0 -> 1 -> 0',
        '(a) the report names shape and line of the lesson', '(a) the record has it as fault.mismatch',
        '(a) is found 0 virtual us after the last event',
        '(a) rank 0 stands in broadcast, rank 1 in barrier, as their call number 7',
        '(a) the last call that all made alike is all_reduce, number 6',
        '(b) is a MismatchError: alone it would end the run with status 3', '(b) who waits for whom: 0 -> 1 -> 0',
        '(b) the report names shape and line of the lesson', '(b) the record has it as fault.mismatch',
        '(b) is found 0 virtual us after the last event',
        '(b) rank 0 stands in all_reduce, rank 1 in broadcast, as their call number 0',
        '(b) the last call that all made alike is none',
        '(c) is a DeadlockError: alone it would end the run with status 3', '(c) who waits for whom: 1 -> 0',
        '(c) the report names shape and line of the lesson', '(c) the record has it as fault.deadlock',
        '(c) is found 0 virtual us after the last event',
        "(c) rank 1 stands in its fourth gradient's all_reduce, and rank 0 has returned",
        '(c) the last call that all made alike is all_reduce, number 7',
        '(c) rank 0 has three averaged gradients of its weight and of its bias',
        '(c) rank 1 has three averaged gradients of its weight and of its bias',
    ],
    '10-rendezvous-and-p2p' => [
        'rank 0 leaves init_process_group when rank 2 has come, not before 500 us',
        'rank 0 reads what rank 2 has written',
        'rank 1 leaves init_process_group when rank 2 has come, not before 500 us',
        'rank 1 reads what rank 2 has written',
        'rank 2 leaves init_process_group when rank 2 has come, not before 500 us',
        'rank 2 reads what rank 2 has written', 'the token is 3', 'three messages',
        'of 10.0004 us each, one after the other', 'each send has an arrow to its recv', 'all send first: a deadlock',
        'rank 0 waits for rank 1', 'rank 1 waits for rank 2', 'rank 2 waits for rank 0', 'rank 1 received 99',
        'the change was noted, once',
        'rank 0 uses the group that rank 1 has not made: the sum is 2',
        'rank 2 uses the group that rank 1 has not made: the sum is 2', 'rank 0 passes a barrier of all',
        'rank 1 passes a barrier of all', 'rank 2 passes a barrier of all',
        'rank 1 has called the same number for other ranks, and that is told',
    ],
    '12-three-all-reduces' => [
        'ring: all ranks have the sum', 'ring: 112 hops', 'ring: 14 times the tensor in all',
        'ring of 1 KiB: 140.1792 us', 'tree: all ranks have the sum', 'tree: 14 hops',
        'tree: 14 times the tensor in all', 'tree of 1 KiB: 60.6144 us', 'halving_doubling: all ranks have the sum',
        'halving_doubling: 48 hops', 'halving_doubling: 14 times the tensor in all',
        'halving_doubling of 1 KiB: 60.1792 us', 'ring: all ranks have the sum', 'ring of 64 MiB: 11884.0512 us',
        'tree: all ranks have the sum', 'tree of 64 MiB: 40325.3184 us', 'halving_doubling: all ranks have the sum',
        'halving_doubling of 64 MiB: 11804.0512 us', 'double_tree: all ranks have the sum',
        'double_tree: no rank sends more than twice the tensor', 'double_tree of 64 MiB: 6810.8872 us',
        'at 188235 bytes ring and tree differ by less than a hundredth of a microsecond',
    ],
    '25-stragglers' => [
        'rank 0: the step ends after 1366 us', 'rank 1: the step ends after 1366 us',
        'rank 3: the step ends after 1366 us', 'rank 2: the step ends after 1366 us',
        "rank 2's all-reduce lasts no longer than the transfer, 66 us", "rank 0's lasts 300 us longer",
        "rank 1's lasts 300 us longer", "rank 3's lasts 300 us longer", '1066 of 1366 us: 78 %',
        'all four backwards last equally long', "the shortest all-reduce is rank 1's",
    ],
    '29-write-an-all-reduce' => [
        'the naive way has the sum on rank 0', 'the naive way has the sum on rank 1',
        'the naive way has the sum on rank 2', 'the naive way has the sum on rank 3', 'in 6 hops',
        'of 10.0032 us each, one after the other', 'our ring has the sum on rank 0: 60 to 88',
        'our ring has the sum on rank 1: 60 to 88', 'our ring has the sum on rank 2: 60 to 88',
        'our ring has the sum on rank 3: 60 to 88', 'in 24 hops, as the built-in one',
        'in 60.0048 us, as the built-in one', '2 ranks, 1 floats: equal to the built-in one, bit by bit',
        '2 ranks, 7 floats: equal to the built-in one, bit by bit',
        '2 ranks, 8 floats: equal to the built-in one, bit by bit',
        '3 ranks, 1 floats: equal to the built-in one, bit by bit',
        '3 ranks, 7 floats: equal to the built-in one, bit by bit',
        '3 ranks, 8 floats: equal to the built-in one, bit by bit',
        '4 ranks, 1 floats: equal to the built-in one, bit by bit',
        '4 ranks, 7 floats: equal to the built-in one, bit by bit',
        '4 ranks, 8 floats: equal to the built-in one, bit by bit',
        '8 ranks, 1 floats: equal to the built-in one, bit by bit',
        '8 ranks, 7 floats: equal to the built-in one, bit by bit',
        '8 ranks, 8 floats: equal to the built-in one, bit by bit',
        'DDP with our ring as its hook: 14 on rank 0, as without a hook',
        'DDP with our ring as its hook: 14 on rank 1, as without a hook', 'and each of its all-reduces was ours',
    ],
    '30-on-a-gpu' => [
        (map {
            my $rank = $_;
            map { "rank $rank: $_" } 'each kernel ends after its launch has come back',
                'when all of the backward is launched, kernels of it are still to come',
                'an event is recorded behind each bucket, before its all-reduce is issued',
                'each all-reduce begins after the last kernel that writes its bucket',
                'with local work:wait() lasts until the all-reduce is through',
                'all-reduces run beside kernels of the same device',
                'no iteration waits for the device: nothing is synchronized between them'
        } 0, 1),
        'the gradients are those of one CPU run with the whole batch', 'on the GPU: most kernels end after their launch has come back',
        'on the GPU: when all of the backward is launched, kernels of it are still to come',
        'on the GPU: communication runs beside kernels', 'on the GPU: work:wait() comes back before the all-reduce is through',
    ],
    '32-capstone' => [
        'hooks fire last layer first, the bias before the weight', 'the views write into the flat tensor',
        'all_reduce is back at once, the wait takes 20 us',
        'the callback runs behind all hooks, and before backward returns',
        'sent in different orders, both gradients are 2.5 on both ranks', 'two ranks: the difference is 0',
        '2^24, 1, 1, -2^24: one order gives 0, another one 1', 'four ranks: it is at most 1e-6',
    ],
    '33-checkpointed-layer' => [
        'without checkpoints both ranks have 10', 're-entrant: 7 and 13, without an error',
        'rank 0: DDP was through before the second use was recomputed',
        'rank 0: a backward ran inside of the backward, twice',
        'rank 1: DDP was through before the second use was recomputed',
        'rank 1: a backward ran inside of the backward, twice',
        'below a bare layer it is an error: marked ready twice', 'with find_unused_parameters it is an error, too',
        'not re-entrant: 10 on both ranks', 'rank 0: each use was recomputed once',
        'rank 1: each use was recomputed once', 're-entrant with static_graph: 10 on both ranks',
    ],
    '34-two-forwards' => [
        'two forwards, one backward: 16.5 on both ranks, one all-reduce', 'two backwards: 11.5 and 21.5',
        'rank 0: both forwards arm, one backward finalizes', 'rank 1: both forwards arm, one backward finalizes',
        'a branch for each forward, with find_unused_parameters: marked ready twice', 'autograd.grad gives 2 and 8',
        'and no gradient travels', "the penalty's gradient is 34 on both ranks",
        'two forwards through BatchNorm: the backward runs, and the ranks agree',
    ],
    '35-skip-together' => [
        "nobody skips: rank 0's gradients are 5.5 nan 16.5 22.0", "nobody skips: rank 1's gradients are 5.5 nan 16.5 22.0",
        'nobody skips: 8 backwards in all', "one skips: rank 0's gradients are 5.5 16.0 21.5",
        "one skips: rank 1's gradients are 5.5 skipped 16.0 21.5",
        (map { "one skips: rank ${_}'s next collective is refused as a mismatch" } 0, 1),
        'and it is named: rank 1 left out an all_reduce',
        (map { "all decide: rank ${_}'s gradients are 5.5 skipped 16.5 22.0" } 0, 1), 'all decide: 6 backwards in all',
        'all decide: rank 0 makes 7 all-reduces of 4 bytes, three gradients and four flags',
        (map { ("rank $_ overflows with scale 32768 and 16384, though only rank 1's own gradient does",
            "rank ${_}'s scale ends at 8192", "rank ${_}'s gradient is 2.25, the mean of 0.5 and 4") } 0, 1),
    ],
    '36-resume-exactly' => [
        (map { "rank $_: the seven losses before the stop are those of the run in one go" } 0, 1),
        'the optimizer remembers one buffer for each of 4 parameters',
        (map { ("everything, rank $_: the first loss that differs is none",
            "rank $_ loads rank 0's model, and its weights stay on device:$_") } 0, 1),
        (map { "all but the position, rank $_: the first loss that differs is step 8's" } 0, 1),
        (map { "all but the generator, rank $_: the first loss that differs is step 8's" } 0, 1),
        (map { "all but the optimizer, rank $_: the first loss that differs is step 9's" } 0, 1),
        "a plain network refuses DDP's names: all 4 missing, all 4 unexpected", 'without the prefix they fit',
    ],
    '37-who-failed-first' => [
        "what is shown first is rank 1's error",
        (map { ("rank $_ has enqueued as many calls as rank 0", "rank $_ has not completed the last of them") } 0 .. 3),
        'rank 2 was 500 us late in a call that all completed', 'the link died before rank 1 raised',
        'with the dead link alone nobody can go on',
        (map { "with a whole link rank 1 is one call behind rank $_" } 0, 2, 3),
        'with the late rank alone the job comes to its end',
    ],
    '39-lengths-differ' => [
        'the plain gather is refused as a mismatch', 'it names two ranks and their shapes',
        'rank 0 knows the lengths 2, 5, 4', 'rank 1 knows the lengths 2, 5, 4', 'rank 2 knows the lengths 2, 5, 4',
        'rank 0 has 0 1, 10 11 12 13 14, 20 21 22 23', 'rank 1 has 0 1, 10 11 12 13 14, 20 21 22 23',
        'rank 2 has 0 1, 10 11 12 13 14, 20 21 22 23', 'the padded gather moves 120 bytes',
        'with a list of the right lengths it is 88 bytes', 'of them 32 are padding', 'and all ranks have the same',
    ],
    '40-without-buckets' => [
        'four parameters, four all-reduces', 'DDP makes one, of 232 bytes',
        "rank 0: its gradients are DDP's, bit by bit", "rank 1: its gradients are DDP's, bit by bit",
        "the hooks' first begins after 100 us, DDP's after 200", 'the hooks are through after 240 us',
        'DDP is through after 220 us', 'after backward each rank has its own gradient: 1 and 2',
        'after finalize_backward both have 1.5', 'a second backward without it is refused',
    ],
);
my %virtual = map { $_ => 1 } (
    'replica 3 was the first to fail',
    'parallel_apply lasts 20020 us', "Lua's lock is held for 20000 us of them",
    'a thread works 5000 us and waits three times as long',
    'they take 2000 us on each: it is idle nine tenths of the time', 'one device is through after 8050 us',
    'four ranks take 5020 us each', 'the all-reduce lasts 6 hops of 10.0008 us',
    'rank 0: the step ends after 1366 us', 'rank 1: the step ends after 1366 us', 'rank 2: the step ends after 1366 us',
    'rank 3: the step ends after 1366 us', "rank 2's all-reduce lasts no longer than the transfer, 66 us",
    "rank 0's lasts 300 us longer", "rank 1's lasts 300 us longer", "rank 3's lasts 300 us longer",
    '1066 of 1366 us: 78 %', 'all four backwards last equally long', "the shortest all-reduce is rank 1's",
    'rank 0 leaves init_process_group when rank 2 has come, not before 500 us',
    'rank 2 leaves init_process_group when rank 2 has come, not before 500 us',
    'rank 1 leaves init_process_group when rank 2 has come, not before 500 us',
    'of 10.0004 us each, one after the other', 'all send first: a deadlock', 'rank 0 waits for rank 1',
    'rank 1 waits for rank 2', 'rank 2 waits for rank 0',
    'ring of 1 KiB: 140.1792 us', 'tree of 1 KiB: 60.6144 us', 'halving_doubling of 1 KiB: 60.1792 us',
    'ring of 64 MiB: 11884.0512 us', 'tree of 64 MiB: 40325.3184 us', 'halving_doubling of 64 MiB: 11804.0512 us',
    'double_tree of 64 MiB: 6810.8872 us',
    'at 188235 bytes ring and tree differ by less than a hundredth of a microsecond',
    'rank 2: the step ends after 1366 us', 'of 10.0032 us each, one after the other',
    'in 60.0048 us, as the built-in one', 'rank 2 was 500 us late in a call that all completed',
    'the link died before rank 1 raised', 'with the dead link alone nobody can go on',
    "the hooks' first begins after 100 us, DDP's after 200", 'the hooks are through after 240 us',
    'DDP is through after 220 us',
    'without workers 12 items take 240 us', 'with one worker 130 us', 'of those the rank has waited 10 us for its worker',
    (map { ("rank $_: each kernel ends after its launch has come back", "rank $_: all-reduces run beside kernels of the same device",
        "rank $_: when all of the backward is launched, kernels of it are still to come",
        "rank $_: each all-reduce begins after the last kernel that writes its bucket",
        "rank $_: no iteration waits for the device: nothing is synchronized between them",
        "rank $_: with local work:wait() lasts until the all-reduce is through") } 0, 1),
    '(a) who waits for whom: 0 -> 1 -> 0', '(b) who waits for whom: 0 -> 1 -> 0',
    (map { "($_) is found 0 virtual us after the last event" } 'a', 'b', 'c'),
    'all_reduce is back at once, the wait takes 20 us',
    (map { ("rank $_: an all-reduce of 1050624 bytes lasts 125.0624 us",
        "rank $_: the backwards last 1000 + 230.1248 and 1000 + 125.0624 us") } 0, 1),
);

# Checks that only a GPU in its own time can make (tests/cuda/lessons.t): nobody has it here.
sub needs_gpu { return $_[0] =~ /^on the GPU: / }

# The lines of a TAP run: names of what holds, what was skipped and why, what failed; whether the plan fits.
sub read_tap {
    my ($out, $lesson) = @_;
    my %tap = (ok => {}, skip => {}, failed => [], count => 0);
    for my $line (split /\n/, $out) {
        $tap{plan} = $1 if $line =~ /^1\.\.(\d+)$/;
        next unless $line =~ /^(not )?ok (\d+) - \Q$lesson\E\/(.*)$/;
        my ($not, $number, $name) = ($1, $2, $3);
        $tap{disorder} = 1 if $number != ++$tap{count};
        if    ($not)                          { push @{ $tap{failed} }, $name }
        elsif ($name =~ s/ # SKIP ?(.*)$//)   { $tap{skip}{$name} = $1 }
        else                                  { $tap{ok}{$name} = 1 }
    }
    $tap{complete} = defined $tap{plan} && $tap{plan} == $tap{count} && !$tap{disorder};
    return \%tap;
}

for my $lesson (sort keys %checks) {
    my $run = ringside('run', '--tap', "lessons/$lesson.lua");
    my $tap = read_tap($run->{out}, $lesson);
    is("$run->{status} $run->{err}", '0 ', "$lesson, stepped: ends with status 0 and an empty stderr");
    ok($tap->{ok}{$_}, "$lesson, stepped: $_") for grep { !needs_gpu($_) } @{ $checks{$lesson} };
    is("@{ $tap->{failed} }", '', "$lesson, stepped: nothing fails");
    is(join(', ', grep { !needs_gpu($_) } keys %{ $tap->{skip} }), '', "$lesson, stepped: nothing is skipped");
    like($tap->{skip}{$_} // 'not skipped', qr/GPU/, "$lesson, stepped: '$_' is skipped with a reason")
        for grep { needs_gpu($_) } @{ $checks{$lesson} };
    ok($tap->{complete}, "$lesson, stepped: the plan counts every check");
    cmp_ok($tap->{count}, '==', @{ $checks{$lesson} }, "$lesson, stepped: these are all its checks");
    my @strange = grep { !/^(?:#|ok |1\.\.)/ } split /\n/, $run->{out};
    is("@strange", '', "$lesson, stepped: narration stands on # lines");

    $run = ringside('run', '--tap', '--executor', 'free', "lessons/$lesson.lua");
    $tap = read_tap($run->{out}, $lesson);
    is("$run->{status} $run->{err}", '0 ', "$lesson, free: ends with status 0 and an empty stderr");
    ok($tap->{ok}{$_}, "$lesson, free: $_") for grep { !$virtual{$_} && !needs_gpu($_) } @{ $checks{$lesson} };
    like($tap->{skip}{$_} // 'not skipped', $virtual{$_} ? qr/wall/ : qr/GPU/, "$lesson, free: '$_' is skipped with a reason")
        for grep { $virtual{$_} || needs_gpu($_) } @{ $checks{$lesson} };
    ok($tap->{complete} && !@{ $tap->{failed} }, "$lesson, free: the plan counts every check and nothing fails");

    $run = ringside('run', '--tap', '--teacher', '--hardware', 'dgx-h100', "lessons/$lesson.lua");
    is($run->{status}, 0, "$lesson on other hardware: checks of times are skipped, the others hold")
        or diag($run->{out}, $run->{err});
    like($run->{out}, qr/Two-minute fallback/, "$lesson: --teacher shows the teacher's notes");

    $run = ringside('run', '--quiet', "lessons/$lesson.lua");
    is("$run->{status} $run->{out}", '0 ', "$lesson, --quiet: says nothing when all checks hold");

    my $plain = ringside('run', "lessons/$lesson.lua")->{out};
    unlike($plain, qr/Two-minute fallback/, "$lesson: the teacher's notes are not for everybody");
    my $some = grep({ needs_gpu($_) } @{ $checks{$lesson} }) ? ' (or were skipped)' : '';
    like($plain, qr/^all \d+ checks hold\Q$some\E$/m, "$lesson: the last line counts the checks");
}

# ---- policies: another order, the same numbers ----

my $workers = lesson('workers', <<'END_LESSON');
local rs = require "ringside"
local nn = rs.nn
rs.lesson { title = "Who is first?", devices = 4, hardware = "classroom", seed = 1 }
local Model = nn.Module("Model")
function Model:init()
  self.embedding = nn.Embedding(20, 10)
  self.rnn = nn.Linear(10, 10)
end
function Model:forward(x) return self.rnn(self.embedding(x)) end
local model = Model():to("device:0")
local out = nn.DataParallel(model)(rs.tensor { 1, 2, 3, 4, 5, 6, 7, 8 })
out:sum():backward()
local function show(t)
  for _, row in ipairs(t:tolist()) do
    for _, value in ipairs(type(row) == "table" and row or { row }) do print(string.format("%a", value)) end
  end
end
show(out)
for _, p in ipairs(model:parameters()) do show(p.grad) end
END_LESSON

my $ranks = lesson('ranks', <<'END_LESSON');
local rs = require "ringside"
local dist = rs.distributed
rs.lesson { title = "Which rank is first?", hardware = "classroom", seed = 3 }
local sums = dist.spawn(function(rank)
  local t = rs.randn(8) * (rank + 1)
  dist.all_reduce(t)
  return t:tolist()
end, { world = 4 })
for rank = 0, 3 do
  for _, value in ipairs(sums[rank]) do print(string.format("%a", value)) end
end
END_LESSON

for my $case ([ workers => $workers, 'dp.worker' ], [ ranks => $ranks, 'comm.hop' ]) {
    my ($name, $lesson, $kind) = @$case;
    my $trace = folder() . "/$name.trace";
    my (%orders, %outputs, @bad);
    for my $policy ([], [ '--policy', 'round-robin' ], map { [ '--policy', 'random', '--seed', $_ ] } 1 .. 8) {
        my $run = ringside('run', @$policy, '--trace', $trace, $lesson);
        push @bad, "@$policy: $run->{err}" if $run->{status} != 0;
        my $who = join ' ', map { /\b(r\d+|dev\d+)\b/ ? $1 : '?' } split /\n/, ringside('events', $trace, $kind)->{out};
        $orders{$who} = 1;
        $outputs{ $run->{out} } = 1;
        my $again = ringside('run', @$policy, '--hash', $lesson);
        my $once  = ringside('run', @$policy, '--hash', $lesson);
        push @bad, "@$policy: not repeatable" if $again->{out} ne $once->{out} || $again->{out} !~ /trace hash/;
    }
    is("@bad", '', "$name: every policy ends with status 0 and repeats");
    cmp_ok(scalar keys %orders, '>', 1, "$name: some seed changes who goes first");
    is(scalar keys %outputs, 1, "$name: no order changes a bit of any number");
    is(ringside('run', '--exact', '--executor', 'free', $lesson)->{out}, (keys %outputs)[0],
        "$name: nor does the free executor with the exact product");
}
done_testing();
