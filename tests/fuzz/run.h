/* A run for one input: stepped, a few devices, a trace in memory; of a task of the fuzzer's own, or of a lesson. */
#ifndef FUZZ_RUN_H
#define FUZZ_RUN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct task; struct debugger; struct trace;

enum { FUZZ_DEVICES = 3 };

/* Answers what `run` did; its error was recorded and is gone. */
bool fuzz_run(bool (*run)(struct task *me, void *argument), void *argument);

struct fuzz_lesson {
    const char      *text;
    const char      *argument;    /* the lesson's arg[1]; NULL none */
    uint64_t         steps;       /* its budgets */
    size_t           memory;
    struct debugger *debugger;    /* NULL: nobody watches */
    struct trace   **record;      /* NULL, or gets the run's trace, which the caller releases */
};
/* Whether it ran to its end. What it held is gone then: a fuzzer finds what leaks. */
bool fuzz_run_lesson(const struct fuzz_lesson *lesson);
#endif
