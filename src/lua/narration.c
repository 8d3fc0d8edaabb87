/* What a lesson says and claims, on its way to the trace and to standard output.
 *
 * Order of use: lesson_new; lesson_begin, lesson_say, lesson_print_*, lesson_ask, lesson_check by the tasks of the run;
 * lesson_join after each spawn; lesson_end; lesson_failed; lesson_free. Checks are TAP lines, and under --tap all else
 * is a comment; checks of ranks wait for the join, because ranks finish in any order. Printing is guarded by one mutex,
 * which is never held across an event. */
#include "lua/lesson.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"
#include "c10d/job.h"
#include "lua/check_list.h"
#include "lua/choices.h"
#include "lua/early.h"
#include "sched/account.h"
#include "sched/faults.h"
#include "sched/stage.h"

enum { PROCESS_NAME = 24 };

struct rank_script { int rank; struct script *script; };

struct lesson {
    struct lesson_options options;
    struct lesson_head    head;
    bool                  begun;
    uint32_t              asked;      /* questions so far */
    char                  name[128], title[256], prefix[128];
    char                  exercise[128]; /* file of the one that is checked; "" none */
    pthread_mutex_t       mutex;      /* guards what follows */
    struct check_list     kept;
    char                 *shared;     /* message of the last error that all processes of the job raise; NULL: none */
    bool                  is_rank;    /* this process of a job is one as a whole, see lesson_becomes_rank */
    enum lesson_prints    prints;     /* of a process that is not the first; what it keeps: */
    struct early          early;
    bool                  print_silent;
    char                  print_prefix[40];  /* of each line of a print, while it is open */
    struct rank_script   *scripts;
    size_t                script_count, script_room;
    int                   checks, failed, skipped, write_error;
    struct sched         *sched;      /* whose run may say that the disk is full; NULL: none */
};

struct lesson *
lesson_new(const struct lesson_options *options)
{
    struct lesson *lesson = calloc(1, sizeof *lesson);
    if (lesson == NULL)
        return NULL;
    lesson->options = *options;
    snprintf(lesson->name, sizeof lesson->name, "%s", options->name != NULL ? options->name : "lesson");
    snprintf(lesson->prefix, sizeof lesson->prefix, "%.120s/", lesson->name);
    lesson->options.name = lesson->name;
    lesson->head = (struct lesson_head){ .title = lesson->title, .prefix = lesson->prefix,
                                         .has_seed = options->has_seed, .seed = options->seed,
                                         .world = options->world, .hops = options->hops,
                                         .check_ranks = options->check_ranks };
    if (pthread_mutex_init(&lesson->mutex, NULL) != 0) {
        free(lesson);
        return NULL;
    }
    return lesson;
}

void
lesson_free(struct lesson *lesson)
{
    if (lesson == NULL)
        return;
    check_list_free(&lesson->kept);
    free(lesson->shared);
    early_free(&lesson->early);
    free(lesson->scripts);
    pthread_mutex_destroy(&lesson->mutex);
    free(lesson);
}

const struct lesson_options *
lesson_options(const struct lesson *lesson)
{
    return &lesson->options;
}

void
lesson_runs_in(struct lesson *lesson, struct sched *sched)
{
    lesson->sched = sched;
    sched_set_part(sched, PART_LESSON, lesson);
}

struct lesson *
lesson_of(const struct task *me)
{
    return sched_part(me->sched, PART_LESSON);
}

const struct lesson_head *
lesson_head(const struct lesson *lesson)
{
    return &lesson->head;
}

int
lesson_failed(const struct lesson *lesson)
{
    return lesson->failed;
}

int
lesson_write_error(const struct lesson *lesson)
{
    return lesson->write_error;
}

/* ---- printing ---- */

/* All processes of a job run the lesson, but its own words are said by the first alone. */
static bool
is_silent(const struct lesson *lesson, int rank)
{
    return rank < 0 && lesson->options.process > 0;
}

/* The one way out of what a lesson says. The caller holds the mutex and has set errno to 0. */
static void
put_text(struct lesson *lesson, const char *text, size_t length)
{
    FILE *out = lesson->options.out;
    if (out != NULL && lesson->options.trusted)
        fwrite(text, 1, length, out);
    else if (out != NULL)
        visible_write(out, text, length, VISIBLE_LINES);
}

