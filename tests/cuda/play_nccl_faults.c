/* What goes wrong: ranks that do not come, errors that come later or at once, one GPU for two ranks. No call waits,
 * so who looks may give up and abort. */
#include <stdio.h>
#include <string.h>
#include "fake/nccl.h"
#include "play_nccl.h"

enum { LOOKS = 200, COUNT = 4 };

static const struct nccl_operation barrier_operation = { .kind = NCCL_BARRIER };
static const struct nccl_launch    barrier_launch    = { .operations = &barrier_operation, .count = 1 };

static bool
says(struct play_rank *rank, const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (strstr(rank->why.text, words[i]) == NULL) {
            play_note("'%s' is missing in: %s", words[i], rank->why.text);
            return false;
        }
    return true;
}

/* Rank 0 never joins: the others look in vain, give up, and nothing is left of it. */
static bool
absent_at_the_door(struct play_rank *rank)
{
    if (rank->rank == 0)
        return true;
    bool waits = play_join(rank) && play_is_busy(rank, LOOKS);
    play_leave(rank, true);
    return waits;
}

/* It has joined, and does not call what the others call. */
static bool
absent_later(struct play_rank *rank)
{
    if (!play_join(rank) || play_await(rank) != NCCL_READY)
        return false;
    bool waits = rank->rank == 0 || (ringside_nccl_1.launch(rank->comm, &barrier_launch, &rank->why) &&
                                     play_is_busy(rank, LOOKS));
    play_meet(rank);
    play_leave(rank, true);
    return waits;
}

/* What is under way is given up by all: the next group of the same ranks is good. */
static bool
after_an_abort(struct play_rank *rank)
{
    if (!absent_later(rank))
        return false;
    play_meet(rank);
    if (rank->rank == 0 && !ringside_nccl_1.make_id(&rank->world->id, &rank->why))
        return false;
    play_meet(rank);
    bool done = play_join(rank) && play_await(rank) == NCCL_READY && play_launch(rank, &barrier_launch);
    play_leave(rank, false);
    return done;
}

static bool
slow(struct play_rank *rank)
{
    bool done = play_join(rank) && play_await(rank) == NCCL_READY && play_launch(rank, &barrier_launch);
    play_leave(rank, false);
    return done;
}

/* Rank 1's fails for good: it says why, each time; the others only wait. */
static bool
failing(struct play_rank *rank)
{
    static const char *const words[] = { "ncclRemoteError", "(6)", "socket progress: connection closed by remote peer",
                                         "another rank has ended" };
    struct backend_why again;
    bool fine = play_join(rank);
    if (rank->rank == 1) {
        enum nccl_state state = NCCL_BUSY;
        while (fine && state != NCCL_FAILED)    /* it may have joined before */
            state = ringside_nccl_1.poll(rank->comm, &rank->why);
        fine = fine && says(rank, words, 4) &&
               ringside_nccl_1.poll(rank->comm, &again) == NCCL_FAILED && strcmp(again.text, rank->why.text) == 0 &&
               !ringside_nccl_1.launch(rank->comm, &barrier_launch, &again) && strcmp(again.text, rank->why.text) == 0;
    } else {
        fine = fine && play_await(rank) == NCCL_READY && ringside_nccl_1.launch(rank->comm, &barrier_launch,
                                                                                &rank->why) &&
               play_is_busy(rank, LOOKS);
    }
    play_meet(rank);
    play_leave(rank, true);
    return fine;
}

static bool
refused(struct play_rank *rank)
{
    static const char *const words[] = { "NCCL failed in barrier", "ncclInvalidArgument (4)" };
    bool fine = play_join(rank) && play_await(rank) == NCCL_READY;
    bool mine = rank->rank == 1;
    fine = fine && ringside_nccl_1.launch(rank->comm, &barrier_launch, &rank->why) != mine &&
           (mine ? says(rank, words, 2) : play_is_busy(rank, LOOKS));
    play_meet(rank);
    play_leave(rank, true);
    return fine;
}

static bool
crowded(struct play_rank *rank)
{
    static const char *const words[] = { "Duplicate GPU detected", "ncclInvalidUsage (5)", "two ranks use one GPU" };
    bool fine = play_join(rank) && play_await(rank) == NCCL_FAILED && says(rank, words, 3);
    play_meet(rank);
    play_leave(rank, true);
    return fine;
}

static bool
hasty(struct play_rank *rank)
{
    static const char *const words[] = { "two things at once" };
    if (!play_join(rank) || play_await(rank) != NCCL_READY)
        return false;
    bool fine = ringside_nccl_1.launch(rank->comm, &barrier_launch, &rank->why) &&
                !ringside_nccl_1.launch(rank->comm, &barrier_launch, &rank->why) && says(rank, words, 1) &&
                play_await(rank) == NCCL_READY;
    play_leave(rank, false);
    return fine;
}

void
play_faults(void)
{
    int aborted = fake_nccl_aborted();
    play_ranks(4, "a rank that never joins keeps the others busy, and they give up", absent_at_the_door);
    play_ok(fake_nccl_aborted() == aborted + 3, "who gave up has aborted its communicator");
    play_ranks(4, "a rank that does not call keeps the others busy, and all give up", absent_later);
    play_ok(fake_nccl_aborted() == aborted + 7 && fake_nccl_living() == 0,
            "all communicators are aborted, none is left");
    play_ranks(4, "after an abort the next group of the same ranks works", after_an_abort);

    fake_nccl_break(&(struct fake_nccl_fault){ FAKE_NCCL_SLOW, 1, 300, 0, "" });
    play_ranks(2, "what is in progress for long is done in the end", slow);
    fake_nccl_break(&(struct fake_nccl_fault){ FAKE_NCCL_ASYNC, 1, 20, 6,
                                               "NCCL WARN something\n"
                                               "socket progress: connection closed by remote peer\n" });
    play_ranks(4, "an error that comes later is told with NCCL's name and words and what to do", failing);
    fake_nccl_break(&(struct fake_nccl_fault){ FAKE_NCCL_REFUSED, 1, 0, 4, "AllReduce : invalid sendbuff" });
    play_ranks(2, "a call that NCCL refuses is told at once", refused);
    fake_nccl_break(NULL);
    play_world(&(struct play_world){ .ranks = 2, .number = 0, .gpus = 1, .run = crowded },
               "two ranks on one GPU are told why not");
    play_ranks(2, "a communicator that is busy takes nothing else", hasty);
    play_ok(fake_nccl_living() == 0, "no failure leaves a communicator behind");
}
