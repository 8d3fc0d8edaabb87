/* A search over interleavings; see search.h. Each run does the given frames again, then goes on with the first move
 * that does not sleep, a frame for each state in which all who could go on stand before a touch.
 *
 * Interface: search_begin, search_next; search_stands, search_choose. */
#include "sched/search.h"
#include <string.h>
#include "base/map.h"
#include "sched/internal.h"

enum { NO_MOVE = -1 };

void
search_begin(struct search *search)
{
    search->depth = search->at = search->key_count = 0;
    search->complete = search->blocked = search->runs = 0;
    search->end = SEARCH_COMPLETE;
}

/* ---- which keys matter ---- */

static bool
key_is_known(const struct search *search, uint64_t key)
{
    for (size_t i = 0; i < search->key_count; i++)
        if (search->keys[i] == key)
            return true;
    return false;
}

/* The run is given up: what it says has no meaning any more. */
static void
give_up(struct search *search, enum search_end end)
{
    if (search->end == SEARCH_COMPLETE)
        search->end = end;
}

static void
learn_key(struct search *search, uint64_t key)
{
    if (search->key_count == SEARCH_KEYS) {
        give_up(search, SEARCH_TOO_LARGE);
        return;
    }
    search->keys[search->key_count++] = key;
    give_up(search, SEARCH_LEARNT);
}

/* What was seen of a key, in one number: who came first, whether others did, and what was done. */
enum { SEEN_MANY = 1, SEEN_CHANGE = 2, SEEN_ANY = 4, SEEN_BITS = 3 };

/* Does the order of this key's touches matter, now that this one is there? Receives from any source take what
 * comes in the order in which it came: only who sends counts among them. */
static bool
key_matters(uint64_t *seen, const struct search_move *move)
{
    uint64_t who = (uint64_t)move->task + 1;
    if (move->touch == TOUCH_TAKE_ANY) {
        *seen |= SEEN_ANY;
        return (*seen & SEEN_MANY) != 0;
    }
    if (*seen >> SEEN_BITS == 0)
        *seen |= who << SEEN_BITS;
    else if (*seen >> SEEN_BITS != who)
        *seen |= SEEN_MANY;
    *seen |= move->touch == TOUCH_CHANGE ? SEEN_CHANGE : 0;
    return (*seen & SEEN_MANY) != 0 && (*seen & (move->touch == TOUCH_GIVE ? SEEN_ANY : SEEN_CHANGE)) != 0;
}

bool
search_stands(struct search *search, struct map *seen, const struct search_move *move)
{
    uint64_t what = 0;
    if (search->end != SEARCH_COMPLETE)
        return false;
    if (key_is_known(search, move->key))
        return move->touch != TOUCH_TAKE_ANY;
    (void)map_get(seen, move->key, &what);
    if (key_matters(&what, move))
        learn_key(search, move->key);
    else if (!map_set(seen, move->key, what))
        give_up(search, SEARCH_TOO_LARGE);
    return false;
}

/* ---- states ---- */

static bool
moves_depend(const struct search_move *a, const struct search_move *b)
{
    return a->key == b->key && !(a->touch == TOUCH_READ && b->touch == TOUCH_READ);
}

/* Who slept in the state before, or was tried there, sleeps on until something happens that depends on it. */
static bool
still_asleep(const struct search_frame *before, const struct search_move *move)
{
    for (int i = 0; i < before->count; i++)
        if (before->moves[i].task == move->task)
            return (before->asleep >> i & 1) != 0 && !moves_depend(move, &before->moves[before->taken]);
    return false;
}

static int
first_awake(const struct search_frame *frame)
{
    for (int i = 0; i < frame->count; i++)
        if ((frame->asleep >> i & 1) == 0)
            return i;
    return NO_MOVE;
}

static void
add_move(struct search_frame *frame, const struct machine *machine)
{
    struct search_move move = { machine->task.number, machine->choice.touch, machine->choice.key };
    int                at   = frame->count++;
    for (; at > 0 && frame->moves[at - 1].task > move.task; at--)
        frame->moves[at] = frame->moves[at - 1];
    frame->moves[at] = move;
}

/* false: there are too many, or too many states. */
static bool
make_frame(struct search *search, struct machine *const *ready, size_t count)
{
    if (search->at == SEARCH_DEPTH || count > SEARCH_MOVES)
        return false;
    struct search_frame *frame = &search->frames[search->at];
    frame->count = frame->taken = 0;
    frame->asleep = 0;
    for (size_t i = 0; i < count; i++)
        add_move(frame, ready[i]);
    for (int i = 0; search->at > 0 && i < frame->count; i++)
        if (still_asleep(frame - 1, &frame->moves[i]))
            frame->asleep |= 1u << i;
    return true;
}

static struct machine *
choose_standing(struct search *search, struct machine *const *ready, size_t count)
{
    struct search_frame *frame = &search->frames[search->at];
    if (search->at >= search->depth) {
        if (!make_frame(search, ready, count)) {
            give_up(search, SEARCH_TOO_LARGE);
            return NULL;
        }
        frame->taken = first_awake(frame);
    }
    if (frame->taken == NO_MOVE) {
        give_up(search, SEARCH_BLOCKED);
        return NULL;
    }
    search->at++;
    for (size_t i = 0; i < count; i++)
        if (ready[i]->task.number == frame->moves[frame->taken].task)
            return ready[i];
    give_up(search, SEARCH_TOO_LARGE);
    return NULL;
}

/* Who need not be ordered goes on at once: the same as long as he can, then the first by number. NULL: as usual. */
struct machine *
search_choose(struct search *search, struct machine *const *ready, size_t count, struct machine *from)
{
    struct machine *first = NULL;
    size_t          stand = 0;
    if (search->end != SEARCH_COMPLETE)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        stand += ready[i]->choice.stands;
        if (ready[i]->choice.stands || ready[i]->choice.polls)
            continue;
        if (ready[i] == from)
            return from;
        if (first == NULL || ready[i]->task.number < first->task.number)
            first = ready[i];
    }
    if (first != NULL || stand == 0 || stand < count)
        return first; /* who polls is among them: it is his turn */
    return choose_standing(search, ready, count);
}

/* ---- from run to run ---- */

bool
search_next(struct search *search)
{
    enum search_end end = search->end;
    search->end = SEARCH_COMPLETE;
    search->runs++;
    if (end == SEARCH_TOO_LARGE) {
        search->end = end;
        return false;
    }
    if (end == SEARCH_LEARNT) {
        search->complete = search->blocked = 0;
        search->depth = search->at = 0;
        return true;
    }
    search->complete += end == SEARCH_COMPLETE;
    search->blocked += end == SEARCH_BLOCKED;
    for (search->depth = search->at; search->depth > 0; search->depth--) {
        struct search_frame *frame = &search->frames[search->depth - 1];
        frame->asleep |= 1u << frame->taken;
        frame->taken = first_awake(frame);
        if (frame->taken != NO_MOVE)
            break;
    }
    search->at = 0;
    return search->depth > 0;
}
