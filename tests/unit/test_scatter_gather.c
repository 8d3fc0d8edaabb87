/* Scatter, gather and the coalesced copies, in both executors: what goes where, what comes back, which errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "parallel/comm.h"

#include "data_parallel_rig.h"

/* ---- scatter ---- */

static struct call_arguments
given(struct value *inputs, struct value *kwargs)
{
    return (struct call_arguments){ inputs, kwargs };
}

static bool
chunks(struct task *me, struct seen *seen)
{
    static const struct { int64_t rows; int devices, replicas; int64_t first, last; } cases[] = {
        { 10, 4, 4, 3, 1 }, { 5, 4, 3, 2, 1 }, { 9, 4, 3, 3, 3 },
        { 10, 8, 5, 2, 2 }, { 3, 8, 3, 1, 1 }, { 0, 3, 3, 0, 0 },
    };
    static const int ids[DEVICES] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    for (size_t i = 0; i < countof(cases); i++) {
        struct call_arguments out[DEVICES];
        struct value    *item = rows(me, cases[i].rows, 6, 0);
        struct value    *inputs = item != NULL ? tuple(me, 1, &item) : NULL;
        seen->count = 0;
        const struct device_list devices = { ids, cases[i].devices };
        int replicas = inputs != NULL ? dp_scatter(me, given(inputs, NULL), devices, 0, out) : 0;
        if (!holds(me, replicas == cases[i].replicas, "the chunk rule decides how many replicas there are"))
            return false;
        for (int r = 0; r < replicas; r++) {
            struct tensor *chunk = out[r].inputs->items[0]->tensor;
            int64_t length = r == replicas - 1 ? cases[i].last : cases[i].first;
            struct trace_event event = nth(seen, KIND_dp_scatter_chunk, r);
            if (!holds(me, tensor_size(chunk, 0) == length, "a chunk has as many rows as the rule says") ||
                !holds(me, tensor_device(chunk) == r, "chunk r lies on device r") ||
                !holds(me, event.args[1] == length && event.args[2] == length * 24, "the event tells rows and bytes") ||
                !holds(me, event.args[0] == 0, "from the host no chunk is an alias") ||
                !holds(me, event.device == r && me->device == -1, "the event is the target device's") ||
                !holds(me, out[r].kwargs->kind == VALUE_DICT && out[r].kwargs->count == 0, "no keyword arguments"))
                return false;
        }
    }
    return true;
}

static void
the_chunk_rule_decides_how_many_replicas_work(void **state)
{
    in_both(chunks);
}

static bool
containers(struct task *me, struct seen *seen)
{
    static const int ids[] = { 0, 1, 2, 3 };
    const struct device_list four = { ids, 4 }, two_devices = { ids, 2 };
    struct call_arguments out[4];
    struct value *pair[] = { rows(me, 10, 1, 0), value_text(me, "tag"), value_integer(me, 7) };
    struct value *list = value_container(me, &(struct value_form){ VALUE_LIST, NULL, NULL }, 3, pair);
    struct value *only = list != NULL ? tuple(me, 1, &list) : NULL;
    if (!holds(me, only != NULL && dp_scatter(me, given(only, NULL), four, 0, out) == 4, "4 replicas") ||
        !holds(me, count_of(seen, KIND_dp_scatter_shared) == 2, "a text and a number are shared") ||
        !holds(me, out[2].inputs->items[0]->kind == VALUE_LIST, "a list stays a list") ||
        !holds(me, out[2].inputs->items[0]->items[1] == pair[1], "shared means the same object") ||
        !reads(me, out[2].inputs->items[0]->items[0]->tensor, 3, (const double[]){ 6, 7, 8 }))
        return false;
    struct value *two[] = { rows(me, 8, 1, 0), rows(me, 2, 1, 0) };
    if (!holds(me, dp_scatter(me, given(tuple(me, 2, two), NULL), four, 0, out) == 2, "the shortest decides") ||
        !reads(me, out[1].inputs->items[0]->tensor, 2, (const double[]){ 2, 3 }))
        return false;
    struct value *flag = value_bool(me, true), *small = rows(me, 2, 1, 0);
    const struct value_form only_flag = { VALUE_DICT, (const char *const[]){ "flag" }, NULL };
    struct value *options = value_container(me, &only_flag, 1, &flag);
    if (!holds(me, dp_scatter(me, given(tuple(me, 1, &small), options), four, 0, out) == 4, "a plain keyword: all") ||
        !holds(me, out[1].inputs->count == 1 && out[2].inputs->count == 0, "arguments are padded") ||
        !holds(me, out[3].inputs->count == 0, "to the last") ||
        !holds(me, out[3].kwargs->count == 1 && out[3].kwargs->items[0] == flag, "keywords are shared"))
        return false;
    if (!holds(me, dp_scatter(me, given(tuple(me, 0, NULL), NULL), four, 0, out) == 0 && !task_failed(me), "nothing"))
        return false;
    struct value *scalar = value_tensor(me, tensor_number(me, DTYPE_F32, DEVICE_CPU, 3));
    return dp_scatter(me, given(tuple(me, 1, &scalar), NULL), two_devices, 0, out) == 0 &&
           was(me, E_RUNTIME, "chunk expects at least a 1-dimensional tensor");
}

