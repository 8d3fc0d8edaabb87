/* Runs of one lesson, in processes of their own; see trials.h.
 *
 * Interface: trials_new, trials_usual, trials_one, trials_run, trials_free. */
#include "cli/trials.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/watch.h"
#include "sched/search.h"
#include "trace/reader.h"

enum { SLOTS = 16, OUTPUT_BYTES = 4 << 20 };

/* A place for a run: its report, a nameless file that its words go to, and the name of its trace, if it keeps one. */
struct slot { pid_t child; uint64_t number; struct trial *trial; FILE *out; char trace[64]; };
/* What a run has said: its lines in the order of their bytes, since who speaks first is the schedule's business. */
struct said { char *text; char **lines; size_t count, room; };

struct trials {
    const struct run_options *options;
    struct slot  slots[SLOTS];
    int          slot_count;
    struct said  usual;
    struct outcome as_usual;
    bool         counts_faults;
    bool         aloud;      /* what goes wrong before the lesson begins is told, once */
    uint64_t     work_limit;
    size_t       left;       /* bytes that the usual run does not give back */
    sigset_t     signals, before;
    bool         stopped;
};

/* ---- made and let go ---- */

/* A name of its own: an empty file, which a trace may take the place of. */
static bool
name_trace(struct slot *slot)
{
    snprintf(slot->trace, sizeof slot->trace, "/tmp/ringside-explore-XXXXXX");
    int file = mkstemp(slot->trace);
    if (file < 0)
        slot->trace[0] = '\0';
    else
        close(file);
    return file >= 0;
}

static bool
slot_open(struct slot *slot)
{
    slot->trial = trial_new();
    slot->out   = tmpfile();
    return slot->trial != NULL && slot->out != NULL && name_trace(slot);
}