static void
note_write_error(struct lesson *lesson, bool written)
{
    if (!written && lesson->write_error == 0)
        lesson->write_error = errno != 0 ? errno : EIO;
}

/* The caller holds the mutex. Flushed at once, so that what was said before a hang can be read. */
static bool
put_line(struct lesson *lesson, struct str *text)
{
    FILE *out = lesson->options.out;
    bool ok = str_ok(text);
    if (ok && out != NULL && text->len > 0) {
        errno = 0;
        bool full = fault_fills_disk(lesson->sched);
        if (!full)
            put_text(lesson, text->text, text->len);
        note_write_error(lesson, !full && !ferror(out) && fflush(out) == 0);
    }
    str_free(text);
    return ok;
}

/* What nobody can be told of any more: the run ends as if its output could not be written. */
static void
lost(struct lesson *lesson)
{
    if (lesson->write_error == 0)
        lesson->write_error = ENOMEM;
}

/* "rank N: ", who speaks where a process is a rank as a whole; "" where a launcher says so before each line. */
static void
name_process(const struct lesson *lesson, char name[PROCESS_NAME])
{
    const struct job *job = lesson->sched != NULL ? job_of(lesson->sched) : NULL;
    name[0]               = '\0';
    if (lesson->options.process > 0 && (job == NULL || !job_is_launched(job)))
        snprintf(name, PROCESS_NAME, "rank %d: ", lesson->options.process);
}

/* Each line of the text behind "# " (TAP) and "rN: " (ranks) or "rank N: " (processes that are ranks as a whole). */
static void
add_lines(const struct lesson *lesson, struct str *out, int rank, const char *indent, const char *text)
{
    char process[PROCESS_NAME];
    name_process(lesson, process);
    do {
        size_t length = strcspn(text, "\n");
        if (lesson->options.tap)
            str_add(out, "# ");
        if (rank >= 0)
            str_addf(out, "r%d: ", rank);
        else
            str_add(out, process);
        str_add(out, indent);
        str_add_bytes(out, text, length);
        str_add(out, "\n");
        text += length + (text[length] == '\n');
    } while (*text != '\0');
}

static bool
narrate(struct lesson *lesson, struct str *text)
{
    if (lesson->options.quiet) {
        str_free(text);
        return true;
    }
    pthread_mutex_lock(&lesson->mutex);
    bool ok = put_line(lesson, text);
    pthread_mutex_unlock(&lesson->mutex);
    return ok;
}

/* A check's name on one line; "#" would begin a directive. */
static void
add_check_name(struct str *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '#' || *text == '\\')
            str_add(out, "\\");
        if (*text == '\n')
            str_add(out, "\\n");
        else
            str_add_bytes(out, text, 1);
    }
}

/* Appends a line to a text of fixed size; what does not fit is cut. */
static void
add_report_line(char *text, size_t size, const char *line)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used > 0 ? "\n" : "", line);
}

/* The caller holds the mutex. */
static void
report_check(struct lesson *lesson, const struct lesson_check *check)
{
    struct exercise_report *report = lesson->options.report;
    report->checks                 = lesson->checks;
    report->failed                 = lesson->failed;
    if (check->ok || lesson->failed > 1)
        return;
    snprintf(report->name, sizeof report->name, "%s", check->name);
    snprintf(report->detail, sizeof report->detail, "%s", check->detail != NULL ? check->detail : "");
    snprintf(report->hints, sizeof report->hints, "%s", check->hints != NULL ? check->hints : "");
}

