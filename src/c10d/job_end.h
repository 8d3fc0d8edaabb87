/* How a rank of a job came to its end, as the job's log in its store has it. Ranks say it themselves, the launcher says it of a process that
 * died, and a last will that the store's server carries out says that a connection was lost.
 * Order of use: job_end_print and job_post_end, or the store's own post; job_end_parse of what the log has. */
#ifndef C10D_JOB_END_H
#define C10D_JOB_END_H
#include <stdbool.h>
#include <stdint.h>
#include "base/str.h"
#include "c10d/job_page.h"

enum job_how { JOB_RETURNED, JOB_THREW, JOB_KILLED /* by a signal, or ended without a word */, JOB_LOST /* its connection was */ };

struct job_end {
    int          rank;
    int          world;        /* which spawn's, counted from 0 on all processes alike; -1: the process itself has ended */
    enum job_how how;
    bool         exact;        /* false: a last will; who knows more may still say so */
    int64_t      ns;           /* CLOCK_REALTIME, of whoever says it; 0: not known */
    uint32_t     line;         /* of the lesson; 0: not known */
    char         call[64];     /* the last one: job_page's */
    bool         inside;
    char         kind[32];     /* THREW: "RuntimeError" */
    bool         of_hang;      /* THREW: it waited in vain, which follows from something else */
    uint32_t     group_count;
    struct job_page_group groups[JOB_PAGE_GROUPS];
    char         why[2048];    /* THREW: the message; KILLED: "was killed by signal 9 (Killed)", "ended with status 1 without a word" */
};

void job_end_print(const struct job_end *end, struct str *out);
bool job_end_parse(const char *text, struct job_end *out);   /* false: it is none */
/* What a page says of a process that has ended; `why` as above. */
void job_end_of_page(const struct job_page *page, int rank, const char *why, struct job_end *out);

/* Keys of the log: entry N, from 0, is JOB_LOG N; JOB_LOG_COUNT says how many there are. */
#define JOB_LOG       "job/end/"
#define JOB_LOG_COUNT JOB_LOG "count"

/* From outside of a run (the launcher): connects to the job's TCP store, appends to the log, goes. Blocks 5 s at most
 * for each of connecting, greeting and the answer; looking a name up may take longer. false: `why`. */
bool job_post_end(const char *host, int port, const struct job_end *end, char *why, size_t why_size);
/* What the rank has called in that world, for who asks when it has ended. */
bool job_post_last(const char *host, int port, const struct job_end *end, const struct str *dump);
void job_last_key(int world, int rank, char *out, size_t size);
#endif
