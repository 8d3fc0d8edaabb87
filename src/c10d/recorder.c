/* The flight recorder of a group on one rank: its last calls, how far each has come. Whoever explains why a run stands
 * still reads it from any task, so it has a lock of its own, in which nothing else is done.
 * Order of use: recorder_init, recorder_call or recorder_post for each call, recorder_reach as it goes on,
 * recorder_copy, recorder_free. PyTorch: FlightRecorder (TORCH_FR_BUFFER_SIZE). */
#include "c10d/recorder.h"

#include <stdlib.h>
#include <string.h>
#include "c10d/internal.h"
#include "sched/account.h"

/* A thousand ranks share what eight may have. */
enum { ROOM = 2000, ROOM_OF_ALL = 16384, ROOM_LEAST = 64 };

bool
recorder_init(struct recorder *recorder, int ranks)
{
    size_t room = (size_t)(ROOM_OF_ALL / (ranks > 0 ? ranks : 1));
    room        = room > ROOM ? ROOM : room < ROOM_LEAST ? ROOM_LEAST : room;
    *recorder   = (struct recorder){ .calls = calloc(room, sizeof *recorder->calls), .room = room };
    pthread_mutex_init(&recorder->mutex, NULL);
    return recorder->calls != NULL;
}

void
recorder_free(struct recorder *recorder)
{
    if (recorder->calls != NULL)
        pthread_mutex_destroy(&recorder->mutex);
    free(recorder->calls);
    recorder->calls = NULL;
}

static uint64_t
recorder_add(struct process_group *group, const struct recorded *call)
{
    struct recorder   *recorder = &group->recorder;
    struct rank_state *rank     = &group->world->ranks[group->global_rank];
    world_rank_calls(group->world, group->global_rank);
    pthread_mutex_lock(&recorder->mutex);
    struct recorded *kept = &recorder->calls[recorder->count % recorder->room];
    *kept        = *call;
    kept->record = (int64_t)atomic_fetch_add(&rank->calls, 1);
    if (call->is_p2p)
        kept->sequence = recorder->posts++;
    atomic_store(&rank->worked, account_done(group->world->sched));
    uint64_t number = ++recorder->count;
    pthread_mutex_unlock(&recorder->mutex);
    return number;
}

uint64_t
recorder_call(const struct work *work, const struct fingerprint *print)
{
    uint64_t limit = work->call.options.timeout_ps != 0 ? work->call.options.timeout_ps : work->group->timeout_ps;
    return recorder_add(work->group, &(struct recorded){ .print = *print, .sequence = work->call.sequence, .peer = -1,
                                                         .line = work->line, .created_ps = work->issued_at,
                                                         .timeout_ps = limit });
}

uint64_t
recorder_post(struct task *me, struct process_group *group, const struct post *post)
{
    const struct tensor *tensor = post->tensor;
    struct recorded call = { .is_p2p = true, .peer = post->peer < 0 ? -1 : process_group_global_rank(group, post->peer),
                             .tag = post->tag, .line = post->line, .created_ps = sched_now(me),
                             .timeout_ps = group->timeout_ps };
    call.print = (struct fingerprint){ .operation = post->is_send ? OPERATION_SEND : OPERATION_RECV, .root = -1,
                                       .dtype = (int)tensor->dtype, .dims = tensor->dims };
    memcpy(call.print.size, tensor->size, sizeof tensor->size[0] * (size_t)tensor->dims);
    return recorder_add(group, &call);
}

int64_t
recorder_sequence(struct recorder *recorder, uint64_t number)
{
    int64_t sequence = -1;
    pthread_mutex_lock(&recorder->mutex);
    if (number > 0 && number + recorder->room > recorder->count)
        sequence = recorder->calls[(number - 1) % recorder->room].sequence;
    pthread_mutex_unlock(&recorder->mutex);
    return sequence;
}

void
recorder_reach(struct process_group *group, uint64_t number, enum flight_state state, uint64_t now)
{
    struct recorder *recorder = &group->recorder;
    if (number == 0)
        return;
    pthread_mutex_lock(&recorder->mutex);
    if (number + recorder->room > recorder->count) {
        struct recorded *call = &recorder->calls[(number - 1) % recorder->room];
        call->state = state;
        *(state == FLIGHT_STARTED ? &call->started_ps : &call->completed_ps) = now;
    }
    pthread_mutex_unlock(&recorder->mutex);
}

size_t
recorder_copy(struct recorder *recorder, struct recorded *out, size_t most)
{
    pthread_mutex_lock(&recorder->mutex);
    size_t held = recorder->count < recorder->room ? recorder->count : recorder->room;
    size_t take = held < most ? held : most;
    for (size_t i = 0; i < take; i++)
        out[i] = recorder->calls[(recorder->count - take + i) % recorder->room];
    pthread_mutex_unlock(&recorder->mutex);
    return take;
}
