/* The lesson's text: what the job's ranks did, the groups, a line for each call.
 *
 * Interface: flight_lesson. What stands in it is lesson_plan.c's. */
#include "flight/lesson.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"
#include "flight/lesson_parts.h"

enum { COLUMNS = 100 };

/* ---- comments ---- */

/* Text from a dump ends no comment. */
static void
add_outside(struct str *out, const char *text)
{
    visible_add(out, text, strlen(text), VISIBLE_LINE);
}

static void
add_head(const struct lesson_plan *plan, struct str *out)
{
    struct str head = { 0 };
    hang_print_head(plan->flight, plan->hang, COLUMNS, &head);
    str_add(out, "-- A hang, repeated. What was recorded of the job:\n");
    for (const char *line = str_text(&head), *end; *line != '\0'; line = *end != '\0' ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        str_add(out, "--   ");
        visible_add(out, line, (size_t)(end - line), VISIBLE_LINE);
        str_add(out, "\n");
    }
    str_free(&head);
}

static void
add_changes(const struct lesson_plan *plan, struct str *out)
{
    if (plan->world < plan->flight->rank_count) {
        str_addf(out, "-- Of its %d ranks these are here:", plan->flight->rank_count);
        for (int place = 0; place < plan->world; place++)
            str_addf(out, "%s %d", place > 0 ? "," : "", plan->ranks[place]);
        str_addf(out, ", as 0 to %d. The others did as one of them.\n", plan->world - 1);
    }
    if (plan->large_count > 0) {
        str_add(out, "-- Tensors are smaller here; equal sizes are equal, others differ:");
        for (size_t i = 0; i < plan->large_count && i < 8; i++)
            str_addf(out, "%s %" PRId64 " for %" PRId64, i > 0 ? "," : "", lesson_size(plan, plan->large[i]),
                     plan->large[i]);
        str_add(out, plan->large_count > 8 ? " ...\n" : ".\n");
    }
}

/* ---- who ---- */

static int
bit_count(unsigned ranks)
{
    int count = 0;
    for (; ranks != 0; ranks &= ranks - 1)
        count++;
    return count;
}

static int
lowest(unsigned ranks)
{
    int place = 0;
    while (place < LESSON_RANKS && (ranks >> place & 1) == 0)
        place++;
    return place;
}

/* "rank == 1", "rank ~= 1", "rank < 3", "rank == 0 or rank == 2"; nothing: everybody. */
static void
add_condition(const struct lesson_plan *plan, unsigned ranks, struct str *out)
{
    unsigned all = (1u << plan->world) - 1, others = all & ~ranks;
    int      count = bit_count(ranks);
    if (count == 1)
        str_addf(out, "rank == %d", lowest(ranks));
    else if (bit_count(others) == 1)
        str_addf(out, "rank ~= %d", lowest(others));
    else if (ranks == (1u << count) - 1)
        str_addf(out, "rank < %d", count);
    else if (others == (1u << bit_count(others)) - 1)
        str_addf(out, "rank >= %d", bit_count(others));
    else
        for (int place = lowest(ranks), told = 0; place < plan->world; place++)
            if ((ranks >> place & 1) != 0)
                str_addf(out, "%srank == %d", told++ > 0 ? " or " : "", place);
}

/* ---- tensors ---- */

static void
add_sizes(const struct lesson_plan *plan, const struct lesson_shape *shape, int copies, struct str *out)
{
    str_add(out, "{");
    if (copies > 0)
        str_addf(out, " %d%s", copies, shape->dims > 0 ? "," : " ");
    for (int i = 0; i < shape->dims; i++)
        str_addf(out, " %" PRId64 "%s", lesson_size(plan, shape->sizes[i]), i + 1 < shape->dims ? "," : " ");
    str_add(out, "}");
}

/* `copies` of it, side by side in one tensor; 0: itself. */
static void
add_tensor(const struct lesson_plan *plan, const struct lesson_shape *shape, const char *dtype, int copies,
           struct str *out)
{
    str_add(out, "rs.ones(");
    add_sizes(plan, shape, copies, out);
    if (strcmp(dtype, "float32") != 0)
        str_addf(out, ", { dtype = \"%s\" }", dtype);
    str_add(out, ")");
}

