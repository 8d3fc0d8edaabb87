/* ringside run: builds what a lesson needs (trace, prices, executor, script), runs it, says how it ended.
 *
 * Interface: cli_run, run_lesson, lesson_precheck. As `python lesson.py` would. */
#include "cli/run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/map.h"
#include "base/reader.h"
#include "base/runtime_folder.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "c10d/job.h"
#include "cli/commands.h"
#include "cli/course.h"
#include "cli/job_start.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/trial.h"
#include "cli/watch.h"
#include "device/device.h"
#include "c10d/nccl.h"
#include "device/load.h"
#include "hw/cost.h"
#include "lua/lesson.h"
#include "lua/script.h"
#include "sched/chooser.h"
#include "sched/debugger.h"
#include "sched/sched.h"
#include "tensor/blas.h"
#include "tensor/tensor.h"
#include "trace/clock.h"
#include "trace/writer.h"

enum { LESSON_BYTES = 16 << 20, SCHEDULE_BYTES = 64 << 20, LIMIT_SECONDS = 60 };
static const size_t MEMORY_LIMIT = (size_t)1 << 30;
static const double WORK_LIMIT   = 1e9;    /* steps, see sched/account.h */

struct lesson_run {
    const struct run_options *options;
    struct debugger          *debugger;
    char                     *text;         /* the lesson */
    size_t                    size;
    const char               *path;         /* as it stands in the trace: the same from any folder */
    char                      name[128];    /* "01-six-rows" */
    struct cost_model         cost;
    struct trace_writer      *writer;
    struct sched             *sched;
    struct schedule           schedule;     /* --policy FILE */
    struct choosing           choosing;
    struct fault_plan         faults;
    struct watch              watch;
    struct blas               blas;
    bool                      fast;         /* products need not be exact: blas says what the host has for them */
    struct lesson            *lesson;
    const char               *trace;        /* its file; NULL: in memory */
    char                      trace_room[PATH_MAX];
    struct runtime_folder     folder;       /* for a trace that only the other processes of the job read */
    struct job               *job;          /* this process is one of it; NULL: it is alone */
    struct error              error;
    int                       status;
    bool                      finished;
    bool                      told;         /* why it failed */
    struct chosen             chosen;       /* of the schedule, what was done; last, as its steps would follow */
};

/* ---- what the lesson runs in ---- */

/* "lessons/01-six-rows.lua" -> "01-six-rows.lua" and "01-six-rows". */
static void
name_lesson(struct lesson_run *run)
{
    const char *path  = run->options->lesson;
    const char *slash = strrchr(path, '/');
    const char *base  = slash != NULL ? slash + 1 : path;
    size_t      length = strlen(base);
    if (length > 4 && strcmp(base + length - 4, ".lua") == 0)
        length -= 4;
    snprintf(run->name, sizeof run->name, "%.*s", (int)(length < 120 ? length : 120), base);
    run->path = lesson_file_name(path);
}

static bool
read_lesson(struct lesson_run *run)
{
    const char *why = NULL;
    run->text       = file_read(run->options->lesson, LESSON_BYTES, &run->size, &why);
    if (run->text != NULL)
        return true;
    run->status = message(STATUS_USAGE, "%.1000s: %s", run->options->lesson, why);
    return false;
}

static bool
policy_is_file(const char *policy)
{
    static const char *const names[] = { "order", "random", "round-robin" };
    for (size_t i = 0; policy != NULL && i < countof(names); i++)
        if (strcmp(policy, names[i]) == 0)
            return false;
    return policy != NULL;
}

/* Of --policy FILE; false: it cannot be read, or is another lesson's. */
static bool
read_schedule(struct lesson_run *run)
{
    const char *path = run->options->policy, *reason = NULL;
    size_t      size = 0;
    char        why[300];
    if (!policy_is_file(path))
        return true;
    char *text = file_read(path, SCHEDULE_BYTES, &size, &reason);
    if (text == NULL || !schedule_read(&run->schedule, text, why, sizeof why)) {
        run->status = message(STATUS_USAGE, "%.1000s: %s", path, text == NULL ? reason : why);
        free(text);
        return false;
    }
    free(text);
    run->choosing = (struct choosing){ .schedule = &run->schedule, .chosen = &run->chosen };
    if (strcmp(run->schedule.lesson, run->name) == 0 || run->schedule.lesson[0] == '\0')
        return true;
    run->status = message(STATUS_USAGE, "%.1000s is a schedule of the lesson %s, not of %s", path, run->schedule.lesson,
                          run->name);
    return false;
}

