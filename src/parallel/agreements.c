/* A list of what ranks did that not all have done yet: short, since ranks meet in collectives. Interface in order of
 * use: agreement_new, agreements_meet, agreement_free; agreements_free. PyTorch has nothing like it. */
#include "parallel/agreements.h"
#include <stdbool.h>
#include <string.h>
#include "device/cells.h"

static bool
same_key(const struct agreement_key *a, const struct agreement_key *b)
{
    return a->kind == b->kind && a->index == b->index && a->number == b->number;
}

struct agreement *
agreement_new(struct task *me, size_t bytes)
{
    return cell_take(me, sizeof(struct agreement) + bytes);
}

void
agreement_free(struct task *me, struct agreement *agreement, size_t bytes)
{
    host_return(me, agreement, sizeof *agreement + bytes);
}

static struct agreement *
agreement_fill(struct agreement_of *mine)
{
    struct agreement *agreement = mine->spare;
    mine->spare                 = NULL;
    *agreement = (struct agreement){ .key = mine->key, .rank = mine->rank, .missing = mine->ranks - 1,
                                     .line = mine->line, .bytes = mine->bytes };
    if (mine->bytes > 0)
        memcpy(agreement->elements, mine->elements, mine->bytes);
    return agreement;
}

static struct agreement **
agreement_find(struct agreements *agreements, const struct agreement_key *key)
{
    struct agreement **link = &agreements->first;
    while (*link != NULL && !same_key(&(*link)->key, key))
        link = &(*link)->next;
    return link;
}

/* One rank less has still to come. */
static void
agreement_passed(struct task *me, struct agreement **link)
{
    struct agreement *agreement = *link;
    if (--agreement->missing > 0)
        return;
    *link = agreement->next;
    agreement_free(me, agreement, agreement->bytes);
}

/* The first that does it takes the place of those that only passed. */
static void
agreement_take_over(struct task *me, struct agreement **link, struct agreement_of *mine)
{
    struct agreement *passed = *link, *agreement = agreement_fill(mine);
    agreement->missing = passed->missing;
    agreement->next    = passed->next;
    *link              = agreement;
    agreement_free(me, passed, passed->bytes);
    agreement_passed(me, link);
}

const struct agreement *
agreements_meet(struct task *me, struct agreements *agreements, struct agreement_of *mine)
{
    struct agreement **link = agreement_find(agreements, &mine->key), *agreement = *link;
    if (agreement == NULL) {
        *link = agreement_fill(mine);
        return NULL;
    }
    if (agreement->rank < 0) {
        agreement_take_over(me, link, mine);
        return NULL;
    }
    if (agreement->bytes != mine->bytes ||
        (mine->bytes > 0 && memcmp(agreement->elements, mine->elements, mine->bytes) != 0))
        return agreement;
    agreement_passed(me, link);
    return NULL;
}

void
agreements_pass(struct task *me, struct agreements *agreements, struct agreement_of *mine)
{
    struct agreement **link = agreement_find(agreements, &mine->key);
    if (*link != NULL) {
        agreement_passed(me, link);
        return;
    }
    *link         = agreement_fill(mine);
    (*link)->rank = -1;
}

void
agreements_free(struct task *me, struct agreements *agreements)
{
    for (struct agreement *agreement = agreements->first, *next; agreement != NULL; agreement = next) {
        next = agreement->next;
        agreement_free(me, agreement, agreement->bytes);
    }
    agreements->first = NULL;
}
