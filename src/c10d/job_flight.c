/* What the other processes of a job have called and are in, for whoever explains why nobody goes on: the asker
 * says so in the job's log, every watcher answers with its process's flight as a dump has it, and who does not
 * answer in time is left out. Neither needs the task that stands still. PyTorch: the dumps that a watchdog's
 * time-out triggers on all ranks through the store. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/now.h"
#include "base/str.h"
#include "c10d/job_internal.h"
#include "c10d/store_plain.h"
#include "c10d/store_table.h"

enum { PATIENCE_MS = 500, TURN_MS = 5, CONNECT_S = 1 };

static void
key_of(int64_t number, int rank, char *out, size_t size)
{
    snprintf(out, size, "job/flight/%" PRId64 "/%d", number, rank);
}

/* ---- the answer ---- */

bool
job_is_ask(const char *entry)
{
    return strncmp(entry, JOB_ASK, strlen(JOB_ASK)) == 0;
}

/* Of the newest world in which this process has a rank. Who asks himself knows it. */
bool
job_answer(struct task *me, struct job *job, const char *entry, int64_t number)
{
    struct str text = { 0 };
    char       key[64];
    if (atoi(entry + strlen(JOB_ASK)) == job->options.rank)
        return true;
    key_of(number, job->options.rank, key, sizeof key);
    monitor_enter(me, &job->monitor);
    const struct job_world *world = job->worlds;
    while (world != NULL && !world->has_rank)
        world = world->next;
    bool told = world != NULL && world->kind->write_own(me, world->world, &text);
    monitor_leave(me, &job->monitor);
    struct store_text value = { str_text(&text), text.len };
    bool ok = !told || store_multi_set(me, job->watched, &(const char *){ key }, &value, 1);
    str_free(&text);
    return ok;
}

/* ---- the question ---- */

static int64_t
post_ask(int fd, int rank)
{
    char                 text[24];
    const char          *log     = JOB_LOG;
    struct store_text    entry   = { text, (size_t)snprintf(text, sizeof text, JOB_ASK "%d", rank) };
    struct store_request request = {
        .op = STORE_POST, .keys = &log, .key_count = 1, .values = &entry, .value_count = 1
    };
    struct store_reply   reply;
    if (!store_plain_ask(fd, &request, &reply))
        return -1;
    free(reply.bytes);
    return reply.status == STORE_DONE ? reply.number : -1;
}

/* Nobody asks for it again: a job that waits for long asks often. */
static bool
forget_answer(int fd, const char *key)
{
    struct store_request request = { .op = STORE_DELETE, .keys = &key, .key_count = 1 };
    struct store_reply   reply;
    if (!store_plain_ask(fd, &request, &reply))
        return false;
    free(reply.bytes);
    return true;
}

/* Of a rank that has ended (number -1) what it left. 1: `take` had it; 0: it is not there yet; -1: nobody can be asked
 * any more. */
static int
take_answer(int fd, int64_t number, int rank, const struct job_ask *ask)
{
    char                 key[64];
    const char          *keys    = key;
    struct store_request request = { .op = STORE_GET, .keys = &keys, .key_count = 1 };
    struct store_reply   reply;
    struct store_text    text;
    if (number < 0)
        job_last_key(ask->world, rank, key, sizeof key);
    else
        key_of(number, rank, key, sizeof key);
    if (!store_plain_ask(fd, &request, &reply))
        return -1;
    if (reply.status == STORE_DONE) {
        store_reply_value(reply.bytes, &text);
        ask->take(ask->context, rank, text.bytes, text.count);
    }
    free(reply.bytes);
    if (reply.status != STORE_DONE)
        return 0;
    return number < 0 || forget_answer(fd, key) ? 1 : -1; /* what one said last, others read, too */
}

static bool
collect(int fd, int64_t number, const struct job_ask *ask, bool *there)
{
    int64_t end     = now_ms() + PATIENCE_MS;
    bool    missing = true;
    while (missing) {
        missing = false;
        for (int rank = 0; rank < ask->size; rank++) {
            if (there[rank] || !ask->is_asked(ask->context, rank))
                continue;
            bool ended  = ask->has_ended(ask->context, rank); /* it has left what it had to say, if anything */
            int  answer = take_answer(fd, ended ? -1 : number, rank, ask);
            if (answer < 0)
                return false;
            there[rank] = ended || answer > 0;
            missing     = missing || !there[rank];
        }
        if (now_ms() >= end)
            break;
        if (missing)
            nanosleep(&(struct timespec){ 0, TURN_MS * 1000000 }, NULL);
    }
    return !missing;
}

bool
job_ask_flights(struct job *job, const struct job_ask *ask)
{
    bool   *there  = calloc((size_t)ask->size + 1, sizeof *there);
    int     fd     = there != NULL && !job->is_lost ? store_plain_open(job->host, job->options.port, CONNECT_S) : -1;
    int64_t number = fd >= 0 ? post_ask(fd, job->options.rank) : -1;
    bool    all    = number >= 0 && collect(fd, number, ask, there);
    store_plain_close(fd);
    free(there);
    return all;
}
