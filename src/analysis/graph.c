/* What the events of a backward say about its graph. Interface in order of use: backward_at, the fields, backward_free;
 * its words are in graph_words.c. */
#include "analysis/graph.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/state.h"
#include "base/vec.h"
#include "trace/format.h"
#include "trace/reader.h"

enum { NEAR = 1 << 16, BETWEEN = 1 << 18, UNTIL_TOLD = 1 << 12, NODES_MOST = 1 << 14, TWIG = 4, INDENT_MOST = 12 };
#define NOWHERE SIZE_MAX

/* ---- the text ---- */

/* The next field of a line, cut off in place; *at moves behind it. */
static char *
field(char **at, char end)
{
    char *begin = *at, *stop = begin + strcspn(begin, end == '\t' ? "\t\n" : "\n");
    *at = *stop == '\0' ? stop : stop + 1;
    *stop = '\0';
    return begin;
}

static const char *
short_name(const char *name)
{
    const char *last = name;
    for (const char *at = strstr(name, "::"); at != NULL; at = strstr(last, "::"))
        last = at + 2;
    return last;
}

/* "1,3": numbers that are places; others are left out. */
static int
read_places(char *text, int *places, int room, int most)
{
    int count = 0;
    for (char *end = text; *text != '\0' && count < room; text = *end == ',' ? end + 1 : end) {
        long place = strtol(text, &end, 10);
        if (end == text)
            break;
        if (place >= 0 && place < most)
            places[count++] = (int)place;
    }
    return count;
}

static int
lines_of(const char *text)
{
    int lines = 0;
    for (; *text != '\0'; text++)
        lines += *text == '\n';
    return lines;
}

static void
read_node(struct backward_node *node, char **at)
{
    char *sign = field(at, '\t');
    node->turn = sign[0] == '!' ? TURN_NEVER : TURN_WAITS;
    sign      += sign[0] == '!';
    node->accumulates = sign[0] == '-';
    node->name   = short_name(field(at, '\t'));
    node->what   = field(at, '\t');
    node->begin  = node->end = NOWHERE;
}

/* Nodes and edges. false: no memory. */
static bool
read_graph(struct backward *backward, const char *text)
{
    size_t length = strlen(text);
    int    lines  = lines_of(text) - 1;
    backward->text  = malloc(length + 1);
    backward->nodes = calloc((size_t)(lines > 0 ? lines : 0) + 1, sizeof *backward->nodes);
    backward->edges = calloc(length + 1, sizeof *backward->edges);
    if (backward->text == NULL || backward->nodes == NULL || backward->edges == NULL)
        return false;
    memcpy(backward->text, text, length + 1);
    char *at = backward->text, *roots = field(&at, '\n');
    int  *edges = backward->edges;
    for (int i = 0; i < lines && i < NODES_MOST; i++) {
        if (strncmp(at, "... ", 4) == 0) {
            backward->left_out = atoi(at + 4);
            break;
        }
        struct backward_node *node = &backward->nodes[backward->count++];
        read_node(node, &at);
        node->edges      = edges;
        node->edge_count = read_places(field(&at, '\n'), edges, (int)length, lines);
        edges += node->edge_count;
    }
    backward->roots = 1; /* their own gradients come at once */
    for (const char *root = roots; *root != '\0'; root++)
        backward->roots += *root == ',';
    for (int i = 0; i < backward->count; i++)
        for (int edge = 0; edge < backward->nodes[i].edge_count; edge++)
            if (backward->nodes[i].edges[edge] < backward->count)
                backward->nodes[backward->nodes[i].edges[edge]].waits++;
    return true;
}

/* ---- the walk: what hangs at a node comes behind it, then where its gradients go on to ---- */

/* A parameter, or what leads to one and nowhere else ("TBackward0", AccumulateGrad). */
static bool
is_twig(const struct backward *backward, int place)
{
    for (int step = 0; step < TWIG && place < backward->count; step++) {
        const struct backward_node *node = &backward->nodes[place];
        if (node->accumulates)
            return true;
        if (node->edge_count != 1)
            return false;
        place = node->edges[0];
    }
    return false;
}

struct stem { int place, indent, head; };
struct stems { struct stem *items; size_t count, room; };

