/* What the files of a job share: job.c made, joined, left; job_watch.c the log of ends; job_page.c what this process is in;
 * job_clock.c how its clock stands to rank 0's. */
#ifndef C10D_JOB_INTERNAL_H
#define C10D_JOB_INTERNAL_H
#include <stdatomic.h>
#include "c10d/job.h"
#include "c10d/transport.h"
#include "sched/sched.h"

struct job_other;

struct job {
    struct job_options      options;
    char                    host[256], backend[16], own_host[256];
    struct store           *store;       /* NULL: not joined */
    void                   *transport;   /* what its `open` answered; NULL: not yet */
    int                     worlds_made;

    struct job_page        *page;
    bool                    page_is_shared;   /* with the launcher, or others of this host: mapped */
    int                     page_fd;          /* by which they find it; -1: the launcher has it */
    int                     pages_looked;     /* how often */
    struct job_other       *others;           /* job_pages.c's, by rank; NULL: the launcher looks after them */

    /* The watcher, a task of its own with a connection of its own. */
    struct store           *watched;
    struct task            *watcher;
    struct monitor          monitor;     /* of what follows */
    bool                    stopping;
    struct job_world       *worlds;      /* the newest first */
    struct job_end         *ends;        /* the log, as far as it was read */
    size_t                  end_count, end_room;
    int64_t                 next_entry;
    struct job_end         *wills;       /* of ranks of which somebody may know more, until: */
    uint64_t               *will_until;
    bool                    has_will;    /* the server has this process's own, */
    unsigned                page_turn;   /* of the page as it was then */
    uint64_t                next_look, stood; /* job_stand.c's: when it looks again, and what it saw the last time */
    struct job_end          of_host;     /* rank 0's page as it was last seen: where it serves the store, nobody else can say it */
    atomic_bool             is_lost;     /* the store is gone */
    bool                    is_claimed;  /* this process has its rank's place */
};

bool job_watch_start(struct task *me, struct job *job);
void job_watch_end(struct task *me, struct job *job);
void job_free_ends(struct job *job);

/* The log has it: this process's worlds learn it. In no monitor. */
void job_note_end(struct task *me, struct job *job, const struct job_end *end);
/* Whether a rank's process has ended; in the monitor. */
bool job_process_ended(const struct job *job, int rank);

void job_page_own(const struct job *job, struct job_page *out);   /* a copy of this process's, by any of its threads */
bool job_page_open(struct job *job, char *why, size_t why_size);
void job_page_close(struct job *job);
void job_note_failure(struct job *job, const struct job_end *end);   /* the first one counts */

/* job_flight.c: an entry of the log that asks all processes for what they are in; the answer. */
#define JOB_ASK "ask "   /* and the rank of who asks */
bool job_is_ask(const char *entry);
bool job_answer(struct task *me, struct job *job, const char *entry, int64_t number);

/* job_stand.c: an entry that ends a world's waits, and who finds that it must. */
bool job_is_stop(const char *entry);
void job_stop(struct task *me, struct job *job, const char *entry);
bool job_look_for_standstill(struct task *me, struct job *job);

/* job_pages.c */
bool job_pages_begin(struct task *me, struct job *job);
bool job_pages_look(struct task *me, struct job *job);
bool job_pages_wait(const struct job *job);    /* some may come in a moment */
void job_pages_fill(const struct job *job, struct job_end *end);   /* of one that was lost: what its page says */
void job_pages_end(struct job *job);

bool job_clock_begin(struct task *me, struct job *job);
void job_clock_end(struct task *me, struct job *job);
#endif