/* The run is over: was it the one that was meant? */
static void
check_schedule(const struct lesson_run *run)
{
    const struct chosen *chosen = &run->chosen;
    if (chosen->misfit[0] != '\0')
        message(0, "%s does not fit this lesson: %s", run->options->policy, chosen->misfit);
    else if (chosen->used < run->schedule.count)
        message(0, "%s does not fit this lesson: %zu of its %zu switches were never reached", run->options->policy,
                run->schedule.count - chosen->used, run->schedule.count);
}

/* Before there is a second thread, as blas_open wants it. GPUs have a library of their own, whatever the host lacks. */
static bool
open_products(struct lesson_run *run)
{
    const char *device = run->options->device;
    if (run->options->executor == EXECUTOR_FREE && !run->options->exact)
        run->fast = blas_open(&run->blas) || (device != NULL && strcmp(device, "cpu") != 0);
    if (run->blas.refused != NULL)
        message(0, "%s", run->blas.refused);
    return true;
}

/* Those of the command line, of the schedule and of explore. */
static bool
plan_faults(struct lesson_run *run)
{
    const struct run_options *o  = run->options;
    bool                      ok = true;
    for (size_t i = 0; ok && i < o->fault_count; i++)
        ok = fault_plan_add(&run->faults, &o->faults[i]);
    for (size_t i = 0; ok && i < run->schedule.faults.count; i++)
        ok = fault_plan_add(&run->faults, &run->schedule.faults.faults[i]);
    for (size_t i = 0; ok && o->trial != NULL && i < o->trial->fault_count; i++)
        ok = fault_plan_add(&run->faults, &o->trial->faults[i]);
    if (!ok)
        run->status = message(STATUS_FAILED, "out of memory");
    return ok;
}

static void
record_faults(struct trace_writer *writer, const struct fault_plan *plan)
{
    struct str text = { 0 };
    for (size_t i = 0; i < plan->count; i++) {
        str_add(&text, i > 0 ? "; " : "");
        fault_print(&plan->faults[i], &text);
    }
    if (plan->count > 0)
        trace_option(writer, "faults", str_text(&text));
    str_free(&text);
}

static bool
open_trace(struct lesson_run *run)
{
    const struct run_options *options = run->options;
    bool                      free_running = options->executor == EXECUTOR_FREE;
    run->trace = job_trace_path(options, run->job, &run->folder, run->trace_room);
    struct trace_options      trace = { .path = run->trace, .prepare = free_running, .hash = options->hash,
                                        .clock = free_running ? trace_wall_clock() : CLOCK_VIRTUAL_PS };
    char                      why[300];
    run->writer = trace_create(&trace, why, sizeof why);
    if (run->writer == NULL) {
        run->status = message(STATUS_USAGE, "%s", why);
        return false;
    }
    trace_option(run->writer, "lesson", run->name);
    trace_option(run->writer, "executor", free_running ? "free" : "stepped");
    if (!free_running)
        trace_option(run->writer, "policy", policy_is_file(options->policy) ? "schedule"
                                            : options->policy != NULL     ? options->policy : "order");
    if (options->has_seed) {
        char seed[24];
        snprintf(seed, sizeof seed, "%llu", (unsigned long long)options->seed);
        trace_option(run->writer, "policy seed", seed);
    }
    record_faults(run->writer, &run->faults);
    trace_source(run->writer, run->path, run->text);
    return true;
}

static bool
make_lesson(struct lesson_run *run)
{
    const struct run_options *o = run->options;
    struct lesson_options     options = { .name = run->name, .path = o->lesson, .out = stdout, .tap = o->tap,
                                          .quiet = o->quiet, .teacher = o->teacher, .trusted = o->trust,
                                          .hardware = o->hardware, .report = o->report,
                                          .has_seed = o->has_seed, .seed = o->seed, .world = (int)o->world,
                                          .hops = o->hops, .check_ranks = o->check_ranks,
                                          .trace = run->trace,
                                          .process = run->job != NULL ? job_rank(run->job) : 0 };
    run->lesson = lesson_new(&options);
    if (run->lesson == NULL)
        run->status = message(STATUS_FAILED, "out of memory");
    return run->lesson != NULL;
}