static bool
push(struct stems *stems, struct stem stem)
{
    if (!vec_room(&stems->items, &stems->room, stems->count + 1, sizeof *stems->items))
        return false;
    stems->items[stems->count++] = stem;
    return true;
}

/* The stack gives back last what was put first: the ways on, of which the first one put stays at this depth; before
 * them come the twigs. */
static bool
push_targets(const struct backward *backward, struct stems *stems, struct stem from)
{
    const struct backward_node *node = &backward->nodes[from.place];
    size_t first = stems->count;
    int    deeper = from.indent < INDENT_MOST ? from.indent + 1 : INDENT_MOST;
    for (int i = node->edge_count - 1; i >= 0; i--)
        if (node->edges[i] < backward->count && !is_twig(backward, node->edges[i]) &&
            !push(stems, (struct stem){ node->edges[i], stems->count == first ? from.indent : deeper, -1 }))
            return false;
    for (int i = node->edge_count - 1; i >= 0; i--)
        if (node->edges[i] < backward->count && is_twig(backward, node->edges[i]) &&
            !push(stems, (struct stem){ node->edges[i], deeper, from.head }))
            return false;
    return true;
}

static bool
walk_from(struct backward *backward, struct stems *stems, char *seen, int root, int *walked)
{
    bool ok = push(stems, (struct stem){ root, 0, -1 });
    while (ok && stems->count > 0) {
        struct stem stem = stems->items[--stems->count];
        if (seen[stem.place])
            continue;
        seen[stem.place] = true;
        stem.head = stem.head < 0 ? stem.place : stem.head;
        backward->nodes[stem.place].head   = stem.head;
        backward->nodes[stem.place].indent = stem.indent;
        backward->walk[(*walked)++] = stem.place;
        ok = push_targets(backward, stems, stem);
    }
    return ok;
}

/* From the roots, which are found first; a text that was cut may leave nodes that nothing known leads to. */
static bool
walk_graph(struct backward *backward)
{
    struct stems stems = { 0 };
    char *seen = calloc((size_t)backward->count + 1, 1);
    int   walked = 0;
    backward->walk = calloc((size_t)backward->count + 1, sizeof *backward->walk);
    bool ok = seen != NULL && backward->walk != NULL;
    for (int i = 0; ok && i < backward->count; i++)
        ok = seen[i] || walk_from(backward, &stems, seen, i, &walked);
    free(stems.items);
    free(seen);
    return ok;
}

/* ---- which backward ---- */

static bool
is_kind(const struct trace *trace, size_t seq, const char *name)
{
    return strcmp(trace_kind(trace, trace_event(trace, seq)->kind)->name, name) == 0;
}

/* The innermost that is open on the lane. */
static size_t
open_backward(const struct trace *trace, const struct state *state, uint32_t lane)
{
    size_t open[128], depth = state_open(state, lane, open, countof(open)), found = NOWHERE;
    for (size_t i = 0; i < depth && i < countof(open); i++)
        if (is_kind(trace, open[i], "autograd.backward"))
            found = open[i];
    return found;
}

static size_t
near_backward(struct trace *trace, size_t seq, int way)
{
    const struct trace_event *here = trace_event(trace, seq);
    int                       kind = trace_kind_id(trace, "autograd.backward");
    size_t                    count = trace_count(trace);
    for (size_t steps = 0; kind >= 0 && steps < NEAR && seq < count; steps++, seq += (size_t)way) {
        const struct trace_event *event = trace_event(trace, seq);
        if (event->kind == kind && event->phase == PHASE_BEGIN && event->iteration == here->iteration &&
            (here->rank < 0 || event->rank == here->rank))
            return seq;
    }
    return NOWHERE;
}

