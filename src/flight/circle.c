/* Who waits for whom, as a graph: ranks, and the waits that they are in. Ranks that wait in one call share its wait, so
 * that a thousand of them cost no million of edges. */
#include <stdlib.h>
#include <string.h>
#include "flight/internal.h"
#include "base/map.h"
#include "base/vec.h"

/* Ranks in one call wait for the same ones, if each is in the same state of it. */
static bool
shared_wait(struct map *known, const struct waiting *waiting, uint64_t *wait)
{
    if (waiting->kind != WAIT_COLLECTIVE || waiting->peer >= 0)
        return false;
    int64_t  key[4] = { waiting->group, waiting->sequence,
                        waiting->entry != NULL && waiting->entry->state == FLIGHT_STARTED,
                        waiting->entry != NULL ? (int64_t)call_hash(waiting->entry) : 0 };
    uint64_t hash   = hash_bytes(0, key, sizeof key);
    if (map_get(known, hash, wait))
        return true;
    map_set(known, hash, *wait);
    return false;
}

static bool
add_wait(struct graph *graph, struct survey *survey, int rank, const struct waiting *waiting)
{
    size_t need = graph->target_count + (size_t)graph->rank_count;
    if (!vec_room(&graph->targets, &graph->target_room, need, sizeof *graph->targets))
        return false;
    int count = waited_for(survey, rank, waiting, graph->targets + graph->target_count,
                           &graph->outside[graph->wait_count]);
    graph->target_count += (size_t)count;
    graph->wait[rank] = graph->wait_count++;
    graph->first[graph->wait_count] = graph->target_count;
    return true;
}

static bool
somebody_is_free(const struct graph *graph, int wait)
{
    for (size_t i = graph->first[wait]; i < graph->first[wait + 1]; i++)
        if (graph->wait[graph->targets[i]] < 0)
            return true;
    return false;
}

bool
graph_open(struct graph *graph, struct survey *survey)
{
    size_t     room  = (size_t)survey->flight->rank_count + 1;
    struct map known = { 0 };
    *graph = (struct graph){ .waits = calloc(room, sizeof *graph->waits), .wait = calloc(room, sizeof *graph->wait),
                             .first = calloc(room, sizeof *graph->first), .open = calloc(room, sizeof *graph->open),
                             .outside = calloc(room, sizeof *graph->outside) };
    graph->rank_count = survey->flight->rank_count;
    bool fine = graph->waits != NULL && graph->wait != NULL && graph->first != NULL && graph->outside != NULL &&
                graph->open != NULL;
    for (int rank = 0; fine && rank < graph->rank_count; rank++) {
        struct waiting *waiting = &graph->waits[rank];
        uint64_t        wait    = (uint64_t)graph->wait_count;
        *waiting = waiting_of(survey, rank);
        graph->wait[rank] = -1;
        if (waiting->kind == WAIT_NONE)
            continue;
        if (shared_wait(&known, waiting, &wait))
            graph->wait[rank] = (int)wait;
        else
            fine = add_wait(graph, survey, rank, waiting);
    }
    for (int rank = 0; fine && rank < graph->rank_count; rank++)
        if (graph->wait[rank] >= 0 && graph->waits[rank].kind == WAIT_RECV && graph->waits[rank].peer < 0)
            graph->open[graph->wait[rank]] = somebody_is_free(graph, graph->wait[rank]);
    map_free(&known);
    survey->broken = survey->broken || !fine;
    return fine;
}

void
graph_close(struct graph *graph)
{
    free(graph->waits);
    free(graph->wait);
    free(graph->first);
    free(graph->outside);
    free(graph->open);
    free(graph->targets);
    *graph = (struct graph){ 0 };
}

/* ---- circles ---- */

/* A depth-first walk over waits: a wait on the way that is met again closes a circle. */
struct walk {
    enum { NEW, ON_THE_WAY, DONE } *state;   /* by wait */
    int    *way;                             /* waits on the way */
    size_t *at;                              /* by place on the way: its next target */
    int     length;
};

