/* Parts of play_plugin in which something is missing or fails: what is said, and what still works. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "play_plugin.h"
#include "tensor/cpu/kernels.h"

enum { FLOATS = 100 };

static const struct backend_host host;

/* ---- no GPU ---- */

/* Asking says why, and so does opening. */
static void
says_why(struct play *p, const char *words)
{
    struct backend_probe probe;
    p->cuda->probe(&probe);
    play_that(p, probe.count == 0 && strstr(probe.why, words) != NULL, "%d GPUs, \"%s\"; expected \"%s\"", probe.count,
              probe.why, words);
    play_that(p, p->cuda->open(0, &host, &p->why) == NULL, "a device is opened");
    play_says(p, TROUBLE_MISSING, words);
    play_that(p, p->cuda->pinned(100, &p->why) == NULL, "memory is pinned");
    play_says(p, TROUBLE_MISSING, words);
}

void
part_no_driver(struct play *p)
{
    says_why(p, "there is no NVIDIA driver here");
}

void
part_old_driver(struct play *p)
{
    says_why(p, "knows CUDA 11.0, and the plug-in was built with CUDA ");
}

void
part_no_gpu(struct play *p)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    says_why(p, "no visible GPU: see `nvidia-smi -L`");
}

void
part_hidden_gpu(struct play *p)
{
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    says_why(p, "CUDA_VISIBLE_DEVICES is \"7\"");
}

void
part_fabric(struct play *p)
{
    says_why(p, "nvidia-fabricmanager");
}

void
part_mismatch(struct play *p)
{
    says_why(p, "restart the machine");
}

void
part_busy(struct play *p)
{
    says_why(p, "compute mode");
}

void
part_unknown(struct play *p)
{
    says_why(p, "(cudaErrorUnknown, 999): the driver does not know either");
}

/* Whatever the reason is on the machine that plays this: with the real runtime. */
void
part_absent(struct play *p)
{
    struct backend_probe probe;
    p->cuda->probe(&probe);
    play_that(p, probe.count == 0 && strlen(probe.why) > 20 && strstr(probe.version, "runtime ") != NULL,
              "\"%s\", \"%s\"", probe.why,
              probe.version);
    says_why(p, probe.why);
}

void
part_wrong_architecture(struct play *p)
{
    struct backend_probe probe;
    p->cuda->probe(&probe);
    play_that(p, probe.count == 1 && probe.device[0].major == 6, "%d GPUs", probe.count);
    play_that(p, p->cuda->open(0, &host, &p->why) == NULL, "a device is opened");
    play_says(p, TROUBLE_MISSING, "GPU 0 is sm_61: build it on this machine");
}

/* ---- no memory ---- */

void
part_no_memory(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 2, FLOATS, false))
        return;
    play_that(p, p->cuda->segment(rig.device[0], (size_t)3 << 20, &p->why) == NULL, "the third segment is given");
    play_says(p, TROUBLE_MEMORY, "cuda:0 (GPU 0) has no 3.00 MiB");
    play_says(p, TROUBLE_MEMORY, "64.00 MiB are free");
    void *next = p->cuda->segment(rig.device[0], (size_t)3 << 20, &p->why);
    play_done(p, next != NULL, "the next one");
    p->cuda->segment_give(rig.device[0], next, (size_t)3 << 20);
    rig_copy(&rig, 0, 0, -1, 0);
    rig_finish(&rig, 0);
    rig_close(&rig);
}

void
part_too_much(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 1, FLOATS, false))
        return;
    size_t all = (size_t)p->cuda->memory(rig.device[0]);
    play_that(p, p->cuda->segment(rig.device[0], all + 1, &p->why) == NULL, "%zu bytes of %zu are given", all + 1, all);
    play_says(p, TROUBLE_MEMORY, "has no ");
    void *half = p->cuda->segment(rig.device[0], all / 2, &p->why);
    play_done(p, half != NULL, "half of it");
    p->cuda->segment_give(rig.device[0], half, all / 2);
    rig_close(&rig);
}

void
part_no_pinned(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 1, FLOATS, false))
        return;
    play_that(p, p->cuda->pinned(12345, &p->why) == NULL, "the second one is given");
    play_says(p, TROUBLE_MEMORY, "12345 bytes");
    void *next = p->cuda->pinned(12345, &p->why);
    play_done(p, next != NULL, "the next one");
    p->cuda->pinned_give(next, 12345);
    rig_close(&rig);
}

/* ---- for good ---- */

static struct cpu_call
add_call(float *m)
{
    struct cpu_view view = { .data = m, .dtype = DTYPE_F32, .dims = 1, .size = { 10 }, .stride = { 1 } };
    return (struct cpu_call){ .in = { view, view }, .out = view, .inputs = 2, .alpha = 1, .compute = DTYPE_F32,
                              .common = DTYPE_F32 };
}