/* What is written of a call: its tensor, and how many members the group has here. */
struct written {
    const struct lesson_plan  *plan;
    const struct flight_entry *call;
    struct lesson_shape        shape;
    const char                *dtype;
    int                        members, root;
};

static void
add_copies(const struct written *w, int copies, struct str *out)
{
    add_tensor(w->plan, &w->shape, w->dtype, copies, out);
}

static void
add_list(const struct written *w, struct str *out)
{
    add_copies(w, w->members, out);
    str_add(out, ":unbind()");
}

static void
add_list_on_root(const struct written *w, struct str *out)
{
    str_addf(out, "rank == %d and ", w->root);
    add_list(w, out);
    str_addf(out, " or nil, %d", w->root);
}

/* ---- calls: what stands between the parentheses ---- */

static void
write_tensor(const struct written *w, struct str *out)
{
    add_copies(w, 0, out);
    const char *op = w->call->reduce_op;
    if (op != NULL && strcmp(op, "sum") != 0 && op[strspn(op, "abcdefghijklmnopqrstuvwxyz")] == '\0')
        str_addf(out, ", \"%s\"", op);
}

static void
write_rooted(const struct written *w, struct str *out)
{
    add_copies(w, 0, out);
    str_addf(out, ", %d", w->root);
}

static void
write_nothing(const struct written *w, struct str *out)
{
    (void)w;
    (void)out;
}

static void
write_all_gather(const struct written *w, struct str *out)
{
    str_add(out, "{}, ");
    add_copies(w, 0, out);
}

static void
write_gather(const struct written *w, struct str *out)
{
    add_copies(w, 0, out);
    str_add(out, ", ");
    add_list_on_root(w, out);
}

static void
write_out_of_copies(const struct written *w, struct str *out)
{
    add_copies(w, w->members, out);
    str_add(out, ", ");
    add_copies(w, 0, out);
}

static void
write_into_one(const struct written *w, struct str *out)
{
    add_copies(w, 0, out);
    str_add(out, ", ");
    add_copies(w, w->members, out);
}

static void
write_list_into_one(const struct written *w, struct str *out)
{
    add_copies(w, 0, out);
    str_add(out, ", ");
    add_list(w, out);
}

static void
write_two_lists(const struct written *w, struct str *out)
{
    add_list(w, out);
    str_add(out, ", ");
    add_list(w, out);
}

/* Splits are each rank's own; here all have a row for each. */
static void
write_split(const struct written *w, struct str *out)
{
    struct written row = *w;
    row.shape.dims     = w->shape.dims > 0 ? w->shape.dims - 1 : 0;
    memmove(row.shape.sizes, w->shape.sizes + 1, sizeof row.shape.sizes - sizeof row.shape.sizes[0]);
    add_copies(&row, w->members, out);
    str_add(out, ", ");
    add_copies(&row, w->members, out);
}

static void
write_tensors(const struct written *w, struct str *out)
{
    struct lesson_shape shape;
    str_add(out, "{ ");
    for (int i = 0; i < 8 && lesson_shape(w->call->input_sizes, i, &shape); i++) {
        str_add(out, i > 0 ? ", " : "");
        add_tensor(w->plan, &shape, w->dtype, 0, out);
    }
    str_add(out, " }");
}