static double
limit_seconds(const struct run_options *options)
{
    return options->limit_seconds > 0 ? options->limit_seconds : LIMIT_SECONDS;
}

/* Who gives a lesson more time gives it more work; less time is told by the clock alone, so that the account's answer
 * stays the same. */
static uint64_t
work_limit(const struct run_options *options)
{
    double seconds = limit_seconds(options);
    return (uint64_t)(WORK_LIMIT * (seconds > LIMIT_SECONDS ? seconds / LIMIT_SECONDS : 1));
}

static bool
make_sched(struct lesson_run *run)
{
    const struct run_options *o = run->options;
    struct sched_options      options = { .executor = o->executor, .writer = run->writer, .cost = &run->cost,
                                          .policy = policy_is_file(o->policy) ? NULL : o->policy, .seed = o->seed,
                                          .choosing = trial_choosing(o->trial),
                                          .timeout_ps = (uint64_t)(o->timeout * 1e12) };
    char                      why[300];
    options.faults       = &run->faults;
    if (policy_is_file(o->policy))
        options.choosing = &run->choosing;
    options.count_faults = trial_counts_faults(o->trial);
    if (!o->trust) {
        options.memory_limit = MEMORY_LIMIT;
        options.work_limit   = trial_work_limit(o->trial, work_limit(o));
    }
    if (!cost_preset(&run->cost, o->hardware != NULL ? o->hardware : "classroom")) {
        run->status = message(STATUS_USAGE, "unknown hardware '%s'", o->hardware);
        return false;
    }
    run->sched = sched_new(&options, why, sizeof why);
    if (run->sched == NULL) {
        run->status = message(STATUS_FAILED, "%s", why);
        return false;
    }
    lesson_runs_in(run->lesson, run->sched);
    lesson_names_tensors(run->sched);
    sched_set_part(run->sched, PART_JOB, run->job);
    if (run->fast)
        blas_use(run->sched, &run->blas);
    return true;
}

/* ---- the lesson's own task ---- */

/* What a lesson raised itself needs no kind: it is its own text. One line beside TAP. */
static void
tell_error(const struct lesson_run *run, const struct error *error)
{
    char           who[24]  = "";
    struct failure failure  = { run->options->lesson, error->lesson_line,
                                error->kind == E_SCRIPT ? "" : error_name(error->kind), who, error->message };
    bool names_all = error_is_of_hang(error);
    if (run->job != NULL && lesson_is_rank(run->lesson) && !names_all)
        snprintf(who, sizeof who, "rank %d: ", job_rank(run->job));
    if (run->options->report != NULL && run->options->report->endless > 0)
        return; /* told with the report */
    if (lesson_is_told(run->lesson, error))
        return;
    if (run->options->trial != NULL)
        trial_fail(run->options->trial, error);
    else
        message_failure(&failure, run->options->tap);
}

static bool
seed_generator(struct task *me, const struct run_options *options)
{
    if (!options->has_seed)
        return true;
    struct generator *generator = default_generator(me);
    if (generator != NULL)
        generator_seed(generator, options->seed);
    return generator != NULL;
}

/* Who plans a fault beyond the run's end believes that the lesson has survived it. Of a job no process knows: one that
 * did not strike here may have struck in another. */
static void
tell_unstruck(struct sched *sched, const struct job *job)
{
    if (job != NULL && job_size(job) > 1)
        return;
    struct str text = { 0 };
    for (size_t next = 0; fault_unstruck(sched, &next, &text); str_clear(&text))
        message(0, "%s", str_text(&text));
    str_free(&text);
}

/* Whoever is told that this process goes may end it: it has said by then why. */
static void
leave_job(struct task *me, struct lesson_run *run, bool ok)
{
    if (!ok) {
        job_note_error(run->job, &run->error); /* the launcher names the first that failed */
        lesson_compare_error(me, run->lesson);
        tell_error(run, &run->error);
    }
    run->told = !ok;
    job_leave(me, run->job, &run->error);
}