static void
find_backward(struct backward *backward, const struct state *state)
{
    struct trace             *trace = backward->trace;
    const struct trace_event *event = trace_event(trace, backward->seq);
    bool   ends  = event->phase == PHASE_END && is_kind(trace, backward->seq, "autograd.backward");
    size_t found = ends ? trace_partner(trace, backward->seq) : open_backward(trace, state, event->lane);
    for (size_t lane = 0; found == NOWHERE && event->rank >= 0 && lane < trace_lanes(trace); lane++)
        if (trace_lane_at(trace, lane)->rank == event->rank)
            found = open_backward(trace, state, (uint32_t)lane);
    backward->when = BACKWARD_NOW;
    if (found == NOWHERE) {
        found = near_backward(trace, backward->seq, -1);
        backward->when = BACKWARD_LAST;
    }
    if (found == NOWHERE) {
        found = near_backward(trace, backward->seq, 1);
        backward->when = found == NOWHERE ? BACKWARD_NONE : BACKWARD_NEXT;
    }
    backward->begin = found;
    if (found == NOWHERE)
        return;
    backward->rank = trace_event(trace, found)->rank;
    backward->end  = trace_partner(trace, found);
    int kind = trace_kind_id(trace, "autograd.graph");
    for (size_t seq = found; kind >= 0 && seq < found + UNTIL_TOLD && seq <= backward->seq && backward->told == NOWHERE;
         seq++)
        if (trace_event(trace, seq)->kind == kind && trace_event(trace, seq)->rank == backward->rank)
            backward->told = seq;
}

/* ---- what ran ---- */

/* Of each lane: backwards inside of this one; the node that runs, the last that ran, the one whose hook runs (-1:
 * none); hooks whose node comes yet. */
struct lane_turn { int nested, node, last, hooked; size_t held; };

enum hook_kind { HOOK_NONE, HOOK_TENSOR, HOOK_OTHER };
struct turns { struct backward *backward; struct lane_turn *lanes; int node, begins, begun; uint8_t *hooks; };

static bool
learn_kinds(struct turns *turns)
{
    static const char *const names[] = { "ddp.autograd_hook", "ddp.mark_variable_ready", "ddp.all_reduce_bucket",
                                         "ddp.delay_all_reduce", "dp.reduce_add_coalesced" };
    const struct trace *trace = turns->backward->trace;
    turns->node   = trace_kind_id(trace, "autograd.node");
    turns->begins = trace_kind_id(trace, "autograd.backward");
    turns->hooks  = calloc(trace_kinds(trace) + 1, 1);
    turns->lanes  = calloc(trace_lanes(trace) + 1, sizeof *turns->lanes);
    if (turns->hooks == NULL || turns->lanes == NULL)
        return false;
    for (size_t i = 0; i < countof(names); i++)
        if (trace_kind_id(trace, names[i]) >= 0)
            turns->hooks[trace_kind_id(trace, names[i])] = HOOK_OTHER;
    if (trace_kind_id(trace, "autograd.hook") >= 0)
        turns->hooks[trace_kind_id(trace, "autograd.hook")] = HOOK_TENSOR;
    for (size_t i = 0; i < trace_lanes(trace); i++)
        turns->lanes[i].node = turns->lanes[i].last = turns->lanes[i].hooked = -1;
    return true;
}

/* A tensor's hook fires before its node's turn, one for afterwards behind it, others in it. */
static bool
note_hook(struct turns *turns, size_t seq, const struct trace_event *event)
{
    struct backward  *backward = turns->backward;
    struct lane_turn *lane = &turns->lanes[event->lane];
    const char       *name = short_name(trace_text_at(backward->trace, event->args[0]));
    int               node = lane->node >= 0 ? lane->node : lane->hooked;
    if (node < 0 && turns->hooks[event->kind] == HOOK_TENSOR && lane->last >= 0 &&
        strcmp(backward->nodes[lane->last].name, name) == 0)
        node = lane->last;
    if (!vec_room(&backward->hooks, &backward->hook_room, backward->hook_count + 1, sizeof *backward->hooks))
        return false;
    lane->held += node < 0;
    if (turns->hooks[event->kind] == HOOK_TENSOR)
        lane->hooked = node;
    backward->hooks[backward->hook_count++] = (struct backward_hook){ seq, node };
    return true;
}

static void
node_begins(struct turns *turns, struct lane_turn *lane, int place, size_t seq)
{
    struct backward      *backward = turns->backward;
    struct backward_node *node = &backward->nodes[place];
    uint32_t              at = trace_event(backward->trace, seq)->lane;
    for (size_t i = backward->hook_count; lane->held > 0 && i-- > 0;)
        if (backward->hooks[i].node < 0 && trace_event(backward->trace, backward->hooks[i].seq)->lane == at) {
            backward->hooks[i].node = place;
            lane->held--;
        }
    lane->held  = 0;
    lane->node  = place;
    node->begin = seq;
    node->turn  = TURN_RUNS;
    node->order = ++turns->begun;
    backward->current = place;
}