/* The caller holds the mutex. */
static void
print_check(struct lesson *lesson, const struct lesson_check *check)
{
    struct str line = { 0 };
    lesson->checks++;
    lesson->failed += !check->ok;
    lesson->skipped += check->skip != NULL;
    if (lesson->options.report != NULL)
        report_check(lesson, check);
    if (lesson->options.report != NULL || lesson->options.process > 0 ||
        (lesson->options.quiet && !lesson->options.tap && check->ok))
        return;

    str_addf(&line, "%s %d - ", check->ok ? "ok" : "not ok", lesson->checks);
    add_check_name(&line, lesson->prefix);
    if (check->rank >= 0)
        str_addf(&line, "r%d: ", check->rank);
    add_check_name(&line, check->name);
    if (check->skip != NULL) {
        str_add(&line, " # SKIP ");
        add_check_name(&line, check->skip);
    }
    str_add(&line, "\n");
    if (!check->ok) {
        if (check->line > 0 && lesson->exercise[0] == '\0')
            str_addf(&line, "#   line %u of the lesson\n", (unsigned)check->line);
        for (const char *at = check->detail; at != NULL && *at != '\0';) {
            size_t length = strcspn(at, "\n");
            str_addf(&line, "#   %.*s\n", (int)length, at);
            at += length + (at[length] == '\n');
        }
        if (check->hints != NULL)
            str_addf(&line, "#   hint: %.*s\n", (int)strcspn(check->hints, "\n"), check->hints);
    }
    if (!put_line(lesson, &line))
        lost(lesson);
}

/* ---- exercises ---- */

void
lesson_examine(struct lesson *lesson, const char *name)
{
    pthread_mutex_lock(&lesson->mutex);
    snprintf(lesson->exercise, sizeof lesson->exercise, "%s", name);
    pthread_mutex_unlock(&lesson->mutex);
}

bool
lesson_examines(const struct lesson *lesson)
{
    return lesson->exercise[0] != '\0';
}

/* "01-six-rows.lua:12: TypeError: ...": where the message names no line of the exercise, the line of the checks. */
static void
add_forgiven(const struct lesson *lesson, const struct error *error, struct str *out)
{
    char place[140];
    snprintf(place, sizeof place, "%s:", lesson->exercise);
    if (strstr(error->message, place) == NULL && error->lesson_line > 0)
        str_addf(out, "line %u of the checks: ", (unsigned)error->lesson_line);
    str_addf(out, "%s%s%s", error->kind == E_SCRIPT ? "" : error_name(error->kind), error->kind == E_SCRIPT ? "" : ": ",
             error->message);
}

/* The steps are used up in the student's file: that is most likely a loop, and where it is told by the message. */
static void
report_endless(const struct lesson *lesson, const struct error *error)
{
    char place[140];
    snprintf(place, sizeof place, "%s:", lesson->exercise);
    const char *at = strstr(error->message, place);
    if (at != NULL && lesson->options.report != NULL && strstr(at, "steps of work") != NULL)
        lesson->options.report->endless = (int)strtol(at + strlen(place), NULL, 10);
}

bool
lesson_forgive(struct task *me, struct lesson *lesson)
{
    struct str detail = { 0 };
    if (lesson_examines(lesson) && me->error.kind == E_BUDGET)
        report_endless(lesson, &me->error);
    if (!lesson_examines(lesson) || me->error.kind == E_BUDGET || me->error.kind == E_STOPPED ||
        me->error.kind == E_MEMORY)
        return false;
    add_forgiven(lesson, &me->error, &detail);
    char name[160];
    snprintf(name, sizeof name, "%s runs", lesson->exercise);
    struct lesson_check check = { .rank = -1, .name = name, .detail = str_text(&detail) };
    bool                kept  = str_ok(&detail);
    if (kept)
        task_clear_error(me);
    kept = kept && lesson_check(me, lesson, &check);
    str_free(&detail);
    return kept;
}

/* ---- the lesson's own events ---- */

bool
lesson_begun(const struct lesson *lesson)
{
    return lesson->begun;
}

/* rs.lesson: its title, devices and seed. Once, before anything else. */
void
lesson_begin(struct task *me, struct lesson *lesson, const struct lesson_head *head)
{
    lesson->begun = true;
    snprintf(lesson->title, sizeof lesson->title, "%s", head->title);
    if (head->prefix != NULL)
        snprintf(lesson->prefix, sizeof lesson->prefix, "%s", head->prefix);
    lesson->head        = *head;
    lesson->head.title  = lesson->title;
    lesson->head.prefix = lesson->prefix;

    int64_t title = stage_text_id(me, lesson->title);
    POINT(me, lesson_begin, title, head->devices, (int64_t)head->seed);
}

