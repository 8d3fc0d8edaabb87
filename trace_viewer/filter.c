/* A predicate over what the timeline draws. Interface: filter_set, filter_work, filter_is_whole, filter_shows,
 * filter_sieve, filter_hides_lane, filter_use, filter_free. */
#include "filter.h"

#include "model.h"
#include "trace/match.h"
#include "trace/reader.h"

#include <stdlib.h>

enum { SLICE = 1 << 16 };

bool
filter_set(struct filter *filter, const struct model *model, const char *expression, char *why, size_t why_size)
{
    struct match_names names = match_names_of_trace(model->trace);
    struct match *match = match_compile(expression, &names, why, why_size);
    if (match == NULL)
        return false;
    uint64_t number = filter->number;
    filter_free(filter);
    filter->match = match;
    filter->number = number + 1;
    return true;
}

static bool
holds(const struct filter *filter, const struct model *model, size_t seq)
{
    return match_event(filter->match, trace_event(model->trace, seq), seq, trace_time(model->trace, seq));
}

bool
filter_is_whole(const struct filter *filter, const struct model *model)
{
    return filter->match == NULL || (filter->whole && filter->looked >= model->seen);
}

bool
filter_work(struct filter *filter, const struct model *model)
{
    if (filter_is_whole(filter, model))
        return false;
    if (filter->lane_count < model->lane_count) {
        uint8_t *lanes = realloc(filter->lanes, model->lane_count);
        if (lanes == NULL)
            return false;
        filter->lanes = lanes;
        for (; filter->lane_count < model->lane_count; filter->lane_count++)
            lanes[filter->lane_count] = 0;
    }
    for (size_t n = 0; n < SLICE && filter->looked < model->seen; n++, filter->looked++) {
        uint32_t lane = trace_event(model->trace, filter->looked)->lane;
        if (lane < filter->lane_count && filter->lanes[lane] == 0)
            filter->lanes[lane] = holds(filter, model, filter->looked);
    }
    filter->whole = filter->looked >= model->seen;
    return !filter->whole;
}

bool
filter_shows(const struct filter *filter, const struct model *model, size_t seq)
{
    return filter->match == NULL || holds(filter, model, seq);
}

static bool
hides(const void *what, const struct model *model, size_t seq)
{
    return !filter_shows(what, model, seq);
}

struct sieve
filter_sieve(const struct filter *filter)
{
    return filter->match == NULL ? (struct sieve){ 0 } : (struct sieve){ hides, filter, filter->number };
}

bool
filter_hides_lane(const struct filter *filter, int lane)
{
    return filter->match != NULL && filter->whole && (size_t)lane < filter->lane_count && filter->lanes[lane] == 0;
}

void
filter_use(struct filter *filter, const struct match_names *names)
{
    struct match *match = filter->match;
    free(filter->lanes);
    *filter = (struct filter){ .match = match, .number = filter->number + 1 };
    if (match != NULL)
        match_use(match, names);
}

void
filter_free(struct filter *filter)
{
    if (filter->match != NULL)
        match_free(filter->match);
    free(filter->lanes);
    *filter = (struct filter){ .number = filter->number };
}
