/* What is true of the table as a whole; and that the player and the emulator find faults: kernels with planted ones.
 *
 * Interface: check_all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "play_kernels_internal.h"
#include "fake/emulate.h"

static const bool on_host[KERNEL_COUNT + 1] = {
#define HOST(kernel, why) [KERNEL_##kernel] = true,
#include "on_host.def"
#undef HOST
};

/* ---- the table ---- */

static void
rows_everywhere(struct play *p)
{
    for (int k = 0; k < KERNEL_COUNT; k++) {
        bool has = gpu_kernel_first((enum kernel)k) != NULL;
        if (!has && !on_host[k])
            play_wrong(p, "%s: neither a row in rows_*.def nor a line in on_host.def", kernel_name((enum kernel)k));
        if (has && on_host[k])
            play_wrong(p, "%s: a row, and a line in on_host.def", kernel_name((enum kernel)k));
    }
}

static void
rows_together(struct play *p)
{
    size_t reached = 0;
    for (int k = 0; k < KERNEL_COUNT; k++)
        for (const struct gpu_kernel *row = gpu_kernel_first((enum kernel)k); row != NULL; row = gpu_kernel_next(row))
            reached++;
    if (reached != gpu_kernel_count())
        play_wrong(p, "%zu of %zu rows are reached: those of a kernel do not follow each other", reached,
                   gpu_kernel_count());
    for (size_t i = 0; i < gpu_kernel_count(); i++)
        if (gpu_kernel_at(i)->address == NULL || gpu_kernel_at(i)->params == 0)
            play_wrong(p, "%s: no address, or no parameters", gpu_kernel_at(i)->symbol);
}

static void
rows_compared(struct play *p)
{
    for (int k = 0; k < KERNEL_COUNT; k++)
        if (gpu_kernel_first((enum kernel)k) != NULL && p->seen[k] == 0)
            play_wrong(p, "%s: no case compares it", kernel_name((enum kernel)k));
}

/* ---- planted faults ---- */

#define FAULTY(name, threads)                                                                                      \
    void gpu_##name(const void *params);                                                                           \
    static const struct gpu_kernel name[] = {                                                                      \
        { KERNEL_cpu_copy, (const void *)gpu_##name, "gpu_" #name, GRID_OUT, threads, sizeof(struct cpu_call) },   \
        { .kernel = KERNEL_COUNT },                                                                                \
    };
FAULTY( faulty_none,       TOGETHER )
FAULTY( faulty_filled,     TOGETHER )
FAULTY( faulty_free,       TOGETHER )
FAULTY( faulty_short,      ALONE )
FAULTY( faulty_past,       ALONE )
FAULTY( faulty_gap,        ALONE )
FAULTY( faulty_barrier,    TOGETHER )
FAULTY( faulty_lane,       TOGETHER )
FAULTY( faulty_lanes_none, TOGETHER )
#undef FAULTY

enum { LONG = 1000 };

/* A long copy by that kernel instead; how often it was found wrong. */
static int
plant(struct play *p, const struct gpu_kernel *instead, enum layout layout)
{
    struct cpu_call call = call_of(1, DTYPE_F32);
    call.in[0] = view_row(p, DTYPE_F32, LONG);
    call.out   = view_new(p, DTYPE_F32, layout, (struct sizes){ 1, { LONG } });
    fill_between(p, call.in[0], 1, 2);
    p->found        = 0;
    p->said[0]      = '\0';
    p->instead      = instead;
    p->expect_wrong = true;
    compare(p, KERNEL_cpu_copy, &call);
    p->instead      = NULL;
    p->expect_wrong = false;
    return p->found;
}

static void
must_say(struct play *p, const char *words)
{
    if (strstr(p->said, words) == NULL)
        play_wrong(p, "it should say \"%s\"; it says: %s", words, p->said);
}

static void
finds_none(struct play *p)
{
    if (plant(p, faulty_none, LAYOUT_PLAIN) != 0 || plant(p, faulty_lanes_none, LAYOUT_PLAIN) != 0)
        play_wrong(p, "%s", p->said);
}

static void
finds_missing_barrier(struct play *p)
{
    if (plant(p, faulty_filled, LAYOUT_PLAIN) < 6)
        play_wrong(p, "%d of 9 runs of a kernel that reads before all is there were wrong", p->found);
    must_say(p, "element ");
    if (plant(p, faulty_free, LAYOUT_PLAIN) == 0)
        play_wrong(p, "no run of a kernel that overwrites what others still read was wrong");
}

static void
finds_skipped(struct play *p)
{
    if (plant(p, faulty_barrier, LAYOUT_PLAIN) != 9)
        play_wrong(p, "a barrier that a thread skips was found %d times of 9", p->found);
    must_say(p, "kernel gpu_faulty_barrier is stuck");
    must_say(p, "255 wait at a barrier, 0 wait for lanes of their warp, 1 have returned");
    if (plant(p, faulty_lane, LAYOUT_PLAIN) != 9)
        play_wrong(p, "a lane_down that a lane skips was found %d times of 9", p->found);
    must_say(p, "0 wait at a barrier, 31 wait for lanes of their warp, 225 have returned");
}

static void
finds_wrong_elements(struct play *p)
{
    if (plant(p, faulty_short, LAYOUT_PLAIN) != 9)
        play_wrong(p, "an element that is not written was found %d times of 9", p->found);
    must_say(p, "element 999 of 1000");
    if (plant(p, faulty_gap, LAYOUT_STRIDED) != 9)
        play_wrong(p, "a write between the output's elements was found %d times of 9", p->found);
    must_say(p, "element 1 of 1999");
}

/* What a child says on stderr until it ends. */
static void
said_by_child(struct play *p, void (*run)(struct play *p), char *text, size_t size)
{
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        run(p);
        dprintf(STDERR_FILENO, "%s", p->said);
        _exit(0);
    }
    close(ends[1]);
    size_t  count = 0;
    ssize_t got;
    char    rest[4096];
    for (;;) {
        bool fits = count + 1 < size;            /* else it is read and dropped: the child must not wait */
        got = read(ends[0], fits ? text + count : rest, fits ? size - 1 - count : sizeof rest);
        if (got <= 0)
            break;
        count += fits ? (size_t)got : 0;
    }
    text[count] = '\0';
    close(ends[0]);
    waitpid(child, NULL, 0);
}

