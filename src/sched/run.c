/* A run: made, run to its end, freed. Order of use: sched_new, sched_run, sched_free. */
#include <stdio.h>
#include <stdlib.h>
#include "sched/faults.h"
#include "sched/internal.h"
#include "trace/clock.h"

struct sched *
sched_new(const struct sched_options *options, char *why, size_t why_size)
{
    struct sched *sched = calloc(1, sizeof *sched);
    if (sched == NULL) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    sched->executor = options->executor == EXECUTOR_FREE ? &executor_free : &executor_stepped;
    sched->facts.stepped = options->executor == EXECUTOR_STEPPED;
    sched->writer   = options->writer;
    sched->cost     = options->cost;
    sched->observer = options->observer;
    sched->random   = options->seed;
    sched->clock    = trace_wall_clock();
    sched->timeout_ps = options->timeout_ps != 0 ? options->timeout_ps : 1800ull * 1000000000000ull;
    sched->account.memory_limit = options->memory_limit;
    sched->account.work_limit   = options->work_limit;
    sched->races      = !options->no_race_check && options->executor == EXECUTOR_STEPPED;
    pthread_mutex_init(&sched->registry, NULL);
    pthread_rwlock_init(&sched->explaining, NULL);
    pthread_mutex_init(&sched->account.mutex, NULL);
    pthread_mutex_init(&sched->fault_mutex, NULL);
    clock_gettime(CLOCK_MONOTONIC, &sched->started);
    if (!policy_init(&sched->policy, options->policy, options->seed)) {
        snprintf(why, why_size, "unknown policy '%s': use order, random or round-robin", options->policy);
        sched_free(sched);
        return NULL;
    }
    bool ready = heap_reserve(sched, 64);
    if (ready && options->choosing != NULL && sched->facts.stepped) {
        sched->chooser       = chooser_new(options->choosing);
        sched->facts.chooses = ready = sched->chooser != NULL;
    }
    if (ready && (options->count_faults || (options->faults != NULL && options->faults->count > 0)))
        ready = faults_open(sched, options->faults);
    if (ready && sched->writer != NULL && options->executor == EXECUTOR_STEPPED)
        ready = (sched->buffer = trace_buffer_new(sched->writer)) != NULL;
    if (!ready) {
        snprintf(why, why_size, "out of memory");
        sched_free(sched);
        return NULL;
    }
    for (int kind = 0; sched->writer == NULL && kind < KIND_COUNT; kind++)
        sched->off[kind] = true;
    sched->source_task = (struct task){ .sched = sched, .buffer = sched->buffer, .off = sched->off, .rank = -1,
                                        .device = -1, .number = -1 };
    return sched;
}

bool
sched_run(struct sched *sched, bool (*run)(struct task *me, void *argument), void *argument, struct error *error)
{
    struct task_options options = { .name = "main", .rank = -1, .device = -1, .lua = true };
    struct machine     *main    = machine_new(sched, NULL, &options);
    if (main == NULL) {
        *error = (struct error){ .kind = E_MEMORY };
        snprintf(error->message, sizeof error->message, "out of memory");
        return false;
    }
    fiber_adopt(&main->fiber);
    main->run      = run;
    main->argument = argument;
    main->state    = MACHINE_RUNNING;
    sched->main = sched->running = main;
    if (sched->chooser != NULL)
        chooser_meet(sched->chooser, main);

    run(&main->task, argument);

    scope_release(&main->task, 0);
    *error = main->task.error;
    atomic_store(&sched->stopping, true);
    sched->executor->drain(&main->task);
    if (sched->source_task.drop_cells != NULL)
        sched->source_task.drop_cells(&sched->source_task); /* while there is a pool that counts them */
    sched->running = NULL;
    machine_free(main);
    sched->main = NULL;
    return error->kind == E_NONE;
}

void
sched_free(struct sched *sched)
{
    if (sched == NULL)
        return;
    while (sched->first != NULL)
        machine_free(sched->first);
    machine_free_spares(sched);
    trace_buffer_free(sched->buffer);
    map_free(&sched->lanes);
    str_free(&sched->report);
    chooser_free(sched->chooser);
    free(sched->heap);
    free(sched->actors);
    free(sched->free_seats);
    if (sched->source_task.drop_cells != NULL)
        sched->source_task.drop_cells(&sched->source_task);
    free(sched->source_task.scope);
    pthread_mutex_destroy(&sched->registry);
    pthread_rwlock_destroy(&sched->explaining);
    pthread_mutex_destroy(&sched->account.mutex);
    pthread_mutex_destroy(&sched->fault_mutex);
    faults_close(sched);
    free(sched);
}
