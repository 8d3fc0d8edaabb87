/* Saying how a rank ended over a connection of its own: the launcher has no task, and whatever became of a run, how it
 * ended is still to be said. */
#include <stdio.h>
#include <stdlib.h>
#include "c10d/job_end.h"
#include "c10d/store_plain.h"

static bool
post(int fd, const struct job_end *end)
{
    struct str           text = { 0 };
    const char          *log  = JOB_LOG;
    struct store_reply   reply;
    job_end_print(end, &text);
    struct store_text    entry   = { str_text(&text), text.len };
    struct store_request request = {
        .op = STORE_POST, .keys = &log, .key_count = 1, .values = &entry, .value_count = 1
    };
    bool said = str_ok(&text) && store_plain_ask(fd, &request, &reply);
    if (said)
        free(reply.bytes);
    str_free(&text);
    return said && reply.status == STORE_DONE;
}

enum { PATIENCE_S = 5 };

bool
job_post_end(const char *host, int port, const struct job_end *end, char *why, size_t why_size)
{
    int  fd   = store_plain_open(host, port, PATIENCE_S);
    bool said = fd >= 0 && post(fd, end);
    if (!said)
        snprintf(why, why_size, "the job's store at %s:%d %s", host, port,
                 fd < 0 ? "cannot be reached" : "has not taken how a rank ended");
    store_plain_close(fd);
    return said;
}

void
job_last_key(int world, int rank, char *out, size_t size)
{
    snprintf(out, size, "job/last/%d/%d", world, rank);
}

bool
job_post_last(const char *host, int port, const struct job_end *end, const struct str *dump)
{
    char                 key[64];
    const char          *keys    = key;
    struct store_text    value   = { str_text(dump), dump->len };
    struct store_request request = {
        .op = STORE_SET, .keys = &keys, .key_count = 1, .values = &value, .value_count = 1
    };
    struct store_reply reply;
    job_last_key(end->world, end->rank, key, sizeof key);
    int  fd   = store_plain_open(host, port, PATIENCE_S);
    bool said = fd >= 0 && store_plain_ask(fd, &request, &reply);
    if (said)
        free(reply.bytes);
    store_plain_close(fd);
    return said;
}
