/* Which tensors travel together: torch::utils::take_tensors (broadcast) and torch._utils._take_tensors (reduce). */
#include "parallel/comm.h"
#include "parallel/data_parallel.h"

#define BUFFER_BYTES ((size_t)10 * 1024 * 1024)
enum { TYPES = 2 * DTYPE_COUNT };      /* dense ones, then sparse ones */

/* One group is open per type: its number, its bytes, and at which place the type first came. */
struct open_group { int number, place; uint64_t bytes; };

static void
close_group(struct open_group *open, int *closed, int *count)
{
    closed[(*count)++] = open->number;
    open->number = -1;
}

/* group[i]: the number of i's group, by opening; closed[k]: the k-th group to close. Answers how many. */
static int
assign_groups(const struct coalesced *given, enum comm_rule rule, int *group, int *closed)
{
    const size_t      limit = given->buffer_bytes != 0 ? given->buffer_bytes : BUFFER_BYTES;
    struct open_group open[TYPES];
    int types[TYPES], type_count = 0, opened = 0, closed_count = 0;
    for (int type = 0; type < TYPES; type++)
        open[type] = (struct open_group){ .number = -1, .place = -1 };

    for (int i = 0; i < given->count; i++) {
        const struct tensor *tensor = given->tensors[i];
        const int            type = (int)tensor->dtype + (tensor_is_sparse(tensor) ? DTYPE_COUNT : 0);
        struct open_group   *mine = &open[type];
        uint64_t bytes = (uint64_t)comm_bytes(tensor);
        if (mine->place < 0) {
            mine->place = type_count;
            types[type_count++] = type;
        }
        if (rule == COMM_REDUCE && mine->number >= 0 && mine->bytes > 0 && mine->bytes + bytes > limit)
            close_group(mine, closed, &closed_count);
        if (mine->number < 0) {
            mine->number = opened++;
            mine->bytes = 0;
        }
        group[i] = mine->number;
        mine->bytes += bytes;
        if (rule == COMM_BROADCAST && mine->bytes >= limit)
            close_group(mine, closed, &closed_count);
    }
    for (int i = 0; i < type_count; i++)
        if (open[types[i]].number >= 0)
            close_group(&open[types[i]], closed, &closed_count);
    return closed_count;
}

bool
comm_group(struct task *me, const struct coalesced *given, enum comm_rule rule, struct comm_groups *out)
{
    const size_t count = (size_t)given->count;
    int *group = scratch_new(me, count, sizeof *group), *closed = scratch_new(me, count, sizeof *closed);
    out->members = scratch_new(me, count, sizeof *out->members);
    out->starts = scratch_new(me, count + 1, sizeof *out->starts);
    if (group == NULL || closed == NULL || out->members == NULL || out->starts == NULL)
        return false;

    out->count = assign_groups(given, rule, group, closed);
    int placed = 0;
    for (int g = 0; g < out->count; g++) {
        out->starts[g] = placed;
        for (int i = 0; i < given->count; i++)
            if (group[i] == closed[g])
                out->members[placed++] = i;
    }
    out->starts[out->count] = placed;
    return true;
}

struct flat_members
comm_members(const struct coalesced *given, const struct comm_groups *groups, int g, int d)
{
    return (struct flat_members){ .tensors = given->tensors + (size_t)d * (size_t)given->count,
                                  .indices = &groups->members[groups->starts[g]],
                                  .count = groups->starts[g + 1] - groups->starts[g] };
}

bool
comm_unflatten(struct task *me, struct tensor *flat, const struct flat_members *members, struct tensor **out)
{
    struct flat_walk walk = { .flat = flat };
    for (int i = 0; i < members->count; i++) {
        int at = members->indices[i];
        out[at] = tensor_own_version(me, flat_piece(me, &walk, members->tensors[at]));
        if (out[at] == NULL)
            return false;
    }
    return true;
}
