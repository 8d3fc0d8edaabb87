/* Parts of play_plugin that need no faults: memory, copies, marks, kernels, records. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "play_plugin.h"
#include "tensor/cpu/elements.h"
#include "tensor/cpu/kernels.h"
#include "tensor/cpu/update.h"

enum { FLOATS = 1000, ROUNDS = 30, PATIENCE = 100000000 };

/* ---- the rig ---- */

static uint64_t
clock_ns(void *run)
{
    struct timespec now;
    (void)run;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool
rig_open(struct rig *rig, struct play *p, int devices, size_t floats, bool timeline)
{
    const struct backend_host host = { clock_ns, NULL, timeline };
    *rig = (struct rig){ .p = p, .floats = floats };
    for (int d = 0; d < devices; d++, rig->devices++) {
        if (!play_done(p, (rig->device[d] = p->cuda->open(d, &host, &p->why)) != NULL, "opening a device") ||
            !play_done(p, (rig->stream[d] = p->cuda->stream(rig->device[d], d % 2 == 1, &p->why)) != NULL,
                       "a stream") ||
            !play_done(p, (rig->memory[d] = p->cuda->segment(rig->device[d], floats * sizeof(float), &p->why)) != NULL,
                       "a segment") ||
            !play_done(p, (rig->host[d] = p->cuda->pinned(floats * sizeof(float), &p->why)) != NULL, "pinned memory"))
            return false;
    }
    return true;
}

void
rig_close(struct rig *rig)
{
    const struct device_backend *cuda = rig->p->cuda;
    for (int d = 0; d < rig->devices; d++)
        cuda->stream_close(rig->stream[d]);
    for (int d = 0; d < rig->devices; d++) {
        cuda->segment_give(rig->device[d], rig->memory[d], rig->floats * sizeof(float));
        cuda->pinned_give(rig->host[d], rig->floats * sizeof(float));
        cuda->close(rig->device[d]);
    }
}

bool
rig_copy(struct rig *rig, int stream, int to, int from, uint64_t ticket)
{
    struct backend_copy copy = { to < 0 ? rig->host[-1 - to] : rig->memory[to],
                                 from < 0 ? rig->host[-1 - from] : rig->memory[from],
                                 rig->floats * sizeof(float), to < 0 ? -1 : to, from < 0 ? -1 : from };
    return play_done(rig->p, rig->p->cuda->copy(rig->stream[stream], &copy, ticket, &rig->p->why), "a copy");
}

struct backend_mark *
rig_mark(struct rig *rig, int stream)
{
    struct play         *p    = rig->p;
    struct backend_mark *mark = p->cuda->mark(rig->device[stream], &p->why);
    if (play_done(p, mark != NULL, "a mark"))
        play_done(p, p->cuda->put(mark, rig->stream[stream], &p->why), "putting a mark");
    return mark;
}

bool
rig_finish(struct rig *rig, int stream)
{
    return play_done(rig->p, rig->p->cuda->finish(rig->stream[stream], &rig->p->why), "finishing a stream");
}

static void
host_fill(struct rig *rig, int host, float first)
{
    for (size_t i = 0; i < rig->floats; i++)
        rig->host[host][i] = first + (float)i * 0.25f;
}

static bool
host_holds(struct rig *rig, int host, float first)
{
    for (size_t i = 0; i < rig->floats; i++)
        if (!play_that(rig->p, rig->host[host][i] == first + (float)i * 0.25f, "element %zu is %g, not %g", i,
                       (double)rig->host[host][i], (double)first + (double)i * 0.25))
            return false;
    return true;
}

/* ---- what is here ---- */

static bool
tells(const struct backend_probe *probe, const char *words)
{
    for (int i = 0; i < probe->part_count; i++)
        if (strstr(probe->parts[i], words) != NULL)
            return true;
    return false;
}

void
part_probe(struct play *p)
{
    struct backend_probe probe;
    p->cuda->probe(&probe);
    play_that(p, probe.count > 0 && probe.why[0] == '\0', "%d GPUs: %s", probe.count, probe.why);
    play_that(p, strstr(probe.version, "runtime ") != NULL && strstr(probe.version, "driver ") != NULL, "version: %s",
              probe.version);
    for (int i = 0; i < probe.count; i++)
        play_that(p, probe.device[i].name[0] != '\0' && probe.device[i].memory > 0 && probe.device[i].major > 0 &&
                  probe.device[i].processors > 0, "GPU %d: \"%s\", %llu bytes, %d.%d, %d processors", i,
                  probe.device[i].name, (unsigned long long)probe.device[i].memory, probe.device[i].major,
                  probe.device[i].minor, probe.device[i].processors);
    play_that(p, !p->is_fake || probe.count == 2, "%d GPUs, not 2", probe.count);
    play_that(p, !p->is_fake || tells(&probe, "copies between GPUs go straight"), "nothing is said about the ways");
    play_that(p, tells(&probe, "products: "), "nothing is said about products");
    play_that(p, tells(&probe, "collectives: "), "nothing is said about collectives");
    play_that(p, tells(&probe, "timelines: "), "nothing is said about timelines");
    play_that(p, strcmp(p->cuda->name, "cuda") == 0 && !p->cuda->on_host, "the table is of \"%s\"", p->cuda->name);
}

static void
has_note(struct play *p, const char *words)
{
    struct backend_probe probe;
    p->cuda->probe(&probe);
    play_that(p, strstr(probe.device[0].note, words) != NULL, "the note is \"%s\"", probe.device[0].note);
}

void
part_exclusive(struct play *p)
{
    has_note(p, "one process at a time");
}

void
part_prohibited(struct play *p)
{
    has_note(p, "no process");
}

void
part_memory(struct play *p)
{
    struct rig rig;
    char      *segment[8];
    if (!rig_open(&rig, p, 2, FLOATS, false))
        return;
    play_that(p, p->cuda->memory(rig.device[0]) > 0, "a device without memory");
    play_that(p, p->cuda->physical(rig.device[0]) == 0, "device:0 lies on GPU %d", p->cuda->physical(rig.device[0]));
    for (size_t i = 0; i < 8; i++) {
        segment[i] = p->cuda->segment(rig.device[0], 1000 * (i + 1), &p->why);
        play_that(p, segment[i] != NULL && (uintptr_t)segment[i] % 512 == 0, "segment %zu is at %p: %s", i,
                  (void *)segment[i], p->why.text);
        for (size_t j = 0; j < i; j++)
            play_that(p, segment[j] + 1000 * (j + 1) <= segment[i] || segment[i] + 1000 * (i + 1) <= segment[j],
                      "segments %zu and %zu overlap", j, i);
    }
    for (size_t i = 8; i-- > 0;)
        p->cuda->segment_give(rig.device[0], segment[i], 1000 * (i + 1));
    rig_close(&rig);
}

/* ---- copies and marks ---- */

void
part_copies(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 2, FLOATS, false))
        return;
    host_fill(&rig, 0, 7);
    rig_copy(&rig, 0, 0, -1, 0);
    struct backend_mark *mark = rig_mark(&rig, 0);
    play_done(p, p->cuda->wait(rig.stream[1], mark, &p->why), "waiting for another device");
    rig_copy(&rig, 1, 1, 0, 0);
    rig_copy(&rig, 1, -2, 1, 0);
    if (rig_finish(&rig, 1))
        host_holds(&rig, 1, 7);
    play_done(p, p->cuda->set(rig.stream[1], rig.memory[1], 0, FLOATS * sizeof(float), &p->why), "setting memory");
    rig_copy(&rig, 1, -2, 1, 0);
    if (rig_finish(&rig, 1))
        for (size_t i = 0; i < FLOATS; i++)
            play_that(p, rig.host[1][i] == 0.0f, "element %zu of memory that was set to 0 is %g", i,
                      (double)rig.host[1][i]);
    p->cuda->mark_free(mark);
    rig_close(&rig);
}

