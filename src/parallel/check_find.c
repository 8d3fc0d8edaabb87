/* What --check-ranks found, and the elements that are compared. Interface: check_internal.h. PyTorch has nothing like
 * it. */
#include <string.h>
#include "device/cells.h"
#include "device/real.h"
#include "parallel/check_internal.h"
#include "sched/account.h"
#include "tensor/tensor.h"

/* ---- what was found, told outside of the mutex ---- */

void
finding_of(struct finding *finding, const struct divergence *divergence)
{
    finding->found = true;
    finding->name  = divergence->subject->name;
    finding->rank  = divergence->first.rank;
    finding->than  = divergence->other.rank;
    divergence_print(divergence, &finding->report);
}

bool
finding_tell(struct task *me, struct finding *finding, bool queued)
{
    bool ok = !finding->found && finding->refused == 0;
    if (finding->found) {
        const struct divergence_told told = { str_ok(&finding->report) ? str_text(&finding->report)
                                                                       : "replicas differ", finding->name,
                                              finding->rank, finding->than, queued };
        ok = divergence_stop(me, &told);
    } else if (finding->refused > 0 && queued) {
        sched_stop(me->sched, E_BUDGET, "there is no memory for what --check-ranks compares; --trust lifts the limit");
    } else if (finding->refused > 0) {
        memory_failed(me, finding->refused, "the host");
    }
    str_free(&finding->report);
    return ok;
}

struct side
side_of(const struct replica *replica, int rank, const struct replica_state *state, int64_t changes)
{
    return (struct side){ .rank = replica->model->group[rank], .elements = state->elements,
                          .change = &state->change, .changes = changes };
}

/* ---- elements in a row ---- */

static void
pack(char *out, const struct tensor *tensor, const char *data, int dim)
{
    size_t  element = dtype_size(tensor->dtype), row = element;
    int64_t stride  = tensor->stride[dim] * (int64_t)element;
    for (int d = dim + 1; d < tensor->dims; d++)
        row *= (size_t)tensor->size[d];
    for (int64_t i = 0; i < tensor->size[dim]; i++, out += row) {
        if (dim == tensor->dims - 1)
            memcpy(out, data + i * stride, element);
        else
            pack(out, tensor, data + i * stride, dim + 1);
    }
}

const void *
elements_now(struct task *me, const struct tensor *tensor)
{
    int64_t       element = (int64_t)dtype_size(tensor->dtype);
    struct access all     = tensor_access(tensor, false, "check"); /* a collective may have the rest in the mirror */
    if (!mirror_fetch(me, &all))
        return NULL;
    const char *data = mirror_data(tensor->storage) + tensor->offset * element;
    if (tensor_is_contiguous(tensor))
        return data;
    char *packed = cell_take(me, (size_t)tensor_bytes(tensor));
    if (packed != NULL && tensor_bytes(tensor) > 0)
        pack(packed, tensor, data, 0);
    return packed;
}

void
elements_done(struct task *me, const struct tensor *tensor, const void *elements)
{
    void *packed;
    memcpy(&packed, &elements, sizeof packed);
    if (packed != NULL && !tensor_is_contiguous(tensor))
        host_return(me, packed, (size_t)tensor_bytes(tensor));
}

bool
check_charge(struct task *me, size_t bytes)
{
    return task_work(me, WORK_OP + bytes / (WORK_ELEMENTS * sizeof(float)));
}