static bool
use_devices(struct task *me, const struct run_options *o)
{
    struct backend_why           why;
    const struct device_backend *backend = device_backend_open(o->device != NULL ? o->device : "cpu", &why);
    return backend != NULL ? devices_use(me, backend) : failed(me, E_DEVICE, "--device %s: %s", o->device, why.text);
}

static bool
run_script(struct task *me, struct lesson_run *run)
{
    const struct run_options *o = run->options;
    struct script_options     options = { .trusted = o->trust, .seed = o->seed, .out = stdout, .variant = o->variant,
                                          .arg_count = o->arg_count, .args = o->args };
    if (!use_devices(me, o) || !devices_ready(me, 0) || !seed_generator(me, o) ||
        (o->backend != NULL && strcmp(o->backend, "nccl") == 0 && !nccl_begin(me, NULL)))
        return false;
    struct script *script = script_new(me, &options);
    if (script == NULL)
        return false;
    bool ok = lesson_add_script(run->lesson, -1, script) || failed(me, E_MEMORY, "out of memory");
    ok      = ok && script_run_text(me, script, o->lesson, run->text, run->size);

    ok          = ok || lesson_forgive(me, run->lesson);
    run->error  = me->error;
    run->status = !ok ? error_exit_status(&me->error) : lesson_failed(run->lesson) > 0 ? STATUS_CHECK : STATUS_DONE;
    if (sched_has_faults(me->sched))
        fault_point(me); /* what the last words met is told before the end */
    if (o->fault_count > 0 && o->trial == NULL && run->debugger == NULL)
        tell_unstruck(me->sched, run->job);
    if (ok)
        script_is_over(me, script);
    lesson_end(me, run->lesson, ok);
    if (ok && lesson_failed(run->lesson) > 0)
        run->status = STATUS_CHECK; /* checks that ranks had kept */
    run->finished = true;
    atomic_store(&run->watch.lesson_over, true);
    if (!ok && run->error.kind == E_BUDGET)
        sched_stop(me->sched, E_BUDGET, run->error.message); /* what streams have queued is computed for nobody */
    if (run->debugger != NULL)
        debugger_finished(run->debugger, me, run->status);
    lesson_remove_script(run->lesson, script);
    script_free(me, script);
    nccl_end(me);
    if (run->job != NULL)
        leave_job(me, run, ok);
    return ok;
}

static bool
lesson_task(struct task *me, void *argument)
{
    return run_script(me, argument);
}

/* ---- the end ---- */

static void
close_trace(struct lesson_run *run)
{
    const char *warning = trace_warning(run->writer);
    uint32_t    hash;
    bool        whole = trace_hash(run->writer, &hash);
    if (warning != NULL && (run->options->trace != NULL || run->status < STATUS_USAGE))
        message(0, "%s", warning); /* who was told of an error misses no record that he did not ask for */
    trace_close(run->writer);
    if (run->options->hash && whole)
        hash_line(hash, run->options->executor != EXECUTOR_FREE);
    else if (run->options->hash)
        run->status = message(run->status < STATUS_USAGE ? STATUS_FAILED : run->status,
                              "no hash: out of memory for what the trace had no room for");
}

/* Output that nobody reads any more (EPIPE) is no fault of the run. */
static void
check_output(struct lesson_run *run)
{
    int error = lesson_write_error(run->lesson);
    if (error == ENOMEM && run->status >= STATUS_USAGE)
        error = 0; /* what ended the run was told; this came of it */
    if (fflush(stdout) != 0 && error == 0)
        error = errno;
    if (error != 0 && error != EPIPE)
        run->status = message(STATUS_USAGE, "cannot write standard output: %s", strerror(error));
}

static void
execute(struct lesson_run *run)
{
    const struct run_options *options = run->options;
    struct error        error  = { 0 };
    char                words[240];
    struct watch_limits limits = { .signals = run->debugger == NULL && options->trial == NULL };
    if (!options->trust) {
        limits.cpu_seconds = limit_seconds(options);
        limits.memory      = MEMORY_LIMIT / 5 * 6; /* with what no account sees: libraries, stacks, malloc's own */
    }
    if (run->debugger != NULL)
        debugger_attach(run->debugger, run->sched);
    trial_begin(options->trial);
    watch_start(&run->watch, run->sched, &limits);
    bool ok = sched_run(run->sched, lesson_task, run, &error);
    watch_end(&run->watch);
    if (policy_is_file(options->policy))
        check_schedule(run);
    if (!ok) {
        if (!run->finished || run->status == STATUS_DONE)
            run->status = error_exit_status(&error);
        if (!run->told)
            tell_error(run, run->finished && run->error.kind != E_NONE ? &run->error : &error);
    }
    if (devices_finish(run->sched, words, sizeof words))
        message(0, "%s", words);
    devices_free(run->sched);
    if (options->trial != NULL)
        trial_end(options->trial, run->sched, run->status);
}