static void
node_ends(struct turns *turns, struct lane_turn *lane, int place, size_t seq)
{
    struct backward      *backward = turns->backward;
    struct backward_node *node = &backward->nodes[place];
    lane->node = -1;
    lane->last = place;
    node->end  = seq;
    node->turn = TURN_DONE;
    backward->done++;
    for (int i = 0; i < node->edge_count; i++)
        if (node->edges[i] < backward->count && backward->nodes[node->edges[i]].waits > 0)
            backward->nodes[node->edges[i]].waits--;
}

static bool
fold_event(struct turns *turns, size_t seq)
{
    struct backward          *backward = turns->backward;
    const struct trace_event *event = trace_event(backward->trace, seq);
    if (event->rank != backward->rank || event->lane >= trace_lanes(backward->trace))
        return true;
    struct lane_turn *lane = &turns->lanes[event->lane];
    bool begins = event->phase == PHASE_BEGIN;
    if (event->kind == turns->begins)
        lane->nested += begins ? 1 : -1;
    if (lane->nested > 0 || event->kind >= trace_kinds(backward->trace))
        return true;
    if (turns->hooks[event->kind] != HOOK_NONE && begins)
        return note_hook(turns, seq, event);
    if (turns->hooks[event->kind] == HOOK_TENSOR)
        lane->hooked = -1;
    const struct trace_kind *kind = trace_kind(backward->trace, event->kind);
    if (event->kind != turns->node || kind->arg_count < 4)
        return true;
    int64_t place = event->args[3];
    if (place < 0 || place >= backward->count)
        return true;
    if (begins && backward->nodes[place].turn == TURN_WAITS)
        node_begins(turns, lane, (int)place, seq);
    else if (!begins && lane->node == place)
        node_ends(turns, lane, (int)place, seq);
    return true;
}

static bool
fold_turns(struct backward *backward)
{
    struct turns turns = { .backward = backward };
    size_t last = backward->end < backward->seq ? backward->end : backward->seq;
    bool   ok   = learn_kinds(&turns);
    backward->cut_off = last - backward->told > BETWEEN;
    for (size_t seq = backward->told; ok && seq <= last && !backward->cut_off; seq++)
        ok = fold_event(&turns, seq);
    free(turns.lanes);
    free(turns.hooks);
    return ok;
}

/* What nobody is waited for any more stands in a queue. */
static void
settle(struct backward *backward)
{
    int running = -1;
    for (int i = 0; i < backward->count; i++) {
        struct backward_node *node = &backward->nodes[i];
        if (node->turn == TURN_WAITS && node->waits == 0 && !backward->cut_off)
            node->turn = TURN_READY;
        backward->ready += node->turn == TURN_READY;
        if (node->turn == TURN_RUNS && (running < 0 || node->begin > backward->nodes[running].begin))
            running = i;
    }
    if (running >= 0)
        backward->current = running;
}

/* ---- the whole ---- */

struct backward *
backward_at(struct trace *trace, const struct state *state, size_t seq)
{
    struct backward *backward = calloc(1, sizeof *backward);
    if (backward == NULL || seq >= trace_count(trace)) {
        free(backward);
        return NULL;
    }
    *backward = (struct backward){ .trace = trace, .seq = seq, .begin = NOWHERE, .end = NOWHERE, .told = NOWHERE,
                                   .rank = -1, .current = -1 };
    find_backward(backward, state);
    if (backward->told == NOWHERE)
        return backward;
    const char *text = trace_text_at(trace, trace_event(trace, backward->told)->args[3]);
    if (read_graph(backward, text) && walk_graph(backward) && fold_turns(backward)) {
        settle(backward);
        return backward;
    }
    backward_free(backward);
    return NULL;
}

void
backward_free(struct backward *backward)
{
    if (backward == NULL)
        return;
    free(backward->nodes);
    free(backward->walk);
    free(backward->hooks);
    free(backward->text);
    free(backward->edges);
    free(backward);
}
