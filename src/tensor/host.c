/* Reading and writing by the host, and what each rank has: its generator and default type.
 *
 * Reading a device tensor copies it and waits, as .item() does.
 *
 * In PyTorch: ATen/native/Scalar.cpp. */
#include <string.h>
#include "base/rng.h"
#include "sched/account.h"
#include "tensor/cpu/convert.h"
#include "tensor/internal.h"

bool
tensor_read(struct task *me, struct tensor *tensor, void *out)
{
    if (tensor == NULL || task_failed(me))
        return false;
    struct storage *packed = tensor_fetch(me, tensor, tensor, 0);
    if (packed == NULL)
        return false;
    if (tensor_bytes(tensor) > 0)
        memcpy(out, packed->data, (size_t)tensor_bytes(tensor));
    storage_unref(me, packed);
    return true;
}

static bool
read_one(struct task *me, struct tensor *tensor, enum dtype as, void *out)
{
    uint64_t element = 0;
    if (tensor == NULL)
        return false;
    if (tensor_count(tensor) != 1)
        return failed(me, E_RUNTIME, "item: a tensor of %lld elements is not one number",
                      (long long)tensor_count(tensor));
    if (!tensor_read(me, tensor, &element))
        return false;
    cpu_convert_one(out, as, &element, tensor->dtype);
    return true;
}

bool
tensor_item(struct task *me, struct tensor *tensor, double *value)
{
    return read_one(me, tensor, DTYPE_F64, value);
}

bool
tensor_item_i64(struct task *me, struct tensor *tensor, int64_t *value)
{
    return read_one(me, tensor, DTYPE_I64, value);
}

bool
tensor_write(struct task *me, struct tensor *tensor, const void *in)
{
    if (tensor == NULL || task_failed(me) || !tensor_is_writable(me, tensor))
        return false;
    struct storage *packed = storage_new_hidden(me, DEVICE_CPU, (size_t)tensor_bytes(tensor));
    if (packed == NULL)
        return false;
    if (tensor_bytes(tensor) > 0)
        memcpy(packed->data, in, (size_t)tensor_bytes(tensor));
    bool done = tensor_deliver(me, tensor, packed, "write");
    storage_unref(me, packed);
    tensor_bump(tensor);
    return done;
}

/* ---- the rank's generator ---- */

/* What each rank has: the generator first, slots point to it. */
struct rank_numbers { struct generator generator; enum dtype dtype; };

static void
fresh_numbers(void *memory)
{
    struct rank_numbers *numbers = memory;
    generator_seed(&numbers->generator, 67280421310721); /* c10::detail::default_rng_seed_val */
    numbers->dtype = DTYPE_F32;
}

struct generator *
default_generator(struct task *me)
{
    if (me->slots[SLOT_GENERATORS] == 0) {
        void *memory = device_rank_memory(me, me->rank, sizeof(struct rank_numbers), fresh_numbers);
        me->slots[SLOT_GENERATORS] = (uintptr_t)memory;
    }
    return (struct generator *)(uintptr_t)me->slots[SLOT_GENERATORS];
}

struct generator_fork { struct rank_numbers numbers; uint64_t outer; };

struct generator_fork *
generator_fork(struct task *me, const struct generator *from)
{
    enum dtype             dtype = default_dtype(me);
    struct generator_fork *fork  = host_take(me, sizeof *fork);
    if (fork == NULL)
        return NULL;
    *fork = (struct generator_fork){ { *from, dtype }, me->slots[SLOT_GENERATORS] };
    me->slots[SLOT_GENERATORS] = (uintptr_t)&fork->numbers;
    return fork;
}

void
generator_join(struct task *me, struct generator_fork *fork)
{
    if (fork == NULL)
        return;
    me->slots[SLOT_GENERATORS] = fork->outer;
    host_return(me, fork, sizeof *fork);
}

enum dtype
default_dtype(struct task *me)
{
    const struct rank_numbers *numbers = (const void *)default_generator(me);
    return numbers != NULL ? numbers->dtype : DTYPE_F32;
}

bool
default_dtype_set(struct task *me, enum dtype dtype)
{
    struct rank_numbers *numbers = (void *)default_generator(me);
    if (numbers == NULL)
        return false;
    if (!dtype_is_float(dtype))
        return failed(me, E_TYPE, "only floating-point types are supported as the default type, got %s",
                      dtype_name(dtype));
    numbers->dtype = dtype;
    return true;
}
