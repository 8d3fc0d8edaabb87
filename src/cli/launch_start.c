/* From a plan to processes. Between fork and exec nothing is done but system calls: the store's thread may hold any
 * lock.
 *
 * Interface: launch_listen; worker_start, worker_has_failed, worker_free. */
#include "cli/launch_start.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/vec.h"
#include "cli/launch_plan.h"
#include "cli/message.h"
#include "cli/options.h"

/* ---- the store's socket ---- */

static int
listen_on(const struct addrinfo *at)
{
    int on = 1, fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); /* what is left of the last job's connections */
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool
read_port(int fd, int *port)
{
    struct sockaddr_storage at;
    struct sockaddr_in      in;
    socklen_t               size = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &size) != 0)
        return false;
    memcpy(&in, &at, sizeof in); /* a port lies at the same place in both families */
    *port = ntohs(in.sin_port);
    return true;
}

static int
refuse_place(const char *command, const struct launch_plan *plan, int error)
{
    if (error == EADDRINUSE)
        return message(STATUS_USAGE, "%s: port %d of %s is taken: by another launch, or who else listens there; "
                       "--master-port names another", command, plan->port, plan->host);
    if (error == EADDRNOTAVAIL)
        return message(STATUS_USAGE, "%s: %s is no address of this machine, and machine 0 is where --master-addr is",
                       command, plan->host);
    return message(error == EACCES ? STATUS_USAGE : STATUS_FAILED, "%s: cannot listen at port %d of %s: %s", command,
                   plan->port, plan->host, strerror(error));
}

int
launch_listen(const char *command, struct launch_plan *plan, int *status)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV }, *list = NULL;
    char            port[16];
    int             fd = -1, error = EADDRNOTAVAIL;
    snprintf(port, sizeof port, "%d", plan->port);
    int why = getaddrinfo(plan->host, port, &hints, &list);
    if (why != 0) {
        *status = message(STATUS_USAGE, "%s: no host '%s': %s", command, plan->host,
                          why == EAI_SYSTEM ? strerror(errno) : gai_strerror(why));
        return -1;
    }
    for (const struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next)
        if ((fd = listen_on(at)) < 0 && (errno != EAFNOSUPPORT || at->ai_next == NULL))
            error = errno;
    freeaddrinfo(list);
    if (fd < 0)
        *status = refuse_place(command, plan, error);
    else if (!read_port(fd, &plan->port))
        *status = message(STATUS_FAILED, "%s: cannot tell the store's port: %s", command, strerror(errno));
    else
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- words and environment ---- */

/* A NULL-terminated list for exec; the texts that were made for it are freed with it. */
struct texts {
    char  **list;
    char  **made;
    size_t  count, room, made_count, made_room;
    bool    broken;
};

static void
texts_add(struct texts *texts, const char *text)
{
    if (!vec_room(&texts->list, &texts->room, texts->count + 2, sizeof *texts->list)) {
        texts->broken = true;
        return;
    }
    texts->list[texts->count++] = (char *)text;
    texts->list[texts->count]   = NULL;
}

static void __attribute__((format(printf, 2, 3)))
texts_addf(struct texts *texts, const char *format, ...)
{
    va_list args;
    char   *text = NULL;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (text == NULL || !vec_room(&texts->made, &texts->made_room, texts->made_count + 1, sizeof *texts->made)) {
        free(text);
        texts->broken = true;
        return;
    }
    texts->made[texts->made_count++] = text;
    texts_add(texts, text);
}

static void
texts_free(struct texts *texts)
{
    for (size_t i = 0; i < texts->made_count; i++)
        free(texts->made[i]);
    free(texts->made);
    free(texts->list);
}

