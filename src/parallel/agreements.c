/* A list of what ranks did that not all have done yet: short, since ranks meet in collectives. Interface: agreements_meet,
 * agreements_free. */
#include "parallel/agreements.h"
#include <stdbool.h>
#include <string.h>
#include "device/cells.h"

static bool
same_key(const struct agreement_key *a, const struct agreement_key *b)
{
    return a->kind == b->kind && a->index == b->index && a->number == b->number;
}

static void
agreement_free(struct task *me, struct agreement *agreement)
{
    host_return(me, agreement, sizeof *agreement + agreement->bytes);
}

static enum agreement_answer
agreement_leave(struct task *me, struct agreement **end, const struct agreement_of *mine)
{
    struct agreement *agreement = cell_take(me, sizeof *agreement + mine->bytes);
    if (agreement == NULL)
        return AGREEMENT_NO_MEMORY;
    *agreement = (struct agreement){ .key = mine->key, .rank = mine->rank, .missing = mine->ranks - 1, .line = mine->line,
                               .bytes = mine->bytes };
    if (mine->bytes > 0)
        memcpy(agreement->elements, mine->elements, mine->bytes);
    *end = agreement;
    return AGREEMENT_EQUAL;
}

enum agreement_answer
agreements_meet(struct task *me, struct agreements *agreements, const struct agreement_of *mine, const struct agreement **theirs)
{
    struct agreement **link = &agreements->first;
    while (*link != NULL && !same_key(&(*link)->key, &mine->key))
        link = &(*link)->next;
    struct agreement *agreement = *link;
    if (agreement == NULL)
        return agreement_leave(me, link, mine);
    if (agreement->bytes != mine->bytes || (mine->bytes > 0 && memcmp(agreement->elements, mine->elements, mine->bytes) != 0)) {
        *theirs = agreement;
        return AGREEMENT_DIFFERS;
    }
    if (--agreement->missing == 0) {
        *link = agreement->next;
        agreement_free(me, agreement);
    }
    return AGREEMENT_EQUAL;
}

void
agreements_free(struct task *me, struct agreements *agreements)
{
    for (struct agreement *agreement = agreements->first, *next; agreement != NULL; agreement = next) {
        next = agreement->next;
        agreement_free(me, agreement);
    }
    agreements->first = NULL;
}
