/* What the processes of a job tell each other about the lesson that they all run: bytes under a key of the job's store, and who
 * takes them waits for nobody who is gone. In `free` only.
 * Order of use: share_new, or share_of, in the task that runs the lesson; share_put, share_take. What is answered lies in me's scope. */
#ifndef LUA_SHARE_H
#define LUA_SHARE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/reader.h"
#include "base/str.h"
#include "c10d/store.h"
#include "sched/task.h"

struct job; struct job_end; struct script;

struct share {
    struct job     *job;
    struct store   *store;     /* a connection of its own, since it may wait long */
    struct job_end *ends;      /* room for one of each process */
    bool            idle_told; /* that some have no rank in a spawn */
    bool            met;       /* all have been there once; before that, who does not come in the store's time never does */
};

/* The job that this process is one of several of; NULL: it is alone. */
struct job *share_job(const struct task *me);
/* Joins the job, if that was not done yet. NULL: failed. */
struct share *share_new(struct task *me, struct job *job);
void          share_free(struct task *me, void *share);
/* The lesson's own, made when it is first asked for. NULL: failed. */
struct share *share_of(struct task *me, struct script *script, struct job *job);
bool share_put(struct task *me, const struct share *share, const char *key, const struct str *value)
    __attribute__((warn_unused_result));
void share_forget(struct task *me, const struct share *share, const char *key);   /* nobody asks for it any more */

enum share_got { SHARE_FAILED, SHARE_GONE /* process `from` ended without it */, SHARE_TAKEN };
/* Nobody goes on before all have come that still live. `key` is used once. false: failed. */
bool share_meet(struct task *me, struct share *share, const char *key) __attribute__((warn_unused_result));
enum share_got share_take(struct task *me, const struct share *share, int from, const char *key, struct store_text *out);
/* The same without a wait: SHARE_GONE is not there yet. */
enum share_got share_look(struct task *me, const struct share *share, const char *key, struct store_text *out);
/* How process `rank` ended; NULL: it has not. */
const struct job_end *share_ended(struct task *me, const struct share *share, int rank);

/* ---- as bytes ---- */
void share_add_number(struct str *out, int64_t number);
void share_add_text(struct str *out, const char *text);           /* NULL stays NULL */
void share_add_block(struct str *out, const void *bytes, size_t count);
void share_add_error(struct str *out, const struct error *error);
int64_t     share_read_number(struct reader *in);
const char *share_read_text(struct reader *in);
const void *share_read_block(struct reader *in, size_t *count);
void        share_read_error(struct reader *in, struct error *out);
#endif
