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

const struct agreement *
agreements_meet(struct task *me, struct agreements *agreements, struct agreement_of *mine)
{
    struct agreement **link = &agreements->first;
    while (*link != NULL && !same_key(&(*link)->key, &mine->key))
        link = &(*link)->next;
    struct agreement *agreement = *link;
    if (agreement == NULL) {
        *link = agreement_fill(mine);
        return NULL;
    }
    if (agreement->bytes != mine->bytes ||
        (mine->bytes > 0 && memcmp(agreement->elements, mine->elements, mine->bytes) != 0))
        return agreement;
    if (--agreement->missing == 0) {
        *link = agreement->next;
        agreement_free(me, agreement, agreement->bytes);
    }
    return NULL;
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
