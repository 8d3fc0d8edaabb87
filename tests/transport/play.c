/* play PLUGIN [N] [PART...]: plays a transport's plug-in between processes and prints TAP. Where the transport's own
 * launcher started this process, it is one of them and rank 0 prints; else N processes (2) are forked for each part. Parts
 * whose names begin with `killed` end a process by SIGKILL: under a launcher they are played only when named.
 * `play PLUGIN list` names the parts.
 *
 * Order of use: main, plugin_open; by_launcher or by_forks; part_run for each part. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "play.h"

enum { GUARD_S = 60, AFTER_KEY_MS = 200 };

const struct part play_parts[] = {
    { "all_reduce",     "all_reduce folds every dtype with every op", part_all_reduce, 1, false, false },
    { "broadcast",      "broadcast gives everybody what the root has", part_broadcast, 1, false, false },
    { "reduce",         "reduce folds at the root and leaves the others' memory", part_reduce, 1, false, false },
    { "all_gather",     "all_gather collects parts of equal and unequal length", part_all_gather, 1, false, false },
    { "gather",         "gather collects at the root", part_gather, 1, false, false },
    { "scatter",        "scatter hands out the root's parts", part_scatter, 1, false, false },
    { "reduce_scatter", "reduce_scatter folds parts of equal and unequal length", part_reduce_scatter, 1, false, false },
    { "all_to_all",     "all_to_all swaps parts of equal and unequal length", part_all_to_all, 1, false, false },
    { "barrier",        "nobody leaves a barrier before the last has come", part_barrier, 1, false, false },
    { "messages",       "messages keep their order for each tag, and are asked for in any order of tags", part_messages, 2, false, false },
    { "any",            "a receive from anyone says who sent it", part_any, 2, false, false },
    { "large",          "8 MiB go both ways at once", part_large, 2, false, false },
    { "too_long",       "a message longer than its room fails the receive and nothing else", part_too_long, 2, false, false },
    { "unread",         "messages that nobody asked for yet wait", part_unread, 2, false, false },
    { "channels",       "channels of overlapping ranks work at once on threads of their own", part_channels, 2, false, false },
    { "impatient",      "a waiter that gives up ends a collective", part_impatient, 2, false, false },
    { "unmet",          "a waiter that gives up ends connecting", part_unmet, 2, false, false },
    { "cancelled",      "nothing touches the memory of a cancelled request", part_cancelled, 2, false, false },
    { "killed",         "a killed rank ends the others' collective", part_killed, 2, true, false },
    { "killed_peer",    "a killed rank ends the others' messages", part_killed_peer, 2, true, false },
    { "unequal",        "calls of unequal sizes end without ending the process", part_unequal, 2, false, true },
};
const size_t play_part_count = sizeof play_parts / sizeof *play_parts;

static void
comment(struct play *p, const char *format, va_list args)
{
    char text[600], line[800];
    vsnprintf(text, sizeof text, format, args);
    int n = snprintf(line, sizeof line, "# %s, rank %d of %d: %s\n", p->part, p->rank, p->size, text);
    if (write(1, line, (size_t)n) < 0)
        _exit(PLAY_WRONG);
}

void
play_wrong(struct play *p, const char *format, ...)
{
    va_list args;
    if (atomic_fetch_add(&p->wrongs, 1) >= 10)
        return;
    va_start(args, format);
    comment(p, format, args);
    va_end(args);
}

void
play_note(struct play *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    comment(p, format, args);
    va_end(args);
}

void
play_at(struct play *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(p->at, sizeof p->at, format, args);
    va_end(args);
}

int64_t
play_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void *
play_memory(size_t bytes)
{
    void *block = malloc(bytes);
    if (block != NULL)
        return block;
    puts("Bail out! no memory");
    exit(PLAY_WRONG);
}

static bool
patience_pause(void *context, uint64_t looks)
{
    struct patience *w = context;
    w->pauses++;
    w->pauses_after += w->gave_up;
    if (looks > 1000)
        usleep(100);
    else if (looks > 50)
        sched_yield();
    if (w->until_key != NULL && w->seen_ms == 0 && w->pauses % 8 == 0 && play_flagged(w->play, w->until_key))
        w->seen_ms = play_now_ms();
    if (w->until_ms != 0 && play_now_ms() >= w->until_ms)
        w->gave_up = true;
    if (w->seen_ms != 0 && play_now_ms() >= w->seen_ms + AFTER_KEY_MS)
        w->gave_up = true;
    return !w->gave_up;
}

static void
patience_hop_begin(void *context, const struct transport_hop *hop)
{
    struct patience *w = context;
    if (hop->is_send)
        w->sends++, w->sent_bytes += hop->bytes;
    else
        w->recvs++;
    w->open_hops++;
    w->strangers += !pthread_equal(w->owner, pthread_self());
}

static void
patience_hop_end(void *context, const struct transport_hop *hop)
{
    struct patience *w = context;
    (void)hop;
    w->ends++;
    w->open_hops--;
    w->strangers += !pthread_equal(w->owner, pthread_self());
}

void
patience_init(struct patience *w, struct play *p, int64_t for_ms, const char *until_key)
{
    *w = (struct patience){ .play = p, .until_ms = for_ms != 0 ? play_now_ms() + for_ms : 0, .until_key = until_key,
                            .owner = pthread_self() };
    w->waiter = (struct transport_waiter){ .context = w, .pause = patience_pause, .hop_begin = patience_hop_begin,
                                           .hop_end = patience_hop_end };
}

/* For the guard alone: a handler has no argument. */
static struct play *guarded;