static void
plant_past(struct play *p)
{
    plant(p, faulty_past, LAYOUT_PLAIN);
}

static void
plant_alone(struct play *p)
{
    struct gpu_kernel alone[] = { faulty_none[0], faulty_none[1] };
    alone[0].threads = ALONE;
    plant(p, alone, LAYOUT_PLAIN);
}

static void
finds_past(struct play *p)
{
    char text[8192] = "";
    p->compared++;
    said_by_child(p, plant_past, text, sizeof text);
    if (strstr(text, "bytes beside the case's memory were written") == NULL &&
        (strstr(text, "heap-buffer-overflow") == NULL || strstr(text, "gpu_faulty_past") == NULL))
        play_wrong(p, "it says: %s", text);
}

static void
finds_alone(struct play *p)
{
    char text[8192] = "";
    p->compared++;
    said_by_child(p, plant_alone, text, sizeof text);
    if (strstr(text, "kernel gpu_faulty_none has a barrier, but its row says ALONE") == NULL)
        play_wrong(p, "it says: %s", text);
}

/* ---- all ---- */

static const struct play_case planted[] = {
    { "a right kernel is right in each order of its threads", finds_none, KERNEL_COUNT },
    { "a missing barrier shows in the values", finds_missing_barrier, KERNEL_COUNT },
    { "a barrier or lane_down that not all come to is told by the kernel's name and by how many", finds_skipped,
      KERNEL_COUNT },
    { "an element that is not written, and a gap that is, are told by their place", finds_wrong_elements,
      KERNEL_COUNT },
    { "a write past the end of memory is found", finds_past, KERNEL_COUNT },
    { "a barrier in a kernel whose threads are said to be alone is found", finds_alone, KERNEL_COUNT },
};

struct look { const char *sentence; void (*look)(struct play *p); };
static const struct look looks[] = {
    { "every kernel has rows, or is the host's by name", rows_everywhere },
    { "the rows of a kernel follow each other", rows_together },
    { "every kernel with rows is compared by some case", rows_compared },
};

static int
tell(const char *sentence, bool holds, int *number)
{
    printf("%sok %d - %s\n", holds ? "" : "not ", ++*number, sentence);
    return !holds;
}

int
check_all(struct play *p, int *number)
{
    int wrong = 0;
    for (size_t i = 0; i < sizeof planted / sizeof *planted; i++)
        wrong += tell(planted[i].sentence, case_play(p, &planted[i]), number);
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        p->wrongs = -KERNEL_COUNT;               /* all of them are said */
        looks[i].look(p);
        wrong += tell(looks[i].sentence, p->wrongs == -KERNEL_COUNT, number);
    }
    return wrong;
}
