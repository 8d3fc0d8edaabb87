/* dist._broadcast_coalesced: grouped by dtype and device, flattened, sent, unflattened. c10d::broadcast_coalesced. */
#include "parallel/state_sync.h"
#include "c10d/group.h"
#include "device/cells.h"
#include "parallel/buckets.h"
#include "parallel/flat.h"
#include "tensor/op.h"

enum { COALESCED_BYTES = 250 << 20, IN_FLIGHT = 2 };

struct flight { struct work *work; struct tensor *flat; struct flat_members members; };

static bool
flat_fill(struct task *me, struct tensor *flat, const struct flat_members *members)
{
    struct flat_walk walk = { .flat = flat };
    for (int i = 0; i < members->count; i++) {
        struct tensor *tensor = members->tensors[members->indices[i]], *piece = flat_piece(me, &walk, tensor);
        if (piece == NULL || !tensor_copy(me, piece, tensor))
            return false;
    }
    return true;
}

static bool
flat_empty_into(struct task *me, struct tensor *flat, const struct flat_members *members, bool keeps_versions)
{
    struct flat_walk walk = { .flat = flat };
    for (int i = 0; i < members->count; i++) {
        struct tensor *tensor = members->tensors[members->indices[i]], *piece = flat_piece(me, &walk, tensor);
        if (piece == NULL || !tensor_copy(me, tensor, piece))
            return false;
        if (!keeps_versions)
            tensor_bump(tensor);
    }
    return true;
}

static bool
flight_begin(struct task *me, struct process_group *group, const struct state_sync *sync, struct flight *flight)
{
    flight->flat = flat_empty(me, &flight->members);
    if (flight->flat == NULL || !flat_fill(me, flight->flat, &flight->members))
        return false;
    flight->work = group_broadcast(me, group, flight->flat, sync->root);
    return flight->work != NULL;
}

static bool
flight_end(struct task *me, const struct state_sync *sync, struct flight *flight)
{
    struct work *work = flight->work;
    flight->work = NULL;
    return work_complete(me, work) && flat_empty_into(me, flight->flat, &flight->members, sync->keeps_versions);
}

/* One message alone needs no second task. */
static bool
broadcast_one(struct task *me, struct process_group *group, const struct state_sync *sync, struct flight *flight)
{
    flight->flat = flat_empty(me, &flight->members);
    return flight->flat != NULL && flat_fill(me, flight->flat, &flight->members) &&
           group_broadcast_now(me, group, flight->flat, sync->root) &&
           flat_empty_into(me, flight->flat, &flight->members, sync->keeps_versions);
}

static bool
broadcast_many(struct task *me, struct process_group *group, const struct state_sync *sync, struct flight *flights,
               int count)
{
    bool done = true;
    int  next = 0, first = 0;
    for (; done && first < count; first++) {
        for (; done && next < count && next < first + IN_FLIGHT; next++)
            done = flight_begin(me, group, sync, &flights[next]);
        done = done && flight_end(me, sync, &flights[first]);
    }
    for (int i = 0; i < next; i++)
        work_free(me, flights[i].work);
    return done;
}

static bool
broadcast_buckets(struct task *me, struct process_group *group, const struct state_sync *sync,
                  const struct bucket_list *buckets)
{
    struct flight *flights = scratch_new(me, (size_t)buckets->count, sizeof *flights);
    for (int i = 0; flights != NULL && i < buckets->count; i++)
        flights[i].members = (struct flat_members){ sync->tensors, buckets->indices[i], buckets->sizes[i] };
    if (flights == NULL)
        return false;
    return buckets->count == 1 ? broadcast_one(me, group, sync, flights)
                               : broadcast_many(me, group, sync, flights, buckets->count);
}

bool
broadcast_coalesced(struct task *me, struct process_group *group, const struct state_sync *sync)
{
    size_t               mark   = scope_mark(me);
    struct bucket_input *inputs = scratch_new(me, (size_t)sync->count + 1, sizeof *inputs);
    if (inputs == NULL || sync->count == 0)
        return inputs != NULL;
    for (int i = 0; i < sync->count; i++)
        inputs[i] = bucket_input_of(sync->tensors[i]);
    size_t             limit = sync->bucket_bytes > 0 ? sync->bucket_bytes : COALESCED_BYTES;
    struct bucket_list buckets;
    const struct bucket_assignment wanted = { .inputs = inputs, .count = sync->count, .limits = &limit,
                                              .limit_count = 1 };
    bool done = buckets_assign(me, &wanted, &buckets) && broadcast_buckets(me, group, sync, &buckets);
    scope_release(me, mark);
    return done;
}
