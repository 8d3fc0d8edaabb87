/* A page of shared memory that a process of a job writes and whoever started it reads: what it is in, so that a process
 * that is killed has said so. The launcher makes it (memfd), hands the descriptor down as RINGSIDE_PAGE and maps it; a
 * process without a launcher has one of its own, which only its own threads read. */
#ifndef C10D_JOB_PAGE_H
#define C10D_JOB_PAGE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { JOB_PAGE_MAGIC = 0x52534a31, JOB_PAGE_GROUPS = 32, JOB_PAGE_BYTES = 8192 };
#define JOB_PAGE_VARIABLE "RINGSIDE_PAGE"

struct job_page_group { uint64_t id; int64_t issued, over; };   /* collectives called, and ended, on this rank */

struct job_page {
    uint32_t              magic;      /* JOB_PAGE_MAGIC, once the process is there */
    atomic_uint           turn;       /* odd while what follows is written, by whoever made it so; who reads a dead process's takes it as it is */
    uint32_t              line;       /* of the lesson, of `call` */
    bool                  inside;     /* it is in `call`; else that was its last one */
    int32_t               of_group;   /* its number; 0: the default group's */
    int64_t               sequence;   /* of `operation`; -1: it has no number */
    char                  operation[32]; /* "all_reduce", "recv from rank 1"; "": none yet */
    char                  call[64];   /* of a copy: "all_reduce #8", "barrier #4 of group 2"; "": none yet */
    uint32_t              group_count;
    struct job_page_group groups[JOB_PAGE_GROUPS];
    /* Written once, `failed_ns` last: the first error that ended a rank or the run. */
    atomic_uint_least64_t failed_ns;  /* CLOCK_REALTIME; 0: none */
    uint32_t              failed_line;
    char                  failed_kind[32];
    char                  why[2048];
    atomic_bool           joined;     /* it has joined the job's store, so the others wait for it */
    atomic_bool           left;       /* and has taken leave of it */
};
_Static_assert(sizeof(struct job_page) <= JOB_PAGE_BYTES, "the page has room for it");

/* A copy that is whole, if the writer lives; as it is, if it was killed in the middle. Its `call` is in words. */
void job_page_read(const struct job_page *page, struct job_page *out);
void job_page_settle(struct job_page *copy);   /* of a copy that somebody made: its texts end, its call is in words */
#endif
