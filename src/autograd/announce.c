/* The graph of a backward as a text, told to the trace once dependencies are counted: the edges, which no other event
 * has. Lines: first the roots' places ("0,4"); then for each node, in the order in which the walk found them, with tabs
 * between: its number behind the first one's ("-": an AccumulateGrad; "!" before it: it is not going to run), its name,
 * its module or the parameter's name, the places that its edges lead to. So iterations that do the same have one text.
 * A graph of more than 64 KiB is cut behind a line; the last one then says how many nodes are left out: "... 17 more".
 * Interface: graph_announce. Who reads it is analysis/graph.c. */
#include "autograd/graph.h"
#include "autograd/internal.h"
#include "base/str.h"
#include "sched/account.h"
#include "sched/stage.h"

enum { TEXT_MOST = 64 << 10 };

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
add_name(struct str *text, const char *name)
{
    size_t from = text->len;
    str_add(text, name != NULL ? name : "");
    for (size_t i = from; i < text->len; i++)
        if (text->text[i] == '\t' || text->text[i] == '\n')
            text->text[i] = ' ';
}

static void
add_node(struct str *text, const struct graph *graph, size_t place, uint64_t first)
{
    const struct pending *pending = &graph->pending[place];
    const struct node    *node = pending->node;
    const char           *between = "";
    str_add(text, pending->needed ? "" : "!");
    if (node->variable != NULL)
        str_add(text, "-\t");
    else
        str_addf(text, "%llu\t", (unsigned long long)(node->sequence_nr - first));
    add_name(text, node->name);
    str_add(text, "\t");
    add_name(text, node->variable != NULL ? node->variable->name : node->module);
    str_add(text, "\t");
    for (int i = 0; i < node->edge_count; i++) {
        if (node->edges[i].node == NULL)
            continue;
        str_addf(text, "%s%zu", between, graph_place(graph, node->edges[i].node));
        between = ",";
    }
    str_add(text, "\n");
}

/* Engine::compute_dependencies has counted what each node waits for; here is who waits for whom. */
bool
graph_announce(struct task *me, const struct graph *graph, const struct root *roots, int count)
{
    struct str text = { 0 };
    if (!sched_is_stepped(me->sched) || !stage_enabled(me, KIND_autograd_graph))
        return true;
    uint64_t first = first_number(graph);
    for (int i = 0; i < count; i++)
        str_addf(&text, "%s%zu", i > 0 ? "," : "", graph_place(graph, roots[i].edge.node));
    str_add(&text, "\n");
    for (size_t i = 0; i < graph->count; i++) {
        size_t whole = text.len;
        add_node(&text, graph, i, first);
        if (!str_ok(&text) || text.len <= TEXT_MOST)
            continue;
        text.len = whole;
        str_addf(&text, "... %zu more\n", graph->count - i);
        break;
    }
    bool told = str_ok(&text);
    if (told) {
        int64_t id = stage_text_id(me, str_text(&text));
        POINT(me, autograd_graph, count, (int64_t)graph->count, (int64_t)first, id);
    }
    str_free(&text);
    return told || memory_failed(me, TEXT_MOST, "the host");
}