/* By the names that back-ends record. Shapes are of what each rank gives, or of what it gets (from_output). */
static const struct spelling {
    const char *recorded, *name;
    void      (*arguments)(const struct written *w, struct str *out);
    bool        from_output;
} spellings[] = {
    { "all_reduce", "all_reduce", write_tensor, false },
    { "allreduce", "all_reduce", write_tensor, false },
    { "all_reduce_barrier", "barrier", write_nothing, false },
    { "barrier", "barrier", write_nothing, false },
    { "broadcast", "broadcast", write_rooted, false },
    { "_broadcast_oop", "broadcast", write_rooted, false },
    { "reduce", "reduce", write_rooted, false },
    { "_reduce_oop", "reduce", write_rooted, false },
    { "all_gather", "all_gather", write_all_gather, false },
    { "allgather", "all_gather", write_all_gather, false },
    { "_all_gather_base", "all_gather_into_tensor", write_out_of_copies, false },
    { "_allgather_base", "all_gather_into_tensor", write_out_of_copies, false },
    { "all_gather_into_tensor", "all_gather_into_tensor", write_out_of_copies, false },
    { "all_gather_single", "all_gather_into_tensor", write_out_of_copies, false },
    { "gather", "gather", write_gather, false },
    { "scatter", "scatter", write_gather, true },
    { "reduce_scatter", "reduce_scatter", write_list_into_one, true },
    { "_reduce_scatter_base", "reduce_scatter_tensor", write_into_one, true },
    { "reduce_scatter_tensor", "reduce_scatter_tensor", write_into_one, true },
    { "reduce_scatter_single", "reduce_scatter_tensor", write_into_one, true },
    { "all_to_all", "all_to_all", write_two_lists, false },
    { "alltoall", "all_to_all", write_two_lists, false },
    { "all_to_all_single", "all_to_all_single", write_split, false },
    { "alltoall_base", "all_to_all_single", write_split, false },
    { "all_to_allv", "all_to_all_single", write_split, false },
    { "allreduce_coalesced", "all_reduce_coalesced", write_tensors, false },
    { "all_reduce_coalesced", "all_reduce_coalesced", write_tensors, false },
};

/* An all_to_all of one tensor is all_to_all_single: NCCL and gloo record both under one name. */
static const struct spelling *
spelling_of(const struct flight_entry *call)
{
    static const struct spelling none   = { NULL, "barrier", write_nothing, false };
    static const struct spelling single = { "all_to_all", "all_to_all_single", write_split, false };
    struct lesson_shape          shape;
    for (size_t i = 0; i < countof(spellings); i++)
        if (strcmp(spellings[i].recorded, call->operation) == 0)
            return spellings[i].arguments == write_two_lists && !lesson_shape(call->input_sizes, 1, &shape)
                       ? &single
                       : &spellings[i];
    return &none;
}

static bool
is_default(const struct lesson_plan *plan, int group)
{
    const struct flight_group *of = &plan->flight->groups[group];
    return strcmp(of->name, "0") == 0 || strcmp(of->name, "default_pg") == 0 ||
           (of->description != NULL && strcmp(of->description, "default_pg") == 0);
}

static bool
is_used(const struct lesson_plan *plan, int group)
{
    for (int i = 0; i < plan->line_count; i++)
        if (plan->lines[i].call->group == group)
            return true;
    return false;
}

/* As the lesson's own report will call it: the groups that it makes, from 1. */
static int
group_number(const struct lesson_plan *plan, int group)
{
    int number = 1;
    for (int i = 0; i < group; i++)
        number += is_used(plan, i) && !is_default(plan, i);
    return number;
}

static void
add_options(const struct written *w, bool async, struct str *out)
{
    bool named = !is_default(w->plan, w->call->group);
    if (!named && !async)
        return;
    if (out->len > 0 && out->text[out->len - 1] != '(')
        str_add(out, ", ");
    str_add(out, "{ ");
    if (named)
        str_addf(out, "group = group_%d%s", group_number(w->plan, w->call->group), async ? ", " : " ");
    str_add(out, async ? "async_op = true }" : "}");
}

static struct written
written_of(const struct lesson_plan *plan, const struct flight_entry *call, bool from_output)
{
    unsigned       members = lesson_members(plan, call->group);
    struct written w       = { .plan = plan, .call = call, .members = bit_count(members), .root = lowest(members) };
    const char *first = from_output ? call->output_sizes : call->input_sizes;
    const char *other = from_output ? call->input_sizes : call->output_sizes;
    if (!lesson_shape(first, 0, &w.shape))
        lesson_shape(other, 0, &w.shape);
    w.dtype = lesson_dtype(call->input_dtypes != NULL && strlen(call->input_dtypes) > 2 ? call->input_dtypes
                                                                                          : call->output_dtypes);
    if (call->root >= 0 && lesson_rank(plan, call->root) >= 0)
        w.root = lesson_rank(plan, call->root);
    return w;
}

