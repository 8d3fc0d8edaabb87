/* What a work has in flight: from the call to the wait its tensors are claimed (device/claims.h), so that a missing
 * wait is told where somebody reads or changes them. A rank's collectives of one group end in the order of their
 * numbers, so a wait for one is a wait for those before it; messages end each by itself. What was posted to be sent may
 * be read, and who changes it, or what is received, gets what an unbuffered transfer moves and hears of it in reuse.c:
 * here an irecv minds readers, an isend nobody.
 *
 * A collective that its caller waits for at once claims nothing: nobody comes between.
 * Order of use: work_claims, work_claim for each tensor, in_flight_waited. */
#include <inttypes.h>
#include <stdio.h>
#include "c10d/internal.h"

bool
work_claims(struct task *me, struct work *work)
{
    const struct communicator *communicator = work->group->communicator;
    bool        is_message = work->call.operation == OPERATION_SEND || work->call.operation == OPERATION_RECV;
    const char *name       = is_message ? work->post.name : operation_name(work->call.operation);
    work->claimer = claimer_new(me, is_message ? NULL : work->group->line, name);
    if (work->claimer == NULL)
        return false;
    char *detail = work->claimer->detail;
    if (is_message && work->post.peer >= 0)
        snprintf(detail, CLAIMER_DETAIL, " from rank %d", process_group_global_rank(work->group, work->post.peer));
    else if (is_message)
        snprintf(detail, CLAIMER_DETAIL, " from any rank");
    else if (communicator->number > 0)
        snprintf(detail, CLAIMER_DETAIL, " of group %d", communicator->number);
    work->claimer->yields = is_message;
    return true;
}

/* Of a contiguous tensor its elements, of another all from the first to the last. */
static bool
claim_dense(struct task *me, struct work *work, const struct tensor *tensor, bool write)
{
    struct access access = tensor_access(tensor, write, operation_name(work->call.operation));
    return claims_add(me, work->claimer, &access);
}

/* A sparse tensor's rows are never written: it gets other ones. They may be what an embedding looked up. */
bool
work_claim(struct task *me, struct work *work, const struct tensor *tensor, bool write)
{
    if (work->claimer == NULL)
        return true;
    if (!tensor_is_sparse(tensor))
        return claim_dense(me, work, tensor, write);
    return claim_dense(me, work, tensor->indices, false) && claim_dense(me, work, tensor->values, write);
}

void
in_flight_waited(struct work *work)
{
    if (work->claimer != NULL)
        claimer_waited(work->claimer);
    else if (work->call.sequence >= 0)
        claim_line_waited(work->group->line, work->call.sequence + 1);
}
