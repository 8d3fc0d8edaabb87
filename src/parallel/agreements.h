/* What every rank does once and must do alike: the first leaves what it did, the others compare theirs with it as they
 * come, the last takes it away. */
#ifndef PARALLEL_AGREEMENTS_H
#define PARALLEL_AGREEMENTS_H
#include <stddef.h>
#include <stdint.h>

struct task;

enum agreement_kind { AGREEMENT_GRAD, AGREEMENT_NAMES, AGREEMENT_SAMPLER };
struct agreement_key { enum agreement_kind kind; int64_t index, number; };
struct agreement {
    struct agreement    *next;
    struct agreement_key key;
    int               rank, missing;   /* who came first (-1: only ranks that passed); ranks that have still to come */
    uint32_t          line;            /* of the lesson */
    size_t            bytes;
    unsigned char     elements[];
};
struct agreements { struct agreement *first; };

/* `spare` comes with the question, since memory is not asked for where ranks meet; what is not used stays there. */
struct agreement_of { struct agreement_key key; int rank, ranks; uint32_t line; const void *elements; size_t bytes;
                      struct agreement *spare; };
struct agreement *agreement_new(struct task *me, size_t bytes);     /* NULL: no memory */
void              agreement_free(struct task *me, struct agreement *agreement, size_t bytes);   /* NULL is fine */
/* NULL: equal; else what another rank did, which stays. */
const struct agreement *agreements_meet(struct task *me, struct agreements *agreements, struct agreement_of *mine);
/* The rank does not do it and never will: nobody waits for it. */
void agreements_pass(struct task *me, struct agreements *agreements, struct agreement_of *mine);
void agreements_free(struct task *me, struct agreements *agreements);
#endif
