/* The page on which a process of a job writes what it is in: shared with its launcher where there is one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "c10d/job_internal.h"

static bool
map_page(struct job *job, const char *text, char *why, size_t why_size)
{
    struct stat about;
    char       *rest = NULL;
    long        fd   = strtol(text, &rest, 10);
    if (rest == text || *rest != '\0' || fd < 0 || fd > 1 << 20 || fstat((int)fd, &about) != 0 ||
        about.st_size < JOB_PAGE_BYTES) {
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
    pthread_mutex_init(&job->page_mutex, NULL);
    job->page->magic = JOB_PAGE_MAGIC;
    return true;
}

void
job_page_close(struct job *job)
{
    if (job->page == NULL)
        return;
    pthread_mutex_destroy(&job->page_mutex);
    if (job->page_fd >= 0)
        close(job->page_fd);
    if (job->page_is_shared)
        munmap(job->page, JOB_PAGE_BYTES);
    else
        free(job->page);
}

/* Equal where processes share a clock: the kernel's boot and, in a container, the namespace of its clocks. */
void
job_read_host(char host[JOB_HOST_ID])
{
    FILE *file   = fopen("/proc/sys/kernel/random/boot_id", "r");
    char  of[24] = "";
    host[0]      = '\0';
    if (file == NULL)
        return;
    if (fgets(host, JOB_HOST_ID, file) == NULL)
        host[0] = '\0';
    fclose(file);
    (void)!readlink("/proc/self/ns/time", of, sizeof of - 1);
    size_t length = strcspn(host, "\n");
    snprintf(host + length, JOB_HOST_ID - length, "%s", of);
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

void
job_note_call(struct job *job, const struct job_call *call)
{
    struct job_page *page = job->page;
    pthread_mutex_lock(&job->page_mutex);
    unsigned turn = atomic_load_explicit(&page->turn, memory_order_relaxed);
    atomic_store_explicit(&page->turn, turn + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release); /* before what follows */
    if (call->id != 0) {
        struct job_page_group *group = group_on_page(page, call->id);
        group->issued = call->issued;
        group->over   = call->over;
    }
    size_t length = strnlen(call->text, sizeof page->call - 1);
    bool   is_it  = strncmp(page->call, call->text, length) == 0 && page->call[length] == '\0';
    if (call->inside || is_it) { /* the end of an older one tells nothing of the last */
        page->line   = call->line;
        page->inside = call->inside;
        memcpy(page->call, call->text, length);
        page->call[length] = '\0';
    }
    atomic_store_explicit(&page->turn, turn + 2, memory_order_release);
    pthread_mutex_unlock(&job->page_mutex);
}

void
job_page_own(const struct job *job, struct job_page *out)
{
    pthread_mutex_t *mutex = (pthread_mutex_t *)(uintptr_t)&job->page_mutex;
    pthread_mutex_lock(mutex);
    job_page_read(job->page, out);
    pthread_mutex_unlock(mutex);
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
