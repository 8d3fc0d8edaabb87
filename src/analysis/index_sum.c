/* The pyramids: sums of 64 items, of 16 of those, and so on. Items are added at the end; the spans of a level do not
 * overlap, so that only the last of them can be open and its end is the last instant of every node that holds it.
 * Interface: track_begins, track_ends; lane_marks; seqs_take; after each of them or, in bulk, after all, track_raise,
 * marks_raise, seqs_raise. */
#include "analysis/index_internal.h"

unsigned
length_look(uint64_t length)
{
    if (length == 0)
        return 0;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(length);
    uint64_t rest = length - ((uint64_t)1 << exponent);
    uint64_t part = rest << (exponent < 6 ? 6 - exponent : 0);
    if (exponent > 6)
        part = (rest + ((uint64_t)1 << (exponent - 6)) - 1) >> (exponent - 6);
    uint64_t look = ((uint64_t)exponent << 6) + part + 1; /* 64 of 64 is the next exponent */
    return look < 4095 ? (unsigned)look : 4095;
}

uint64_t
look_length(unsigned look)
{
    if (look == 0)
        return 0;
    unsigned exponent = (look - 1) >> 6, part = (look - 1) & 63;
    if (exponent >= 63)
        return UINT64_MAX;
    uint64_t whole = (uint64_t)1 << exponent;
    return whole + (exponent >= 6 ? (uint64_t)part << (exponent - 6) : part >> (6 - exponent));
}

/* The node that sums up item `i` of the height below; NULL: no memory. */
static void *
sum_for(struct list *nodes, size_t i, size_t size)
{
    return i % INDEX_FAN == 0 ? list_add(nodes, size) : list_at(nodes, i / INDEX_FAN, size);
}

/* ---- spans ---- */

static void
add_node(struct node *to, const struct node *node)
{
    if (to->count == 0)
        to->from = node->from;
    if (to->last < node->last || to->count == 0)
        to->last = node->last;
    if (to->longest < node->longest || to->longest_work == WORK_NONE) {
        to->longest = node->longest;
        to->longest_work = node->longest_work;
    }
    for (int i = 0; i < WORK_COUNT - 1; i++)
        to->busy[i] += node->busy[i];
    to->kinds |= node->kinds;
    to->works |= node->works;
    to->count += node->count;
}

static bool
sum_nodes(const struct list *below, struct list *nodes)
{
    for (size_t i = 0; i < below->count; i++) {
        struct node *to = sum_for(nodes, i, sizeof *to);
        if (to == NULL)
            return false;
        add_node(to, list_at(below, i, sizeof *to));
    }
    return true;
}

/* A height more, once there are too many to look at one by one. */
bool
track_raise(struct track *track)
{
    while (track->heights > 0 && track->heights < INDEX_HEIGHTS && track->nodes[track->heights - 1].count > INDEX_FAN) {
        if (!sum_nodes(&track->nodes[track->heights - 1], &track->nodes[track->heights]))
            return false;
        track->heights++;
    }
    return true;
}

bool
track_begins(struct track *track, size_t i, const struct node *span)
{
    size_t at = i / INDEX_BLOCK;
    if (track->heights == 0)
        track->heights = 1;
    for (int height = 0; height < track->heights; height++, at /= INDEX_FAN) {
        struct list *nodes = &track->nodes[height];
        struct node *node = at < nodes->count ? list_at(nodes, at, sizeof *node) : list_add(nodes, sizeof *node);
        if (node == NULL)
            return false;
        if (node->count == 0)
            node->from = span->from;
        node->last = STILL_OPEN;
        node->kinds |= span->kinds;
        node->works |= span->works;
        node->count++;
    }
    return true;
}

void
track_ends(struct track *track, size_t i, const struct span *span)
{
    uint64_t length = span->end - span->begin;
    size_t at = i / INDEX_BLOCK;
    for (int height = 0; height < track->heights && at < track->nodes[height].count; height++, at /= INDEX_FAN) {
        struct node *node = list_at(&track->nodes[height], at, sizeof *node);
        node->last = length > 0 ? span->end - 1 : span->begin;
        if (length > node->longest || node->longest_work == WORK_NONE) {
            node->longest = length;
            node->longest_work = span->work;
        }
        node->busy[span->work - 1] += length;
    }
}

/* ---- marks ---- */

static void
add_mark_node(struct mark_node *to, const struct mark_node *node)
{
    if (to->count == 0)
        to->from = node->from;
    to->last = node->last > to->last ? node->last : to->last;
    to->kinds |= node->kinds;
    to->works |= node->works;
    to->count += node->count;
}

bool
lane_marks(struct lane_index *lane, size_t i, const struct mark_node *mark)
{
    size_t at = i / INDEX_BLOCK;
    if (lane->mark_heights == 0)
        lane->mark_heights = 1;
    for (int height = 0; height < lane->mark_heights; height++, at /= INDEX_FAN) {
        struct list *nodes = &lane->mark_nodes[height];
        struct mark_node *node = at < nodes->count ? list_at(nodes, at, sizeof *node) : list_add(nodes, sizeof *node);
        if (node == NULL)
            return false;
        add_mark_node(node, mark);
    }
    return true;
}

bool
marks_raise(struct lane_index *lane)
{
    int *heights = &lane->mark_heights;
    for (; *heights > 0 && *heights < INDEX_HEIGHTS && lane->mark_nodes[*heights - 1].count > INDEX_FAN; ++*heights) {
        const struct list *below = &lane->mark_nodes[*heights - 1];
        struct list *nodes = &lane->mark_nodes[*heights];
        for (size_t i = 0; i < below->count; i++) {
            struct mark_node *to = sum_for(nodes, i, sizeof *to);
            if (to == NULL)
                return false;
            add_mark_node(to, list_at(below, i, sizeof *to));
        }
    }
    return true;
}

/* ---- all events in their order ---- */

static void
add_seq_node(struct seq_node *to, const struct seq_node *node)
{
    to->kinds[0] |= node->kinds[0];
    to->kinds[1] |= node->kinds[1];
    to->iteration = node->iteration > to->iteration ? node->iteration : to->iteration;
    to->starts += node->starts;
}

bool
seqs_take(struct index *index, size_t seq, const struct seq_node *event)
{
    size_t at = seq / INDEX_BLOCK;
    if (index->seq_heights == 0)
        index->seq_heights = 1;
    for (int height = 0; height < index->seq_heights; height++, at /= INDEX_FAN) {
        struct list *nodes = &index->seq_nodes[height];
        struct seq_node *node = at < nodes->count ? list_at(nodes, at, sizeof *node) : list_add(nodes, sizeof *node);
        if (node == NULL)
            return false;
        add_seq_node(node, event);
    }
    return true;
}

bool
seqs_raise(struct index *index)
{
    int *heights = &index->seq_heights;
    for (; *heights > 0 && *heights < INDEX_HEIGHTS && index->seq_nodes[*heights - 1].count > INDEX_FAN; ++*heights) {
        const struct list *below = &index->seq_nodes[*heights - 1];
        struct list *nodes = &index->seq_nodes[*heights];
        for (size_t i = 0; i < below->count; i++) {
            struct seq_node *to = sum_for(nodes, i, sizeof *to);
            if (to == NULL)
                return false;
            add_seq_node(to, list_at(below, i, sizeof *to));
        }
    }
    return true;
}