static void
add_p2p(const struct lesson_plan *plan, const struct flight_entry *call, bool async, struct str *out)
{
    bool           send = strcmp(call->operation, "send") == 0;
    struct written w    = written_of(plan, call, !send);
    int            peer = call->peer >= 0 ? lesson_rank(plan, call->peer) : -1;
    str_addf(out, "dist.%s%s(", async ? "i" : "", send ? "send" : "recv");
    add_copies(&w, 0, out);
    if (peer >= 0)
        str_addf(out, ", %d", peer);
    bool named = !is_default(plan, call->group);
    if (named || call->tag > 0)
        str_add(out, ", { ");
    if (named)
        str_addf(out, "group = group_%d%s", group_number(plan, call->group), call->tag > 0 ? ", " : "");
    if (call->tag > 0)
        str_addf(out, "tag = %" PRId64, call->tag);
    str_add(out, named || call->tag > 0 ? " })" : ")");
}

static void
add_call(const struct lesson_plan *plan, const struct flight_entry *call, bool async, struct str *out)
{
    if (strcmp(call->operation, "send") == 0 || strcmp(call->operation, "recv") == 0) {
        add_p2p(plan, call, async, out);
        return;
    }
    const struct spelling *spelling = spelling_of(call);
    struct written         w        = written_of(plan, call, spelling->from_output);
    str_addf(out, "dist.%s(", spelling->name);
    spelling->arguments(&w, out);
    add_options(&w, async, out);
    str_add(out, ")");
}

/* ---- lines ---- */

static void
add_kept_call(const struct lesson_plan *plan, const struct lesson_line *line, const struct flight_entry *call,
              unsigned ranks, struct str *out)
{
    bool async = (line->async & ranks) != 0, kept = async && (line->passed & ranks) == 0;
    str_add(out, kept ? "works[#works + 1] = " : "");
    add_call(plan, call, async, out);
}

static void
add_place(const struct flight_entry *call, struct str *out)
{
    if (call->line == 0 || call->file == NULL)
        return;
    const char *slash = strrchr(call->file, '/');
    str_add(out, "  -- ");
    add_outside(out, slash != NULL ? slash + 1 : call->file);
    str_addf(out, ":%u", call->line);
}

/* One statement; where the ranks differ in whether they wait, they get one each. */
static void
add_line(const struct lesson_plan *plan, const struct lesson_line *line, unsigned ranks, struct str *out)
{
    unsigned all = (1u << plan->world) - 1, others = line->other_ranks & ~ranks;
    str_add(out, "  ");
    if (ranks != all) {
        str_add(out, "if ");
        add_condition(plan, ranks, out);
        str_add(out, " then ");
    }
    add_kept_call(plan, line, line->call, ranks, out);
    if (others != 0) {
        str_add(out, (ranks | others) == all ? " else " : " elseif ");
        if ((ranks | others) != all) {
            add_condition(plan, others, out);
            str_add(out, " then ");
        }
        add_kept_call(plan, line, line->other, others, out);
    }
    str_add(out, ranks != all ? " end" : "");
    add_place(line->call, out);
    if (spelling_of(line->call)->recorded == NULL && !line->call->is_p2p) {
        str_add(out, "  -- for ");
        add_outside(out, line->call->operation);
    }
    str_add(out, "\n");
}

static void
add_lines(const struct lesson_plan *plan, int first, int end, struct str *out)
{
    for (int i = first; i < end; i++) {
        const struct lesson_line *line   = &plan->lines[i];
        unsigned                  parts[] = { line->ranks & ~line->async, line->ranks & line->async & ~line->passed,
                                              line->ranks & line->passed };
        for (size_t part = 0; part < countof(parts); part++)
            if (parts[part] != 0)
                add_line(plan, line, parts[part], out);
    }
}

static unsigned
waiting_ranks(const struct lesson_plan *plan)
{
    unsigned ranks = 0;
    for (int i = 0; i < plan->line_count; i++)
        ranks |= plan->lines[i].async & ~plan->lines[i].passed;
    return ranks;
}

/* ---- groups ---- */

static void
add_groups(const struct lesson_plan *plan, struct str *out)
{
    for (int i = 0; i < plan->flight->group_count; i++) {
        unsigned members = lesson_members(plan, i);
        if (!is_used(plan, i) || is_default(plan, i))
            continue;
        str_addf(out, "  local group_%d = dist.new_group {", group_number(plan, i));
        for (int place = 0, told = 0; place < plan->world; place++)
            if ((members >> place & 1) != 0)
                str_addf(out, "%s %d", told++ > 0 ? "," : "", place);
        str_add(out, " }");
        if (plan->flight->groups[i].description != NULL) {
            str_add(out, "  -- ");
            add_outside(out, plan->flight->groups[i].description);
        }
        str_add(out, "\n");
    }
}

