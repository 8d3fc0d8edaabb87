/* ringside bench: the groups, their options, and how a line is printed. Ratios taken in one run are what counts:
 * absolute figures move with the machine. */
#include "cli/bench.h"
#include "cli/bench_job.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/place.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"
#include "c10d/job.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "tensor/blas.h"

static const struct group {
    const char *name;
    bool      (*run)(const struct bench_options *options);
    const char *help, *cases; /* the names of its cases, a blank between them */
} groups[] = {
    { "trace_cost", bench_trace_cost, "what an event costs, and steps with events and without",
      "stage-event virtual-time disabled-branch page-preparation embed6 mlp64 tfm8x64" },
    { "train_step", bench_train_step, "training steps, one thread, from C and Lua",
      "embed6 embed384 mlp64 mlp512 cnn64 tfm8x64 lstm32x32" },
    { "dp_step", bench_dp_step, "training steps bare and through DataParallel on 1, 2 and 4 devices, by turns",
      "embed6 mlp64 mlp512" },
    { "ddp_step", bench_ddp_step, "training steps through DDP, the same without communication, and that alone",
      "embed6-w2-cap1 embed6-w2-cap25 embed6-w4-cap1 embed6-w4-cap25 embed384-w2-cap1 embed384-w2-cap25 "
      "embed384-w4-cap1 embed384-w4-cap25 mlp64-w2-cap1 mlp64-w2-cap25 mlp64-w4-cap1 mlp64-w4-cap25 "
      "mlp512-w2-cap1 mlp512-w2-cap25 mlp512-w4-cap1 mlp512-w4-cap25 mlpwide64-w2-cap1 mlpwide64-w2-cap25 "
      "mlpwide64-w4-cap1 mlpwide64-w4-cap25" },
    { "allreduce", bench_allreduce, "all-reduces between threads: shared memory, ring and tree, time and touched",
      "allreduce-w2-1024 allreduce-w2-4096 allreduce-w2-16384 allreduce-w2-65536 allreduce-w2-262144 "
      "allreduce-w2-1048576 allreduce-w2-4194304 allreduce-w2-16777216 allreduce-w2-67108864 "
      "allreduce-w4-1024 allreduce-w4-4096 allreduce-w4-16384 allreduce-w4-65536 allreduce-w4-262144 "
      "allreduce-w4-1048576 allreduce-w4-4194304 allreduce-w4-16777216 allreduce-w4-67108864" },
    { "device_step", bench_device_step, "work on a device: launches, elements, copies, products, steps, all-reduces",
      "launch elementwise copy mm4096 mlp64 allreduce ddp" },
    { "sim_allreduce", bench_sim_allreduce, "messages that the stepped executor moves in a second of CPU time",
      "ring-8 ring-64 ring-256 ring-1024" },
    { "viewer_open", bench_viewer_open, "traces of one and ten million events: the first frame, and all of it as text",
      "first-frame-1M text-1M first-frame-10M" },
    { "switch", bench_switch, "handing over between tasks of the stepped executor",
      "tasks-2 tasks-8 tasks-64 tasks-512" },
};

double
bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool
bench_has_world(const struct bench_options *options, int ranks)
{
    return options->job == NULL || job_size(options->job->job) == ranks;
}

bool
bench_is_silent(const struct bench_options *options)
{
    return options->job != NULL && job_rank(options->job->job) > 0;
}

bool
bench_wants(const struct bench_options *options, const char *name)
{
    return options->only_case == NULL || strcmp(options->only_case, name) == 0;
}

static int
by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void
bench_report(const struct bench_options *options, const struct bench_line *line)
{
    if (bench_is_silent(options))
        return;
    qsort(line->samples, (size_t)line->count, sizeof *line->samples, by_size);
    double middle = line->samples[line->count / 2], least = line->samples[0], most = line->samples[line->count - 1];
    if (options->json)
        printf("{\"bench\": \"%s\", \"impl\": \"%s\", \"case\": \"%s\", \"threads\": %d, \"metric\": \"%s\", "
               "\"unit\": \"%s\", \"n\": %d, \"min\": %.9g, \"median\": %.9g, \"max\": %.9g, \"check\": \"%s\"%s}\n",
               line->bench, line->impl, line->name, line->threads, line->metric, line->unit, line->count, least, middle,
               most, line->ok ? "ok" : "FAIL", line->extra);
    else
        printf("%-14s%-18s%-24s%-16s%10.4g%10.4g%10.4g %-6s%s\n", line->bench, line->impl, line->name, line->metric,
               least, middle, most, line->unit, line->ok ? "ok" : "FAIL");
    fflush(stdout);
}

