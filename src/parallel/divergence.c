/* What is said of replicas that differ: whose, which tensor, where in it, both numbers, since which line, and what to
 * do. Interface: divergence_print, divergence_stop. PyTorch says nothing: the ranks train on, each with a model of its
 * own. */
#include "parallel/divergence.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "device/device.h"
#include "device/storage.h"
#include "parallel/replica_states.h"
#include "sched/stage.h"

/* ---- an element ---- */

static size_t
first_difference(const struct subject *subject, const char *a, const char *b)
{
    size_t element = dtype_size(subject->dtype), at = 0;
    while (at < subject->bytes && memcmp(a + at, b + at, element) == 0)
        at += element;
    return at / element;
}

/* "[2][1]"; of a tensor of no dimensions nothing. */
static void
print_place(const struct subject *subject, size_t index, struct str *out)
{
    int64_t places[TENSOR_DIMS];
    for (int d = subject->dims; d-- > 0;) {
        size_t size = subject->size[d] > 0 ? (size_t)subject->size[d] : 1;
        places[d]   = (int64_t)(index % size);
        index /= size;
    }
    for (int d = 0; d < subject->dims; d++)
        str_addf(out, "[%" PRId64 "]", places[d]);
}

/* As few digits as make the same bits; of what is no number the bits themselves. */
static void
print_fraction(enum dtype dtype, const void *element, struct str *out)
{
    double   value = dtype_fraction(dtype, element);
    uint64_t bits  = 0, again = 0;
    char     text[40];
    memcpy(&bits, element, dtype_size(dtype));
    if (value != value) {
        str_addf(out, "nan (0x%" PRIx64 ")", bits);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        dtype_put_fraction(dtype, &again, strtod(text, NULL));
        if (memcmp(&again, &bits, dtype_size(dtype)) == 0)
            break;
    }
    str_add(out, text);
}

static void
print_element(enum dtype dtype, const void *element, struct str *out)
{
    if (dtype_is_float(dtype))
        print_fraction(dtype, element, out);
    else if (dtype == DTYPE_BOOL)
        str_add(out, dtype_whole(dtype, element) != 0 ? "true" : "false");
    else
        str_addf(out, "%" PRId64, dtype_whole(dtype, element));
}

/* ---- a change ---- */

/* As the lesson writes it: an op in place has a _ at its end, and a number beside a tensor makes no other op. */
static void
print_op(const char *name, struct str *out)
{
    const char *scalar = strstr(name, "_scalar");
    size_t      length = scalar != NULL && scalar[strlen("_scalar")] == '\0' ? (size_t)(scalar - name) : strlen(name);
    str_add_bytes(out, name, length);
    if (length > 0 && name[length - 1] != '_')
        str_add(out, "_");
}

static void
print_change(const struct change *change, struct str *out)
{
    if (change->stage == KIND_optim_step)
        str_add(out, "optimizer.step");
    else if (change->stage == KIND_ddp_init)
        str_add(out, "DistributedDataParallel");
    else if (change->is_op)
        print_op(change->what, out);
    else
        str_add(out, change->what);
    if (change->line > 0)
        str_addf(out, " (line %" PRIu32 ")", change->line);
}

/* ---- what to do ---- */

static void
print_step_advice(const struct divergence *d, struct str *out)
{
    enum grad_state first = d->first.change->grad, other = d->other.change->grad;
    if (first == GRAD_AS_REDUCED && other == GRAD_AS_REDUCED)
        str_add(out, "their gradients are equal, their optimizers are not: give every rank the same lr, options and "
                     "state");
    else if (first == GRAD_CHANGED && other != GRAD_CHANGED)
        str_addf(out, "rank %d has changed its gradient since the reduction: do so on every rank, or on none",
                 d->first.rank);
    else if (other == GRAD_CHANGED && first != GRAD_CHANGED)
        str_addf(out, "rank %d has changed its gradient since the reduction: do so on every rank, or on none",
                 d->other.rank);
    else
        str_add(out, "every rank must step with the same gradient, lr, options and state");
}

static void
print_advice(const struct divergence *d, struct str *out)
{
    uint16_t stage = d->first.change->stage;
    str_add(out, ": ");
    if (d->suffix != NULL)
        str_add(out, "what reduces the gradients must answer the same on every rank");
    else if (stage == KIND_ddp_init)
        str_add(out, "every rank must begin with the same numbers: seed all alike, or let DistributedDataParallel send "
                     "those of rank 0");
    else if (stage == KIND_optim_step)
        print_step_advice(d, out);
    else
        str_add(out, "every rank must make the same change, from the same numbers");
}

static void
print_times(int64_t times, struct str *out)
{
    if (times == 1)
        str_add(out, "once");
    else
        str_addf(out, "%" PRId64 " times", times);
}

/* "rank 1 has changed net.0.weight 3 times, rank 0 2 times" */
static void
print_counts(const struct divergence *d, struct str *out)
{
    if (d->first.changes < 0 || d->first.changes == d->other.changes)
        return;
    str_addf(out, ": rank %d has changed %s ", d->first.rank, d->subject->name);
    print_times(d->first.changes, out);
    str_addf(out, ", rank %d ", d->other.rank);
    print_times(d->other.changes, out);
}

void
divergence_print(const struct divergence *d, struct str *out)
{
    const struct subject *subject = d->subject;
    size_t      index = first_difference(subject, d->first.elements, d->other.elements);
    size_t      at    = index * dtype_size(subject->dtype);
    str_addf(out, "rank %d's %s%s", d->first.rank, subject->name, d->suffix != NULL ? d->suffix : "");
    print_place(subject, index, out);
    str_add(out, " is ");
    print_element(subject->dtype, (const char *)d->first.elements + at, out);
    str_addf(out, " where rank %d's is ", d->other.rank);
    print_element(subject->dtype, (const char *)d->other.elements + at, out);
    if (d->other.others > 0)
        str_addf(out, ", as on %d more rank%s", d->other.others, d->other.others > 1 ? "s" : "");
    str_add(out, ", since ");
    print_change(d->first.change, out);
    if (d->kind == DIFFERS_BY_VALUE) {
        print_advice(d, out);
    } else if (d->kind == DIFFERS_BY_EXTRA) {
        str_addf(out, ", which rank %d has not done", d->other.rank);
        print_counts(d, out);
    } else {
        str_addf(out, ", where rank %d did ", d->other.rank);
        print_change(d->other.change, out);
        str_add(out, ": every rank must make the same changes in the same order");
    }
}

/* ---- the end ---- */

/* Replicas of a model that must be equal differ from this event on: whose, of which tensor, and how. */
static void
divergence_announce(struct task *me, const struct divergence_told *told)
{
    int64_t name   = stage_text_id(me, told->name);
    int64_t report = stage_text_id(me, told->report);
    storage_emit(me, KIND_fault_divergence, DEVICE_CPU, (const int64_t[4]){ told->rank, told->than, name, report });
}

bool
divergence_stop(struct task *me, const struct divergence_told *told)
{
    divergence_announce(me, told);
    if (!told->queued)
        return failed(me, E_DIVERGENCE, "%s", told->report);
    sched_stop(me->sched, E_DIVERGENCE, told->report);
    return false;
}
