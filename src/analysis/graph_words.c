/* A backward in words, for the pane and the lines of `info graph`.
 * Interface: backward_heading, backward_module, backward_hooks, backward_print. */
#include "analysis/graph.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "trace/format.h"
#include "trace/reader.h"

#define NOWHERE SIZE_MAX

/* "fc1" of "fc1.weight", with which of the parameters that hang at it. */
void
backward_module(const struct backward *backward, int place, struct str *out)
{
    for (int i = 0; i < backward->count; i++) {
        const struct backward_node *node = &backward->nodes[i];
        const char                 *dot = strrchr(node->what, '.');
        if (!node->accumulates || node->head != place || dot == NULL)
            continue;
        str_add_bytes(out, node->what, (size_t)(dot - node->what));
        return;
    }
    str_add(out, backward->nodes[place].what);
}

void
backward_heading(const struct backward *backward, struct str *out)
{
    if (backward->when == BACKWARD_NONE) {
        str_add(out, "no backward near here");
        return;
    }
    str_add(out, backward->when == BACKWARD_LAST ? "last backward" : backward->when == BACKWARD_NEXT ? "next: backward"
                                                                                                   : "backward");
    if (backward->rank >= 0)
        str_addf(out, " r%d", backward->rank);
    if (backward->when == BACKWARD_NEXT)
        return;
    if (backward->told == NOWHERE) {
        str_add(out, backward->end > backward->seq ? ": its graph is not told yet" : ": its graph is not recorded");
        return;
    }
    str_addf(out, "  %d/%d ran", backward->done, backward->count + backward->left_out);
    if (backward->ready > 0)
        str_addf(out, ", %d ready", backward->ready);
    if (backward->cut_off)
        str_add(out, " (not followed so far)");
}

static int64_t
argument(const struct trace *trace, const struct trace_event *event, const char *name)
{
    const struct trace_kind *kind = trace_kind(trace, event->kind);
    for (int i = 0; i < kind->arg_count && i < 4; i++)
        if (strcmp(kind->arg_name[i], name) == 0)
            return event->args[i];
    return -1;
}

static void
add_hook(const struct trace *trace, size_t seq, struct str *out)
{
    const struct trace_event *event = trace_event(trace, seq);
    const char               *kind = trace_kind(trace, event->kind)->name;
    if (strcmp(kind, "ddp.mark_variable_ready") == 0) {
        int64_t bucket = argument(trace, event, "bucket"), pending = argument(trace, event, "pending");
        if (pending > 0)
            str_addf(out, "bucket %" PRId64 " lacks %" PRId64, bucket, pending);
        else
            str_addf(out, "bucket %" PRId64 " full", bucket);
    } else if (strcmp(kind, "ddp.all_reduce_bucket") == 0) {
        str_addf(out, "%" PRId64 " sent", argument(trace, event, "bucket"));
    } else if (strcmp(kind, "ddp.autograd_hook") == 0) {
        str_add(out, "DDP");
    } else {
        str_add(out, strncmp(kind, "autograd.", 9) == 0 ? kind + 9 : kind);
    }
}

static bool
is_kind(const struct backward *backward, size_t hook, const char *name)
{
    const struct trace_event *event = trace_event(backward->trace, backward->hooks[hook].seq);
    return strcmp(trace_kind(backward->trace, event->kind)->name, name) == 0;
}

void
backward_hooks(const struct backward *backward, int place, struct str *out)
{
    size_t from = out->len;
    for (size_t i = 0; i < backward->hook_count; i++) {
        bool ddp_follows = i + 1 < backward->hook_count && backward->hooks[i + 1].node == place &&
                           is_kind(backward, i + 1, "ddp.autograd_hook") && is_kind(backward, i, "autograd.hook");
        if (backward->hooks[i].node != place || ddp_follows)
            continue;
        str_add(out, out->len > from ? ", " : "");
        add_hook(backward->trace, backward->hooks[i].seq, out);
    }
}

static void
print_node(const struct backward *backward, int place, struct str *out)
{
    static const char *const turns[] = { [TURN_READY] = "ready", [TURN_RUNS] = "runs now",
                                         [TURN_DONE] = "ran as number", [TURN_NEVER] = "will not run" };
    const struct backward_node *node = &backward->nodes[place];
    str_addf(out, "%*s%s", 2 * node->indent, "", node->name);
    if (node->what[0] != '\0')
        str_addf(out, " %s", node->what);
    if (node->turn == TURN_WAITS)
        str_addf(out, ": waits for %d gradient%s", node->waits, node->waits == 1 ? "" : "s");
    else
        str_addf(out, ": %s", turns[node->turn]);
    if (node->turn == TURN_DONE)
        str_addf(out, " %d", node->order);
    size_t before = out->len;
    str_add(out, "; hooks: ");
    backward_hooks(backward, place, out);
    if (out->len == before + strlen("; hooks: "))
        out->text[out->len = before] = '\0';
    str_add(out, "\n");
}

void
backward_print(const struct backward *backward, struct str *out)
{
    backward_heading(backward, out);
    str_add(out, "\n");
    for (int i = 0; i < backward->count; i++)
        print_node(backward, backward->walk[i], out);
    if (backward->left_out > 0)
        str_addf(out, "and %d nodes more, which the trace has no room for\n", backward->left_out);
}
