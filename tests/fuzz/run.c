/* What a run needs, made for each input and taken down again. */
#include "run.h"

#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "fuzz.h"
#include "hw/cost.h"
#include "lua/lesson.h"
#include "lua/script.h"
#include "sched/debugger.h"
#include "sched/sched.h"
#include "trace/reader.h"
#include "trace/writer.h"

struct scene {
    bool                    (*run)(struct task *me, void *argument);
    void                     *argument;
    const struct fuzz_lesson *lesson;    /* NULL: a task alone */
    struct lesson            *voice;
};

static bool
with_devices(struct task *me, void *argument)
{
    const struct scene *scene = argument;
    return devices_ready(me, FUZZ_DEVICES) && scene->run(me, scene->argument);
}

static void
watch(struct scene *scene, struct sched *sched)
{
    struct debugger *debugger = scene->lesson->debugger;
    sched_set_part(sched, PART_LESSON, scene->voice);
    if (debugger == NULL)
        return;
    struct debugger_names names = lesson_names(scene->voice);
    debugger_set_names(debugger, &names);
    debugger_attach(debugger, sched);
}

static bool
run_scene(struct scene *scene)
{
    char why[300] = "";
    struct cost_model cost;
    struct error error;
    const struct trace_options traced = { .clock = CLOCK_VIRTUAL_PS };
    fuzz_assert(cost_preset(&cost, "classroom"), "there is a preset called classroom");
    struct trace_writer *writer = trace_create(&traced, why, sizeof why);
    fuzz_assert(writer != NULL, why);
    const struct sched_options options = { .executor = EXECUTOR_STEPPED, .writer = writer, .cost = &cost,
                                           .work_limit = scene->lesson != NULL ? scene->lesson->steps : 0,
                                           .memory_limit = scene->lesson != NULL ? scene->lesson->memory : 0 };
    struct sched *sched = sched_new(&options, why, sizeof why);
    fuzz_assert(sched != NULL, why);
    if (scene->lesson != NULL)
        watch(scene, sched);
    bool ok = sched_run(sched, with_devices, scene, &error);
    devices_free(sched);
    sched_free(sched);
    if (scene->lesson != NULL && scene->lesson->record != NULL)
        *scene->lesson->record = trace_open_live(writer, why, sizeof why);
    trace_close(writer);
    return ok;
}

bool
fuzz_run(bool (*run)(struct task *me, void *argument), void *argument)
{
    struct scene scene = { .run = run, .argument = argument };
    return run_scene(&scene);
}

/* ---- a lesson ---- */

static bool
run_text(struct task *me, void *argument)
{
    struct scene *scene = argument;
    const struct fuzz_lesson *lesson = scene->lesson;
    char *words[] = { NULL };
    memcpy(&words[0], &lesson->argument, sizeof words[0]);
    struct script_options options = { .args = words, .arg_count = lesson->argument != NULL,
                                      .out = fopen("/dev/null", "w") };
    struct script *script = script_new(me, &options);
    if (script == NULL) {
        fclose(options.out);
        return false;
    }
    bool ok = lesson_add_script(scene->voice, -1, script) &&
              script_run_text(me, script, "lesson.lua", lesson->text, strlen(lesson->text));
    lesson_end(me, scene->voice, ok);
    if (lesson->debugger != NULL)
        debugger_finished(lesson->debugger, me, !ok);
    lesson_remove_script(scene->voice, script);
    script_free(me, script);
    fclose(options.out);
    fuzz_assert(!ok || device_memory(me, DEVICE_CPU).allocated == 0, "what a lesson held is gone");
    return ok;
}

bool
fuzz_run_lesson(const struct fuzz_lesson *lesson)
{
    const struct lesson_options options = { .name = "lesson", .quiet = true };
    struct scene scene = { .run = run_text, .argument = &scene, .lesson = lesson, .voice = lesson_new(&options) };
    fuzz_assert(scene.voice != NULL, "there is memory for a lesson");
    bool ok = run_scene(&scene);
    lesson_free(scene.voice);
    return ok;
}