/* One byte a round: device:0 sets it, device:1 fetches it, device:0 may go on. */
static int
to_and_fro(struct play *p, bool waits)
{
    struct rig rig;
    int        wrong = 0;
    if (!rig_open(&rig, p, 2, ROUNDS, false))
        return -1;
    unsigned char *seen = (unsigned char *)rig.host[1];
    unsigned char *at_0 = (unsigned char *)rig.memory[0], *at_1 = (unsigned char *)rig.memory[1];
    struct backend_mark *made = p->cuda->mark(rig.device[0], &p->why), *fetched = p->cuda->mark(rig.device[1], &p->why);
    for (int round = 0; round < ROUNDS; round++) {
        struct backend_copy fetch = { at_1 + round, at_0, 1, 1, 0 }, tell = { seen + round, at_1 + round, 1, -1, 1 };
        if (waits)
            play_done(p, p->cuda->wait(rig.stream[0], fetched, &p->why), "waiting");
        play_done(p, p->cuda->set(rig.stream[0], at_0, round + 1, 1, &p->why), "setting");
        play_done(p, p->cuda->put(made, rig.stream[0], &p->why), "putting");
        if (waits)
            play_done(p, p->cuda->wait(rig.stream[1], made, &p->why), "waiting");
        play_done(p, p->cuda->copy(rig.stream[1], &fetch, 0, &p->why), "copying");
        play_done(p, p->cuda->put(fetched, rig.stream[1], &p->why), "putting");
        play_done(p, p->cuda->copy(rig.stream[1], &tell, 0, &p->why), "copying");
    }
    rig_finish(&rig, 1);
    for (int round = 0; round < ROUNDS; round++)
        wrong += seen[round] != round + 1;
    rig_finish(&rig, 0);
    p->cuda->mark_free(made);
    p->cuda->mark_free(fetched);
    rig_close(&rig);
    return wrong;
}

