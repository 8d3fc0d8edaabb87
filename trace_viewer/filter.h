/* Which spans and lanes are shown: those for which a predicate holds. Spans are asked one by one as they are drawn;
 * which lanes have any is looked for in slices. Order of use: filter_set, filter_work until false, filter_shows or
 * filter_sieve, filter_hides_lane; filter_free. */
#ifndef VIEWER_FILTER_H
#define VIEWER_FILTER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "strip.h"

struct match; struct match_names;

struct filter {
    struct match *match;     /* NULL: everything is shown; owned */
    uint8_t      *lanes;     /* whether a lane has a match, as far as was looked */
    size_t        lane_count;
    size_t        looked;    /* events */
    bool          whole;     /* all of them were */
    uint64_t      number;    /* another one for each predicate */
};

bool filter_set(struct filter *filter, const struct model *model, const char *expression, char *why, size_t why_size);
bool filter_work(struct filter *filter, const struct model *model);        /* a slice; false: it is whole */
bool filter_is_whole(const struct filter *filter, const struct model *model);
bool filter_shows(const struct filter *filter, const struct model *model, size_t seq);
struct sieve filter_sieve(const struct filter *filter);                  /* for rows to be painted through */
bool filter_hides_lane(const struct filter *filter, int lane);
void filter_use(struct filter *filter, const struct match_names *names);   /* of another run */
void filter_free(struct filter *filter);
#endif