static void
add_own_variables(struct texts *env, const struct launch_plan *plan, const struct worker *worker, int page)
{
    texts_addf(env, "RANK=%d", worker->rank);
    texts_addf(env, "LOCAL_RANK=%d", worker->local_rank);
    texts_addf(env, "WORLD_SIZE=%d", plan->world);
    texts_addf(env, "LOCAL_WORLD_SIZE=%d", plan->local);
    texts_addf(env, "GROUP_RANK=%d", plan->node);
    texts_addf(env, "GROUP_WORLD_SIZE=%d", plan->nodes);
    texts_add(env, "ROLE_NAME=default");
    texts_addf(env, "ROLE_RANK=%d", worker->rank);
    texts_addf(env, "ROLE_WORLD_SIZE=%d", plan->world);
    texts_addf(env, "MASTER_ADDR=%s", plan->host);
    texts_addf(env, "MASTER_PORT=%d", plan->port);
    texts_add(env, "TORCHELASTIC_RESTART_COUNT=0");
    texts_add(env, "TORCHELASTIC_MAX_RESTARTS=0");
    texts_addf(env, "TORCHELASTIC_RUN_ID=%s", plan->job);
    texts_add(env, "TORCHELASTIC_USE_AGENT_STORE=True");
    texts_addf(env, JOB_PAGE_VARIABLE "=%d", page);
    if (plan->local > 1 && getenv("OMP_NUM_THREADS") == NULL)
        texts_add(env, "OMP_NUM_THREADS=1"); /* as many threads as processes, not the square of it */
}

static bool
is_among(const struct texts *env, size_t count, const char *variable)
{
    size_t length = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < count; i++)
        if (strncmp(env->list[i], variable, length) == 0)
            return true;
    return false;
}

/* The parent's are kept, but those that say who somebody is. */
static void
fill_environment(struct texts *env, const struct launch_plan *plan, const struct worker *worker, int page)
{
    add_own_variables(env, plan, worker, page);
    size_t own = env->count;
    for (char **variable = environ; *variable != NULL && !env->broken; variable++)
        if (!is_among(env, own, *variable))
            texts_add(env, *variable);
}

static void
fill_words(struct texts *words, const struct launch_plan *plan, const struct worker *worker)
{
    const struct run_options *options = plan->options;
    texts_add(words, plan->program);
    texts_add(words, "run");
    texts_add(words, "--executor");
    texts_add(words, "free");
    for (int i = 0; i < options->launch.passed_count; i++)
        texts_add(words, options->launch.passed[i]);
    if (options->trace != NULL)
        texts_add(words, "--trace");
    if (plan->folder != NULL)
        texts_addf(words, "%s/rank%d.trace", plan->folder, worker->rank);
    else if (options->trace != NULL)
        texts_add(words, options->trace);
    texts_add(words, options->lesson);
    if (options->arg_count > 0)
        texts_add(words, "--");
    for (int i = 0; i < options->arg_count; i++)
        texts_add(words, options->args[i]);
}

/* ---- a process ---- */

/* What is open only while a process is begun; -1: closed. */
struct beginning {
    int          in, out[2], err[2], report[2], page;
    struct texts words, env;
};

