/* The naive all-reduce: all send to rank 0, one after the other, and get the sum back one after the other. What one
 * writes first, and why nobody keeps it: rank 0's links carry everything, at 2 (N-1) times the price of a message. */
#include "c10d/local.h"

static bool
naive_all_reduce(struct task *me, const struct collective *call)
{
    struct exchange all = { .to = -1, .from = -1, .send = { 0, call->elements }, .receive = { 0, call->elements },
                            .in_turn = true, .in_place = true };
    for (int back = 0; back <= 1; back++)
        for (int rank = 1; rank < call->ranks; rank++) {
            struct exchange one = all;
            one.reduce = !back;
            if (call->rank == 0)
                *(back ? &one.to : &one.from) = rank;
            else if (call->rank == rank)
                *(back ? &one.from : &one.to) = 0;
            if (!exchange_run(me, call, &one))
                return false;
        }
    return true;
}

const struct algorithm algorithm_naive = {
    "naive", naive_all_reduce, NULL, false, "2 (N-1)", "S; rank 0: (N-1) S",
    "everything to rank 0, one rank after the other, and back"
};