static void
slot_close(struct slot *slot)
{
    if (slot->child > 0) {
        kill(slot->child, SIGKILL);
        while (waitpid(slot->child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (slot->out != NULL)
        fclose(slot->out);
    if (slot->trace[0] != '\0')
        unlink(slot->trace);
    trial_free(slot->trial);
}

static void
said_free(struct said *said)
{
    free(said->text);
    free(said->lines);
    *said = (struct said){ 0 };
}

void
trials_free(struct trials *trials)
{
    for (int i = 0; i < trials->slot_count; i++)
        slot_close(&trials->slots[i]);
    sigprocmask(SIG_SETMASK, &trials->before, NULL);
    said_free(&trials->usual);
    free(trials);
}

/* Signals are waited for with the runs' ends, never in a handler. */
static void
hold_signals(struct trials *trials)
{
    sigemptyset(&trials->signals);
    sigaddset(&trials->signals, SIGCHLD);
    watch_add_signal(&trials->signals, SIGINT);
    watch_add_signal(&trials->signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &trials->signals, &trials->before);
}

struct trials *
trials_new(const struct run_options *options, const char **why)
{
    struct trials *trials = calloc(1, sizeof *trials);
    long           wanted = sysconf(_SC_NPROCESSORS_ONLN);
    *why = "out of memory";
    if (trials == NULL)
        return NULL;
    trials->options = options;
    hold_signals(trials);
    for (int i = 0; i < SLOTS && (i == 0 || i < wanted); i++) {
        trials->slot_count++;
        if (slot_open(&trials->slots[i]))
            continue;
        if (trials->slots[i].trial != NULL)
            *why = "cannot make a temporary file";
        trials_free(trials);
        return NULL;
    }
    return trials;
}

/* ---- a run ---- */

static void
be_the_run(const struct trials *trials, const struct slot *slot)
{
    struct run_options options = *trials->options;
    int                error   = trials->aloud ? dup(STDERR_FILENO) : open("/dev/null", O_WRONLY);
    options.trial  = slot->trial;
    options.policy = NULL;
    options.trace  = slot->trial->fault_count > 0 ? slot->trace : NULL;
    signal(SIGINT, SIG_IGN);   /* explore hears it, and ends this run */
    sigprocmask(SIG_SETMASK, &trials->before, NULL);
    if (error < 0 || dup2(fileno(slot->out), STDOUT_FILENO) < 0 || dup2(error, STDERR_FILENO) < 0)
        _exit(STATUS_FAILED);
    int status = run_lesson(&options, NULL);
    fflush(NULL);
    _exit(status);
}

static bool
slot_start(const struct trials *trials, struct slot *slot, const struct choosing *choosing)
{
    trial_prepare(slot->trial, choosing, trials->work_limit);
    slot->trial->counts_faults = trials->aloud && trials->counts_faults;
    rewind(slot->out);
    if (ftruncate(fileno(slot->out), 0) != 0)
        return false;
    fflush(NULL);
    pid_t parent = getpid();
    slot->child  = fork();
    if (slot->child != 0)
        return slot->child > 0;
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent)
        _exit(STATUS_FAILED);
    be_the_run(trials, slot);
    return false;
}

/* ---- what it said ---- */

static int
by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "ok 7 - sums agree" without its number, which says only what was checked before it. */
static void
drop_number(char *line)
{
    char  *at     = strncmp(line, "not ok ", 7) == 0 ? line + 7 : strncmp(line, "ok ", 3) == 0 ? line + 3 : NULL;
    size_t digits = at != NULL ? strspn(at, "0123456789") : 0;
    if (digits > 0 && strncmp(at + digits, " - ", 3) == 0)
        memmove(at, at + digits + 1, strlen(at + digits + 1) + 1);
}

/* false: no memory. What lies beyond OUTPUT_BYTES is not compared. */
static bool
said_read(struct said *said, FILE *out)
{
    off_t end = lseek(fileno(out), 0, SEEK_END);
    size_t size = end > OUTPUT_BYTES ? OUTPUT_BYTES : end > 0 ? (size_t)end : 0;
    *said       = (struct said){ .text = malloc(size + 1) };
    ssize_t got = said->text != NULL ? pread(fileno(out), said->text, size, 0) : -1;
    if (got < 0)
        return false;
    said->text[got] = '\0';
    for (char *line = said->text; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        bool   more   = line[length] != '\0';
        line[length]  = '\0';
        if (!vec_room(&said->lines, &said->room, said->count + 1, sizeof *said->lines))
            return false;
        said->lines[said->count++] = line;
        drop_number(line);
        line += length + more;
    }
    if (said->count > 0)
        qsort(said->lines, said->count, sizeof *said->lines, by_bytes);
    return true;
}

/* A check that failed says more than any other line. */
static bool
is_better(const char *line, const char *than)
{
    return than[0] == '\0' || (strncmp(line, "not ok ", 7) == 0 && strncmp(than, "not ok ", 7) != 0);
}

/* The first line in the order of bytes that only one has, each's own. true: they say the same. */
static bool
said_equal(const struct said *usual, const struct said *here, struct outcome *outcome)
{
    size_t a = 0, b = 0;
    outcome->usual[0] = outcome->here[0] = '\0';
    while (a < usual->count || b < here->count) {
        int order = a == usual->count ? 1 : b == here->count ? -1 : strcmp(usual->lines[a], here->lines[b]);
        if (order < 0 && outcome->usual[0] == '\0')
            snprintf(outcome->usual, sizeof outcome->usual, "%s", usual->lines[a]);
        if (order > 0 && is_better(here->lines[b], outcome->here))
            snprintf(outcome->here, sizeof outcome->here, "%s", here->lines[b]);
        a += order <= 0;
        b += order >= 0;
    }
    return outcome->usual[0] == '\0' && outcome->here[0] == '\0';
}

/* ---- what it came to ---- */

static enum outcome_kind
kind_of_error(enum error_kind kind)
{
    switch (kind) {
    case E_DEADLOCK:
    case E_TIMEOUT:
    case E_MISMATCH: return OUTCOME_HANG;
    case E_RACE: return OUTCOME_RACE;
    case E_BUDGET: return OUTCOME_ENDLESS;
    default: return OUTCOME_ERROR;
    }
}

/* A word of what was said, but for what differs between schedules that find one fault: numbers of ranks, lines and
 * calls, and how many ranks there are. "" nothing is left of it. */
static void
keep_word(const char *word, size_t length, char kept[32])
{
    size_t count = 0;
    for (size_t i = 0; i < length && count < 31; i++)
        if (isalpha((unsigned char)word[i]) || word[i] == '_' || word[i] == '.')
            kept[count++] = word[i];
    kept[count] = '\0';
    if (strcmp(kept, "and") == 0)
        kept[0] = '\0';
    if (strcmp(kept, "ranks") == 0)
        kept[4] = '\0';
}

/* By its kind and, if a report tells the cause, that; else its first line. */
static uint64_t
group_of(enum outcome_kind kind, const char *said)
{
    const char *cause = strstr(said, "\ncause:");
    uint64_t    group = hash_bytes((uint64_t)kind + 1, said, strcspn(said, ":"));
    for (const char *at = cause != NULL ? cause + 1 : said; *at != '\0' && *at != '\n';) {
        char   word[32];
        size_t length = strcspn(at, " \n");
        keep_word(at, length, word);
        group = hash_bytes(group, word, strlen(word));
        at += length + (at[length] == ' ');
    }
    return group;
}

static void
judge_failure(const struct trial *trial, int status, struct outcome *outcome)
{
    if (WIFSIGNALED(status)) {
        outcome->kind = OUTCOME_DIED;
        snprintf(outcome->cause, sizeof outcome->cause, "the process was ended by signal %d", WTERMSIG(status));
    } else if (!trial->ended) {
        outcome->kind = trial->begun ? OUTCOME_ENDLESS : OUTCOME_ERROR;
        snprintf(outcome->cause, sizeof outcome->cause, trial->begun ? "the run did not end within what it may take"
                                                                     : "the run could not begin");
    } else {
        outcome->kind = kind_of_error(trial->kind);
        const char *name = trial->kind == E_SCRIPT ? "" : error_name(trial->kind);
        snprintf(outcome->cause, sizeof outcome->cause, "%s%s%s", name, name[0] != '\0' ? ": " : "", trial->message);
    }
    outcome->group = group_of(outcome->kind, outcome->cause);
}

/* A search gives up runs whose end means nothing. */
static bool
is_given_up(const struct trial *trial)
{
    const struct search *search = trial->choosing.search;
    return search != NULL && search->end != SEARCH_COMPLETE;
}

/* A rank that is late, or a message, may change nothing; what else went wrong on purpose may end the run, by name. */
static bool
is_struck(const struct trial *trial)
{
    for (size_t i = 0; i < trial->fault_count; i++)
        if (trial->faults[i].kind != FAULT_LATE && trial->faults[i].kind != FAULT_DELAY)
            return true;
    return false;
}

static bool
trace_opens(const struct slot *slot, struct outcome *outcome)
{
    char          why[300];
    struct trace *trace = trace_open(slot->trace, why, sizeof why);
    if (trace == NULL) {
        outcome->kind = OUTCOME_TORN;
        snprintf(outcome->cause, sizeof outcome->cause, "%s", why);
        outcome->group = group_of(OUTCOME_TORN, outcome->cause);
        return false;
    }
    trace_release(trace);
    return true;
}

/* Of every run it is asked that it gives back what it took; of one with such faults no more than that, and that it ends
 * and says why. */
static void
judge_rest(const struct trials *trials, const struct slot *slot, struct outcome *outcome)
{
    const struct trial *trial = outcome->trial;
    if (trial->fault_count > 0 && trial->begun && !trace_opens(slot, outcome))
        return;
    if (outcome->kind == OUTCOME_DIED || outcome->kind == OUTCOME_ENDLESS)
        return;
    if (is_struck(trial) && outcome->kind != OUTCOME_SAME)
        outcome->kind = OUTCOME_STRUCK;
    if ((outcome->kind != OUTCOME_SAME && outcome->kind != OUTCOME_STRUCK) || trial->left <= trials->left)
        return;
    outcome->kind = OUTCOME_LEAK;
    snprintf(outcome->cause, sizeof outcome->cause, "%zu bytes were not given back", trial->left - trials->left);
    outcome->group = group_of(OUTCOME_LEAK, outcome->cause);
}

/* false: no memory. */
static bool
judge(const struct trials *trials, const struct slot *slot, int status, struct outcome *outcome)
{
    const struct trial *trial = slot->trial;
    struct said         said;
    *outcome = (struct outcome){ .kind = OUTCOME_SAME, .choices = trial->chosen.choices, .digest = trial->chosen.digest,
                                 .work = trial->work, .trial = trial };
    if (is_given_up(trial))
        return true;
    if (WIFSIGNALED(status) || !trial->ended || trial->kind != E_NONE) {
        judge_failure(trial, status, outcome);
    } else if (said_read(&said, slot->out)) {
        if (!said_equal(&trials->usual, &said, outcome)) {
            outcome->kind = OUTCOME_DIFFER;
            snprintf(outcome->cause, sizeof outcome->cause, "%s", "it says something else");
            outcome->group = group_of(OUTCOME_DIFFER, outcome->here);
        }
        said_free(&said);
    } else {
        said_free(&said);
        return false;
    }
    if (outcome->group == trials->as_usual.group)
        outcome->kind = OUTCOME_SAME;
    judge_rest(trials, slot, outcome);
    return true;
}

/* ---- many ---- */

/* Waits until a run ends or the user stops it all. */
static void
await_end(struct trials *trials)
{
    int number = 0;
    if (sigwait(&trials->signals, &number) == 0 && number != SIGCHLD)
        trials->stopped = true;
}

/* The slot whose run has ended; NULL: none yet. */
static struct slot *
ended_slot(struct trials *trials, int *status)
{
    for (int i = 0; i < trials->slot_count; i++) {
        struct slot *slot = &trials->slots[i];
        if (slot->child > 0 && waitpid(slot->child, status, WNOHANG) == slot->child) {
            slot->child = 0;
            return slot;
        }
    }
    return NULL;
}

static struct slot *
free_slot(struct trials *trials)
{
    for (int i = 0; i < trials->slot_count; i++)
        if (trials->slots[i].child == 0)
            return &trials->slots[i];
    return NULL;
}

bool
trials_run(struct trials *trials, const struct trials_user *user, uint64_t first, uint64_t count)
{
    uint64_t       started = 0, done = 0;
    struct outcome outcome;
    while (done < count && !trials->stopped) {
        struct slot *slot = started < count ? free_slot(trials) : NULL;
        if (slot != NULL) {
            struct choosing choosing = { .how = CHOOSE_USUAL };
            slot->number             = first + started++;
            user->prepare(user->context, slot->number, &choosing);
            if (!slot_start(trials, slot, &choosing))
                return false;
            continue;
        }
        int status;
        slot = ended_slot(trials, &status);
        if (slot == NULL) {
            await_end(trials);
            continue;
        }
        done++;
        if (!judge(trials, slot, status, &outcome))
            return false;
        user->ended(user->context, slot->number, &outcome);
    }
    return !trials->stopped;
}

struct single { const struct choosing *choosing; struct outcome *outcome; };

static void
prepare_single(void *context, uint64_t number, struct choosing *choosing)
{
    const struct single *single = context;
    (void)number;
    *choosing = *single->choosing;
}

static void
single_ended(void *context, uint64_t number, const struct outcome *outcome)
{
    struct single *single = context;
    (void)number;
    *single->outcome = *outcome;
}

bool
trials_one(struct trials *trials, const struct choosing *choosing, struct outcome *outcome)
{
    struct single            single = { choosing, outcome };
    const struct trials_user user   = { &single, prepare_single, single_ended };
    return trials_run(trials, &user, 0, 1);
}

/* Others may work a hundred times as long before they count as endless. */
bool
trials_usual(struct trials *trials, struct outcome *outcome, bool counts_faults)
{
    const uint64_t        times = 100, least = 20000000;
    const struct choosing usual = { .how = CHOOSE_USUAL };
    trials->aloud         = true;
    trials->counts_faults = counts_faults;
    bool made     = trials_one(trials, &usual, outcome);
    trials->aloud = false;
    if (!made)
        return false;
    trials->work_limit = outcome->work * times + least;
    trials->left       = outcome->trial->left;
    if (outcome->kind == OUTCOME_DIFFER || outcome->kind == OUTCOME_SAME) {
        outcome->kind = OUTCOME_SAME;
        return said_read(&trials->usual, trials->slots[0].out);
    }
    trials->as_usual = *outcome;
    return true;
}

bool
trials_stopped(const struct trials *trials)
{
    return trials->stopped;
}