/* rs.say: a sentence of narration. */
bool
lesson_say(struct task *me, struct lesson *lesson, int rank, const char *text)
{
    int64_t id = stage_text_id(me, text);
    POINT(me, lesson_say, id);
    if (is_silent(lesson, rank))
        return true;
    struct str out = { 0 };
    add_lines(lesson, &out, rank, "", text);
    return narrate(lesson, &out) || failed(me, E_MEMORY, "out of memory");
}

static void
print_prefix(struct lesson *lesson)
{
    if (!lesson->print_silent)
        put_text(lesson, lesson->print_prefix, strlen(lesson->print_prefix));
}

void
lesson_print_open(struct lesson *lesson, int rank)
{
    pthread_mutex_lock(&lesson->mutex);
    errno = 0;
    char process[PROCESS_NAME] = "";
    if (is_silent(lesson, rank))
        name_process(lesson, process);
    snprintf(lesson->print_prefix, sizeof lesson->print_prefix, "%s%s", lesson->options.tap ? "# " : "", process);
    lesson->print_silent = is_silent(lesson, rank) && lesson->prints != PRINTS_SHOWN;
    print_prefix(lesson);
}

void
lesson_print_text(struct lesson *lesson, const char *text, size_t length)
{
    const char *end = text + length, *newline;
    if (lesson->print_silent && lesson->prints == PRINTS_KEPT)
        early_add(&lesson->early, text, length);
    if (lesson->print_silent)
        return;
    while (lesson->print_prefix[0] != '\0' && (newline = memchr(text, '\n', (size_t)(end - text))) != NULL) {
        put_text(lesson, text, (size_t)(newline + 1 - text));
        print_prefix(lesson);
        text = newline + 1;
    }
    put_text(lesson, text, (size_t)(end - text));
}

void
lesson_print_close(struct lesson *lesson)
{
    if (lesson->print_silent)
        lesson_print_text(lesson, "\n", 1);
    else
        put_text(lesson, "\n", 1);
    if (!lesson->print_silent && lesson->options.process > 0 && lesson->options.out != NULL)
        fflush(lesson->options.out); /* so that it stands among the lines of the others where it belongs */
    bool full = lesson->options.out != NULL && fault_fills_disk(lesson->sched);
    note_write_error(lesson, !full && (lesson->options.out == NULL || !ferror(lesson->options.out)));
    pthread_mutex_unlock(&lesson->mutex);
}

void
lesson_set_prints(struct lesson *lesson, enum lesson_prints prints)
{
    pthread_mutex_lock(&lesson->mutex);
    struct early early = lesson->early;
    lesson->early      = (struct early){ 0 };
    lesson->prints     = prints;
    if (!str_ok(&early.text))
        lost(lesson);
    pthread_mutex_unlock(&lesson->mutex);
    if (prints == PRINTS_SHOWN && early.text.len > 0) {
        early_end(&early);
        lesson_print_open(lesson, -1);
        lesson_print_text(lesson, str_text(&early.text), early.text.len);
        lesson_print_close(lesson);
    }
    early_free(&early);
}

bool
lesson_note(struct lesson *lesson, int rank, const char *word, const char *text)
{
    struct str out = { 0 }, both = { 0 };
    if (lesson->options.report != NULL && strcmp(word, "hint") == 0) {
        pthread_mutex_lock(&lesson->mutex);
        add_report_line(lesson->options.report->hints, sizeof lesson->options.report->hints, text);
        pthread_mutex_unlock(&lesson->mutex);
        return true;
    }
    if (is_silent(lesson, rank) && !(lesson->is_rank && strcmp(word, "warning") == 0))
        return true;
    str_addf(&both, "[%s] %s", word, text);
    add_lines(lesson, &out, rank, "", str_text(&both));
    bool ok = str_ok(&both);
    str_free(&both);
    return narrate(lesson, &out) && ok;
}

/* rs.hint, once a check has failed. */
bool
lesson_hint(struct task *me, struct lesson *lesson, int rank, const char *text)
{
    int64_t id = stage_text_id(me, text);
    POINT(me, lesson_hint, id);
    return lesson_note(lesson, rank, "hint", text) || failed(me, E_MEMORY, "out of memory");
}

