/* Where no launcher looks after the processes (mpirun, by hand), those of one host look at each other's pages, so that
 * one that is killed has told the others what it was in, to the last. A page is a memfd: its process says in the
 * store under which number, and who has opened it has it for good. Order of use: job_pages_begin, job_pages_look now
 * and then, job_pages_fill, job_pages_end. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "c10d/job_internal.h"
#include "c10d/own_host.h"
#include "c10d/store.h"

enum { LOOKS = 200 };   /* quickly, one after the other, for those that are about to join */

struct job_other { bool looked; const struct job_page *page; };   /* page: NULL: of another host, or not to be had */

/* A process's number means the same to two that say the same here; clocks' hosts are told apart as well. */
static void
read_place(char *out, size_t size)
{
    char    host[HOST_ID_BYTES], of[40] = "";
    ssize_t length = readlink("/proc/self/ns/pid", of, sizeof of - 1);
    own_host_id(host);
    snprintf(out, size, "%s+%s", host, length > 0 ? of : "");
}

static void
key_of(int rank, char *out, size_t size)
{
    snprintf(out, size, "job/page/%d", rank);
}

bool
job_pages_begin(struct task *me, struct job *job)
{
    char key[32], place[120], text[180];
    if (job->page_fd < 0)
        return true;
    job->others = calloc((size_t)job->options.size, sizeof *job->others);
    if (job->others == NULL)
        return failed(me, E_MEMORY, "out of memory for a job of %d ranks", job->options.size);
    job->others[job->options.rank].looked = true;
    key_of(job->options.rank, key, sizeof key);
    read_place(place, sizeof place);
    int count = snprintf(text, sizeof text, "%s %ld %d", place, (long)getpid(), job->page_fd);
    struct store_text value = { text, (size_t)count };
    return store_multi_set(me, job->watched, &(const char *){ key }, &value, 1);
}

static const struct job_page *
open_page(long pid, int number)
{
    char        path[64];
    struct stat about;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", pid, number);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return NULL;
    void *page = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size >= JOB_PAGE_BYTES
                     ? mmap(NULL, JOB_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (page != MAP_FAILED && ((const struct job_page *)page)->magic == JOB_PAGE_MAGIC)
        return page;
    if (page != MAP_FAILED)
        munmap(page, JOB_PAGE_BYTES);
    return NULL;
}

static void
open_other(const char *text, struct job_other *other)
{
    char place[120], theirs[120];
    long pid    = 0;
    int  number = 0;
    read_place(place, sizeof place);
    if (sscanf(text, "%119s %ld %d", theirs, &pid, &number) == 3 && strcmp(place, theirs) == 0)
        other->page = open_page(pid, number);
}

bool
job_pages_wait(const struct job *job)
{
    return job->others != NULL && job->pages_looked < LOOKS;
}

bool
job_pages_look(struct task *me, struct job *job)
{
    bool all = true;
    for (int rank = 0; job->others != NULL && rank < job->options.size; rank++) {
        char              key[32];
        struct store_text text;
        bool              there = false;
        if (job->others[rank].looked)
            continue;
        key_of(rank, key, sizeof key);
        if (!store_peek(me, job->watched, key, &text, &there))
            return false;
        all = all && there;
        if (!there)
            continue;
        job->others[rank].looked = true;
        open_other(text.bytes, &job->others[rank]);
    }
    job->pages_looked = all ? LOOKS : job->pages_looked + 1;
    return true;
}

void
job_pages_fill(const struct job *job, struct job_end *end)
{
    struct job_end seen;
    if (job->others == NULL || job->others[end->rank].page == NULL || end->how != JOB_LOST)
        return;
    job_end_of_page(job->others[end->rank].page, end->rank, end->why, &seen);
    seen.how   = end->how;
    seen.exact = end->exact;
    *end       = seen;
}

void
job_pages_end(struct job *job)
{
    for (int rank = 0; job->others != NULL && rank < job->options.size; rank++)
        if (job->others[rank].page != NULL)
            munmap((void *)(uintptr_t)job->others[rank].page, JOB_PAGE_BYTES);
    free(job->others);
    job->others = NULL;
}