void
part_marks(struct play *p)
{
    int wrong = to_and_fro(p, true);
    play_that(p, wrong == 0, "%d of %d rounds are wrong", wrong, (int)ROUNDS);
}

void
part_missing_wait(struct play *p)
{
    int wrong = to_and_fro(p, false);
    play_that(p, wrong == ROUNDS, "%d of %d rounds are wrong; all of them read what nobody had written yet", wrong,
              (int)ROUNDS);
}

void
part_past(struct play *p)
{
    struct rig rig;
    int        asked = 0, past;
    if (!rig_open(&rig, p, 1, FLOATS, false))
        return;
    struct backend_mark *mark = p->cuda->mark(rig.device[0], &p->why);
    struct backend_mark *never_put = p->cuda->mark(rig.device[0], &p->why);
    play_that(p, p->cuda->is_past(never_put, &p->why) == 1, "one that was never put is not past: %s", p->why.text);
    play_done(p, p->cuda->wait(rig.stream[0], never_put, &p->why), "waiting for one that was never put");
    host_fill(&rig, 0, 3);
    rig_copy(&rig, 0, 0, -1, 0);
    play_done(p, p->cuda->put(mark, rig.stream[0], &p->why), "putting a mark");
    while ((past = p->cuda->is_past(mark, &p->why)) == 0 && asked < PATIENCE)
        asked++;
    play_that(p, past == 1, "asked %d times, it is %d: %s", asked, past, p->why.text);
    rig_copy(&rig, 0, -1, 0, 0);
    play_done(p, p->cuda->put(mark, rig.stream[0], &p->why), "putting it again");
    rig_finish(&rig, 0);
    play_that(p, p->cuda->is_past(mark, &p->why) == 1, "the stream is finished, the mark not past: %s", p->why.text);
    host_holds(&rig, 0, 3);
    p->cuda->mark_free(mark);
    p->cuda->mark_free(never_put);
    rig_close(&rig);
}

/* ---- kernels ---- */

static struct cpu_view
row_of(void *data, int64_t count)
{
    return (struct cpu_view){ .data = data, .dtype = DTYPE_F32, .dims = 1, .size = { count }, .stride = { 1 } };
}

static bool
launch(struct rig *rig, enum kernel kernel, const void *params, size_t bytes, uint64_t ticket)
{
    struct play *p = rig->p;
    return play_that(p, p->cuda->has((int)kernel, params), "there is no kernel %s", kernel_name(kernel)) &&
           play_done(p, p->cuda->launch(rig->stream[0], (int)kernel, params, bytes, ticket, &p->why),
                     kernel_name(kernel));
}

/* out = a + 2 * b in the CPU's order of operations. */
static struct cpu_call
add_call(float *out, float *a, float *b, int64_t count)
{
    return (struct cpu_call){ .in = { row_of(a, count), row_of(b, count) }, .out = row_of(out, count), .inputs = 2,
                              .alpha = 2,
                              .compute = DTYPE_F32, .common = DTYPE_F32 };
}

static void
add_once(struct rig *rig, int64_t count)
{
    float          *m    = rig->memory[0];
    struct cpu_call call = add_call(m + 2 * count, m, m + count, count);
    rig_copy(rig, 0, 0, -1, 0);
    launch(rig, KERNEL_cpu_add, &call, sizeof call, 0);
    rig_copy(rig, 0, -2, 0, 0);
    if (!rig_finish(rig, 0))
        return;
    for (int64_t i = 0; i < count; i++) {
        float wanted = rig->host[0][i] + 2.0f * rig->host[0][count + i];
        play_that(rig->p, rig->host[1][2 * count + i] == wanted, "of %lld sums number %lld is %g, not %g",
                  (long long)count,
                  (long long)i, (double)rig->host[1][2 * count + i], (double)wanted);
    }
}