/* A line of what the trace knows of a question: a word and a text, whose own lines become one. */
static void
add_detail(struct str *out, const char *word, const char *text)
{
    str_addf(out, "%s%s ", out->len > 0 ? "\n" : "", word);
    for (; *text != '\0'; text++)
        str_add_bytes(out, *text == '\n' ? " " : text, 1);
}

/* "hides dp.scatter.chunk", then "choice 4" for each choice, "wrong IT IS NOT FOUR" behind the one that it is about. */
static void
add_details(struct str *out, const struct lesson_question *question)
{
    if (question->hides != NULL)
        add_detail(out, "hides", question->hides);
    for (int i = 0; i < question->choice_count; i++) {
        add_detail(out, "choice", question->choices[i].text);
        if (question->choices[i].wrong != NULL)
            add_detail(out, "wrong", question->choices[i].wrong);
    }
}

/* Headless, a question is answered by its own answer. */
bool
lesson_ask(struct task *me, struct lesson *lesson, struct lesson_question *question)
{
    struct str whole = { 0 }, details = { 0 }, out = { 0 };
    choices_shuffle(question->choices, question->choice_count, lesson->head.seed, lesson->asked++);
    str_add(&whole, question->question);
    for (int i = 0; i < question->choice_count; i++)
        str_addf(&whole, "%s%c) %s", i == 0 ? "  " : "   ", 'a' + i % 26, question->choices[i].text);
    add_details(&details, question);
    if (!str_ok(&whole) || !str_ok(&details)) {
        str_free(&whole);
        str_free(&details);
        return failed(me, E_MEMORY, "out of memory");
    }
    int64_t asked   = stage_text_id(me, str_text(&whole));
    int64_t answer  = stage_text_id(me, question->answer);
    int64_t choices = stage_text_id(me, str_text(&details));
    int64_t why     = stage_text_id(me, question->why != NULL ? question->why : "");
    str_free(&details);
    POINT(me, lesson_ask, asked, answer, choices, why);
    if (is_silent(lesson, -1)) {
        str_free(&whole);
        return true;
    }

    add_lines(lesson, &out, -1, "? ", str_text(&whole));
    add_lines(lesson, &out, -1, "  -> ", question->answer);
    if (question->why != NULL)
        add_lines(lesson, &out, -1, "     ", question->why);
    str_free(&whole);
    return narrate(lesson, &out) || failed(me, E_MEMORY, "out of memory");
}

/* ---- checks ---- */

/* rs.check, rs.close: one check, and whether it holds. */
bool
lesson_check(struct task *me, struct lesson *lesson, const struct lesson_check *check)
{
    const char *told   = check->skip != NULL ? check->skip : check->ok ? NULL : check->detail;
    const char *helps  = check->ok ? NULL : check->hints;
    int64_t     text   = stage_text_id(me, check->name);
    int64_t     detail = stage_text_id(me, told != NULL ? told : "");
    int64_t     hints  = stage_text_id(me, helps != NULL ? helps : "");
    POINT(me, lesson_check, text, check->ok, detail, hints);
    bool                ok  = true;
    struct lesson_check own = *check;
    if (is_silent(lesson, check->rank) && lesson->is_rank)
        own.rank = lesson->options.process;
    pthread_mutex_lock(&lesson->mutex);
    if (own.rank < 0)
        print_check(lesson, &own);
    else
        ok = check_list_add(me->sched, &lesson->kept, &own);
    pthread_mutex_unlock(&lesson->mutex);
    return ok || memory_failed(me, check_bytes(check), "the host");
}

void
lesson_join(struct task *me, struct lesson *lesson)
{
    pthread_mutex_lock(&lesson->mutex);
    check_list_sort(&lesson->kept);
    for (size_t i = 0; i < lesson->kept.count; i++)
        print_check(lesson, &lesson->kept.checks[i].check);
    check_list_clear(me->sched, &lesson->kept);
    pthread_mutex_unlock(&lesson->mutex);
}

/* ---- between the processes of a job ---- */

void
lesson_becomes_rank(struct lesson *lesson)
{
    pthread_mutex_lock(&lesson->mutex);
    lesson->is_rank = true;
    pthread_mutex_unlock(&lesson->mutex);
}

bool
lesson_is_rank(const struct lesson *lesson)
{
    return lesson->is_rank;
}