static void
cpu_name(char *out, size_t size)
{
    char  line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(out, size, "unknown");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        snprintf(out, size, "%s", colon + 2);
        out[strcspn(out, "\n")] = '\0';
        break;
    }
    if (file != NULL)
        fclose(file);
}

static void
print_environment(const struct bench_options *options, const char *bench)
{
    char        cpu[128], products[128];
    double      load = 0;
    struct blas blas;
    if (bench_is_silent(options))
        return;
    if (options->job != NULL)
        blas = *options->job->blas;
    else
        blas_open(&blas);
    blas_describe(&blas, products, sizeof products);
    if (blas.warning[0] != '\0')
        message(0, "bench: %s", blas.warning);
    cpu_name(cpu, sizeof cpu);
    if (getloadavg(&load, 1) != 1)
        load = -1;
    if (options->json)
        printf("{\"bench\": \"%s\", \"environment\": {\"cpu\": \"", bench);
    else
        fputs("# ", stdout);
    visible_write(stdout, cpu, strlen(cpu), options->json ? VISIBLE_JSON : VISIBLE_LINE);
    if (options->json)
        printf("\", \"blas\": \"%s\", \"compiler\": \"%s\"}, \"load1\": %.2f}\n", products, __VERSION__, load);
    else
        printf("; products: %s; compiler %s; load %.2f\n", products, __VERSION__, load);
}

/* Its name, what it measures, its cases in lines that fit. */
static void
print_group_help(const struct group *group)
{
    enum { INDENT = 15, WIDTH = 100 };
    size_t used = WIDTH;
    printf("  %-12s %s:", group->name, group->help);
    for (const char *at = group->cases; *at != '\0';) {
        size_t length = strcspn(at, " ");
        bool   fits   = used + 1 + length <= WIDTH;
        if (fits)
            putchar(' ');
        else
            printf("\n%*s", INDENT, "");
        printf("%.*s", (int)length, at);
        used = (fits ? used + 1 : INDENT) + length;
        at += length + (at[length] == ' ');
    }
    putchar('\n');
}

static void
print_bench_help(void)
{
    printf("usage: ringside bench [GROUP...] [--case CASE] [--threads T] [--backend B [--world N]]"
           " [--device KIND]\n                      [--quick] [--json]\n\n"
           "Measures; columns are least, median and most of the samples, and whether the result was verified.\n\n");
    for (size_t i = 0; i < countof(groups); i++)
        print_group_help(&groups[i]);
    printf("\n  --case CASE  this case only      --threads T  cases of T threads only\n"
           "  --quick      fewer repetitions   --json       JSON Lines, as a comparison wants them\n"
           "  --backend B  mpi or gloo: allreduce and ddp_step between processes, which this starts,\n"
           "               worlds of 2 and of 4\n"
           "  --world N    with it: of N ranks only\n"
           "  --device K   of device_step: cpu, virtual devices; cuda, GPUs\n");
}

static const struct group *
find_group(const char *name)
{
    for (size_t i = 0; i < countof(groups); i++)
        if (strcmp(groups[i].name, name) == 0)
            return &groups[i];
    return NULL;
}

static bool
has_case(const struct group *group, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = group->cases; length > 0 && *at != '\0';) {
        size_t word = strcspn(at, " ");
        if (word == length && strncmp(at, name, word) == 0)
            return true;
        at += word + (at[word] == ' ');
    }
    return false;
}

/* A case that none of the wanted groups has; every group is wanted if none is named. -1: go on. */
static int
refuse_case(const char *name, const bool wanted[], bool any)
{
    struct str cases = { 0 };
    for (size_t i = 0; i < countof(groups); i++) {
        if (any && !wanted[i])
            continue;
        if (has_case(&groups[i], name)) {
            str_free(&cases);
            return -1;
        }
        str_addf(&cases, "%s%s has %s", cases.len > 0 ? "; " : "", groups[i].name, groups[i].cases);
    }
    int status = message(STATUS_USAGE, "bench: no case '%.60s': %s", name, str_text(&cases));
    str_free(&cases);
    return status;
}

static bool
goes_in_job(const struct group *group)
{
    return group->run == bench_allreduce || group->run == bench_ddp_step;
}

struct request { struct bench_options options; bool wanted[countof(groups)], any; };

static bool
is_number(const char *text)
{
    return text[strspn(text, "0123456789")] == '\0' && atoi(text) > 0;
}

