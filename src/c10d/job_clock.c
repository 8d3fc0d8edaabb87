/* How this process's clock stands to rank 0's, for whoever lays their traces side by side: noted in the trace when the
 * job is joined and again when it is left, since clocks drift. Between hosts it is worked out from exchanges with the
 * store's server; on rank 0's own host both count from one clock, so nothing has to be measured.
 * NTP, RFC 5905 section 8: of several exchanges the shortest tells most. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "c10d/job_internal.h"
#include "c10d/own_host.h"
#include "c10d/store.h"
#include "trace/offset.h"
#include "trace/writer.h"

enum { EXCHANGES = 16 };

/* A process's clock: ns since the start of its run, and where that start lies on its host's clock. */
struct own_clock { char host[HOST_ID_BYTES]; int64_t started; struct clock_offset to_server; };

static struct trace_moment
moment(struct task *me)
{
    return trace_moment(sched_writer(me->sched));
}

static int64_t
host_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool
measure(struct task *me, struct job *job, struct own_clock *own)
{
    struct clock_exchange exchanges[EXCHANGES];
    for (int i = 0; i < EXCHANGES; i++) {
        int64_t there = 0, sent = moment(me).ns;
        if (!store_clock(me, job->store, &there))
            return false;
        struct trace_moment received = moment(me);
        exchanges[i] = (struct clock_exchange){ sent, there, there, received.ns, received.ticks };
    }
    own->started = host_ns() - moment(me).ns;
    own_host_id(own->host);
    return clock_offset_find(exchanges, EXCHANGES, &own->to_server) ||
           failed(me, E_RUNTIME, "the clock of the job's store at %s:%d cannot be read: time turns back", job->host,
                  job->options.port);
}

static bool
publish(struct task *me, struct job *job, const struct own_clock *own, const char *key)
{
    char text[160];
    int length =
        snprintf(text, sizeof text, "%s %" PRId64 " %" PRId64 " %" PRId64, own->host[0] != '\0' ? own->host : "-",
                 own->started, own->to_server.offset, own->to_server.error);
    struct store_text value = { text, (size_t)length };
    return store_multi_set(me, job->store, &key, &value, 1);
}

static bool
first_has_gone(struct task *me, struct job *job)
{
    monitor_enter(me, &job->monitor);
    bool gone = job_process_ended(job, 0);
    monitor_leave(me, &job->monitor);
    return gone;
}

/* Rank 0's; it may take a moment to come, or have ended before it came: then there is none, and who waits for it says
 * why. */
static bool
read_first(struct task *me, struct job *job, const char *key, struct own_clock *first)
{
    struct store_text text;
    char              line[200];
    bool              there = false;
    uint64_t          limit = sched_timeout(me->sched), begin = sched_now(me);
    while (!there && sched_now(me) - begin < limit && !first_has_gone(me, job))
        if (!store_check_within(me, job->store, key, 50, &there))
            return false;
    if (!there || !store_peek(me, job->store, key, &text, &there) || !there)
        return false;
    snprintf(line, sizeof line, "%.*s", (int)(text.count < sizeof line ? text.count : sizeof line - 1),
             (const char *)text.bytes);
    return sscanf(line, "%63s %" SCNd64 " %" SCNd64 " %" SCNd64, first->host, &first->started,
                  &first->to_server.offset, &first->to_server.error) == 4;
}

static void
note_offset(struct task *me, const char *key, const struct own_clock *own, const struct own_clock *first)
{
    enum { ONE_CLOCK_NS = 1000 };
    char                text[CLOCK_OFFSET_TEXT];
    bool                one_host = strcmp(own->host, first->host) == 0 && own->host[0] != '\0' && own->host[0] != '-';
    struct trace_moment now      = moment(me);
    struct clock_offset offset   = {
        .local  = now.ns,
        .ticks  = now.ticks,
        .offset = one_host ? own->started - first->started : own->to_server.offset - first->to_server.offset,
        .error  = first == own ? 0 : one_host ? ONE_CLOCK_NS : own->to_server.error + first->to_server.error,
    };
    clock_offset_print(&offset, text);
    trace_option(sched_writer(me->sched), key, text);
}

/* An id of the job, made by who comes first. */
static bool
note_job(struct task *me, struct job *job)
{
    char              mine[40], number[16];
    struct timespec   now;
    struct store_text id, pair[2] = { { "", 0 }, { mine, 0 } };
    clock_gettime(CLOCK_REALTIME, &now);
    pair[1].count =
        (size_t)snprintf(mine, sizeof mine, "%llx%lx", (unsigned long long)now.tv_sec, (unsigned long)now.tv_nsec);
    if (!store_compare_set(me, job->store, "job/id", pair, &id))
        return false;
    snprintf(mine, sizeof mine, "%.*s", (int)(id.count < 39 ? id.count : 39), (const char *)id.bytes);
    trace_option(sched_writer(me->sched), JOB_ID, mine);
    snprintf(number, sizeof number, "%d", job->options.rank);
    trace_option(sched_writer(me->sched), JOB_RANK, number);
    snprintf(number, sizeof number, "%d", job->options.size);
    trace_option(sched_writer(me->sched), JOB_SIZE, number);
    return true;
}

bool
job_clock_begin(struct task *me, struct job *job)
{
    struct own_clock own = { .host = "" }, first;
    if (sched_writer(me->sched) == NULL) /* no trace, no clock: all processes do without */
        return true;
    if (!note_job(me, job) || !measure(me, job, &own))
        return false;
    if (job->options.rank == 0 && !publish(me, job, &own, "job/clock/begin"))
        return false;
    first = own;
    if (job->options.rank == 0 || read_first(me, job, "job/clock/begin", &first))
        note_offset(me, JOB_CLOCK_BEGIN, &own, &first);
    return !task_failed(me);
}

/* What cannot be measured any more is left out: the beginning's word stands. */
void
job_clock_end(struct task *me, struct job *job)
{
    struct own_clock  own = { .host = "" }, first;
    struct store_text text;
    bool              there = false;
    if (sched_writer(me->sched) == NULL)
        return;
    if (sched_is_stopping(me) || job->is_lost || !measure(me, job, &own) ||
        (job->options.rank == 0 && !publish(me, job, &own, "job/clock/end"))) {
        task_clear_error(me);
        return;
    }
    first = own;
    if (job->options.rank > 0 && (!store_peek(me, job->store, "job/clock/begin", &text, &there) || !there ||
                                  !read_first(me, job, "job/clock/begin", &first))) {
        task_clear_error(me);
        return;
    }
    note_offset(me, JOB_CLOCK_END, &own, &first);
}
