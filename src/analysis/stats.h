/* Sums over a stretch of a record: per kind how often and how long, per rank how its time was spent. Taken in slices, as
 * a record may have millions of events.
 * Order of use: stats_new, stats_grow until it has come to the end of the stretch, the fields; stats_free. */
#ifndef ANALYSIS_STATS_H
#define ANALYSIS_STATS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace;

/* Times in ps, of stages that began and ended in the stretch. */
struct kind_sums { uint64_t count, total, self, longest; size_t longest_at; };
struct rank_sums { uint64_t busy, wait, communication; };
struct lane_stack;

struct stats {
    const struct trace *trace;      /* borrowed */
    uint64_t            version;    /* of its order */
    size_t              from, next; /* the first event of the stretch, and the first that is not in the sums yet */
    struct kind_sums   *kinds;
    size_t              kind_count;
    uint8_t            *work;       /* of each kind */
    struct rank_sums   *ranks;
    size_t              rank_count;
    struct lane_stack  *lanes;
    size_t              lane_count;
    bool                starved;
};

struct stats *stats_new(const struct trace *trace, size_t from);   /* NULL: no memory */
/* Looks at `slice` events at most, none at or behind `to`. true: there is more before `to`. */
bool          stats_grow(struct stats *stats, size_t to, size_t slice);
void          stats_free(struct stats *stats);                     /* NULL is fine */
#endif