static void
guard(int signal_number)
{
    (void)signal_number;
    play_note(guarded, "hangs: %s", guarded->at);
    _exit(PLAY_HUNG);
}

static int
part_run(struct play *p, const struct part *part)
{
    p->part  = part->name;
    p->at[0] = '\0';
    guarded  = p;
    patience_init(&p->patience, p, 0, NULL);
    signal(SIGALRM, guard);
    alarm(GUARD_S);
    int result = part->run(p);
    if (p->patience.open_hops != 0 || p->patience.strangers != 0)
        play_wrong(p, "%d hops are not ended, %lu on another thread", p->patience.open_hops, p->patience.strangers);
    alarm(0);
    return atomic_exchange(&p->wrongs, 0) != 0 ? PLAY_WRONG : result;
}

static bool
play_open(struct play *p)
{
    struct transport_why     why     = { "" };
    struct transport_options options = { .rank = p->rank, .size = p->size, .timeout_ms = 60000, .store = &p->store,
                                         .waiter = &p->patience.waiter };
    play_store_init(p);
    p->part = "open";
    patience_init(&p->patience, p, 0, NULL);
    p->opened = p->transport->open(&options, &why);
    if (p->opened == NULL)
        play_wrong(p, "%s", why.text);
    return p->opened != NULL;
}

static int
child_run(struct play *p, const struct part *part)
{
    if (!play_open(p))
        return PLAY_WRONG;
    int result = part_run(p, part);
    alarm(GUARD_S);
    play_at(p, "closing");
    p->transport->close(p->opened);
    return result;
}

static bool
chosen(const struct part *part, char **names, bool by_launcher)
{
    if (names[0] == NULL)
        return !(by_launcher && part->kills) && !part->is_asked;
    for (; *names != NULL; names++)
        if (strcmp(part->name, *names) == 0)
            return true;
    return false;
}

static int
count_chosen(char **names, bool by_launcher)
{
    int count = 0;
    for (size_t i = 0; i < play_part_count; i++)
        count += chosen(&play_parts[i], names, by_launcher);
    return count;
}

/* One line of TAP; answers whether it is well. */
static bool
tell(int number, const struct part *part, int size, bool wrong, bool skipped)
{
    printf("%sok %d - %s (%s, %d)", wrong ? "not " : "", number, part->sentence, part->name, size);
    puts(wrong || !skipped ? "" : size < part->least ? " # SKIP needs more processes" : " # SKIP not the transport's");
    fflush(stdout);
    return !wrong;
}

static void
folder_remove(const char *folder)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0)
        printf("# %s stays\n", folder);
}

/* Forks the processes of one part, reaps them and says who failed. */
static void
fork_part(const struct transport *t, const struct part *part, int size, bool *wrong, bool *skipped)
{
    char  folder[] = "/tmp/play_XXXXXX";
    pid_t pids[64];
    *wrong = *skipped = false;
    if (mkdtemp(folder) == NULL) {
        *wrong = true;
        return;
    }
    fflush(stdout);
    for (int r = 0; r < size; r++)
        if ((pids[r] = fork()) == 0) {
            struct play p = { .transport = t, .rank = r, .size = size, .folder = folder };
            exit(child_run(&p, part));
        }
    for (int r = 0; r < size; r++) {
        int  status = 0;
        bool victim = part->kills && r == size - 1;
        if (pids[r] < 0 || waitpid(pids[r], &status, 0) != pids[r]) {
            *wrong = true;
        } else if (WIFSIGNALED(status) && !(victim && WTERMSIG(status) == SIGKILL)) {
            printf("# %s: rank %d died of signal %d\n", part->name, r, WTERMSIG(status));
            *wrong = true;
        } else if (WIFEXITED(status) && (victim || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != PLAY_SKIPPED))) {
            printf("# %s: rank %d ended with status %d\n", part->name, r, WEXITSTATUS(status));
            *wrong = true;
        }
        *skipped |= WIFEXITED(status) && WEXITSTATUS(status) == PLAY_SKIPPED;
    }
    folder_remove(folder);
}

static int
by_forks(const struct transport *t, int size, char **names)
{
    int number = 0, failed = 0;
    printf("1..%d\n", count_chosen(names, false));
    for (size_t i = 0; i < play_part_count; i++) {
        bool wrong = false, skipped = true;
        if (!chosen(&play_parts[i], names, false))
            continue;
        if (size >= play_parts[i].least)
            fork_part(t, &play_parts[i], size, &wrong, &skipped);
        failed += !tell(++number, &play_parts[i], size, wrong, skipped);
    }
    return failed > 0;
}