static void
sum_once(struct rig *rig, int64_t count)
{
    struct cpu_view out  = { .data = rig->memory[0] + count, .dtype = DTYPE_F32, .dims = 0 };
    struct cpu_call call = { .in = { row_of(rig->memory[0], count) }, .out = out, .inputs = 1, .compute = DTYPE_F32,
                             .common = DTYPE_F32 };
    struct cpu_call host = call;
    float           wanted;
    host.in[0].data = rig->host[0];
    host.out.data   = &wanted;
    cpu_sum(&host);
    rig_copy(rig, 0, 0, -1, 0);
    launch(rig, KERNEL_cpu_sum, &call, sizeof call, 0);
    rig_copy(rig, 0, -2, 0, 0);
    if (rig_finish(rig, 0))
        play_that(rig->p, rig->host[1][count] == wanted, "the sum of %lld is %.9g, not %.9g", (long long)count,
                  (double)rig->host[1][count], (double)wanted);
}

static void
update_once(struct rig *rig, int64_t count)
{
    float            *m   = rig->memory[0];
    struct update_job job = { .kind = UPDATE_SGD, .views = 2, .compute = DTYPE_F32,
                              .view = { row_of(m, count), row_of(m + count, count) },
                              .rule = { .lr = 0.5 } };
    rig_copy(rig, 0, 0, -1, 0);
    launch(rig, KERNEL_update, &job, sizeof job, 0);
    rig_copy(rig, 0, -2, 0, 0);
    if (!rig_finish(rig, 0))
        return;
    for (int64_t i = 0; i < count; i++) {
        float wanted = rig->host[0][i] - 0.5f * rig->host[0][count + i];
        play_that(rig->p, rig->host[1][i] == wanted, "parameter %lld is %g, not %g", (long long)i,
                  (double)rig->host[1][i], (double)wanted);
    }
}

static void
reduce_once(struct rig *rig, int64_t count)
{
    float              *m   = rig->memory[0];
    struct elements_job job = { .work = ELEMENTS_REDUCE, .op = 0, .dtype = DTYPE_F32, .into = m, .from = m + count,
                                .bytes = (size_t)count * sizeof(float) };
    rig_copy(rig, 0, 0, -1, 0);
    launch(rig, KERNEL_reduce, &job, sizeof job, 0);
    rig_copy(rig, 0, -2, 0, 0);
    if (!rig_finish(rig, 0))
        return;
    for (int64_t i = 0; i < count; i++)
        play_that(rig->p, rig->host[1][i] == rig->host[0][i] + rig->host[0][count + i], "element %lld is %g",
                  (long long)i,
                  (double)rig->host[1][i]);
}

void
part_kernels(struct play *p)
{
    static const int64_t counts[] = { 1, 255, 256, 257, 3000 };
    struct rig           rig;
    if (!rig_open(&rig, p, 2, 9001, false))
        return;
    host_fill(&rig, 0, -100);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        add_once(&rig, counts[i]);
        sum_once(&rig, counts[i]);
        update_once(&rig, counts[i]);
        reduce_once(&rig, counts[i]);
    }
    rig_close(&rig);
}

/* A matrix and its transposition. */
void
part_views(struct play *p)
{
    enum { ROWS = 7, COLUMNS = 11 };
    struct rig rig;
    if (!rig_open(&rig, p, 2, 3 * ROWS * COLUMNS, false))
        return;
    host_fill(&rig, 0, 1);
    float           *m    = rig.memory[0];
    struct cpu_call  call = add_call(m + 2 * ROWS * COLUMNS, m, m + ROWS * COLUMNS, ROWS * COLUMNS);
    struct cpu_view *view[] = { &call.out, &call.in[0], &call.in[1] };
    for (int v = 0; v < 3; v++) {
        view[v]->dims      = 2;
        view[v]->size[0]   = ROWS;
        view[v]->size[1]   = COLUMNS;
        view[v]->stride[0] = v == 2 ? 1 : COLUMNS;
        view[v]->stride[1] = v == 2 ? ROWS : 1;
    }
    rig_copy(&rig, 0, 0, -1, 0);
    launch(&rig, KERNEL_cpu_add, &call, sizeof call, 0);
    rig_copy(&rig, 0, -2, 0, 0);
    rig_finish(&rig, 0);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            float wanted = rig.host[0][r * COLUMNS + c] + 2.0f * rig.host[0][ROWS * COLUMNS + c * ROWS + r];
            float got    = rig.host[1][2 * ROWS * COLUMNS + r * COLUMNS + c];
            play_that(p, got == wanted, "element [%d, %d] is %g, not %g", r, c, (double)got, (double)wanted);
        }
    rig_close(&rig);
}