static void
containers_are_scattered_and_the_rest_is_shared(void **state)
{
    in_both(containers);
}

static bool
aliases(struct task *me, struct seen *seen)
{
    static const int ids[] = { 0, 1 };
    const struct device_list both = { ids, 2 };
    struct call_arguments out[2];
    struct tensor *input = counting(me, 0, 2, (const int64_t[]){ 4, 2 }, 0);
    struct value *item = value_tensor(me, input);
    if (!holds(me, item != NULL && dp_scatter(me, given(tuple(me, 1, &item), NULL), both, 1, out) == 2, "2 replicas"))
        return false;
    struct tensor *first = out[0].inputs->items[0]->tensor, *second = out[1].inputs->items[0]->tensor;
    return holds(me, first->storage == input->storage, "where the input lies it is not copied") &&
           holds(me, second->storage != input->storage, "elsewhere it is") &&
           holds(me, nth(seen, KIND_dp_scatter_chunk, 0).args[0] == 1, "the event says that it is an alias") &&
           holds(me, nth(seen, KIND_dp_scatter_chunk, 1).args[0] == 0, "and that the other is none") &&
           reads(me, second, 4, (const double[]){ 1, 3, 5, 7 });
}

static void
the_chunk_on_the_inputs_own_device_is_a_view(void **state)
{
    in_both(aliases);
}

/* ---- gather ---- */

/* The same rows on devices 0 and 1: 2 and 1 of them. */
static bool
two_outputs(struct task *me, struct value *out[2])
{
    out[0] = value_tensor(me, counting(me, 0, 1, (const int64_t[]){ 2 }, 0));
    out[1] = value_tensor(me, counting(me, 1, 1, (const int64_t[]){ 1 }, 2));
    return out[0] != NULL && out[1] != NULL;
}

static bool
gathers(struct task *me, struct seen *seen)
{
    struct value *out[2], *dicts[2], *none = value_none(me), *number = value_integer(me, 1);
    if (!two_outputs(me, out))
        return false;
    for (int r = 0; r < 2; r++) {
        const char *keys[] = { r == 0 ? "a" : "b", r == 0 ? "b" : "a" };
        struct value *items[] = { r == 0 ? out[0] : none, r == 0 ? none : out[1] };
        dicts[r] = value_container(me, &(struct value_form){ VALUE_DICT, keys, NULL }, 2, items);
    }
    struct value *dict = dp_gather(me, dicts, 2, 1, 0);
    if (dict == NULL || !holds(me, dict->count == 2 && strcmp(dict->keys[0], "a") == 0, "keys in replica 0's order") ||
        !holds(me, dict->items[1]->kind == VALUE_NONE, "None if replica 0 gave None") ||
        !holds(me, tensor_device(dict->items[0]->tensor) == 1, "gathered on the chosen device") ||
        !reads(me, dict->items[0]->tensor, 3, (const double[]){ 0, 1, 2 }))
        return false;
    struct value *scalars[] = { value_tensor(me, tensor_number(me, DTYPE_F32, 0, 4)),
                                value_tensor(me, tensor_number(me, DTYPE_F32, 1, 5)) };
    struct value *vector = dp_gather(me, scalars, 2, DEVICE_CPU, 0);
    if (vector == NULL || !reads(me, vector->tensor, 2, (const double[]){ 4, 5 }) ||
        !holds(me, count_of(seen, KIND_dp_gather_unsqueeze) == 1, "scalars become a vector, with one warning"))
        return false;
    dp_gather(me, scalars, 2, 0, 1);
    if (!was(me, E_INDEX, "Dimension specified as 1 but tensor has no dimensions"))
        return false;
    dp_gather(me, (struct value *const[]){ scalars[0], out[1] }, 2, 0, 0);
    if (!was(me, E_INDEX, "Dimension specified as 0 but tensor has no dimensions"))
        return false;
    dp_gather(me, (struct value *const[]){ number, number }, 2, 0, 0);
    if (!was(me, E_TYPE, "'int' object is not iterable"))
        return false;
    struct value *less = value_container(me, &(struct value_form){ VALUE_DICT, (const char *const[]){ "a" }, NULL }, 1,
                                         out);
    dp_gather(me, (struct value *const[]){ less, dicts[1] }, 2, 0, 0);
    if (!was(me, E_VALUE, "All dicts must have the same number of keys"))
        return false;
    struct value *other = value_container(me, &(struct value_form){ VALUE_DICT, (const char *const[]){ "b" }, NULL }, 1,
                                          out);
    dp_gather(me, (struct value *const[]){ less, other }, 2, 0, 0);
    return was(me, E_KEY, "'a'");
}