/* Of an option that takes a word: whether it fits. */
static bool
take_value(struct bench_options *options, const char *name, const char *value)
{
    if (value == NULL)
        return false;
    if (strcmp(name, "--case") == 0)
        return (options->only_case = value) != NULL;
    if (strcmp(name, "--device") == 0) {
        options->device = value;
        return strcmp(value, "cpu") == 0 || strcmp(value, "cuda") == 0;
    }
    if (strcmp(name, "--backend") == 0) {
        options->backend = value;
        return strcmp(value, "mpi") == 0 || strcmp(value, "gloo") == 0;
    }
    *(strcmp(name, "--threads") == 0 ? &options->threads : &options->world) = atoi(value);
    return is_number(value);
}

/* 0: go on; else the exit status + 1. */
static int
parse(int argc, char **argv, struct request *request)
{
    static const struct { const char *name, *takes; } valued[] = {
        { "--case", "the name of a case" }, { "--threads", "a number of threads from 1" },
        { "--backend", "mpi or gloo" }, { "--world", "2 or 4" }, { "--device", "cpu or cuda" },
    };
    for (int i = 1; i < argc; i++) {
        const struct group *group = find_group(argv[i]);
        size_t              at    = 0;
        while (at < countof(valued) && strcmp(argv[i], valued[at].name) != 0)
            at++;
        if (strcmp(argv[i], "--help") == 0) {
            print_bench_help();
            return 1;
        }
        if (strcmp(argv[i], "--quick") == 0)
            request->options.quick = true;
        else if (strcmp(argv[i], "--json") == 0)
            request->options.json = true;
        else if (at < countof(valued) && !take_value(&request->options, argv[i], i + 1 < argc ? argv[i + 1] : NULL))
            return 1 + message(STATUS_USAGE, "bench: %s takes %s", argv[i], valued[at].takes);
        else if (at < countof(valued))
            i++;
        else if (group != NULL)
            request->any = request->wanted[group - groups] = true;
        else
            return 1 + message(STATUS_USAGE, "bench: '%s' is no group and no option: see ringside bench --help",
                               argv[i]);
    }
    return 0;
}

/* What does not go between processes. -1: go on. */
static int
refuse_job(const struct request *request)
{
    const struct bench_options *options = &request->options;
    if (options->backend == NULL)
        return options->world == 0 ? -1 : message(STATUS_USAGE, "bench: --world goes with --backend");
    if (options->world != 0 && options->world != 2 && options->world != 4)
        return message(STATUS_USAGE, "bench: --world takes 2 or 4");
    for (size_t i = 0; i < countof(groups); i++)
        if (request->wanted[i] && !goes_in_job(&groups[i]))
            return message(STATUS_USAGE, "bench: %s is no group between processes: allreduce and ddp_step are",
                           groups[i].name);
    return -1;
}

/* Calls to the allocator are counted by a library that lies beside the program and is loaded before it: begin again
 * with that. Comes back where it cannot be. */
static void
count_allocations(char **argv)
{
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    char folder[PATH_MAX], counter[PATH_MAX + 16], program[PATH_MAX + 16];
    if (getenv("LD_PRELOAD") != NULL || !program_folder(folder, sizeof folder))
        return;
    snprintf(counter, sizeof counter, "%s/allocations.so", folder);
    if (access(counter, R_OK) != 0 || setenv("LD_PRELOAD", counter, 1) != 0)
        return;
    snprintf(program, sizeof program, "%s/ringside", folder);
    execv(program, argv - 1); /* the word before the subcommand is the program's name */
    unsetenv("LD_PRELOAD");
#else
    (void)argv;
#endif
}

static bool
run_groups(void *request_)
{
    struct request *request = request_;
    for (size_t i = 0; i < countof(groups); i++) {
        if (request->any ? !request->wanted[i] : request->options.backend != NULL && !goes_in_job(&groups[i]))
            continue;
        if (!groups[i].run(&request->options))
            return false;
        print_environment(&request->options, groups[i].name);
    }
    return true;
}

int
cli_bench(int argc, char **argv)
{
    struct request        request = { .any = false };
    struct bench_options *options = &request.options;
    int                   stop    = parse(argc, argv, &request);
    if (stop != 0)
        return stop - 1;
    if (options->only_case != NULL && refuse_case(options->only_case, request.wanted, request.any) >= 0)
        return STATUS_USAGE;
    int status = refuse_job(&request);
    if (status >= 0)
        return status;
    if (options->backend != NULL && !bench_job_is_rank(options))
        return bench_job_start(options, argv);
    count_allocations(argv);
    if (options->backend != NULL)
        return bench_job_work(options, run_groups, &request);
    return run_groups(&request) ? STATUS_DONE : STATUS_FAILED;
}
