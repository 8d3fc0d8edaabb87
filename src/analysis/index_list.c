/* Where an index's items lie. Interface: list_add, list_free, seqs_add; track_take, index_take_tracks, index_lay,
 * lanes_free. */
#include <stdlib.h>
#include <string.h>

#include "analysis/index_internal.h"
#include "base/vec.h"

void *
list_add(struct list *list, size_t size)
{
    if (list->count >= list->fixed) {
        size_t need = list->count - list->fixed + 1, more = list->room == 0 ? 2 : list->room * 2;
        if (need > list->room) {
            unsigned char *grown = more <= SIZE_MAX / size ? realloc(list->tail, more * size) : NULL;
            if (grown == NULL)
                return NULL;
            list->tail = grown;
            list->room = more;
        }
    }
    return memset(list_at(list, list->count++, size), 0, size);
}

void
list_free(struct list *list)
{
    free(list->tail);
    *list = (struct list){ 0 };
}

bool
seqs_add(struct seqs *seqs, size_t seq)
{
    if (!vec_room(&seqs->items, &seqs->room, seqs->count + 1, sizeof *seqs->items))
        return false;
    seqs->items[seqs->count++] = (uint32_t)seq;
    return true;
}

struct track *
track_take(struct lane_index *lane, int level)
{
    if (lane->levels[level] == NULL)
        lane->levels[level] = calloc(1, sizeof *lane->levels[level]);
    if (lane->levels[level] != NULL && lane->depth <= level)
        lane->depth = level + 1;
    return lane->levels[level];
}

bool
index_take_tracks(struct index *index)
{
    for (size_t i = 0; i < index->lane_count; i++)
        for (int level = 0; level < LEVELS; level++)
            if (index->tallies[i].spans[level] > 0 && track_take(&index->lanes[i], level) == NULL)
                return false;
    return true;
}

/* ---- the layout ---- */

struct lay { unsigned char *base; size_t at; bool full; };

static void
lay_list(struct lay *lay, struct list *list, size_t items, size_t size)
{
    if (lay->base != NULL && items > 0)
        *list = (struct list){ .base = lay->base + lay->at, .fixed = items, .count = lay->full ? items : 0 };
    lay->at += (items * size + 7) / 8 * 8;
}

static void
lay_pyramid(struct lay *lay, struct list *heights, int *count, size_t items, size_t size)
{
    size_t nodes = (items + INDEX_BLOCK - 1) / INDEX_BLOCK;
    int    height = 0;
    for (; height < INDEX_HEIGHTS && nodes > 0; height++) {
        lay_list(lay, &heights[height], nodes, size);
        nodes = nodes > INDEX_FAN ? (nodes + INDEX_FAN - 1) / INDEX_FAN : 0;
    }
    if (lay->base != NULL) /* those above the first are raised at the end */
        *count = lay->full || height == 0 ? height : 1;
}

static void
lay_lane(struct lay *lay, struct lane_index *lane, const struct tally *tally)
{
    for (int level = 0; level < LEVELS; level++) {
        size_t spans = tally->spans[level];
        struct track *track = lane->levels[level], none = { 0 };
        if (spans == 0)
            continue;
        track = track != NULL ? track : &none;
        lay_list(lay, &track->begin, spans, sizeof(uint32_t));
        lay_list(lay, &track->end, spans, sizeof(uint32_t));
        lay_list(lay, &track->look, spans, sizeof(uint16_t));
        lay_pyramid(lay, track->nodes, &track->heights, spans, sizeof(struct node));
    }
    lay_list(lay, &lane->marks, tally->marks, sizeof(uint32_t));
    lay_list(lay, &lane->mark_works, tally->marks, 1);
    lay_pyramid(lay, lane->mark_nodes, &lane->mark_heights, tally->marks, sizeof(struct mark_node));
    lay_list(lay, &lane->deep, tally->deep, sizeof(uint32_t));
}

size_t
index_lay(struct index *index, unsigned char *base, bool full)
{
    struct lay lay = { .base = base, .full = full };
    for (size_t i = 0; i < index->lane_count; i++)
        lay_lane(&lay, &index->lanes[i], &index->tallies[i]);
    lay_pyramid(&lay, index->seq_nodes, &index->seq_heights, index->counted, sizeof(struct seq_node));
    lay_list(&lay, &index->flows_from, index->flow_tally.from, sizeof(struct flow_end));
    lay_list(&lay, &index->flows_to, index->flow_tally.to, sizeof(struct flow_end));
    return lay.at;
}

static void
lane_free(struct lane_index *lane)
{
    for (int level = 0; level < LEVELS; level++) {
        struct track *track = lane->levels[level];
        if (track == NULL)
            continue;
        list_free(&track->begin);
        list_free(&track->end);
        list_free(&track->look);
        for (int height = 0; height < INDEX_HEIGHTS; height++)
            list_free(&track->nodes[height]);
        free(track);
    }
    list_free(&lane->marks);
    list_free(&lane->mark_works);
    for (int height = 0; height < INDEX_HEIGHTS; height++)
        list_free(&lane->mark_nodes[height]);
    list_free(&lane->deep);
    *lane = (struct lane_index){ 0 };
}

void
lanes_free(struct index *index)
{
    for (size_t i = 0; i < index->lane_count; i++)
        lane_free(&index->lanes[i]);
    for (int height = 0; height < INDEX_HEIGHTS; height++)
        list_free(&index->seq_nodes[height]);
    list_free(&index->flows_from);
    list_free(&index->flows_to);
}