static void
replica_0_decides_how_outputs_are_gathered(void **state)
{
    in_both(gathers);
}

static bool
other_widths(struct task *me, struct seen *seen)
{
    struct value *outputs[] = { value_tensor(me, counting(me, 0, 2, (const int64_t[]){ 2, 3 }, 0)),
                                value_tensor(me, counting(me, 1, 2, (const int64_t[]){ 2, 2 }, 0)) };
    (void)seen;
    dp_gather(me, outputs, 2, 0, 0);
    return was(me, E_SHAPE, "except in dimension 0. Expected size 3 but got size 2 for tensor number 1");
}

static void
outputs_of_other_widths_are_refused(void **state)
{
    in_both(other_widths);
}

/* ---- the coalesced copies ---- */

static bool
groups_are(struct task *me, const int *elements, int count, size_t limit, enum comm_rule rule, const char *expected)
{
    struct comm_groups groups;
    struct tensor     *tensors[8];
    char               text[128] = "";
    for (int i = 0; i < count; i++) {
        tensors[i] = tensor_empty(me, DTYPE_F32, DEVICE_CPU, 1, (const int64_t[]){ elements[i] });
        if (tensors[i] == NULL)
            return false;
    }
    const struct coalesced all = { .tensors = tensors, .count = count, .buffer_bytes = limit };
    if (!comm_group(me, &all, rule, &groups))
        return false;
    for (int g = 0; g < groups.count; g++)
        for (int i = groups.starts[g]; i < groups.starts[g + 1]; i++)
            sprintf(text + strlen(text), "%s%d", i > groups.starts[g] ? " " : g > 0 ? ", " : "", groups.members[i]);
    return strcmp(text, expected) == 0 || failed(me, E_RUNTIME, "groups %s, expected %s", text, expected);
}

static bool
coalescing(struct task *me, struct seen *seen)
{
    static const int large[] = { 1, 1000000, 2000000, 3000000, 10, 2621440, 5 }, even[] = { 12, 12, 12, 12 };
    const size_t     limit = 10485760;
    (void)seen;
    return groups_are(me, large, 7, limit, COMM_BROADCAST, "0 1 2, 3, 4 5, 6") &&
           groups_are(me, large, 7, limit, COMM_REDUCE, "0 1, 2, 3, 4, 5, 6") &&
           groups_are(me, even, 4, 100, COMM_BROADCAST, "0 1 2, 3") &&
           groups_are(me, even, 4, 100, COMM_REDUCE, "0 1, 2 3");
}

static void
broadcast_and_reduce_group_differently(void **state)
{
    in_both(coalescing);
}

/* Three of 48 bytes each. Broadcast closes a group that has reached the limit, reduce opens another rather than exceed
 * it: at the limit itself both put two together. */
static bool
exact_limits(struct task *me, struct seen *seen)
{
    static const int three[] = { 12, 12, 12 };
    (void)seen;
    return groups_are(me, three, 3, 95, COMM_REDUCE, "0, 1, 2") && groups_are(me, three, 3, 96, COMM_REDUCE, "0 1, 2") &&
           groups_are(me, three, 3, 97, COMM_REDUCE, "0 1, 2") && groups_are(me, three, 3, 143, COMM_REDUCE, "0 1, 2") &&
           groups_are(me, three, 3, 144, COMM_REDUCE, "0 1 2") && groups_are(me, three, 3, 145, COMM_REDUCE, "0 1 2") &&
           groups_are(me, three, 3, 48, COMM_BROADCAST, "0, 1, 2") &&
           groups_are(me, three, 3, 49, COMM_BROADCAST, "0 1, 2") &&
           groups_are(me, three, 3, 95, COMM_BROADCAST, "0 1, 2") &&
           groups_are(me, three, 3, 96, COMM_BROADCAST, "0 1, 2") &&
           groups_are(me, three, 3, 97, COMM_BROADCAST, "0 1 2");
}

