/* Stand-ins: back-ends move elements that lie in a row. Where a tensor of the caller's has gaps, or many shall travel
 * as one, they get a copy that is made as the collective is issued; outcomes are pasted back when it has ended, on the
 * comm task. A tensor in one piece has none, and costs nothing.
 * Order of use: work_take or work_stand_in, work_paste, work_drop_stand_ins. PyTorch: gloo's flattened tensors. */
#include <stdlib.h>
#include "autograd/history.h"
#include "autograd/node.h"
#include "base/str.h"
#include "c10d/internal.h"
#include "device/cells.h"
#include "device/stream.h"
#include "sched/account.h"
#include "tensor/op.h"

bool
work_stand_in(struct task *me, struct work *work, struct stand_in stand_in, unsigned use)
{
    if (stand_in.tensor == NULL || stand_in.copy == NULL)
        return false;
    stand_in.asks = (use & USE_COPY_) != 0 && grad_enabled(me);
    if ((use & USE_INPUT) && !tensor_copy(me, stand_in.copy, stand_in.tensor))
        return false;
    if (!(use & USE_OUTCOME))
        return true;
    if (!work_claim(me, work, stand_in.tensor, true))
        return false;
    size_t count = work->stand_in_count;
    if (!host_room(me, &work->stand_ins, &work->stand_in_room, count + 1, sizeof *work->stand_ins))
        return memory_failed(me, (count + 1) * sizeof *work->stand_ins, "the host");
    work->stand_ins[count] = stand_in;
    tensor_ref(stand_in.tensor);
    tensor_ref(stand_in.copy);
    work->stand_in_count++;
    return true;
}

struct extent { uintptr_t storage, begin, end; };

static int
compare_extents(const void *a, const void *b)
{
    const struct extent *first = a, *second = b;
    if (first->storage != second->storage)
        return first->storage < second->storage ? -1 : 1;
    return (first->begin > second->begin) - (first->begin < second->begin);
}

/* Only those without gaps count: the others get stand-ins anyway. */
bool
tensors_share(struct task *me, struct tensor *const *tensors, int count)
{
    struct extent *extents = scratch_new(me, (size_t)count, sizeof *extents);
    size_t         known   = 0;
    bool           share   = false;
    for (int i = 0; extents != NULL && i < count; i++) {
        const struct tensor *tensor = tensors[i];
        if (tensor == NULL || tensor_is_sparse(tensor) || tensor_count(tensor) == 0 || !tensor_is_contiguous(tensor))
            continue;
        uintptr_t begin = (uintptr_t)tensor->offset * dtype_size(tensor->dtype);
        uintptr_t end = begin + (uintptr_t)tensor_bytes(tensor);
        extents[known++] = (struct extent){ (uintptr_t)tensor->storage, begin, end };
    }
    if (known > 1)
        qsort(extents, known, sizeof *extents, compare_extents);
    for (size_t i = 1; i < known && !share; i++)
        share = extents[i].storage == extents[i - 1].storage && extents[i].begin < extents[i - 1].end;
    return share;
}

/* It, or what it is a view of: then it may refuse to be written, which shows when the others have sent theirs. */
static bool
may_refuse(const struct task *me, const struct tensor *tensor, unsigned use)
{
    return (use & USE_COPY_) && grad_enabled(me) &&
           (tensor->requires_grad || (tensor->base != NULL && tensor->base->requires_grad));
}

struct tensor *
work_take(struct task *me, struct work *work, struct tensor *tensor, unsigned use)
{
    if (tensor == NULL || task_failed(me))
        return NULL;
    if (tensor_is_contiguous(tensor) && !(use & USE_APART) && !may_refuse(me, tensor, use))
        return work_claim(me, work, tensor, use & USE_OUTCOME) ? tensor_ref(tensor) : NULL;
    struct tensor *copy = tensor_empty(me, tensor->dtype, tensor_device(tensor), tensor->dims, tensor->size);
    return work_stand_in(me, work, (struct stand_in){ .tensor = tensor, .copy = copy }, use) ? tensor_ref(copy) : NULL;
}

static bool
shares_elements(const struct tensor *tensor)
{
    bool shares = false;
    for (int d = 0; d < tensor->dims; d++)
        shares = shares || (tensor->size[d] > 1 && tensor->stride[d] == 0);
    return shares;
}

void
warn_of_strides(struct task *me, const struct work *work, const struct tensor *tensor, unsigned use)
{
    const enum operation operation = work->call.operation;
    const bool           sends = operation == OPERATION_SCATTER && use == USE_INPUT;
    const char          *name = operation == OPERATION_ALL_TO_ALL ? "all_to_all_single" : operation_name(operation);
    struct str           text = { 0 };
    if (((use & USE_OUTCOME) && shares_elements(tensor)) || atomic_exchange(&work->group->world->strides_told, true))
        return;
    str_addf(&text, "%s (line %u): ", name, task_line(me));
    if (sends)
        str_add(&text, "a tensor of the list does not lie in memory as the output does. Ringside sends its elements. "
                       "PyTorch's gloo would send other memory, and the receivers would get wrong numbers, silently. "
                       "Pass contiguous tensors");
    else
        str_addf(&text, "the tensor is not contiguous. Ringside %s its elements. PyTorch's gloo would read or change "
                        "other memory and give wrong numbers, silently. Pass t:contiguous()%s",
                 operation_reduces(operation) ? "reduces" : "moves",
                 (use & USE_OUTCOME) ? ", then copy the result back" : "");
    if (str_ok(&text))
        task_warn(me, str_text(&text));
    str_free(&text);
}

/* In the grad mode of the call, whoever runs it. */
static bool
paste(struct task *me, const struct stand_in *stand_in)
{
    bool grad = grad_enabled(me);
    grad_set_enabled(me, stand_in->asks);
    bool done = inplace_allowed(me, stand_in->tensor) && tensor_copy(me, stand_in->tensor, stand_in->copy);
    grad_set_enabled(me, grad);
    if (done)
        tensor_bump(stand_in->tensor);
    return done;
}

/* Copies on a device are waited for: who waits for the work finds the elements there, whatever stream reads them. */
bool
work_paste(struct task *me, struct work *work)
{
    int device = -1;
    for (size_t i = 0; i < work->stand_in_count; i++) {
        struct stand_in *stand_in = &work->stand_ins[i];
        if (!paste(me, stand_in))
            return false;
        device = tensor_device(stand_in->tensor);
    }
    struct stream *stream = device >= 0 ? stream_current(me, device) : NULL;
    return device < 0 || (stream != NULL && stream_synchronize(me, stream));
}

void
work_drop_stand_ins(struct task *me, struct work *work)
{
    for (size_t i = 0; i < work->stand_in_count; i++) {
        tensor_drop(me, &work->stand_ins[i].tensor);
        tensor_drop(me, &work->stand_ins[i].copy);
    }
    host_return(me, work->stand_ins, work->stand_in_room * sizeof *work->stand_ins);
    work->stand_ins = NULL;
    work->stand_in_count = work->stand_in_room = 0;
}
