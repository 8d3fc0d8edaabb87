/* The graph of a backward as a text, told to the trace once dependencies are counted: the edges, which no other event
 * has. Lines: first the roots' places ("0,4"); then for each node, in the order in which the walk found them, with tabs
 * between: "." ("-": an AccumulateGrad; "!" before it: it is not going to run), its name,
 * its module or the parameter's name, the places that its edges lead to. So iterations that do the same have one text.
 * A graph of more than 64 KiB is cut behind a line; the last one then says how many nodes are left out: "... 17 more".
 * Interface: graph_announce. Who reads it is analysis/graph.c. */
#include "autograd/graph.h"
#include "autograd/internal.h"
#include "device/cells.h"
#include "sched/account.h"
#include "sched/stage.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MOST = 64 << 10 };

/* A text in blocks of the host's pool: a steady step takes nothing from the system. */
struct words { struct task *me; char *text; size_t len, room; bool broken; };

static void
words_add(struct words *words, const char *text)
{
    size_t length = strlen(text);
    words->broken = words->broken || !host_room(words->me, &words->text, &words->room, words->len + length + 1, 1);
    if (words->broken)
        return;
    memcpy(words->text + words->len, text, length + 1);
    words->len += length;
}

static void
words_number(struct words *words, const char *before, uint64_t number, const char *after)
{
    char digits[48];
    snprintf(digits, sizeof digits, "%s%" PRIu64 "%s", before, number, after);
    words_add(words, digits);
}

static void
words_free(struct words *words)
{
    if (words->room > 0)
        host_return(words->me, words->text, words->room);
}

static uint64_t
first_number(const struct graph *graph)
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < graph->count; i++)
        if (graph->pending[i].node->sequence_nr < first)
            first = graph->pending[i].node->sequence_nr;
    return first;
}

/* Names come from lessons: what would look like another column or line is a blank. */
static void
add_name(struct words *words, const char *name)
{
    size_t from = words->len;
    words_add(words, name != NULL ? name : "");
    for (size_t i = from; i < words->len; i++)
        if (words->text[i] == '\t' || words->text[i] == '\n')
            words->text[i] = ' ';
}

static void
add_node(struct words *words, const struct graph *graph, size_t place)
{
    const struct pending *pending = &graph->pending[place];
    const struct node    *node = pending->node;
    const char           *between = "";
    words_add(words, pending->needed ? "" : "!");
    words_add(words, node->variable != NULL ? "-\t" : ".\t");
    add_name(words, node->name);
    words_add(words, "\t");
    add_name(words, node->variable != NULL ? node->variable->name : node->module);
    words_add(words, "\t");
    for (int i = 0; i < node->edge_count; i++) {
        if (node->edges[i].node == NULL)
            continue;
        words_number(words, between, graph_place(graph, node->edges[i].node), "");
        between = ",";
    }
    words_add(words, "\n");
}

static void
add_graph(struct words *words, const struct graph *graph, const struct root *roots, int count)
{
    for (int i = 0; i < count; i++)
        words_number(words, i > 0 ? "," : "", graph_place(graph, roots[i].edge.node), "");
    words_add(words, "\n");
    for (size_t i = 0; i < graph->count && !words->broken; i++) {
        size_t whole = words->len;
        add_node(words, graph, i);
        if (words->broken || words->len <= TEXT_MOST)
            continue;
        words->len = whole;
        words_number(words, "... ", graph->count - i, " more\n");
        return;
    }
}

/* Engine::compute_dependencies has counted what each node waits for; here is who waits for whom. */
bool
graph_announce(struct task *me, const struct graph *graph, const struct root *roots, int count)
{
    if (!sched_is_stepped(me->sched) || !stage_enabled(me, KIND_autograd_graph))
        return true;
    struct words words = { .me = me };
    add_graph(&words, graph, roots, count);
    if (!words.broken) {
        int64_t id = stage_text_id(me, words.text);
        POINT(me, autograd_graph, count, (int64_t)graph->count, (int64_t)first_number(graph), id);
    }
    words_free(&words);
    return !words.broken || memory_failed(me, TEXT_MOST, "the host");
}