/* A rank of the circle, else -1. */
static int
walk_from(const struct graph *graph, struct walk *walk, int rank)
{
    walk->length = 0;
    for (int enter = rank; enter >= 0 || walk->length > 0;) {
        if (enter >= 0 && graph->wait[enter] >= 0 && walk->state[graph->wait[enter]] == ON_THE_WAY)
            return enter;
        if (enter >= 0 && graph->wait[enter] >= 0 && walk->state[graph->wait[enter]] == NEW) {
            int wait = graph->wait[enter];
            walk->state[wait]        = ON_THE_WAY;
            walk->way[walk->length]  = wait;
            walk->at[walk->length++] = graph->open[wait] ? graph->first[wait + 1] : graph->first[wait];
        }
        enter = -1;
        if (walk->length == 0)
            break;
        int top = walk->way[walk->length - 1];
        if (walk->at[walk->length - 1] < graph->first[top + 1])
            enter = graph->targets[walk->at[walk->length - 1]++];
        else {
            walk->state[top] = DONE;
            walk->length--;
        }
    }
    return -1;
}

/* Breadth first from `rank` back to it: the shortest circle through it, by who was come from. */
static int
shortest_circle(const struct graph *graph, int rank, int *circle)
{
    size_t room  = (size_t)graph->rank_count;
    int   *from  = malloc(room * sizeof *from), *queue = malloc(room * sizeof *queue);
    bool  *seen  = calloc((size_t)graph->wait_count + 1, sizeof *seen);
    int    count = 0, length = 0, last = -1;
    for (int i = 0; from != NULL && i < graph->rank_count; i++)
        from[i] = -1;
    if (from != NULL && queue != NULL && seen != NULL)
        queue[count++] = rank;
    for (int next = 0; next < count && last < 0; next++) {
        int wait = graph->wait[queue[next]];
        if (wait < 0 || seen[wait] || graph->open[wait])
            continue;
        seen[wait] = true;
        for (size_t i = graph->first[wait]; i < graph->first[wait + 1] && last < 0; i++) {
            int target = graph->targets[i];
            if (target == rank)
                last = queue[next];
            else if (from[target] < 0) {
                from[target]   = queue[next];
                queue[count++] = target;
            }
        }
    }
    for (int at = last; at >= 0; at = from[at])
        circle[length++] = at;
    for (int i = 0; i < length / 2; i++) {
        int swap = circle[i];
        circle[i] = circle[length - 1 - i];
        circle[length - 1 - i] = swap;
    }
    free(from);
    free(queue);
    free(seen);
    return length;
}

/* Turned so that the lowest rank is first. */
static void
turn(int *circle, int length)
{
    int lowest = 0;
    for (int i = 1; i < length; i++)
        if (circle[i] < circle[lowest])
            lowest = i;
    for (; lowest > 0; lowest--) {
        int first = circle[0];
        memmove(circle, circle + 1, (size_t)(length - 1) * sizeof *circle);
        circle[length - 1] = first;
    }
}

int
graph_circle(const struct graph *graph, int *circle)
{
    size_t      room   = (size_t)graph->wait_count + 1;
    struct walk walk   = { .state = calloc(room, sizeof *walk.state), .way = calloc(room, sizeof *walk.way),
                           .at = calloc(room, sizeof *walk.at) };
    int         length = 0, met = -1;
    bool        fine   = walk.state != NULL && walk.way != NULL && walk.at != NULL;
    for (int rank = 0; fine && rank < graph->rank_count && met < 0; rank++)
        met = walk_from(graph, &walk, rank);
    if (met >= 0)
        length = shortest_circle(graph, met, circle);
    turn(circle, length);
    free(walk.state);
    free(walk.way);
    free(walk.at);
    return length;
}
