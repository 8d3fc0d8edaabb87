/* The situations of test_flight.c: a flight in words, and what is told of it where it is a run's and where all that is
 * known are dumps. */
#ifndef UNIT_FLIGHT_SITUATIONS_H
#define UNIT_FLIGHT_SITUATIONS_H

struct told { enum hang_cause cause; int culprit; int64_t sequence; const char *head; };
struct situation {
    const char *name;
    int         world;
    const char *flight;
    struct told live, dump;
};

static const struct situation situations[] = {
    { "skipped", 2,
      "0: all_reduce=[[3]]@7 broadcast=[[3]]%0@8*\n"
      "1: all_reduce=[[3]]@7 barrier@9*\n",
      { HANG_SKIPPED, 1, 1,
        "rank 1 waits in barrier #1 (line 9), rank 0 in broadcast #1 (line 8)\n"
        "cause: skipped call or other order: rank 1 left out broadcast #1 (line 8)\n" },
      { HANG_SKIPPED, 1, 1,
        "rank 1 waits in barrier #1 (train.py:9), rank 0 in broadcast #1 (train.py:8)\n"
        "cause: skipped call or other order: rank 1 left out broadcast #1 (train.py:8)\n" } },
    { "skipped of 4", 4,
      "0: all_reduce=[[3]]@7 broadcast=[[3]]%0@8*\n"
      "1: all_reduce=[[3]]@7 broadcast=[[3]]%0@8*\n"
      "2: all_reduce=[[3]]@7 barrier@9*\n"
      "3: all_reduce=[[3]]@7 broadcast=[[3]]%0@8*\n",
      { HANG_SKIPPED, 2, 1,
        "rank 2 waits in barrier #1 (line 9), ranks 0, 1, 3 in broadcast #1 (line 8)\n"
        "cause: skipped call or other order: rank 2 left out broadcast #1 (line 8)\n" },
      { HANG_SKIPPED, 2, 1,
        "rank 2 waits in barrier #1 (train.py:9), 3 ranks in broadcast #1 (train.py:8)\n"
        "cause: skipped call or other order: rank 2 left out broadcast #1 (train.py:8)\n" } },
    { "skipped of 64", 64,
      "0-40: all_reduce=[[3]]@7 broadcast=[[3]]%0@8*\n"
      "41: all_reduce=[[3]]@7 barrier@9*\n"
      "42-63: all_reduce=[[3]]@7 broadcast=[[3]]%0@8*\n",
      { HANG_SKIPPED, 41, 1,
        "rank 41 waits in barrier #1 (line 9), 63 ranks in broadcast #1 (line 8)\n"
        "cause: skipped call or other order: rank 41 left out broadcast #1 (line 8)\n" },
      { HANG_SKIPPED, 41, 1,
        "rank 41 in barrier #1 (train.py:9), 63 ranks in broadcast #1 (train.py:8)\n"
        "cause: skipped call or other order: rank 41 left out broadcast #1 (train.py:8)\n" } },
    { "skipped async", 2,
      "0: all_reduce=[[3]]@7 broadcast=[[3]]%0@8- all_reduce=[[4]]@9+ barrier@10*\n"
      "1: all_reduce=[[3]]@7 all_reduce=[[4]]@9- barrier@10*\n",
      { HANG_SKIPPED, 1, 1,
        "rank 1 called all_reduce #1 (line 9), rank 0 broadcast #1 (line 8)\n"
        "cause: skipped call: rank 1 left out broadcast #1 (line 8)\n" },
      { HANG_SKIPPED, 1, 1,
        "rank 1 in all_reduce #1 (train.py:9), rank 0 in broadcast #1 (train.py:8)\n"
        "cause: skipped call: rank 1 left out broadcast #1 (train.py:8)\n" } },
    { "extra of 4", 4,
      "0: all_reduce=[[3]]@7 broadcast=[[3]]%0@8*\n"
      "1-3: all_reduce=[[3]]@7 barrier@9*\n",
      { HANG_SKIPPED, 0, 1,
        "rank 0 waits in broadcast #1 (line 8), ranks 1-3 in barrier #1 (line 9)\n"
        "cause: skipped call or other order: rank 0 alone calls broadcast #1 (line 8)\n" },
      { HANG_SKIPPED, 0, 1,
        "rank 0 waits in broadcast #1 (train.py:8), 3 ranks in barrier #1 (train.py:9)\n"
        "cause: skipped call or other order: rank 0 alone calls broadcast #1\n"
        "  (train.py:8)\n" } },
    { "skipped 2 async", 3,
      "0-1: all_reduce=[[3]]@7 broadcast=[[3]]%0@8- all_reduce=[[4]]@9+ barrier@10+ all_gather=[[3]]@11*\n"
      "2: all_reduce=[[3]]@7 barrier@10- all_gather=[[3]]@11*\n",
      { HANG_SKIPPED, 2, 1,
        "rank 2 called barrier #1 (line 10), ranks 0 and 1 broadcast #1 (line 8)\n"
        "cause: skipped call: rank 2 left out broadcast #1 (line 8) and 1 more\n" },
      { HANG_SKIPPED, 2, 1,
        "rank 2 waits in barrier #1 (train.py:10), 2 ranks in broadcast #1 (train.py:8)\n"
        "cause: skipped call: rank 2 left out broadcast #1 (train.py:8) and 1 more\n" } },
    { "skipped, then recv", 2,
      "0: all_reduce=[[3]]@7 barrier@8*\n"
      "1: all_reduce=[[3]]@7 recv<0#0=[[3]]@9*\n",
      { HANG_SKIPPED, 1, 1,
        "rank 0 waits in barrier #1 (line 8), rank 1 in recv from rank 0 (line 9)\n"
        "cause: skipped call: rank 1 left out barrier #1 (line 8)\n" },
      { HANG_SKIPPED, 1, 1,
        "rank 0 in barrier #1 (train.py:8), rank 1 in recv from rank 0 (train.py:9)\n"
        "cause: skipped call: rank 1 left out barrier #1 (train.py:8)\n" } },
    { "skipped silently", 2,
      "0: all_reduce=[[3]]@7 all_reduce=[[3]]@8 all_reduce=[[3]]@9*\n"
      "1: all_reduce=[[3]]@7 all_reduce=[[3]]@9 RETURNED\n",
      { HANG_SKIPPED, 1, 1,
        "rank 0 waits in all_reduce #2 (line 9) for rank 1, which has returned\n"
        "cause: skipped call: rank 1 left out all_reduce #1 (line 8)\n" },
      { HANG_SKIPPED, 1, 1,
        "rank 0 waits in all_reduce #2 (train.py:9) for rank 1, which did not come\n"
        "cause: skipped call: rank 1 left out all_reduce #1 (train.py:8)\n" } },
    { "order", 2,
      "0: all_reduce=[[3]]@7 broadcast=[[3]]%0@8- all_reduce=[[4]]@9+ barrier@10*\n"
      "1: all_reduce=[[3]]@7 all_reduce=[[4]]@12- broadcast=[[3]]%0@13+ barrier@14*\n",
      { HANG_ORDER, 1, 1,
        "rank 1 called all_reduce #1 (line 12), rank 0 broadcast #1 (line 8)\n"
        "cause: other order: rank 1 calls all_reduce before broadcast, rank 0 after it\n" },
      { HANG_ORDER, 1, 1,
        "rank 1 in all_reduce #1 (train.py:12), rank 0 in broadcast #1 (train.py:8)\n"
        "cause: other order: rank 1 calls all_reduce before broadcast, rank 0 after it\n" } },
    { "order same op", 3,
      "0-1: all_reduce=[[3]]@8- all_reduce=[[4]]@9*\n"
      "2: all_reduce=[[4]]@9- all_reduce=[[3]]@8*\n",
      { HANG_ORDER, 2, 0,
        "rank 2 called all_reduce #0 (line 9), ranks 0 and 1 all_reduce #0 (line 8)\n"
        "cause: other order: rank 2 calls all_reduce of [4] before that of [3]\n" },
      { HANG_ORDER, 2, 0,
        "rank 2 in all_reduce #0 (train.py:9), 2 ranks in it (train.py:8)\n"
        "cause: other order: rank 2 calls all_reduce of [4] before that of [3]\n" } },
    { "operation", 2,
      "0: all_reduce=[[3]]@7 broadcast=[[3]]%0@8*\n"
      "1: all_reduce=[[3]]@7 barrier@8*\n",
      { HANG_OPERATION, 1, 1,
        "rank 1 waits in barrier #1 (line 8), rank 0 in broadcast #1 (line 8)\n"
        "cause: different calls: rank 1 calls barrier where rank 0 calls broadcast\n" },
      { HANG_OPERATION, 1, 1,
        "rank 1 waits in barrier #1 (train.py:8), rank 0 in broadcast #1 (train.py:8)\n"
        "cause: different calls: rank 1 calls barrier where rank 0 calls broadcast\n" } },
    { "operation no line", 4,
      "0: broadcast=[[3]]%0*\n"
      "1-3: all_reduce=[[3]]*\n",
      { HANG_OPERATION, 0, 0,
        "rank 0 waits in broadcast #0, ranks 1-3 in all_reduce #0\n"
        "cause: different calls: rank 0 calls broadcast where rank 1 calls all_reduce\n" },
      { HANG_OPERATION, 0, 0,
        "rank 0 waits in broadcast #0, ranks 1-3 in all_reduce #0\n"
        "cause: different calls: rank 0 calls broadcast where rank 1 calls all_reduce\n" } },
    { "shape", 2,
      "0: broadcast=[[1]] all_reduce=[[3]]@9*\n"
      "1: broadcast=[[1]] all_reduce=[[4]]@9*\n",
      { HANG_SHAPE, 1, 1,
        "ranks 0 and 1 wait in all_reduce #1 (line 9)\n"
        "cause: shape: all_reduce #1 (line 9) gets [4] on rank 1, [3] on rank 0\n" },
      { HANG_SHAPE, 1, 1,
        "ranks 0 and 1 wait in all_reduce #1 (train.py:9)\n"
        "cause: shape: all_reduce #1 (train.py:9) gets [4] on rank 1, [3] on rank 0\n" } },
    { "shape of 64", 64,
      "0-62: all_reduce=[[3,4],[5],[6]]@9*\n"
      "63: all_reduce=[[3,4],[7],[6]]@9*\n",
      { HANG_SHAPE, 63, 0,
        "ranks 0-63 wait in all_reduce #0 (line 9)\n"
        "cause: shape: tensor 2 of 3 of all_reduce #0 is [7] on rank 63, [5] on rank 0\n" },
      { HANG_SHAPE, 63, 0,
        "ranks 0-63 wait in all_reduce #0 (train.py:9)\n"
        "cause: shape: tensor 2 of 3 of all_reduce #0 is [7] on rank 63, [5] on rank 0\n" } },
    { "dtype", 3,
      "0: all_reduce=[[3]]~[float32]@9*\n"
      "1: all_reduce=[[3]]~[float64]@10*\n"
      "2: all_reduce=[[3]]~[float32]@9*\n",
      { HANG_DTYPE, 1, 0,
        "rank 1 waits in all_reduce #0 (line 10), 2 ranks in all_reduce #0 (line 9)\n"
        "cause: dtype: all_reduce #0 gets float64 on rank 1, float32 on rank 0\n" },
      { HANG_DTYPE, 1, 0,
        "rank 1 in all_reduce #0 (train.py:10), 2 ranks in it (train.py:9)\n"
        "cause: dtype: all_reduce #0 gets float64 on rank 1, float32 on rank 0\n" } },
    { "root", 2,
      "0: broadcast=[[3]]%0@9*\n"
      "1: broadcast=[[3]]%1@9*\n",
      { HANG_ROOT, 1, 0,
        "ranks 0 and 1 wait in broadcast #0 (line 9)\n"
        "cause: root: broadcast #0 (line 9) has root 1 on rank 1, root 0 on rank 0\n" },
      { HANG_ROOT, 1, 0,
        "ranks 0 and 1 wait in broadcast #0 (train.py:9)\n"
        "cause: root: broadcast #0 (train.py:9) has root 1 on rank 1, root 0 on rank 0\n" } },
    { "reduce op", 2,
      "0: all_reduce=[[3]]^sum@9*\n"
      "1: all_reduce=[[3]]^max@9*\n",
      { HANG_REDUCE_OP, 1, 0,
        "ranks 0 and 1 wait in all_reduce #0 (line 9)\n"
        "cause: reduce op: all_reduce #0 (line 9) has max on rank 1, sum on rank 0\n" },
      { HANG_REDUCE_OP, 1, 0,
        "ranks 0 and 1 wait in all_reduce #0 (train.py:9)\n"
        "cause: reduce op: all_reduce #0 (train.py:9) has max on rank 1, sum on rank 0\n" } },
    { "details", 2,
      "0: all_reduce=[[3]]!by_tree@9*\n"
      "1: all_reduce=[[3]]!by_ring@9*\n",
      { HANG_DETAILS, 1, 0,
        "ranks 0 and 1 wait in all_reduce #0 (line 9)\n"
        "cause: details: all_reduce #0 goes by ring on rank 1, by tree on rank 0\n" },
      { HANG_DETAILS, 1, 0,
        "ranks 0 and 1 wait in all_reduce #0 (train.py:9)\n"
        "cause: details: all_reduce #0 goes by ring on rank 1, by tree on rank 0\n" } },
    { "tag", 2,
      "0: send>1#5=[[3]]@8*\n"
      "1: recv<0#6=[[3]]@11*\n",
      { HANG_TAG, 1, -1,
        "rank 0 waits in send to rank 1 (line 8), rank 1 in recv from rank 0 (line 11)\n"
        "cause: tag: rank 0 sends tag 5 (line 8), rank 1 receives tag 6 (line 11)\n" },
      { HANG_TAG, 1, -1,
        "rank 0 waits in send to rank 1, rank 1 in recv from rank 0\n"
        "cause: tag: 5 in rank 0's send (train.py:8), 6 in rank 1's recv (train.py:11)\n" } },
    { "group", 4,
      "groups: 0,1 0,1,2\n"
      "0: all_reduce=[[3]]/1@9*\n"
      "1: all_reduce=[[3]]/2@9*\n"
      "2-3: RETURNED\n",
      { HANG_GROUP, 1, 0,
        "rank 0 waits in all_reduce #0 of group 1 (line 9), rank 1 in group 2 (line 9)\n"
        "cause: group: rank 1 calls all_reduce (line 9) in group 2, rank 0 in group 1\n" },
      { HANG_GROUP, 1, 0,
        "rank 0 waits in all_reduce #0 of group 1, rank 1 in group 2\n"
        "cause: group: rank 1 calls all_reduce (train.py:9) in group 2, not in group 1\n" } },
    { "groups crossed", 2,
      "groups: 0,1 0,1\n"
      "0: all_reduce=[[3]]/1@8*\n"
      "1: all_reduce=[[3]]/2@11*\n",
      { HANG_GROUPS_CROSSED, 1, 0,
        "rank 0 waits in all_reduce #0 of group 1 (line 8), rank 1 in group 2 (line 11)\n"
        "cause: crossed groups: rank 1 calls group 2 first, rank 0 group 1\n" },
      { HANG_GROUPS_CROSSED, 1, 0,
        "rank 0 waits in all_reduce #0 of group 1, rank 1 in group 2\n"
        "cause: crossed groups: rank 1 calls group 2 first (train.py:11), rank 0\n"
        "  group 1 (train.py:8)\n" } },
    { "groups crossed async", 2,
      "groups: 0,1 0,1\n"
      "0: all_reduce=[[3]]/1@8- all_reduce=[[3]]/2@9+\n"
      "1: all_reduce=[[3]]/2@11- all_reduce=[[3]]/1@12+\n",
      { HANG_GROUPS_CROSSED, 1, 0,
        "rank 0 waits in all_reduce #0 of group 1 (line 8), rank 1 in group 2 (line 11)\n"
        "cause: crossed groups: rank 1 calls group 2 first, rank 0 group 1\n" },
      { HANG_GROUPS_CROSSED, 1, 0,
        "rank 0 waits in all_reduce #0 of group 1, rank 1 in group 2\n"
        "cause: crossed groups: rank 1 calls group 2 first (train.py:11), rank 0\n"
        "  group 1 (train.py:8)\n" } },
    { "new_group", 2,
      "0: IN=new_group>1@5\n"
      "1: barrier@6*\n",
      { HANG_NO_NEW_GROUP, 1, -1,
        "rank 0 waits in new_group (line 5) for rank 1, rank 1 in barrier #0 (line 6)\n"
        "cause: skipped call or other order: rank 1 did not call new_group (line 5)\n" },
      { HANG_NO_NEW_GROUP, 1, -1,
        "rank 0 waits in new_group (line 5), rank 1 in barrier #0 (train.py:6)\n"
        "cause: skipped call or other order: rank 1 did not call new_group (line 5)\n" } },
    { "new_group ended", 3,
      "0-1: IN=new_group>2@5\n"
      "2: RETURNED\n",
      { HANG_NO_NEW_GROUP, 2, -1,
        "ranks 0 and 1 wait in new_group (line 5) for rank 2, which has returned\n"
        "cause: skipped new_group: rank 2 did not call new_group (line 5)\n" },
      { HANG_NO_NEW_GROUP, 2, -1,
        "ranks 0 and 1 wait in new_group (line 5) for rank 2, which did not come\n"
        "cause: skipped new_group: rank 2 did not call new_group (line 5)\n" } },
    { "sends", 2,
      "0: send>1#0=[[3]]@4*\n"
      "1: send>0#0=[[3]]@4*\n",
      { HANG_SENDS_CROSSED, 1, -1,
        "rank 0 waits in send to rank 1 (line 4), rank 1 in send to rank 0 (line 4)\n"
        "cause: crossed sends: ranks 0 and 1 both send first, and neither receives\n" },
      { HANG_SENDS_CROSSED, 1, -1,
        "rank 0 in send to rank 1 (train.py:4), rank 1 in send to rank 0 (train.py:4)\n"
        "cause: crossed sends: ranks 0 and 1 both send first, and neither receives\n" } },
    { "sends of 3", 3,
      "0: send>1#0=[[3]]@4*\n"
      "1: send>2#0=[[3]]@4*\n"
      "2: send>0#0=[[3]]@4*\n",
      { HANG_SENDS_CROSSED, 1, -1,
        "each waits for the next in send (line 4): 0 -> 1 -> 2 -> 0\n"
        "cause: crossed sends: ranks 0-2 all send first, and nobody receives\n" },
      { HANG_SENDS_CROSSED, 1, -1,
        "each waits for the next in send (train.py:4): 0 -> 1 -> 2 -> 0\n"
        "cause: crossed sends: ranks 0-2 all send first, and nobody receives\n" } },
    { "recvs", 2,
      "0: recv<1=[[3]]@4*\n"
      "1: recv<0=[[3]]@6*\n",
      { HANG_SENDS_CROSSED, 1, -1,
        "rank 0 waits in recv from rank 1 (line 4), rank 1 in recv from rank 0 (line 6)\n"
        "cause: crossed sends: ranks 0 and 1 both receive first, and neither sends\n" },
      { HANG_SENDS_CROSSED, 1, -1,
        "rank 0 waits in recv from rank 1, rank 1 in recv from rank 0\n"
        "cause: crossed sends: ranks 0 and 1 both receive first (train.py:4)\n" } },
    { "unmatched", 2,
      "0: recv<1#7=[[3]]@4*\n"
      "1: RETURNED\n",
      { HANG_UNMATCHED, 1, -1,
        "rank 0 waits in recv from rank 1, tag 7 (line 4), which has returned\n"
        "cause: unmatched: rank 1 does not send what rank 0 receives, tag 7 (line 4)\n" },
      { HANG_UNMATCHED, 1, -1,
        "rank 0 waits in recv from rank 1, tag 7 (train.py:4), which did not come\n"
        "cause: unmatched: rank 1 does not send what rank 0 receives\n" } },
    { "unmatched, in barrier", 4,
      "0: recv<1=[[3]]@4*\n"
      "1: barrier@9*\n"
      "2-3: RETURNED\n",
      { HANG_UNMATCHED, 1, -1,
        "rank 0 waits in recv from rank 1 (line 4), rank 1 in barrier #0 (line 9)\n"
        "cause: unmatched: rank 1 does not send what rank 0 receives (line 4)\n" },
      { HANG_UNMATCHED, 1, -1,
        "rank 0 in recv from rank 1 (train.py:4), rank 1 in barrier #0 (train.py:9)\n"
        "cause: unmatched: rank 1 does not send what rank 0 receives (train.py:4)\n" } },
    { "locks", 2,
      "0: IN=lock>1@9\n"
      "1: IN=lock>0@12\n",
      { HANG_LOCKS_CROSSED, 1, -1,
        "rank 0 waits in lock (line 9) for rank 1, rank 1 in lock (line 12)\n"
        "cause: crossed locks: ranks 0 and 1 each hold a lock that the other wants\n" },
      { HANG_LOCKS_CROSSED, 1, -1,
        "rank 0 waits in lock (line 9) for rank 1, rank 1 in lock (line 12)\n"
        "cause: crossed locks: ranks 0 and 1 each hold a lock that the other wants\n" } },
    { "lock and all_reduce", 2,
      "0: all_reduce=[[3]]@9*\n"
      "1: IN=lock>0@12\n",
      { HANG_LOCKS_CROSSED, 0, -1,
        "rank 1 waits in lock (line 12) for rank 0, rank 0 in all_reduce #0 (line 9)\n"
        "cause: crossed locks: rank 0 keeps the lock that rank 1 wants (line 12)\n" },
      { HANG_LOCKS_CROSSED, 0, -1,
        "rank 1 waits in lock (line 12), rank 0 in all_reduce #0 (train.py:9)\n"
        "cause: crossed locks: rank 0 keeps the lock that rank 1 wants (line 12)\n" } },
    { "ended", 2,
      "0: all_reduce=[[3]]@9 all_reduce=[[3]]@9 all_reduce=[[3]]@9*\n"
      "1: all_reduce=[[3]]@9 all_reduce=[[3]]@9 RETURNED\n",
      { HANG_ENDED, 1, 2,
        "rank 0 waits in all_reduce #2 (line 9) for rank 1, which has returned\n"
        "cause: ended early: rank 1 returned after all_reduce #1 (line 9)\n" },
      { HANG_OUTSIDE, 1, 2,
        "rank 0 waits in all_reduce #2 (train.py:9) for rank 1, which did not come\n"
        "cause: stuck outside: rank 1 is busy or gone after all_reduce #1 (train.py:9)\n" } },
    { "ended of 64", 64,
      "0-2: all_reduce=[[3]]@9 all_reduce=[[3]]@9*\n"
      "3: all_reduce=[[3]]@9 RETURNED\n"
      "4-63: all_reduce=[[3]]@9 all_reduce=[[3]]@9*\n",
      { HANG_ENDED, 3, 1,
        "ranks 0-2, 4-63 wait in all_reduce #1 (line 9) for rank 3, which has returned\n"
        "cause: ended early: rank 3 returned after all_reduce #0 (line 9)\n" },
      { HANG_OUTSIDE, 3, 1,
        "ranks 0-2, 4-63 wait in all_reduce #1 (train.py:9) for rank 3\n"
        "cause: stuck outside: rank 3 is busy or gone after all_reduce #0 (train.py:9)\n" } },
    { "threw", 3,
      "0: all_reduce=[[3]]@9 all_gather=[[3]]@14*\n"
      "1: all_reduce=[[3]]@9 all_gather=[[3]]@14*\n"
      "2: all_reduce=[[3]]@9 THREW@13!ValueError:_boom\n",
      { HANG_THREW, 2, 1,
        "ranks 0 and 1 wait in all_gather #1 (line 14) for rank 2, which threw\n"
        "cause: threw: rank 2 threw at line 13: ValueError: boom\n" },
      { HANG_OUTSIDE, 2, 1,
        "ranks 0 and 1 wait in all_gather #1 (train.py:14) for rank 2\n"
        "cause: stuck outside: rank 2 is busy or gone after all_reduce #0 (train.py:9)\n" } },
    { "killed", 3,
      "0: all_reduce=[[3]]@9 all_gather=[[3]]@14*\n"
      "1: all_reduce=[[3]]@9 all_gather=[[3]]@14*\n"
      "2: all_reduce=[[3]]@9 KILLED\n",
      { HANG_KILLED, 2, 1,
        "ranks 0 and 1 wait in all_gather #1 (line 14) for rank 2, which was killed\n"
        "cause: killed: rank 2 was killed after all_reduce #0 (line 9)\n" },
      { HANG_OUTSIDE, 2, 1,
        "ranks 0 and 1 wait in all_gather #1 (train.py:14) for rank 2\n"
        "cause: stuck outside: rank 2 is busy or gone after all_reduce #0 (train.py:9)\n" } },
    { "outside", 3,
      "0: all_reduce=[[3]]@9 all_gather=[[3]]@14*\n"
      "1: all_reduce=[[3]]@9 all_gather=[[3]]@14*\n"
      "2: all_reduce=[[3]]@9 RUNNING=3@17\n",
      { HANG_OUTSIDE, 2, 1,
        "ranks 0 and 1 wait in all_gather #1 (line 14) for rank 2, which is at line 17\n"
        "cause: stuck outside: rank 2 has been at line 17 for 3.0 s\n" },
      { HANG_OUTSIDE, 2, 1,
        "ranks 0 and 1 wait in all_gather #1 (train.py:14) for rank 2\n"
        "cause: stuck outside: rank 2 is busy or gone after all_reduce #0 (train.py:9)\n" } },
    { "late", 3,
      "groups: 1,2\n"
      "0: all_reduce=[[3]]@9 all_gather=[[3]]@14*\n"
      "1: all_reduce=[[3]]@9 all_reduce/1=[[3]]@12*\n"
      "2: all_reduce=[[3]]@9 all_reduce/1=[[3]]@12-\n",
      { HANG_LATE, 1, 1,
        "rank 0 waits in all_gather #1, rank 1 in all_reduce #0 of group 1\n"
        "cause: late: rank 1 is still in all_reduce #0 of group 1 (line 12)\n" },
      { HANG_LATE, 1, 1,
        "rank 0 waits in all_gather #1, rank 1 in all_reduce #0 of group 1\n"
        "cause: late: rank 1 is still in all_reduce #0 of group 1 (train.py:12)\n" } },
    { "absent", 4,
      "0-1: all_reduce=[[3]]@9*\n"
      "2: ABSENT\n"
      "3: all_reduce=[[3]]@9*\n",
      { HANG_ABSENT, 2, 0,
        "ranks 0, 1, 3 wait in all_reduce #0 (line 9) for rank 2, which left no dump\n"
        "cause: no dump: rank 2 left none: it was killed, or its file is missing\n" },
      { HANG_ABSENT, 2, 0,
        "ranks 0, 1, 3 wait in all_reduce #0 (train.py:9) for rank 2\n"
        "cause: no dump: rank 2 left none: it was killed, or its file is missing\n" } },
    { "chain", 3,
      "0: recv<1=[[3]]@4*\n"
      "1: recv<2=[[3]]@6*\n"
      "2: RUNNING=2.5@30\n",
      { HANG_OUTSIDE, 2, -1,
        "rank 1 waits in recv from rank 2 (line 6), which is at line 30\n"
        "cause: stuck outside: rank 2 has been at line 30 for 2.5 s\n" },
      { HANG_UNMATCHED, 2, -1,
        "rank 1 waits in recv from rank 2 (train.py:6), which did not come\n"
        "cause: unmatched: rank 2 does not send what rank 1 receives (train.py:6)\n" } },
    { "unknown", 3,
      "0-2: all_reduce=[[3]]@9*\n",
      { HANG_UNKNOWN, -1, 0,
        "ranks 0-2 wait in all_reduce #0 (line 9)\n"
        "cause: unknown: all have come to all_reduce #0 alike, and it does not end\n" },
      { HANG_UNKNOWN, -1, 0,
        "ranks 0-2 wait in all_reduce #0 (train.py:9)\n"
        "cause: unknown: all have come to all_reduce #0 alike, and it does not end\n" } },
    { "store", 2,
      "0: IN=store.wait@9\n"
      "1: RETURNED\n",
      { HANG_UNSET_KEY, 0, -1,
        "rank 0 waits in store.wait (line 9)\n"
        "cause: unset key: rank 1 returned, and nobody sets its key (line 9)\n" },
      { HANG_UNSET_KEY, 0, -1,
        "rank 0 waits in store.wait (line 9)\n"
        "cause: unset key: nobody sets its key, for which rank 0 waits (line 9)\n" } },
    { "skipped in a loop", 3,
      "0: all_reduce=[[3]]@7 broadcast=[[3]]%0@7 all_reduce=[[3]]@7 broadcast=[[3]]%0@7 all_reduce=[[3]]@7*\n"
      "1: all_reduce=[[3]]@7 broadcast=[[3]]%0@7 all_reduce=[[3]]@7 broadcast=[[3]]%0@7 broadcast=[[3]]%0@7*\n"
      "2: all_reduce=[[3]]@7 broadcast=[[3]]%0@7 all_reduce=[[3]]@7 broadcast=[[3]]%0@7 all_reduce=[[3]]@7*\n",
      { HANG_SKIPPED, 1, 4,
        "rank 1 waits in broadcast #4 (line 7), ranks 0 and 2 in all_reduce #4 (line 7)\n"
        "cause: skipped call: rank 1 left out all_reduce #4 (line 7)\n" },
      { HANG_SKIPPED, 1, 4,
        "rank 1 in broadcast #4 (train.py:7), 2 ranks in all_reduce #4 (train.py:7)\n"
        "cause: skipped call: rank 1 left out all_reduce #4 (train.py:7)\n" } },
    { "skipped in a loop, two lines", 2,
      "0: all_reduce=[[3]]@9 broadcast=[[3]]%0@7 all_reduce=[[3]]@9 broadcast=[[3]]%0@7 all_reduce=[[3]]@9*\n"
      "1: all_reduce=[[3]]@9 broadcast=[[3]]%0@7 all_reduce=[[3]]@9 broadcast=[[3]]%0@7 broadcast=[[3]]%0@7*\n",
      { HANG_SKIPPED, 1, 4,
        "rank 1 waits in broadcast #4 (line 7), rank 0 in all_reduce #4 (line 9)\n"
        "cause: skipped call: rank 1 left out all_reduce #4 (line 9)\n" },
      { HANG_SKIPPED, 1, 4,
        "rank 1 in broadcast #4 (train.py:7), rank 0 in all_reduce #4 (train.py:9)\n"
        "cause: skipped call: rank 1 left out all_reduce #4 (train.py:9)\n" } },
    { "extra of 2", 2,
      "0: barrier@9*\n"
      "1: broadcast=[[3]]%1@8*\n",
      { HANG_SKIPPED, 0, 0,
        "rank 0 waits in barrier #0 (line 9), rank 1 in broadcast #0 (line 8)\n"
        "cause: skipped call or other order: rank 0 left out broadcast #0 (line 8)\n" },
      { HANG_SKIPPED, 0, 0,
        "rank 0 waits in barrier #0 (train.py:9), rank 1 in broadcast #0 (train.py:8)\n"
        "cause: skipped call or other order: rank 0 left out broadcast #0 (train.py:8)\n" } },
    { "skipped of 1024", 1024,
      "0-499: all_reduce=[[3]]@7 broadcast=[[3]]%0@8*\n"
      "500: all_reduce=[[3]]@7 barrier@9*\n"
      "501-1023: all_reduce=[[3]]@7 broadcast=[[3]]%0@8*\n",
      { HANG_SKIPPED, 500, 1,
        "rank 500 waits in barrier #1 (line 9), 1023 ranks in broadcast #1 (line 8)\n"
        "cause: skipped call or other order: rank 500 left out broadcast #1 (line 8)\n" },
      { HANG_SKIPPED, 500, 1,
        "rank 500 in barrier #1 (train.py:9), 1023 ranks in broadcast #1 (train.py:8)\n"
        "cause: skipped call or other order: rank 500 left out broadcast #1\n"
        "  (train.py:8)\n" } },
    { "tag, then returned", 2,
      "0: send>1#5=[[3]]@8*\n"
      "1: irecv<0#6=[[3]]@11+ RETURNED\n",
      { HANG_TAG, 1, -1,
        "rank 0 waits in send to rank 1 (line 8), which has returned\n"
        "cause: tag: rank 0 sends tag 5 (line 8), rank 1 receives tag 6 (line 11)\n" },
      { HANG_TAG, 1, -1,
        "rank 0 waits in send to rank 1, rank 1 in irecv from rank 0\n"
        "cause: tag: 5 in rank 0's send (train.py:8), 6 in rank 1's recv (train.py:11)\n" } },
    { "tag of 4", 4,
      "0: recv<3#2=[[3]]@8*\n"
      "1-2: barrier@20*\n"
      "3: send>0#1=[[3]]@12*\n",
      { HANG_TAG, 3, -1,
        "rank 0 waits in recv from rank 3 (line 8), rank 3 in send to rank 0 (line 12)\n"
        "cause: tag: rank 3 sends tag 1 (line 12), rank 0 receives tag 2 (line 8)\n" },
      { HANG_TAG, 3, -1,
        "rank 0 waits in recv from rank 3, rank 3 in send to rank 0\n"
        "cause: tag: 1 in rank 3's send (train.py:12), 2 in rank 0's recv (train.py:8)\n" } },
    { "sent shape", 2,
      "0: send>1#0=[[3]]@8*\n"
      "1: recv<0#0=[[4]]@11*\n",
      { HANG_SHAPE, 1, -1,
        "rank 0 waits in send to rank 1 (line 8), rank 1 in recv from rank 0 (line 11)\n"
        "cause: shape: rank 0 sends [3] (line 8), rank 1 receives [4] (line 11)\n" },
      { HANG_SHAPE, 1, -1,
        "rank 0 waits in send to rank 1, rank 1 in recv from rank 0\n"
        "cause: shape: rank 0 sends [3] (train.py:8), rank 1 receives [4] (train.py:11)\n" } },
    { "sent dtype", 2,
      "0: send>1#0=[[3]]~[Float]@8*\n"
      "1: recv<0#0=[[3]]~[Long]@11*\n",
      { HANG_DTYPE, 1, -1,
        "rank 0 waits in send to rank 1 (line 8), rank 1 in recv from rank 0 (line 11)\n"
        "cause: dtype: rank 0 sends Float (line 8), rank 1 receives Long (line 11)\n" },
      { HANG_DTYPE, 1, -1,
        "rank 0 waits in send to rank 1, rank 1 in recv from rank 0\n"
        "cause: dtype: rank 0 sends Float (train.py:8), rank 1 receives Long\n"
        "  (train.py:11)\n" } },
    { "sent in another group", 2,
      "groups: 0,1\n"
      "0: send>1#0=[[3]]@8*\n"
      "1: recv<0#0/1=[[3]]@11*\n",
      { HANG_GROUP, 1, -1,
        "rank 0 waits in send to rank 1, rank 1 in recv from rank 0 of group 1\n"
        "cause: group: rank 1 calls recv (line 11) in group 1, not in the default group\n" },
      { HANG_GROUP, 1, -1,
        "rank 0 waits in send to rank 1, rank 1 in recv from rank 0 of group 1\n"
        "cause: group: rank 1 calls it (train.py:11) in group 1, not in the default\n"
        "  group\n" } },
    { "send and no receive", 3,
      "0: send>2#0=[[3]]@8*\n"
      "1: RETURNED\n"
      "2: RETURNED\n",
      { HANG_UNMATCHED, 2, -1,
        "rank 0 waits in send to rank 2 (line 8), which has returned\n"
        "cause: unmatched: rank 2 does not receive what rank 0 sends (line 8)\n" },
      { HANG_UNMATCHED, 2, -1,
        "rank 0 waits in send to rank 2 (train.py:8), which did not come\n"
        "cause: unmatched: rank 2 does not receive what rank 0 sends (train.py:8)\n" } },
    { "from any rank", 3,
      "0: recv<?#4=[[3]]@8*\n"
      "1: RETURNED\n"
      "2: RETURNED\n",
      { HANG_UNMATCHED, -1, -1,
        "rank 0 waits in recv from any rank, tag 4 (line 8)\n"
        "cause: unmatched: nobody sends what rank 0 receives, tag 4 (line 8)\n" },
      { HANG_UNMATCHED, -1, -1,
        "rank 0 waits in recv from any rank, tag 4 (train.py:8)\n"
        "cause: unmatched: nobody sends what rank 0 receives, tag 4 (train.py:8)\n" } },
    { "from any rank, one is busy", 3,
      "0: recv<?#4=[[3]]@8*\n"
      "1: recv<0=[[3]]@9*\n"
      "2: RUNNING=1@30\n",
      { HANG_OUTSIDE, 2, -1,
        "rank 0 waits in recv from any rank, tag 4 (line 8); rank 2 is at line 30\n"
        "cause: stuck outside: rank 2 has been at line 30 for 1.0 s\n" },
      { HANG_UNMATCHED, -1, -1,
        "rank 0 waits in recv from any rank, tag 4 (train.py:8)\n"
        "cause: unmatched: nobody sends what rank 0 receives, tag 4 (train.py:8)\n" } },
    { "threw before others cross", 4,
      "0: send>1#0=[[3]]@4*\n"
      "1: send>0#0=[[3]]@4*\n"
      "2: recv<3=[[3]]@6*\n"
      "3: THREW@13!RuntimeError\n",
      { HANG_THREW, 3, -1,
        "rank 2 waits in recv from rank 3 (line 6), which threw\n"
        "cause: threw: rank 3 threw at line 13: RuntimeError\n" },
      { HANG_SENDS_CROSSED, 1, -1,
        "rank 0 in send to rank 1 (train.py:4), rank 1 in send to rank 0 (train.py:4)\n"
        "cause: crossed sends: ranks 0 and 1 both send first, and neither receives\n" } },
    { "mismatch before a throw", 3,
      "0: all_reduce=[[3]]@9 all_reduce=[[3]]@10-\n"
      "1: all_reduce=[[3]]@9 all_reduce=[[5]]@10-\n"
      "2: all_reduce=[[3]]@9 THREW@12!ValueError\n",
      { HANG_SHAPE, 1, 1,
        "ranks 0 and 1 wait in all_reduce #1 (line 10)\n"
        "cause: shape: all_reduce #1 (line 10) gets [5] on rank 1, [3] on rank 0\n" },
      { HANG_SHAPE, 1, 1,
        "ranks 0 and 1 wait in all_reduce #1 (train.py:10)\n"
        "cause: shape: all_reduce #1 (train.py:10) gets [5] on rank 1, [3] on rank 0\n" } },
    { "nobody waits, one threw", 2,
      "0: RETURNED\n"
      "1: THREW@12!ValueError\n",
      { HANG_THREW, 1, -1,
        "nobody waits; rank 1 threw\n"
        "cause: threw: rank 1 threw at line 12: ValueError\n" },
      { HANG_NONE, -1, -1,
        "nobody waits\n"
        "cause: none: every call is over, or goes on\n" } },
    { "several ended", 4,
      "0: all_reduce=[[3]]@9 all_reduce=[[3]]@9*\n"
      "1-3: all_reduce=[[3]]@9 RETURNED\n",
      { HANG_ENDED, 1, 1,
        "rank 0 waits in all_reduce #1 (line 9) for ranks 1-3, which have returned\n"
        "cause: ended early: ranks 1-3 returned without all_reduce #1\n" },
      { HANG_OUTSIDE, 1, 1,
        "rank 0 waits in all_reduce #1 (train.py:9) for ranks 1-3, which did not come\n"
        "cause: stuck outside: ranks 1-3 are busy or gone after #0 (train.py:9)\n" } },
    { "ended, skipped by all others", 4,
      "0: all_reduce=[[3]]@8 all_reduce=[[3]]@9 all_reduce=[[3]]@10*\n"
      "1-3: all_reduce=[[3]]@8 all_reduce=[[3]]@10 RETURNED\n",
      { HANG_SKIPPED, 0, 1,
        "rank 0 waits in all_reduce #2 (line 10) for ranks 1-3, which have returned\n"
        "cause: skipped call: rank 0 alone calls all_reduce #1 (line 9)\n" },
      { HANG_SKIPPED, 0, 1,
        "rank 0 waits in all_reduce #2 (train.py:10) for ranks 1-3, which did not come\n"
        "cause: skipped call: rank 0 alone calls all_reduce #1 (train.py:9)\n" } },
    { "most absent", 64,
      "0: all_reduce=[[3]]@9*\n"
      "1: ABSENT\n"
      "2: all_reduce=[[3]]@9*\n"
      "3-63: ABSENT\n",
      { HANG_ABSENT, 1, 0,
        "ranks 0 and 2 wait in all_reduce #0 (line 9) for ranks 1, 3-63\n"
        "cause: no dump: ranks 1, 3-63 left none: killed, or their files are missing\n" },
      { HANG_ABSENT, 1, 0,
        "ranks 0 and 2 wait in all_reduce #0 (train.py:9) for ranks 1, 3-63\n"
        "cause: no dump: ranks 1, 3-63 left none: killed, or their files are missing\n" } },
    { "long list", 2,
      "0: all_reduce=[[64,3,7,7],[64],[128,64,3,3],[128],[256,128,3,3],[256],[512,256,3,3],[512],[1000,512],[1000]]@9*\n"
      "1: all_reduce=[[64,3,7,7],[64],[128,64,3,3],[128],[256,128,3,3],[256],[512,256,3,3],[512],[999,512],[1000]]@9*\n",
      { HANG_SHAPE, 1, 0,
        "ranks 0 and 1 wait in all_reduce #0 (line 9)\n"
        "cause: shape: tensor 9 of 10 of all_reduce #0 is [999,512] on rank 1,\n"
        "  [1000,512] on rank 0\n" },
      { HANG_SHAPE, 1, 0,
        "ranks 0 and 1 wait in all_reduce #0 (train.py:9)\n"
        "cause: shape: tensor 9 of 10 of all_reduce #0 is [999,512] on rank 1,\n"
        "  [1000,512] on rank 0\n" } },
    { "gathered apart", 2,
      "0: gather=[[3]]%0@9*\n"
      "1: gather=[[3]]%1@9*\n",
      { HANG_ROOT, 1, 0,
        "ranks 0 and 1 wait in gather #0 (line 9)\n"
        "cause: root: gather #0 (line 9) has root 1 on rank 1, root 0 on rank 0\n" },
      { HANG_ROOT, 1, 0,
        "ranks 0 and 1 wait in gather #0 (train.py:9)\n"
        "cause: root: gather #0 (train.py:9) has root 1 on rank 1, root 0 on rank 0\n" } },
    { "all_to_all of any size", 2,
      "0: all_to_all=[[3],[5]]@9*\n"
      "1: all_to_all=[[2],[9]]@9*\n",
      { HANG_UNKNOWN, -1, 0,
        "ranks 0 and 1 wait in all_to_all #0 (line 9)\n"
        "cause: unknown: all have come to all_to_all #0 alike, and it does not end\n" },
      { HANG_UNKNOWN, -1, 0,
        "ranks 0 and 1 wait in all_to_all #0 (train.py:9)\n"
        "cause: unknown: all have come to all_to_all #0 alike, and it does not end\n" } },
    { "none", 2,
      "0-1: all_reduce=[[3]]@9\n",
      { HANG_NONE, -1, -1,
        "nobody waits\n"
        "cause: none: every call is over, or goes on\n" },
      { HANG_NONE, -1, -1,
        "nobody waits\n"
        "cause: none: every call is over, or goes on\n" } },
    { "left out, as the places tell", 2,
      "0: all_reduce=[[3]]@7- all_reduce=[[4]]@8*\n"
      "1: all_reduce=[[4]]@8- all_reduce=[[4]]@9*\n",
      { HANG_SKIPPED, 1, 0,
        "rank 1 called all_reduce #0 (line 8), rank 0 all_reduce #0 (line 7)\n"
        "cause: skipped call: rank 1 left out all_reduce #0 (line 7)\n" },
      { HANG_SKIPPED, 1, 0,
        "rank 1 in all_reduce #0 (train.py:8), rank 0 in it (train.py:7)\n"
        "cause: skipped call: rank 1 left out all_reduce #0 (train.py:7)\n" } },
    { "threw, and others miss each other", 4,
      "0: send>1#5=[[3]]@4*\n"
      "1: recv<0#6=[[3]]@4*\n"
      "2: recv<3=[[3]]@6*\n"
      "3: THREW@13!RuntimeError\n",
      { HANG_THREW, 3, -1,
        "rank 2 waits in recv from rank 3 (line 6), which threw\n"
        "cause: threw: rank 3 threw at line 13: RuntimeError\n" },
      { HANG_TAG, 1, -1,
        "rank 0 in send to rank 1 (train.py:4), rank 1 in recv from rank 0 (train.py:4)\n"
        "cause: tag: 5 in rank 0's send (train.py:4), 6 in rank 1's recv (train.py:4)\n" } },
    { "in a wait of its own", 2,
      "0: IN=join@9\n"
      "1: all_reduce=[[3]]@4*\n",
      { HANG_OUTSIDE, 0, 0,
        "rank 1 waits in all_reduce #0 (line 4) for rank 0, rank 0 in join (line 9)\n"
        "cause: stuck outside: rank 0 waits in join (line 9), and nothing says for whom\n" },
      { HANG_OUTSIDE, 0, 0,
        "rank 1 waits in all_reduce #0 (train.py:4) for rank 0, rank 0 in join (line 9)\n"
        "cause: stuck outside: rank 0 waits in join (line 9), and nothing says for whom\n" } },
    { "late, asleep", 2,
      "0: all_reduce=[[3]]@4*\n"
      "1: IN=sleep@9\n",
      { HANG_LATE, 1, 0,
        "rank 0 waits in all_reduce #0 (line 4) for rank 1, rank 1 in sleep (line 9)\n"
        "cause: late: rank 1 is still in sleep (line 9)\n" },
      { HANG_LATE, 1, 0,
        "rank 0 waits in all_reduce #0 (train.py:4), rank 1 in sleep (line 9)\n"
        "cause: late: rank 1 is still in sleep (line 9)\n" } },
    { "two are busy, one for longer", 3,
      "0: all_reduce=[[3]]@4*\n"
      "1: RUNNING=1@9\n"
      "2: RUNNING=2@10\n",
      { HANG_OUTSIDE, 2, 0,
        "rank 0 waits in all_reduce #0 (line 4) for ranks 1 and 2\n"
        "cause: stuck outside: rank 2 has been at line 10 for 2.0 s\n" },
      { HANG_OUTSIDE, 2, 0,
        "rank 0 waits in all_reduce #0 (train.py:4) for ranks 1 and 2\n"
        "cause: stuck outside: ranks 1 and 2 are busy or gone\n" } },
    { "enqueued, and not begun on one", 3,
      "0-1: all_reduce=[[3]]@8 all_reduce=[[3]]@9-\n"
      "2: all_reduce=[[3]]@8 all_reduce=[[3]]@9+\n",
      { HANG_LATE, 2, 1,
        "ranks 0 and 1 wait in all_reduce #1 (line 9) for rank 2\n"
        "cause: late: rank 2 enqueued it (line 9), but its device has not begun it\n" },
      { HANG_LATE, 2, 1,
        "ranks 0 and 1 wait in all_reduce #1 (train.py:9) for rank 2\n"
        "cause: late: rank 2 enqueued it (train.py:9), but its device has not begun it\n" } },
    { "out of a long file", 4,
      "0-2: reduce_scatter_tensor_coalesced=[[3]]@10812-\n"
      "3: _reduce_scatter_base=[[3]]@10826-\n",
      { HANG_SKIPPED, 3, 0,
        "rank 3 in _reduce_scatter_base #0, 3 ranks in reduce_scatter_tensor_coalesced\n"
        "  #0\n"
        "cause: skipped call or other order: rank 3 left out\n"
        "  reduce_scatter_tensor_coalesced #0 (line 10812)\n" },
      { HANG_SKIPPED, 3, 0,
        "rank 3 in _reduce_scatter_base #0, 3 ranks in reduce_scatter_tensor_coalesced\n"
        "  #0\n"
        "cause: skipped call or other order: rank 3 left out\n"
        "  reduce_scatter_tensor_coalesced #0 (train.py:10812)\n" } },
};
#endif
