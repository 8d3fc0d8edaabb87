/* Stands in until the job is there. */
#include <stdio.h>
#include <stdlib.h>
#include "c10d/internal.h"
#include "c10d/job.h"
#include "c10d/plugin.h"
#include "c10d/store.h"
#include "c10d/transport.h"
#include "sched/sched.h"
#include "sched/task.h"

struct job { struct job_options options; struct store *store; };

struct job *
job_new(const struct job_options *options, char *why, size_t why_size)
{
    struct job *job = calloc(1, sizeof *job);
    if (job == NULL)
        snprintf(why, why_size, "out of memory");
    else
        job->options = *options;
    return job;
}
void job_free(struct job *job) { free(job); }
struct job *job_of(const struct sched *sched) { return sched_part((struct sched *)(uintptr_t)sched, PART_JOB); }
int job_rank(const struct job *job) { return job->options.rank; }
int job_size(const struct job *job) { return job->options.size; }
int job_local_rank(const struct job *job) { return job->options.local_rank; }
const char *job_backend(const struct job *job) { return job->options.backend; }
bool
job_join(struct task *me, struct job *job)
{
    struct store_tcp_options tcp = { .host = job->options.host, .port = job->options.port,
                                     .world_size = job->options.size,
                                     .is_master = job->options.rank == 0 && !job->options.is_hosted,
                                     .wait_for_workers = true, .trusted = true, .timeout_ps = STORE_TIMEOUT };
    if (job->store == NULL)
        job->store = store_tcp_new(me, &tcp);
    return job->store != NULL;
}
struct store *job_store(const struct job *job) { return job->store; }
void job_leave(struct task *me, struct job *job, const struct error *error) { (void)error; if (job->options.rank == 0) (void)!sched_sleep(me, 500000000000); store_drop(me, job->store); job->store = NULL; }
size_t job_ends(struct task *me, struct job *job, int world, struct job_end *out, size_t room)
{
    (void)me, (void)job, (void)world, (void)out, (void)room;
    return 0;
}
const struct transport *plugin_open(const char *name, char *why, size_t why_size)
{
    static const struct transport stub = { .name = "gloo" };
    (void)name;
    snprintf(why, why_size, "built without it");
    return &stub;
}
bool
store_check_within(struct task *me, struct store *store, const char *key, int64_t patience_ms, bool *there)
{
    (void)patience_ms;
    return store_check(me, store, &key, 1, there) && sched_sleep(me, 2000000000);
}
bool
store_peek(struct task *me, struct store *store, const char *key, struct store_text *value, bool *there)
{
    return store_check(me, store, &key, 1, there) && (!*there || store_multi_get(me, store, &key, 1, value));
}
int world_number(const struct world *world) { (void)world; return 0; }
bool job_is_launched(const struct job *job) { return job->options.is_hosted; }
bool job_has_joined(const struct job *job) { return job->store != NULL; }