/* ---- the end of it ---- */

/* A culprit that calls nothing is busy for longer than the others wait. Why one does not come to a call that it has
 * enqueued is not known: here it is busy before it. */
static bool
is_busy(const struct lesson_plan *plan)
{
    return plan->hang->cause == HANG_OUTSIDE || plan->hang->cause == HANG_LATE;
}

static int64_t
patience(const struct lesson_plan *plan)
{
    const struct flight_entry *waits = plan->hang->of_victim;
    return waits != NULL && waits->timeout_ms >= 1000 && waits->timeout_ms < 86400000 ? waits->timeout_ms / 1000 : 60;
}

/* How long they wait is the groups' to say. */
static void
add_patience(const struct lesson_plan *plan, struct str *out)
{
    for (int i = 0; is_busy(plan) && i < plan->flight->group_count; i++) {
        if (!is_used(plan, i))
            continue;
        unsigned members = lesson_members(plan, i), all = (1u << plan->world) - 1;
        str_add(out, "  ");
        if (members != all) {
            str_add(out, "if ");
            add_condition(plan, members, out);
            str_add(out, " then ");
        }
        str_addf(out, "dist.set_timeout(%" PRId64, patience(plan));
        if (!is_default(plan, i))
            str_addf(out, ", { group = group_%d }", group_number(plan, i));
        str_addf(out, ")%s  -- seconds\n", members != all ? " end" : "");
    }
}

/* Behind which of the lines that happens: all, or those before the call that the culprit does not come to. */
static int
line_before_absence(const struct lesson_plan *plan)
{
    for (int i = 0; plan->hang->cause == HANG_LATE && i < plan->line_count; i++)
        if (plan->lines[i].call->group == plan->hang->group && plan->lines[i].call->sequence == plan->hang->sequence)
            return i;
    return plan->line_count;
}

/* What keeps the culprit from the call that the others wait for. */
static void
add_absence(const struct lesson_plan *plan, struct str *out)
{
    int place = plan->hang->culprit >= 0 ? lesson_rank(plan, plan->hang->culprit) : -1;
    if (place < 0)
        return;
    if (plan->hang->cause == HANG_THREW)
        str_addf(out, "  if rank == %d then error(\"as in the job\") end\n", place);
    else if (is_busy(plan))
        str_addf(out, "  if rank == %d then rs.advance(%" PRId64 "e6) end  -- busy in code of its own\n", place,
                 10 * patience(plan));
    else if (plan->hang->cause == HANG_ABSENT)
        str_addf(out, "  -- Rank %d left no dump: here it ends.\n", place);
}

bool
flight_lesson(const struct flight *flight, const struct hang *hang, struct str *out)
{
    struct lesson_plan plan = { 0 };
    if (hang->cause == HANG_NONE || hang->cause == HANG_UNKNOWN)
        return false;
    bool good = lesson_plan(&plan, flight, hang) && plan.world > 0;
    if (good) {
        add_head(&plan, out);
        add_changes(&plan, out);
        str_add(out, "local rs = require \"ringside\"\nlocal dist = rs.distributed\n\n");
        str_add(out, "rs.lesson { title = \"A hang, repeated\" }\n\ndist.spawn(function(rank)\n");
        add_groups(&plan, out);
        str_add(out, waiting_ranks(&plan) != 0 ? "  local works = {}\n" : "");
        add_patience(&plan, out);
        int busy = line_before_absence(&plan);
        add_lines(&plan, 0, busy, out);
        add_absence(&plan, out);
        add_lines(&plan, busy, plan.line_count, out);
        str_add(out, waiting_ranks(&plan) != 0 ? "  for _, work in ipairs(works) do work:wait() end\n" : "");
        str_addf(out, "end, { world = %d })\n", plan.world);
    }
    lesson_plan_free(&plan);
    out->broken = out->broken || !good;
    return good && str_ok(out);
}