static void
a_group_at_its_limit_is_closed_by_broadcast_and_kept_by_reduce(void **state)
{
    in_both(exact_limits);
}

/* What travelled together lies in one storage afterwards. */
static bool
reduce_at_the_limit(struct task *me, struct seen *seen)
{
    static const int ids[] = { 0, 1 };
    struct tensor *tensors[4], *out[2];
    (void)seen;
    for (int i = 0; i < 4; i++)
        tensors[i] = counting(me, ids[i / 2], 1, (const int64_t[]){ 12 }, i);
    for (size_t bytes = 95; bytes <= 97; bytes++) {
        const struct coalesced all = { tensors, 2, { ids, 2 }, bytes };
        if (!comm_reduce_add_coalesced(me, &all, 0, out) ||
            !holds(me, (out[0]->storage == out[1]->storage) == (bytes >= 96), "96 bytes fit into a buffer of 96"))
            return false;
    }
    return true;
}

static void
reduce_add_fills_its_buffer_to_the_last_byte(void **state)
{
    in_both(reduce_at_the_limit);
}

/* The root's first, then the others in the order of the devices: 1e8 - 1e8 + 1 is 1, 1e8 + 1 - 1e8 is 0 in float32. Of
 * several on the destination the last is the root. */
static bool
order_of_sums(struct task *me, struct seen *seen)
{
    static const struct { int ids[3]; double parts[3]; } cases[] = {
        { { 1, 0, 2 }, { -1e8, 1e8, 1 } }, { { 0, 1, 0 }, { 1e8, 1, -1e8 } },
    };
    (void)seen;
    for (size_t i = 0; i < countof(cases); i++) {
        const int     *ids = cases[i].ids;
        struct tensor *tensors[3], *out[1];
        for (int d = 0; d < 3; d++)
            tensors[d] = tensor_filled(me, tensor_empty(me, DTYPE_F32, ids[d], 1, (const int64_t[]){ 1 }),
                                       cases[i].parts[d]);
        const struct coalesced all = { .tensors = tensors, .count = 1, .devices = { ids, 3 } };
        if (!comm_reduce_add_coalesced(me, &all, 0, out) || !reads(me, out[0], 1, (const double[]){ 1 }))
            return false;
    }
    return true;
}

static void
reduce_add_sums_in_the_order_of_the_devices(void **state)
{
    in_both(order_of_sums);
}

static bool
sums(struct task *me, struct seen *seen)
{
    static const int ids[] = { 1, 0, 2 };
    struct tensor *tensors[6], *out[2];
    for (int i = 0; i < 6; i++)
        tensors[i] = counting(me, ids[i / 2], 1, (const int64_t[]){ 2 + i % 2 }, i);
    const struct coalesced all = { .tensors = tensors, .count = 2, .devices = { ids, 3 } };
    if (!comm_reduce_add_coalesced(me, &all, 0, out) ||
        !reads(me, out[0], 2, (const double[]){ 6, 9 }) || !reads(me, out[1], 3, (const double[]){ 9, 12, 15 }) ||
        !holds(me, tensor_device(out[0]) == 0, "sums lie on the destination") ||
        !holds(me, out[0]->version != out[1]->version, "each sum has a version of its own") ||
        !reads(me, tensors[0], 2, (const double[]){ 0, 1 }))
        return false;
    (void)seen;
    if (comm_reduce_add_coalesced(me, &all, 5, out))
        return false;
    if (!was(me, E_RUNTIME, "device:5"))
        return false;
    tensors[2] = tensors[3];
    return !comm_reduce_add_coalesced(me, &all, 0, out) && was(me, E_VALUE, "got 3, but expected 2");
}

static void
reduce_add_sums_on_one_of_the_devices(void **state)
{
    in_both(sums);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_chunk_rule_decides_how_many_replicas_work),
        cmocka_unit_test(containers_are_scattered_and_the_rest_is_shared),
        cmocka_unit_test(the_chunk_on_the_inputs_own_device_is_a_view),
        cmocka_unit_test(replica_0_decides_how_outputs_are_gathered),
        cmocka_unit_test(outputs_of_other_widths_are_refused),
        cmocka_unit_test(broadcast_and_reduce_group_differently),
        cmocka_unit_test(a_group_at_its_limit_is_closed_by_broadcast_and_kept_by_reduce),
        cmocka_unit_test(reduce_add_fills_its_buffer_to_the_last_byte),
        cmocka_unit_test(reduce_add_sums_in_the_order_of_the_devices),
        cmocka_unit_test(reduce_add_sums_on_one_of_the_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