/* Every function of the table that can fail, after it has. */
static void
all_say(struct rig *rig, struct backend_mark *mark, const char *words)
{
    struct play                 *p    = rig->p;
    const struct device_backend *cuda = p->cuda;
    struct cpu_call              call = add_call(rig->memory[0]);
    struct backend_copy          copy = { rig->memory[0], rig->host[0], 4, 0, -1 };
    for (int i = 0; i < 11; i++) {
        bool done = true;
        p->why    = (struct backend_why){ TROUBLE_NONE, "" };
        switch (i) {
        case 0: done = cuda->finish(rig->stream[0], &p->why); break;
        case 1: done = cuda->is_past(mark, &p->why) >= 0; break;
        case 2: done = cuda->copy(rig->stream[1], &copy, 0, &p->why); break;
        case 3: done = cuda->set(rig->stream[1], rig->memory[1], 0, 4, &p->why); break;
        case 4: done = cuda->launch(rig->stream[0], KERNEL_cpu_add, &call, sizeof call, 0, &p->why); break;
        case 5: done = cuda->segment(rig->device[1], 100, &p->why) != NULL; break;
        case 6: done = cuda->pinned(100, &p->why) != NULL; break;
        case 7: done = cuda->stream(rig->device[0], true, &p->why) != NULL; break;
        case 8: done = cuda->mark(rig->device[0], &p->why) != NULL; break;
        case 9: done = cuda->put(mark, rig->stream[0], &p->why) || cuda->wait(rig->stream[0], mark, &p->why); break;
        default: done = cuda->open(3, &host, &p->why) != NULL; break;
        }
        play_that(p, !done && p->why.trouble == TROUBLE_BROKEN && strcmp(p->why.text, words) == 0,
                  "call %d: trouble %d, \"%s\"", i,
                  (int)p->why.trouble, p->why.text);
    }
}

/* The third kernel of stream 0 fails; two before it and a copy in stream 1 are known to be done. */
void
part_illegal(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 2, FLOATS, false))
        return;
    struct cpu_call call = add_call(rig.memory[0]);
    play_done(p, p->cuda->set(rig.stream[0], rig.memory[0], 0, FLOATS * sizeof(float), &p->why), "setting memory");
    for (uint64_t ticket = 1; ticket <= 2; ticket++)
        play_done(p, p->cuda->launch(rig.stream[0], KERNEL_cpu_add, &call, sizeof call, ticket, &p->why), "a launch");
    rig_finish(&rig, 0);
    struct backend_mark *mark = rig_mark(&rig, 0);
    play_done(p, p->cuda->launch(rig.stream[0], KERNEL_cpu_add, &call, sizeof call, 3, &p->why),
              "the launch that will fail");
    play_that(p, !p->cuda->finish(rig.stream[0], &p->why), "the stream is finished");
    play_says(p, TROUBLE_BROKEN, "cudaErrorIllegalAddress (700)");
    play_says(p, TROUBLE_BROKEN, "the oldest work not known to be finished is ");
    play_says(p, TROUBLE_BROKEN, "on cuda:0 (event 3)");
    play_says(p, TROUBLE_BROKEN, "add");
    char words[sizeof p->why.text];
    memcpy(words, p->why.text, sizeof words);
    all_say(&rig, mark, words);
    p->cuda->mark_free(mark);
    rig_close(&rig);
}

void
part_refused(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 1, FLOATS, false))
        return;
    struct cpu_call call = add_call(rig.memory[0]);
    play_done(p, p->cuda->set(rig.stream[0], rig.memory[0], 0, FLOATS * sizeof(float), &p->why), "setting memory");
    play_done(p, p->cuda->launch(rig.stream[0], KERNEL_cpu_add, &call, sizeof call, 0, &p->why), "the first launch");
    play_that(p, !p->cuda->launch(rig.stream[0], KERNEL_cpu_add, &call, sizeof call, 0, &p->why),
              "the second is launched");
    play_says(p, TROUBLE_FAILED, "launching the kernel ");
    play_says(p, TROUBLE_FAILED, "add in 1 blocks on cuda:0");
    play_done(p, p->cuda->launch(rig.stream[0], KERNEL_cpu_add, &call, sizeof call, 0, &p->why), "the third launch");
    rig_finish(&rig, 0);
    rig_close(&rig);
}

void
part_never(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 1, FLOATS, false))
        return;
    struct backend_mark *mark = rig_mark(&rig, 0);
    for (int i = 0; i < 1000; i++)
        play_that(p, p->cuda->is_past(mark, &p->why) == 0, "asked %d times, it is past", i);
    play_that(p, !p->cuda->finish(rig.stream[0], &p->why), "the stream is finished");
    play_says(p, TROUBLE_BROKEN, "cudaErrorLaunchTimeout");
    p->cuda->mark_free(mark);
    rig_close(&rig);
}

/* ---- what the fake finds ---- */

void
part_read_by_host(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 1, FLOATS, false))
        return;
    rig_copy(&rig, 0, 0, -1, 0);
    rig_finish(&rig, 0);
    printf("# the host reads %g\n", (double)*(volatile float *)rig.memory[0]);
    exit(0);
}

void
part_given_while_used(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 1, FLOATS, false))
        return;
    rig_copy(&rig, 0, 0, -1, 0);
    p->cuda->segment_give(rig.device[0], rig.memory[0], FLOATS * sizeof(float));
    rig.memory[0] = NULL;
    rig_close(&rig);
}

void
part_other_gpu(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 2, FLOATS, false))
        return;
    struct cpu_call call = add_call(rig.memory[0]);
    call.in[1].data      = rig.memory[1];
    play_that(p, !p->cuda->launch(rig.stream[0], KERNEL_cpu_add, &call, sizeof call, 0, &p->why), "it is launched");
    play_says(p, TROUBLE_BROKEN, "cudaErrorIllegalAddress");
    rig_close(&rig);
}