void
part_faults_of_kernels(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 1, FLOATS, false))
        return;
    struct kernel_fault *fault   = p->cuda->pinned(sizeof *fault, &p->why);
    int64_t             *indices = (int64_t *)(void *)(rig.memory[0] + 100);
    int64_t             *told    = (int64_t *)(void *)(rig.host[0] + 100);
    struct cpu_call      call    = { .in = { row_of(rig.memory[0], 4), row_of(indices, 2) },
                                     .out = row_of(rig.memory[0] + 200, 2),
                                     .inputs = 2, .compute = DTYPE_F32, .common = DTYPE_F32, .fault = fault };
    if (!play_done(p, fault != NULL, "pinned memory"))
        return;
    *fault                   = (struct kernel_fault){ 0 };
    call.in[0].dims          = call.out.dims = 2;
    call.in[0].size[1]       = call.in[0].stride[1] = call.out.size[1] = call.out.stride[1] = 1;
    call.in[1].dtype         = DTYPE_I64;
    host_fill(&rig, 0, 0);
    told[0] = 3;
    told[1] = 9;
    rig_copy(&rig, 0, 0, -1, 0);
    launch(&rig, KERNEL_cpu_embedding, &call, sizeof call, 0);
    rig_finish(&rig, 0);
    play_that(p, fault_take(fault) && fault->index == 9 && fault->limit == 4, "the fault tells of index %lld of %lld "
                                                                              "rows",
              (long long)fault->index, (long long)fault->limit);
    p->cuda->pinned_give(fault, sizeof *fault);
    rig_close(&rig);
}

void
part_empty(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 1, FLOATS, false))
        return;
    struct cpu_call     call = add_call(NULL, NULL, NULL, 0);
    struct backend_copy none = { rig.memory[0], rig.host[0], 0, 0, -1 };
    launch(&rig, KERNEL_cpu_add, &call, sizeof call, 0);
    play_done(p, p->cuda->copy(rig.stream[0], &none, 0, &p->why), "copying nothing");
    play_done(p, p->cuda->set(rig.stream[0], rig.memory[0], 0, 0, &p->why), "setting nothing");
    rig_finish(&rig, 0);
    rig_close(&rig);
}

void
part_no_kernel(struct play *p)
{
    struct rig rig;
    if (!rig_open(&rig, p, 1, FLOATS, false))
        return;
    struct cpu_call call = add_call(rig.memory[0], rig.memory[0], rig.memory[0], 1);
    play_that(p, !p->cuda->has(KERNEL_COUNT, &call) && !p->cuda->has(-1, &call), "there are kernels of numbers that "
                                                                                 "no kernel has");
    play_that(p, !p->cuda->launch(rig.stream[0], KERNEL_COUNT, &call, sizeof call, 0, &p->why), "it is launched");
    play_says(p, TROUBLE_FAILED, "no kernel of number");
    play_that(p, !p->cuda->launch(rig.stream[0], KERNEL_cpu_add, &call, 8, 0, &p->why), "parameters of 8 bytes are "
                                                                                        "taken");
    play_says(p, TROUBLE_FAILED, "run make");
    rig_finish(&rig, 0);
    rig_close(&rig);
}

/* ---- records ---- */

enum { TICKETS = 20 };

static size_t
all_records(struct play *p, struct backend_record *records, size_t room, uint64_t *lost)
{
    size_t   count = 0, more;
    uint64_t lost_now;
    do {
        lost_now = 0;
        more     = p->cuda->records(records + count, room - count, &lost_now);
        count += more;
        *lost += lost_now;
    } while (more > 0 && count < room);
    return count;
}

