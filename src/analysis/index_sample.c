/* A sample of a trace: stretches of events at equal distances, each of which stands for all events up to the next. Of
 * each lane the outermost spans are followed through the stretch; a lane that says nothing in it is as it was.
 * Interface: index_sample_all. */
#include "analysis/index_sample.h"

#include <stdlib.h>

#include "analysis/index_internal.h"
#include "trace/reader.h"

enum { STRETCHES = 320, STRETCH = 1024, NODES_MOST = 32768 };

/* A lane within a stretch. */
struct follower { uint32_t open; uint8_t work; uint64_t since; };

static void
add_work(struct node *node, uint8_t work, uint64_t from, uint64_t to)
{
    uint64_t length = to > from ? to - from : 0;
    if (work == WORK_NONE)
        return;
    node->busy[work - 1] += length;
    node->works |= (uint16_t)(1 << work);
    node->count++;
    if (length >= node->longest) {
        node->longest = length;
        node->longest_work = work;
    }
}

static void
follow(const struct index *index, struct follower *lane, struct node *node, const struct trace_event *event,
       uint64_t time)
{
    const struct index_kind *kind = &index->kinds[event->kind];
    if (event_is_fault(index, event))
        node->works |= 1 << WORK_FAULT;
    if (event->phase == PHASE_INSTANT || !kind->nests)
        return;
    if (event->phase == PHASE_BEGIN) {
        if (lane->open++ == 0) {
            add_work(node, lane->work, lane->since > node->from ? lane->since : node->from, time);
            lane->since = time;
            lane->work = kind->work;
        }
        return;
    }
    bool before = lane->open == 0; /* it began before the stretch did */
    if (before || --lane->open == 0) {
        add_work(node, before ? kind->work : lane->work, before ? node->from : lane->since, time);
        lane->work = WORK_NONE;
    }
}

/* What was seen in [from, seen) is so in [from, last]. */
static void
extend(struct node *node, uint64_t seen)
{
    uint64_t part = seen > node->from ? seen - node->from : 1, all = node->last - node->from;
    for (int i = 0; i < WORK_COUNT - 1; i++) {
        unsigned __int128 busy = (unsigned __int128)node->busy[i] * all / part;
        node->busy[i] = busy < all ? (uint64_t)busy : all;
    }
}

static void
sample_stretch(struct index *index, struct follower *lanes, size_t i)
{
    size_t count = index->target, first = count / index->sample_count * i, behind = first + STRETCH;
    size_t next = i + 1 < index->sample_count ? count / index->sample_count * (i + 1) : count - 1;
    uint64_t from = trace_time(index->trace, first), last = trace_time(index->trace, next), seen = from;
    behind = behind < count ? behind : count;
    for (size_t lane = 0; lane < index->lane_count; lane++)
        index->samples[lane * index->sample_count + i] =
            (struct node){ .from = from, .last = last > from ? last : from };
    for (size_t seq = first; seq < behind; seq++) {
        const struct trace_event *event = trace_event(index->trace, seq);
        if (event->lane >= index->lane_count || event->kind >= index->kind_count)
            continue;
        seen = trace_time(index->trace, seq);
        follow(index, &lanes[event->lane], &index->samples[event->lane * index->sample_count + i], event, seen);
    }
    for (size_t lane = 0; lane < index->lane_count; lane++) {
        struct node *node = &index->samples[lane * index->sample_count + i];
        uint8_t work = lanes[lane].work;
        add_work(node, work, lanes[lane].since > from ? lanes[lane].since : from, seen);
        extend(node, seen);
        lanes[lane] = (struct follower){ .work = work, .since = 0 };
    }
}

bool
index_sample_all(struct index *index)
{
    size_t lanes = index->lane_count > 0 ? index->lane_count : 1, count = NODES_MOST / lanes;
    index->sample_lanes = index->lane_count;
    index->sample_count = count < 1 ? 1 : count < STRETCHES ? count : STRETCHES;
    index->samples = calloc(lanes * index->sample_count, sizeof *index->samples);
    struct follower *followers = calloc(lanes, sizeof *followers);
    bool good = index->samples != NULL && followers != NULL;
    for (size_t i = 0; good && i < index->sample_count; i++)
        sample_stretch(index, followers, i);
    if (good && index->target > 0)
        index->end = trace_time(index->trace, index->target - 1);
    free(followers);
    return good;
}