/* What is no Lua takes no older trace's name and gives nothing to step through: it runs as far as its message. */
static void
check_syntax(struct lesson_run *run, struct run_options *without_trace)
{
    if (script_compiles(run->text, run->size))
        return;
    *without_trace       = *run->options;
    without_trace->trace = NULL;
    run->options         = without_trace;
    run->debugger        = NULL;
}

/* An exercise's file declares no lesson and returns a table of answers: run by itself it says nothing. */
static void
tell_exercise(const char *name)
{
    char   checks[160], found[NAME_MAX + 1];
    size_t length = strlen(name);
    snprintf(checks, sizeof checks, "checks/%s", name);
    if (course_has(checks, found, sizeof found) && strncmp(found, name, length) == 0 && strchr(".", found[length]))
        message(0, "%s is an exercise's file, which only returns answers: 'ringside exercise %.*s' checks them", name,
                (int)strcspn(name, "-"), name);
}

static int
run_in_job(const struct run_options *options, struct debugger *debugger, struct job *job)
{
    struct run_options without_trace;
    struct lesson_run  run = { .options = options, .debugger = debugger, .job = job, .status = STATUS_FAILED };
    name_lesson(&run);
    bool read = read_lesson(&run);
    if (read)
        check_syntax(&run, &without_trace);
    debugger = run.debugger;
    if (read && read_schedule(&run) && plan_faults(&run) && open_products(&run) && open_trace(&run) &&
        make_lesson(&run) && make_sched(&run)) {
        struct debugger_names names = lesson_names(run.lesson);
        if (debugger != NULL)
            debugger_set_names(debugger, &names);
        signal(SIGPIPE, SIG_IGN);
        execute(&run);
        check_output(&run);
        if (run.status == STATUS_DONE && lesson_head(run.lesson)->title[0] == '\0')
            tell_exercise(run.name);
    }
    job_close(job);
    sched_free(run.sched);
    lesson_free(run.lesson);
    if (run.writer != NULL)
        close_trace(&run);
    runtime_folder_remove(&run.folder);
    schedule_free(&run.schedule);
    fault_plan_free(&run.faults);
    free(run.text);
    return run.status;
}

int
run_lesson(const struct run_options *options, struct debugger *debugger)
{
    return run_in_job(options, debugger, NULL);
}

int
lesson_precheck(const struct run_options *options)
{
    struct lesson_run run  = { .options = options };
    bool              read = read_lesson(&run), compiles = read && script_compiles(run.text, run.size);
    free(run.text);
    if (!read)
        return run.status;
    return compiles ? -1 : run_lesson(options, NULL);
}

int
cli_run(int argc, char **argv)
{
    struct run_options options;
    struct job_start   start  = { .job = NULL };
    int                status = options_parse(argc, argv, OPTION_RUN, &options);
    if (status < 0)
        status = lesson_choose(argv[0], &options);
    if (status < 0)
        status = job_start(&options, &start);
    if (start.job != NULL)
        setvbuf(stdout, NULL, _IOLBF, 0); /* a launcher's pipe, too: what was said is out if this process is killed */
    if (status < 0)
        status = run_in_job(&options, NULL, start.job);
    job_free(start.job);
    return status;
}

int
run_in_session(void *context, int fd, const char *trace, const struct debugger_edit *edits, size_t edit_count)
{
    struct run_options options = *(const struct run_options *)context;
    options.trace              = trace;
    struct debugger *debugger  = debugger_new(fd, edits, edit_count);
    if (debugger == NULL)
        return message(STATUS_FAILED, "out of memory");
    int status = run_lesson(&options, debugger);
    debugger_free(debugger);
    return status;
}