static void
close_all(int *const *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

/* The reading ends are the streams' once the process is there. */
static void
beginning_end(struct beginning *b)
{
    int *const fds[] = { &b->in,     &b->out[0],    &b->out[1],    &b->err[0],
                         &b->err[1], &b->report[0], &b->report[1], &b->page };
    close_all(fds, countof(fds));
    texts_free(&b->words);
    texts_free(&b->env);
}

/* Nobody can make it shorter than what is mapped. */
static bool
open_page(struct beginning *b, struct worker *worker)
{
    b->page = memfd_create("ringside-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (b->page < 0 || ftruncate(b->page, JOB_PAGE_BYTES) != 0 ||
        fcntl(b->page, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return false;
    void *page = mmap(NULL, JOB_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, b->page, 0);
    if (page == MAP_FAILED)
        return false;
    worker->page = page;
    return true;
}

static bool
open_pipes(struct beginning *b, const struct worker *worker)
{
    b->in = worker->rank == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open("/dev/null", O_RDONLY | O_CLOEXEC);
    return b->in >= 0 && pipe2(b->out, O_CLOEXEC) == 0 && pipe2(b->err, O_CLOEXEC) == 0 &&
           pipe2(b->report, O_CLOEXEC) == 0 && fcntl(b->out[0], F_SETFL, O_NONBLOCK) == 0 &&
           fcntl(b->err[0], F_SETFL, O_NONBLOCK) == 0;
}

/* In the child: system calls only. Its own page goes with it, everything else of the launcher's closes by itself. */
static void
become_worker(const struct beginning *b, const struct launch_plan *plan, const struct launch_inheritance *inheritance)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != inheritance->parent)
        _exit(STATUS_FAILED); /* the launcher has died before it would have been heard */
    if (inheritance->pipe_kills)
        signal(SIGPIPE, SIG_DFL);
    if (dup2(b->in, STDIN_FILENO) >= 0 && dup2(b->out[1], STDOUT_FILENO) >= 0 && dup2(b->err[1], STDERR_FILENO) >= 0 &&
        fcntl(b->page, F_SETFD, 0) == 0 && sigprocmask(SIG_SETMASK, &inheritance->mask, NULL) == 0)
        execve(plan->program, b->words.list, b->env.list);
    int     error = errno;
    ssize_t told  = write(b->report[1], &error, sizeof error);
    (void)told;
    _exit(STATUS_FAILED);
}

/* 0: it runs; else errno of what stood against it. */
static int
hear_report(struct beginning *b)
{
    int     error = 0;
    ssize_t count;
    close(b->report[1]);
    b->report[1] = -1;
    do
        count = read(b->report[0], &error, sizeof error);
    while (count < 0 && errno == EINTR);
    return count == (ssize_t)sizeof error ? error : 0;
}

static void
keep_streams(struct beginning *b, const struct launch_plan *plan, struct worker *worker)
{
    worker->out = (struct stream){ .fd = b->out[0], .rank = worker->rank, .prefixed = worker->rank > 0,
                                   .raw = plan->options->trust };
    worker->err = (struct stream){ .fd = b->err[0], .rank = worker->rank, .prefixed = worker->rank > 0 };
    b->out[0] = b->err[0] = -1;
}

/* Answers errno; 0: it runs. */
static int
begin(struct beginning *b, const struct launch_plan *plan, const struct launch_inheritance *inheritance,
      struct worker *worker)
{
    if (!open_page(b, worker) || !open_pipes(b, worker))
        return errno;
    fill_words(&b->words, plan, worker);
    fill_environment(&b->env, plan, worker, b->page);
    if (b->words.broken || b->env.broken)
        return ENOMEM;
    pid_t pid = fork();
    if (pid == 0)
        become_worker(b, plan, inheritance);
    if (pid < 0)
        return errno;
    int error = hear_report(b);
    if (error != 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        return error;
    }
    worker->pid = pid;
    keep_streams(b, plan, worker);
    return 0;
}

bool
worker_start(const char *command, const struct launch_plan *plan, const struct launch_inheritance *inheritance,
             int local_rank, struct worker *worker)
{
    struct beginning b = { -1, { -1, -1 }, { -1, -1 }, { -1, -1 }, -1, { 0 }, { 0 } };
    *worker = (struct worker){ .rank = plan->first + local_rank, .local_rank = local_rank, .out = { .fd = -1 },
                               .err = { .fd = -1 } };
    int error = begin(&b, plan, inheritance, worker);
    beginning_end(&b);
    if (error == 0)
        return true;
    worker_free(worker);
    if (error == EMFILE || error == ENFILE)
        message(0, "%s: no file descriptor is left for rank %d: 'ulimit -n' says how many a process may have", command,
                plan->first + local_rank);
    else if (error == ENOENT || error == EACCES)
        message(0, "%s: cannot run %.1000s as rank %d: %s", command, plan->program, plan->first + local_rank,
                strerror(error));
    else
        message(0, "%s: cannot start rank %d: %s", command, plan->first + local_rank, strerror(error));
    return false;
}

bool
worker_has_failed(const struct worker *worker)
{
    return worker->page != NULL && atomic_load(&worker->page->failed_ns) != 0;
}

void
worker_free(struct worker *worker)
{
    if (worker->page != NULL)
        munmap(worker->page, JOB_PAGE_BYTES);
    if (worker->out.fd >= 0)
        close(worker->out.fd);
    if (worker->err.fd >= 0)
        close(worker->err.fd);
    str_free(&worker->out.line);
    str_free(&worker->err.line);
    str_free(&worker->held);
    worker->page   = NULL;
    worker->out.fd = worker->err.fd = -1;
}