void
part_records(struct play *p)
{
    struct rig            rig;
    struct backend_record records[8 * TICKETS];
    uint64_t              lost = 0, last = 0, seen[TICKETS + 1] = { 0 };
    if (!rig_open(&rig, p, 2, FLOATS, true))
        return;
    struct cpu_call call = add_call(rig.memory[0] + 200, rig.memory[0], rig.memory[0] + 100, 100);
    host_fill(&rig, 0, 1);
    for (uint64_t ticket = 1; ticket <= TICKETS; ticket++) {
        if (ticket % 2 == 1)
            rig_copy(&rig, 0, 0, -1, ticket);
        else
            launch(&rig, KERNEL_cpu_add, &call, sizeof call, ticket);
    }
    rig_finish(&rig, 0);
    size_t count = all_records(p, records, sizeof records / sizeof *records, &lost);
    for (size_t i = 0; i < count; i++) {
        const struct backend_record *record = &records[i];
        play_that(p, record->ticket >= 1 && record->ticket <= TICKETS && record->stream == rig.stream[0],
                  "a record of ticket %llu",
                  (unsigned long long)record->ticket);
        play_that(p, record->begin >= last && record->end >= record->begin, "record %zu goes from %llu to %llu, "
                                                                            "behind %llu", i,
                  (unsigned long long)record->begin, (unsigned long long)record->end, (unsigned long long)last);
        last = record->begin;
        if (record->ticket <= TICKETS)
            seen[record->ticket]++;
    }
    for (int ticket = 1; ticket <= TICKETS; ticket++)
        play_that(p, seen[ticket] >= 1, "nothing is told of ticket %d", ticket);
    play_that(p, lost == 0, "%llu records are lost", (unsigned long long)lost);
    rig_close(&rig);
}

static void *
open_and_close(void *context)
{
    const struct device_backend *cuda = context;
    cuda->range_begin("outer", 1);
    cuda->range_begin("inner", 2);
    cuda->range_end();
    cuda->range_end();
    return NULL;
}

void
part_ranges(struct play *p)
{
    struct device_backend table = *p->cuda;
    struct rig            rig;
    pthread_t             thread;
    if (!rig_open(&rig, p, 1, FLOATS, true))
        return;
    open_and_close(&table);
    play_that(p, pthread_create(&thread, NULL, open_and_close, &table) == 0, "no thread");
    pthread_join(thread, NULL);
    rig_close(&rig);
}

/* ---- threads ---- */

struct worker { struct play p; struct rig *rig; int device; };

static void *
work(void *context)
{
    struct worker *w = context;
    struct rig    *r = w->rig;
    struct play   *p = &w->p;
    int            d = w->device;
    for (int round = 0; round < ROUNDS; round++) {
        size_t              bytes = r->floats * sizeof(float);
        struct backend_copy down = { r->memory[d], r->host[d], bytes, d, -1 };
        struct backend_copy up   = { r->host[d], r->memory[d], bytes, -1, d };
        for (size_t i = 0; i < r->floats; i++)
            r->host[d][i] = (float)(d * 1000 + round);
        play_done(p, p->cuda->copy(r->stream[d], &down, 0, &p->why), "a copy");
        struct backend_mark *mark = p->cuda->mark(r->device[d], &p->why);
        play_done(p, mark != NULL && p->cuda->put(mark, r->stream[d], &p->why), "a mark");
        while (p->cuda->is_past(mark, &p->why) == 0)
            ;
        memset(r->host[d], 0, bytes);
        play_done(p, p->cuda->copy(r->stream[d], &up, 0, &p->why), "a copy");
        play_done(p, p->cuda->finish(r->stream[d], &p->why), "finishing");
        for (size_t i = 0; i < r->floats; i++)
            play_that(p, r->host[d][i] == (float)(d * 1000 + round), "device %d, round %d: %g", d, round,
                      (double)r->host[d][i]);
        p->cuda->mark_free(mark);
    }
    return NULL;
}

void
part_threads(struct play *p)
{
    struct rig    rig;
    struct worker workers[PLAY_DEVICES];
    pthread_t     threads[PLAY_DEVICES];
    if (!rig_open(&rig, p, PLAY_DEVICES, FLOATS, false))
        return;
    for (int d = 0; d < PLAY_DEVICES; d++) {
        workers[d] = (struct worker){ *p, &rig, d };
        play_that(p, pthread_create(&threads[d], NULL, work, &workers[d]) == 0, "no thread");
    }
    for (int d = 0; d < PLAY_DEVICES; d++) {
        pthread_join(threads[d], NULL);
        p->wrongs += workers[d].p.wrongs;
    }
    rig_close(&rig);
}