/* What all ranks say of a part, through the store; of a killed one nothing comes. */
static int
gather_results(struct play *p, const struct part *part, int mine_is)
{
    int  worst = 0;
    char key[200];
    snprintf(key, sizeof key, "result/%s/%d", part->name, p->rank);
    char byte = (char)mine_is;
    p->store.set(p->store.context, key, &byte, 1);
    for (int r = 0; r < p->size - (part->kills ? 1 : 0); r++) {
        void  *out;
        size_t count;
        snprintf(key, sizeof key, "result/%s/%d", part->name, r);
        alarm(GUARD_S);
        play_flag_wait(p, key);
        if (p->store.get(p->store.context, key, &out, &count) != 1)
            return PLAY_WRONG;
        if (*(char *)out != 0 && worst != PLAY_WRONG)
            worst = *(char *)out == PLAY_SKIPPED ? PLAY_SKIPPED : PLAY_WRONG;
        free(out);
    }
    alarm(0);
    return worst;
}

static int
launched_parts(struct play *p, char **names)
{
    int number = 0, failed = 0;
    if (p->rank == 0)
        printf("1..%d\n", count_chosen(names, true));
    fflush(stdout);
    for (size_t i = 0; i < play_part_count; i++) {
        const struct part *part = &play_parts[i];
        if (!chosen(part, names, true))
            continue;
        bool few    = p->size < part->least;
        int  result = few ? PLAY_SKIPPED : gather_results(p, part, part_run(p, part));
        number++;
        if (p->rank == 0)
            failed += !tell(number, part, p->size, result == PLAY_WRONG, result == PLAY_SKIPPED);
        else
            failed += result == PLAY_WRONG;
    }
    return failed > 0;
}

static int
kills(char **names)
{
    for (size_t i = 0; i < play_part_count; i++)
        if (play_parts[i].kills && chosen(&play_parts[i], names, true))
            return 1;
    return 0;
}

/* The folder of the store is rank 0's, told to all. */
static int
by_launcher(const struct transport *t, const struct transport_place *place, char **names)
{
    char                 folder[100] = "/tmp/play_XXXXXX";
    struct transport_why why         = { "" };
    struct play          p           = { .transport = t, .rank = place->rank, .size = place->size, .folder = folder, .part = "meeting" };
    signal(SIGTERM, SIG_IGN);
    if (place->rank == 0 && mkdtemp(folder) == NULL)
        return PLAY_WRONG;
    if (place->rank < 0 || place->rank >= place->size || place->local_rank < 0 || place->local_rank >= place->local_size)
        play_wrong(&p, "place says rank %d of %d, local %d of %d", place->rank, place->size, place->local_rank, place->local_size);
    if (!t->tell_all(folder, sizeof folder, &why))
        play_wrong(&p, "tell_all: %s", why.text);
    if (atomic_load(&p.wrongs) != 0 || !play_open(&p))
        return PLAY_WRONG;
    int failed = launched_parts(&p, names);
    play_at(&p, "closing");
    alarm(GUARD_S);
    t->close(p.opened);
    p.part = "over";
    char key[40];
    snprintf(key, sizeof key, "over/%d", p.rank);
    play_flag(&p, key);
    for (int r = 0; r < p.size - kills(names) && p.rank == 0; r++) {
        snprintf(key, sizeof key, "over/%d", r);
        play_flag_wait(&p, key);
    }
    if (p.rank == 0)
        folder_remove(folder);
    return failed;
}

static const struct transport *
plugin_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        printf("Bail out! %s\n", dlerror());
        return NULL;
    }
    const struct transport *t = dlsym(library, TRANSPORT_SYMBOL);
    if (t == NULL || t->abi != TRANSPORT_ABI || t->name == NULL || t->version == NULL || t->place == NULL || t->open == NULL ||
        t->close == NULL || t->connect == NULL || t->disconnect == NULL || t->has == NULL || t->run == NULL || t->send == NULL ||
        t->recv == NULL || t->test == NULL || t->cancel == NULL) {
        puts("Bail out! the plug-in is not whole");
        return NULL;
    }
    return t;
}

int
main(int argc, char **argv)
{
    if (argc < 2) {
        puts("usage: play PLUGIN [N] [PART...]");
        return 2;
    }
    if (argc == 3 && strcmp(argv[2], "list") == 0) {
        for (size_t i = 0; i < play_part_count; i++)
            printf("%-15s %s\n", play_parts[i].name, play_parts[i].sentence);
        return 0;
    }
    const struct transport *t = plugin_open(argv[1]);
    if (t == NULL)
        return 1;
    int   size  = argc > 2 ? atoi(argv[2]) : 0;
    char **rest = argv + (size > 0 ? 3 : argc > 2 ? 2 : argc);
    struct transport_place place = { 0, 1, 0, 1 };
    struct transport_why   why   = { "" };
    if (t->place(&place, &why))
        return by_launcher(t, &place, rest);
    if (why.text[0] != '\0') {
        printf("Bail out! %s\n", why.text);
        return 1;
    }
    if (size > 64) {
        puts("play: at most 64 processes");
        return 2;
    }
    return by_forks(t, size > 0 ? size : 2, rest);
}
