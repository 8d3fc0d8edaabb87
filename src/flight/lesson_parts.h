/* What the files that write lessons share. */
#ifndef FLIGHT_LESSON_PARTS_H
#define FLIGHT_LESSON_PARTS_H
#include "flight/flight.h"
#include "flight/lesson.h"

enum { LESSON_CALLS = 8, LESSON_DIMS = 12 };     /* of a group on a rank; of a tensor */

/* Ranks of the lesson are bits. `other` is what other ranks call in the same line; NULL: nothing. */
struct lesson_line {
    const struct flight_entry *call, *other;
    unsigned ranks, other_ranks;
    unsigned async;            /* they do not wait for it at once */
    unsigned passed;           /* and never, as in the job */
};
struct lesson_calls { const struct flight_entry *at[4 * LESSON_CALLS]; int count, next, open; };

struct lesson_plan {
    const struct flight *flight;
    const struct hang   *hang;
    int                  ranks[LESSON_RANKS], world;      /* of the job, by rank of the lesson */
    int64_t             *starts;     /* by group: the first call that is repeated; INT64_MAX: none is */
    struct lesson_calls  calls[LESSON_RANKS];
    struct lesson_line   lines[LESSON_RANKS * 4 * LESSON_CALLS];
    int                  line_count;
    int64_t             *large;                           /* sizes that become 9, 10 ..., in order; NULL: none do */
    size_t               large_count, large_room;
};

/* ---- lesson_plan.c ---- */

/* false: no memory. */
bool lesson_plan(struct lesson_plan *plan, const struct flight *flight, const struct hang *hang);
void lesson_plan_free(struct lesson_plan *plan);
int  lesson_rank(const struct lesson_plan *plan, int rank);      /* of a rank of the job; -1: it is left out */
unsigned lesson_members(const struct lesson_plan *plan, int group);

/* ---- lesson_shape.c ---- */

struct lesson_shape { int64_t sizes[LESSON_DIMS]; int dims; };

/* The tensor `index` of "[[3, 4], [2]]"; false: there is none. */
bool lesson_shape(const char *sizes, int index, struct lesson_shape *shape);
/* Notes the sizes of a call: where one of its tensors is large, all are made small. false: no memory. */
bool lesson_note_sizes(struct lesson_plan *plan, const char *sizes);
int64_t     lesson_size(const struct lesson_plan *plan, int64_t size);
const char *lesson_dtype(const char *dtypes);                    /* "int64" of "[Long]"; float32 if not known */
#endif