void
lesson_share_error(struct lesson *lesson, const struct error *error)
{
    pthread_mutex_lock(&lesson->mutex);
    free(lesson->shared);
    lesson->shared = strdup(error->message); /* without memory it is told once more */
    pthread_mutex_unlock(&lesson->mutex);
}

bool
lesson_is_told(const struct lesson *lesson, const struct error *error)
{
    return lesson->options.process > 0 && lesson->shared != NULL && strcmp(lesson->shared, error->message) == 0;
}

void
lesson_write_checks(struct task *me, struct lesson *lesson, struct str *out)
{
    pthread_mutex_lock(&lesson->mutex);
    check_list_write(&lesson->kept, out);
    check_list_clear(me->sched, &lesson->kept);
    pthread_mutex_unlock(&lesson->mutex);
}

bool
lesson_read_checks(struct task *me, struct lesson *lesson, struct reader *in)
{
    pthread_mutex_lock(&lesson->mutex);
    bool ok = check_list_read(me->sched, &lesson->kept, in);
    pthread_mutex_unlock(&lesson->mutex);
    return ok || failed(me, E_MEMORY, "out of memory for the checks of other ranks");
}

static void
add_all_hold(const struct lesson *lesson, struct str *out)
{
    if (lesson->checks == 1)
        str_addf(out, "1 check %s\n", lesson->skipped > 0 ? "was skipped" : "holds");
    else if (lesson->skipped == lesson->checks)
        str_addf(out, "all %d checks were skipped\n", lesson->checks);
    else
        str_addf(out, "all %d checks hold%s\n", lesson->checks, lesson->skipped > 0 ? " (or were skipped)" : "");
}

/* An early end prints no plan: whoever reads the TAP sees that checks are missing. */
void
lesson_end(struct task *me, struct lesson *lesson, bool completed)
{
    if (lesson->is_rank)
        lesson_gather(me, lesson, completed);
    if (lesson->prints == PRINTS_KEPT)
        lesson_set_prints(lesson, PRINTS_SHOWN); /* it never spawned: it was a rank of its own */
    lesson_join(me, lesson);
    POINT(me, lesson_end, lesson->checks, lesson->failed);
    struct str out = { 0 };
    if (lesson->options.report != NULL)
        lesson->options.report->completed = completed;
    else if (lesson->options.process > 0)
        completed = false; /* the first one says it */
    else if (completed && lesson->options.tap)
        str_addf(&out, "1..%d\n", lesson->checks);
    else if (completed && lesson->checks > 0 && lesson->failed > 0)
        str_addf(&out, "%d of %d checks failed\n", lesson->failed, lesson->checks);
    else if (completed && lesson->checks > 0 && !lesson->options.quiet)
        add_all_hold(lesson, &out);
    pthread_mutex_lock(&lesson->mutex);
    if (!put_line(lesson, &out))
        lost(lesson);
    pthread_mutex_unlock(&lesson->mutex);
}

/* ---- scripts by rank ---- */

bool
lesson_add_script(struct lesson *lesson, int rank, struct script *script)
{
    pthread_mutex_lock(&lesson->mutex);
    bool ok = vec_room(&lesson->scripts, &lesson->script_room, lesson->script_count + 1, sizeof *lesson->scripts);
    if (ok)
        lesson->scripts[lesson->script_count++] = (struct rank_script){ rank, script };
    pthread_mutex_unlock(&lesson->mutex);
    return ok;
}

void
lesson_remove_script(struct lesson *lesson, struct script *script)
{
    pthread_mutex_lock(&lesson->mutex);
    for (size_t i = 0; i < lesson->script_count; i++) {
        if (lesson->scripts[i].script == script) {
            lesson->scripts[i] = lesson->scripts[--lesson->script_count];
            break;
        }
    }
    pthread_mutex_unlock(&lesson->mutex);
}

struct script *
lesson_script(struct lesson *lesson, int rank)
{
    struct script *found = NULL;
    pthread_mutex_lock(&lesson->mutex);
    for (size_t i = 0; i < lesson->script_count; i++)
        if (lesson->scripts[i].rank == rank)
            found = lesson->scripts[i].script;
    pthread_mutex_unlock(&lesson->mutex);
    return found;
}
