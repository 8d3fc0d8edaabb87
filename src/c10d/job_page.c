/* The page on which a process of a job writes what it is in: shared with its launcher where there is one. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "c10d/job_internal.h"

/* Only a launcher's is sealed: no other file of the user's is written into. */
static bool
is_page(int fd)
{
    struct stat about;
    int         seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &about) == 0 && about.st_size == JOB_PAGE_BYTES;
}

static bool
map_page(struct job *job, const char *text, char *why, size_t why_size)
{
    char *rest = NULL;
    long  fd   = strtol(text, &rest, 10);
    if (rest == text || *rest != '\0' || fd < 0 || fd > INT_MAX || !is_page((int)fd)) {
        snprintf(why, why_size, JOB_PAGE_VARIABLE "=%.40s is no page of a launcher's: leave it unset", text);
        return false;
    }
    void *page = mmap(NULL, JOB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
    if (page == MAP_FAILED) {
        snprintf(why, why_size, "the launcher's page cannot be mapped: %s", strerror(errno));
        return false;
    }
    close((int)fd);
    job->page           = page;
    job->page_is_shared = true;
    return true;
}

/* Other processes of this host may look into it; where that cannot be, it is this one's alone. */
static bool
make_page(struct job *job)
{
    int   fd   = memfd_create("ringside-page", MFD_CLOEXEC);
    void *page = fd >= 0 && ftruncate(fd, JOB_PAGE_BYTES) == 0
                     ? mmap(NULL, JOB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    job->page_is_shared = page != MAP_FAILED;
    job->page           = job->page_is_shared ? page : calloc(1, JOB_PAGE_BYTES);
    job->page_fd        = job->page_is_shared ? fd : -1;
    if (!job->page_is_shared && fd >= 0)
        close(fd);
    return job->page != NULL;
}

bool
job_page_open(struct job *job, char *why, size_t why_size)
{
    const char *shared = getenv(JOB_PAGE_VARIABLE);
    job->page_fd = -1;
    if (shared != NULL && !map_page(job, shared, why, why_size))
        return false;
    if (shared == NULL && !make_page(job)) {
        snprintf(why, why_size, "out of memory");
        return false;
    }
    job->page->magic = JOB_PAGE_MAGIC;
    return true;
}

void
job_page_close(struct job *job)
{
    if (job->page == NULL)
        return;
    if (job->page_fd >= 0)
        close(job->page_fd);
    if (job->page_is_shared)
        munmap(job->page, JOB_PAGE_BYTES);
    else
        free(job->page);
}

/* ---- writing ---- */

static struct job_page_group *
group_on_page(struct job_page *page, uint64_t id)
{
    for (uint32_t i = 0; i < page->group_count; i++)
        if (page->groups[i].id == id)
            return &page->groups[i];
    if (page->group_count == JOB_PAGE_GROUPS) { /* the oldest gives way */
        memmove(&page->groups[0], &page->groups[1], sizeof page->groups - sizeof page->groups[0]);
        page->group_count--;
    }
    page->groups[page->group_count] = (struct job_page_group){ .id = id };
    return &page->groups[page->group_count++];
}

/* Comm tasks of several groups write: each waits for the other's few words. It is called twice a collective, so a mutex
 * and a text would be dear. */
static unsigned
take_turn(struct job_page *page)
{
    unsigned turn = atomic_load_explicit(&page->turn, memory_order_relaxed) & ~1u;
    while (!atomic_compare_exchange_weak_explicit(&page->turn, &turn, turn + 1, memory_order_acquire,
                                                  memory_order_relaxed))
        turn &= ~1u;
    atomic_thread_fence(memory_order_release);
    return turn;
}

static bool
is_on_page(const struct job_page *page, const struct job_call *call)
{
    return page->sequence == call->sequence && page->of_group == call->group &&
           strncmp(page->operation, call->operation, sizeof page->operation - 1) == 0;
}

void
job_note_call(struct job *job, const struct job_call *call)
{
    struct job_page *page = job->page;
    unsigned         turn = take_turn(page);
    if (call->id != 0) {
        struct job_page_group *group = group_on_page(page, call->id);
        group->issued = call->issued;
        group->over   = call->over;
    }
    if (call->inside || is_on_page(page, call)) { /* the end of an older one tells nothing of the last */
        page->line     = call->line;
        page->inside   = call->inside;
        page->of_group = call->group;
        page->sequence = call->sequence;
        strncpy(page->operation, call->operation, sizeof page->operation - 1);
    }
    atomic_store_explicit(&page->turn, turn + 2, memory_order_release);
}

void
job_note_failure(struct job *job, const struct job_end *end)
{
    struct job_page *page = job->page;
    if (end->how != JOB_THREW)
        return;
    unsigned turn  = take_turn(page);
    bool     first = atomic_load(&page->failed_ns) == 0;
    if (first) {
        page->failed_line = end->line;
        snprintf(page->failed_kind, sizeof page->failed_kind, "%s", end->kind);
        snprintf(page->why, sizeof page->why, "%s", end->why);
        atomic_store(&page->failed_ns, (uint_least64_t)end->ns);
    }
    atomic_store_explicit(&page->turn, turn + 2, memory_order_release);
}

/* As one of those who write it. */
void
job_page_own(const struct job *job, struct job_page *out)
{
    struct job_page *page = job->page;
    unsigned         turn = take_turn(page);
    memcpy((void *)out, (const void *)page, sizeof *out);
    atomic_store_explicit(&page->turn, turn + 2, memory_order_release);
    job_page_settle(out);
}

void
job_fill_groups(const struct job *job, struct job_end *end)
{
    struct job_page page;
    job_page_own(job, &page);
    end->group_count = page.group_count;
    end->inside      = page.inside;
    memcpy(end->groups, page.groups, sizeof end->groups);
    memcpy(end->call, page.call, sizeof end->call);
}
