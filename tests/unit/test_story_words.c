/* The sentences of the story: every kind has one, short and whole, and those of the specification to the letter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "analysis/story_words.h"
#include "base/str.h"
#include "base/vec.h"
#include "trace/internal.h"
#include "trace/schema.h"

enum { RANKS = 2 };

/* ---- a small trace ---- */

struct rig {
    struct trace_writer *writer;
    struct trace_buffer *buffer;
    uint64_t             time;
    size_t               count;
    uint32_t             iteration;
    struct trace        *trace;
};

#define ARGS(...) ((const int64_t[4]){ __VA_ARGS__ })

static struct rig
rig_new(bool (*declare)(struct trace_writer *), int ranks)
{
    struct rig rig = { 0 };
    char       why[200], name[32];
    const struct trace_options options = { .clock = CLOCK_VIRTUAL_PS };
    rig.writer = declare != NULL ? writer_create(&options, declare, why, sizeof why)
                                 : trace_create(&options, why, sizeof why);
    assert_non_null(rig.writer);
    rig.buffer = trace_buffer_new(rig.writer);
    for (int rank = 0; rank < ranks; rank++) {
        snprintf(name, sizeof name, "r%d main", rank);
        trace_lane(rig.writer, rank, -1, LANE_HOST, name);
    }
    if (ranks == 0)
        trace_lane(rig.writer, -1, -1, LANE_HOST, "main");
    return rig;
}

static size_t
emit(struct rig *rig, int kind, enum trace_phase phase, int lane, int rank, const int64_t args[4])
{
    struct trace_event event = { .time = rig->time += 1000000, .kind = (uint16_t)kind, .phase = (uint8_t)phase,
                                 .lane = (uint32_t)lane, .rank = (int16_t)rank, .device = -1,
                                 .iteration = rig->iteration };
    memcpy(event.args, args, sizeof event.args);
    assert_true(trace_append(rig->buffer, &event));
    return rig->count++;
}

static size_t
begin(struct rig *rig, enum kind kind, int rank, const int64_t args[4])
{
    return emit(rig, kind, PHASE_BEGIN, rank, rank, args);
}

static size_t
end(struct rig *rig, enum kind kind, int rank, const int64_t args[4])
{
    return emit(rig, kind, PHASE_END, rank, rank, args);
}

static int64_t
text(struct rig *rig, const char *words)
{
    return trace_text(rig->writer, words);
}

static void
rig_free(struct rig *rig)
{
    trace_release(rig->trace);
    trace_buffer_free(rig->buffer);
    trace_close(rig->writer);
}

static const int both[] = { 0, 1 };

static void
tell_into(struct rig *rig, const struct told *told, struct str *out)
{
    char why[200];
    if (rig->trace == NULL)
        rig->trace = trace_open_live(rig->writer, why, sizeof why);
    assert_non_null(rig->trace);
    trace_refresh(rig->trace);
    story_sentence(rig->trace, told, out);
    assert_true(str_ok(out));
}

static void
tells(struct rig *rig, struct told told, const char *wanted)
{
    struct str out = { 0 };
    tell_into(rig, &told, &out);
    assert_string_equal(str_text(&out), wanted);
    str_free(&out);
}

static struct told
round_of(size_t first, size_t at)
{
    return (struct told){ .at = at, .first = first, .last = at, .ranks = both, .rank_count = RANKS, .bucket = -1 };
}

static struct told
alone(size_t at)
{
    return (struct told){ .at = at, .first = at, .last = at, .bucket = -1 };
}

/* ---- the table ---- */

static const char *const kinds_told[] = {
#define STORY(kind, part, sentence) kind,
#define STORY_WHEN(kind, when, sentence)
#define STORY_STEP(kind, sentence)
#define STORY_BUCKET(kind, sentence)
#include "analysis/story.def"
#undef STORY
#undef STORY_WHEN
#undef STORY_STEP
#undef STORY_BUCKET
};

/* All rows in order; other: of another form than STORY. */
static const struct { const char *kind; bool other; } rows[] = {
#define STORY(kind, part, sentence) { kind, false },
#define STORY_WHEN(kind, when, sentence) { kind, true },
#define STORY_STEP(kind, sentence) { kind, true },
#define STORY_BUCKET(kind, sentence) { kind, true },
#include "analysis/story.def"
#undef STORY
#undef STORY_WHEN
#undef STORY_STEP
#undef STORY_BUCKET
};

static bool
comes_later(const char *kind)
{
    static const char *const later[] = { "sleep", "lesson.chapter", "lesson.tell" };
    for (size_t i = 0; i < countof(later); i++)
        if (strcmp(kind, later[i]) == 0)
            return true;
    return false;
}

static int
kind_named(const char *name)
{
    for (int kind = 1; kind < KIND_COUNT; kind++)
        if (strcmp(kind_table[kind].name, name) == 0)
            return kind;
    return 0;
}

static void
every_kind_has_one_row_in_the_order_of_the_stages(void **state)
{
    (void)state;
    int last = 0, told = 0;
    for (size_t i = 0; i < countof(kinds_told); i++) {
        int kind = kind_named(kinds_told[i]);
        if (comes_later(kinds_told[i]))
            continue;
        if (kind <= last)
            fail_msg("%s: no such kind, or not in its place", kinds_told[i]);
        last = kind;
        told++;
    }
    for (int kind = 1; kind < KIND_COUNT; kind++)
        told += comes_later(kind_table[kind].name);
    assert_int_equal(told, KIND_COUNT - 1);
}

static void
a_row_of_another_form_stands_before_its_kind(void **state)
{
    (void)state;
    assert_false(rows[countof(rows) - 1].other);
    for (size_t i = 0; i + 1 < countof(rows); i++)
        if (rows[i].other)
            assert_string_equal(rows[i].kind, rows[i + 1].kind);
}

static void
the_parts_are_those_of_the_story(void **state)
{
    (void)state;
    assert_int_equal(story_part_of("dp.forward"), PART_ACT);
    assert_int_equal(story_part_of("c10d.new_group"), PART_ACT);
    assert_int_equal(story_part_of("c10d.allreduce"), PART_CALL);
    assert_int_equal(story_part_of("c10d.barrier"), PART_CALL);
    assert_int_equal(story_part_of("dp.scatter"), PART_SCENE);
    assert_int_equal(story_part_of("sleep"), PART_SCENE);
    assert_int_equal(story_part_of("ddp.mark_bucket_ready"), PART_OPENING);
    assert_int_equal(story_part_of("ddp.all_reduce_bucket"), PART_DETAIL);
    assert_int_equal(story_part_of("comm.hop"), PART_DETAIL);
    assert_int_equal(story_part_of("fault.deadlock"), PART_WORD);
    assert_int_equal(story_part_of("stream.wait"), PART_QUIET);
    assert_int_equal(story_part_of("lesson.tell"), PART_QUIET);
    assert_int_equal(story_part_of("no.such"), PART_DETAIL);
}

/* ---- every sentence ---- */

/* Made arguments: each text is a word, each number `number` and one less from one argument to the next. */
static void
make_args(struct rig *rig, enum kind kind, int64_t number, int64_t args[4])
{
    const char *list = kind_table[kind].args;
    memset(args, 0, 4 * sizeof *args);
    for (int i = 0; i < 4 && *list != '\0'; i++) {
        list += strspn(list, " ,");
        size_t length = strcspn(list, ",");
        char   one[80];
        snprintf(one, sizeof one, "%.*s", (int)length, list);
        const char *type = strchr(one, ':');
        type    = type != NULL ? type + 1 : "int";
        args[i] = strcmp(type, "text") == 0 ? text(rig, "word") : strcmp(type, "bytes") == 0 ? 216 * number
                : strcmp(type, "flag") == 0 ? number & 1 : number > i ? number - i : 0;
        list += length;
    }
}

static int
words_in(const char *line)
{
    int words = 0;
    for (line += strspn(line, " "); *line != '\0'; line += strspn(line, " ")) {
        words++;
        line += strcspn(line, " ");
    }
    return words;
}

static bool
is_own_text(const char *kind)
{
    static const char *const own[] = { "lesson.begin", "lesson.say", "lesson.ask", "lesson.check", "lesson.hint" };
    for (size_t i = 0; i < countof(own); i++)
        if (strcmp(own[i], kind) == 0)
            return true;
    return false;
}

/* A capital, a number, or a name: a function's, a rank's, a word that was made. */
static bool
begins_well(const char *line)
{
    static const char *const names[] = { "scatter", "gather", "replicate", "reduce ", "broadcast ", "barrier ", "word",
                                         "main" };
    bool well = isupper((unsigned char)*line) || isdigit((unsigned char)*line) ||
                strcspn(line, "_0123456789") < strcspn(line, " ");
    for (size_t i = 0; i < countof(names); i++)
        well |= strncmp(line, names[i], strlen(names[i])) == 0;
    return well;
}

static void
assert_good(const char *kind, const char *line)
{
    static const char *const wrong[] = { "{", "}", "[", "|", "(s)", "  ", " .", " ,", "()", ": .", ":.", "?", "\n" };
    for (size_t i = 0; i < countof(wrong); i++)
        if (strstr(line, wrong[i]) != NULL)
            fail_msg("%s: '%s' is in: %s", kind, wrong[i], line);
    size_t length = strlen(line);
    if (length == 0 || words_in(line) > STORY_WORDS_MOST || strstr(line, "...") != NULL)
        fail_msg("%s: %d words: %s", kind, words_in(line), line);
    if (!begins_well(line) || (line[length - 1] != '.' && !is_own_text(kind)))
        fail_msg("%s: no sentence: %s", kind, line);
    if (strncmp(line, kind, strlen(kind)) == 0 && line[strlen(kind)] == ':')
        fail_msg("%s: told by its arguments: %s", kind, line);
}

/* What makes lists and sums: some of everything that a sentence counts. */
static void
emit_details(struct rig *rig)
{
    int64_t indices = text(rig, "1 0"), name = text(rig, "fc.weight");
    emit(rig, KIND_dp_scatter_chunk, PHASE_INSTANT, 0, 0, ARGS(0, 3, 12, 0));
    emit(rig, KIND_dp_replicate_copy, PHASE_INSTANT, 0, 0, ARGS(1, 12, 0));
    emit(rig, KIND_ddp_bucket, PHASE_INSTANT, 0, 0, ARGS(1, 216, 2, indices));
    begin(rig, KIND_ddp_mark_variable_ready, 0, ARGS(0, 1, 0, name));
    end(rig, KIND_ddp_mark_variable_ready, 0, ARGS(0, 1, 0, name));
}

static void
tell_made(struct rig *rig, enum kind kind, int64_t number, struct told how)
{
    int64_t args[4];
    struct str out = { 0 };
    make_args(rig, kind, number, args);
    bool   stage = kind_table[kind].is_stage;
    size_t first = emit(rig, kind, stage ? PHASE_BEGIN : PHASE_INSTANT, 0, 0, args);
    how.at = how.first = how.last = first;
    tell_into(rig, &how, &out);
    assert_good(kind_table[kind].name, str_text(&out));
    if (stage) {
        emit_details(rig);
        how.at = how.last = end(rig, kind, 0, args);
        str_clear(&out);
        tell_into(rig, &how, &out);
        assert_good(kind_table[kind].name, str_text(&out));
    }
    str_free(&out);
}

static void
every_sentence_is_whole_and_short(void **state)
{
    (void)state;
    static const int many[] = { 0, 1, 2 };
    static const struct told ways[] = {
        { .bucket = -1 }, { .ranks = both, .rank_count = 2, .bucket = -1 }, { .bucket = 1 },
        { .ranks = both, .rank_count = 2, .bucket = -1, .step = 2, .steps = 6 }, { .bucket = -1, .step = 2 },
        { .ranks = many, .rank_count = 3, .bucket = -1 },
    };
    struct rig rig = rig_new(NULL, RANKS);
    emit_details(&rig);
    for (int kind = 1; kind < KIND_COUNT; kind++)
        for (size_t way = 0; way < countof(ways); way++)
            for (int64_t number = 0; number < 5; number++)
                tell_made(&rig, (enum kind)kind, number, ways[way]);
    rig_free(&rig);
}

/* ---- to the letter ---- */

static void
data_parallel_is_told_to_the_letter(void **state)
{
    (void)state;
    struct rig rig = rig_new(NULL, 0);
    trace_lane(rig.writer, -1, 0, LANE_HOST, "autograd 0");
    size_t forward = emit(&rig, KIND_dp_forward, PHASE_BEGIN, 0, -1, ARGS(4));
    size_t first = emit(&rig, KIND_dp_scatter, PHASE_BEGIN, 0, -1, ARGS(4, 0, 0));
    for (int i = 0; i < 3; i++)
        emit(&rig, KIND_dp_scatter_chunk, PHASE_INSTANT, 0, -1, ARGS(0, i < 2 ? 2 : 1, 16, 2 * i));
    size_t scatter = emit(&rig, KIND_dp_scatter, PHASE_END, 0, -1, ARGS(4, 0, 3));
    emit(&rig, KIND_dp_replicate, PHASE_BEGIN, 0, -1, ARGS(3, 3, 0));
    for (int i = 0; i < 3; i++)
        emit(&rig, KIND_dp_replicate_copy, PHASE_INSTANT, 0, -1, ARGS(i, i > 0 ? 40440 : 0, i == 0));
    size_t replicate = emit(&rig, KIND_dp_replicate, PHASE_END, 0, -1, ARGS(3, 3, 0));
    size_t apply = emit(&rig, KIND_dp_parallel_apply, PHASE_END, 0, -1, ARGS(3));
    size_t gather = emit(&rig, KIND_dp_gather, PHASE_END, 0, -1, ARGS(3, 0, 0, 160));
    size_t backward = emit(&rig, KIND_autograd_backward, PHASE_BEGIN, 0, -1, ARGS(1));
    size_t cut = emit(&rig, KIND_dp_gather_backward, PHASE_END, 1, -1, ARGS(4, 0, text(&rig, "3 3 3 1")));
    size_t sum = emit(&rig, KIND_dp_reduce_add_coalesced, PHASE_END, 1, -1, ARGS(3, 3, 80880, 0));
    size_t one = emit(&rig, KIND_dp_reduce_add_coalesced, PHASE_END, 1, -1, ARGS(1, 4, 12, -1));
    size_t step = emit(&rig, KIND_optim_step, PHASE_BEGIN, 0, -1, ARGS(4));
    tells(&rig, alone(forward), "DataParallel's forward begins, over 4 devices.");
    tells(&rig, round_of(first, first), "scatter cut the batch: 0 pieces, for 4 devices.");
    tells(&rig, round_of(first, scatter), "scatter cut the batch: 3 pieces, 2 2 1 rows, for 4 devices.");
    tells(&rig, alone(replicate), "replicate copied the model's 3 parameters: 80880 B, 3 replicas now.");
    tells(&rig, alone(apply), "3 threads ran the forward, one for each replica.");
    tells(&rig, alone(gather), "gather joined 3 outputs on d0: 160 B came there.");
    tells(&rig, alone(backward), "Backward begins on main.");
    tells(&rig, alone(cut), "gather's backward cut the gradient again: 3 3 3 1 rows.");
    tells(&rig, alone(sum), "The gradients of 3 replicas were added on d0: 3 parameters, 80880 B.");
    tells(&rig, alone(one), "The gradients of 4 replicas were added on the CPU: 1 parameter, 12 B.");
    tells(&rig, alone(step), "The optimizer changes 4 parameters on main.");
    rig_free(&rig);
}

static void
ddp_is_told_to_the_letter(void **state)
{
    (void)state;
    struct rig rig = rig_new(NULL, RANKS);
    size_t init = begin(&rig, KIND_ddp_init, 1, ARGS(0, 2, 26214400));
    size_t verify = end(&rig, KIND_ddp_verify_params, 1, ARGS(8));
    size_t ctor = end(&rig, KIND_ddp_sync_module_states, 1, ARGS(8, 4202496, 0));
    size_t forward = begin(&rig, KIND_ddp_forward, 1, ARGS(3));
    size_t buffers = end(&rig, KIND_ddp_sync_buffers, 1, ARGS(3, 16));
    size_t rebuild = begin(&rig, KIND_ddp_rebuild_buckets, 1, ARGS(4));
    emit(&rig, KIND_ddp_bucket, PHASE_INSTANT, 1, 1, ARGS(0, 1050624, 2, text(&rig, "3 2")));
    emit(&rig, KIND_ddp_bucket, PHASE_INSTANT, 1, 1, ARGS(1, 216, 2, text(&rig, "1 0")));
    size_t rebuilt = end(&rig, KIND_ddp_rebuild_buckets, 1, ARGS(4));
    size_t finalize = end(&rig, KIND_ddp_finalize_backward, 1, ARGS(3));
    size_t only = end(&rig, KIND_ddp_finalize_backward, 1, ARGS(1));
    size_t unused = end(&rig, KIND_ddp_mark_unused, 1, ARGS(4));
    size_t unused_one = end(&rig, KIND_ddp_mark_unused, 1, ARGS(1));
    size_t map = end(&rig, KIND_ddp_used_map, 1, ARGS(6, 24));
    size_t hook = end(&rig, KIND_ddp_comm_hook, 1, ARGS(0, 4));
    size_t shadow = end(&rig, KIND_ddp_join_shadow, 1, ARGS(2, 3));
    tells(&rig, round_of(init, init), "DDP's constructor begins on r0, r1: 2 ranks, buckets up to 25 MiB.");
    tells(&rig, round_of(verify, verify), "The ranks compared 8 parameters: number and shapes agree.");
    tells(&rig, round_of(ctor, ctor), "Rank 0 sent its 8 tensors to all ranks: 4.01 MiB.");
    tells(&rig, round_of(forward, forward), "DDP's forward begins on r0, r1, iteration 3.");
    tells(&rig, round_of(buffers, buffers), "Rank 0's 3 buffers went to all ranks: 16 B.");
    tells(&rig, round_of(rebuild, rebuilt),
          "Buckets were cut again, in the order in which gradients came: 3 2, 1 0.");
    tells(&rig, round_of(finalize, finalize), "All 3 buckets have arrived: each gradient is the mean over the ranks.");
    tells(&rig, round_of(only, only), "The only bucket has arrived: each gradient is the mean over the ranks.");
    tells(&rig, round_of(unused, unused), "4 parameters were not used: they count as ready.");
    tells(&rig, round_of(unused_one, unused_one), "1 parameter was not used: it counts as ready.");
    tells(&rig, round_of(map, map), "The ranks added up who used which of 6 parameters: 24 B.");
    tells(&rig, round_of(hook, hook), "Your hook took bucket 0 on r0, r1: 4 B.");
    tells(&rig, alone(shadow), "r1 had no data left and took part in round 2: 3 still train.");
    rig_free(&rig);
}

static void
a_bucket_is_told_with_its_names_and_bytes(void **state)
{
    (void)state;
    struct rig rig = rig_new(NULL, RANKS);
    static const char *const names[] = { "b.bias", "b.weight", "a.bias", "a.weight" };
    emit(&rig, KIND_ddp_bucket, PHASE_INSTANT, 0, 0, ARGS(0, 216, 2, text(&rig, "3 2")));
    emit(&rig, KIND_ddp_bucket, PHASE_INSTANT, 0, 0, ARGS(1, 40, 4, text(&rig, "1 0")));
    emit(&rig, KIND_ddp_bucket, PHASE_INSTANT, 1, 1, ARGS(0, 9999, 2, text(&rig, "3 2")));
    begin(&rig, KIND_ddp_mark_variable_ready, 0, ARGS(3, 0, 0, text(&rig, "old")));
    rig.iteration = 1;
    size_t empty = begin(&rig, KIND_ddp_mark_bucket_ready, 0, ARGS(5, 5));
    begin(&rig, KIND_ddp_prepare_for_backward, 0, ARGS(2));
    for (int i = 0; i < 2; i++)
        begin(&rig, KIND_ddp_mark_variable_ready, 0, ARGS(3 - i, 0, 1 - i, text(&rig, names[i])));
    begin(&rig, KIND_ddp_mark_variable_ready, 1, ARGS(3, 0, 1, text(&rig, "of another rank")));
    size_t starts = begin(&rig, KIND_ddp_mark_bucket_ready, 0, ARGS(0, 0));
    for (int i = 0; i < 4; i++)
        begin(&rig, KIND_ddp_mark_variable_ready, 0, ARGS(i, 1, 0, text(&rig, names[i])));
    size_t many = begin(&rig, KIND_ddp_mark_bucket_ready, 0, ARGS(1, 1));
    size_t waits = begin(&rig, KIND_ddp_mark_bucket_ready, 0, ARGS(1, 0));
    size_t over = end(&rig, KIND_c10d_allreduce, 0, ARGS(8, 216, 54, 2));
    tells(&rig, alone(empty), "Bucket 5 is full on r0: its all-reduce starts.");
    tells(&rig, round_of(starts, starts), "Bucket 0 is full on r0, r1 (b.bias, b.weight, 216 B): its all-reduce starts.");
    tells(&rig, round_of(many, many), "Bucket 1 is full on r0, r1 (b.bias, 3 more, 40 B): its all-reduce starts.");
    tells(&rig, round_of(waits, waits), "Bucket 1 is full on r0, r1, but bucket 0 must start first: it waits.");
    struct told told = round_of(over, over);
    tells(&rig, told, "all_reduce #8 begins: 216 B on each of 2 ranks.");
    told.bucket = 0;
    tells(&rig, told, "Bucket 0's all-reduce is over: 216 B, summed over 2 ranks.");
    rig_free(&rig);
}

static void
collectives_are_told_to_the_letter(void **state)
{
    (void)state;
    struct rig rig = rig_new(NULL, RANKS);
    size_t met = end(&rig, KIND_c10d_rendezvous, 0, ARGS(0, 4));
    size_t barrier = begin(&rig, KIND_c10d_barrier, 0, ARGS(2, 4));
    size_t sent = end(&rig, KIND_c10d_send, 0, ARGS(3, 4, 0));
    size_t hop = end(&rig, KIND_comm_hop, 0, ARGS(1, 8, 1, 1));
    size_t kept = end(&rig, KIND_comm_hop, 0, ARGS(1, 8, 1, 0));
    tells(&rig, round_of(met, met), "4 ranks found each other at the store.");
    tells(&rig, round_of(barrier, barrier), "barrier #2: nobody leaves before all 4 ranks have come.");
    tells(&rig, alone(sent), "r0 sent 4 B to rank 3.");
    struct told told = round_of(hop, hop);
    tells(&rig, told, "r0, r1 sent chunk 1 to rank 1: 8 B.");
    told.step  = 2;
    told.steps = 6;
    tells(&rig, told, "Step 2 of 6: each rank sent a chunk and added what it got.");
    told.at = told.first = told.last = kept;
    tells(&rig, told, "Step 2 of 6: each rank sent a chunk and kept what it got.");
    told.rank_count = 1;
    told.steps      = 0;
    tells(&rig, told, "Step 2: r0 sent a chunk and kept what it got.");
    rig_free(&rig);
}

static void
a_round_tells_what_its_ranks_have_of_their_own(void **state)
{
    (void)state;
    struct rig rig = rig_new(NULL, RANKS);
    size_t first = begin(&rig, KIND_c10d_send, 0, ARGS(1, 4, 0));
    begin(&rig, KIND_c10d_send, 1, ARGS(0, 4, 0));
    end(&rig, KIND_c10d_send, 0, ARGS(1, 4, 0));
    begin(&rig, KIND_c10d_send, 0, ARGS(7, 44, 0));
    end(&rig, KIND_c10d_send, 0, ARGS(7, 44, 0));
    size_t last = end(&rig, KIND_c10d_send, 1, ARGS(0, 4, 0));
    tells(&rig, round_of(first, last), "r0, r1 sent 4 B to rank 1, 0.");
    rig_free(&rig);
}

static void
who_came_has_at_most_three_words(void **state)
{
    (void)state;
    struct rig rig = rig_new(NULL, 0);
    static const int apart[] = { 0, 2, 4, 5, 7 };
    int all[64];
    for (int i = 0; i < 64; i++)
        all[i] = i;
    size_t at = emit(&rig, KIND_autograd_backward, PHASE_BEGIN, 0, 0, ARGS(1));
    struct told told = { .at = at, .first = at, .last = at, .ranks = all, .rank_count = 64, .bucket = -1 };
    tells(&rig, told, "Backward begins on r0 to r63.");
    told.rank_count = 2;
    tells(&rig, told, "Backward begins on r0, r1.");
    told.ranks      = apart;
    told.rank_count = 3;
    tells(&rig, told, "Backward begins on r0, r2, r4.");
    told.rank_count = 5;
    tells(&rig, told, "Backward begins on 5 ranks.");
    for (int device = 0; device < 3; device++)
        trace_lane(rig.writer, -1, device, LANE_HOST, "dp worker");
    size_t first = emit(&rig, KIND_dp_worker, PHASE_END, 1, -1, ARGS(0, 0));
    emit(&rig, KIND_dp_worker, PHASE_END, 3, -1, ARGS(2, 2));
    size_t last = emit(&rig, KIND_dp_worker, PHASE_END, 2, -1, ARGS(1, 1));
    told = (struct told){ .at = last, .first = first, .last = last, .bucket = -1 };
    tells(&rig, told, "The forward ran on d0 to d2, with a thread for each replica.");
    rig_free(&rig);
}

/* ---- words and faults ---- */

static void
the_lesson_is_told_in_its_own_words(void **state)
{
    (void)state;
    struct rig rig = rig_new(NULL, 0);
    int64_t long_text = text(&rig, "one two three four five six seven eight nine ten\n"
                                   "eleven twelve thirteen fourteen fifteen sixteen seventeen");
    int64_t claim = text(&rig, "three chunks leave");
    size_t say = emit(&rig, KIND_lesson_say, PHASE_INSTANT, 0, -1, ARGS(long_text));
    size_t holds = emit(&rig, KIND_lesson_check, PHASE_INSTANT, 0, -1, ARGS(claim, 1));
    size_t fails = emit(&rig, KIND_lesson_check, PHASE_INSTANT, 0, -1, ARGS(claim, 0));
    size_t warning = emit(&rig, KIND_lesson_warning, PHASE_INSTANT, 0, -1, ARGS(text(&rig, "beware.")));
    size_t cut = emit(&rig, KIND_lesson_warning, PHASE_INSTANT, 0, -1, ARGS(long_text));
    size_t escape = emit(&rig, KIND_lesson_say, PHASE_INSTANT, 0, -1, ARGS(text(&rig, "a\x1b[2J")));
    size_t good = emit(&rig, KIND_lesson_end, PHASE_INSTANT, 0, -1, ARGS(1, 0));
    size_t bad = emit(&rig, KIND_lesson_end, PHASE_INSTANT, 0, -1, ARGS(16, 2));
    tells(&rig, alone(say), "one two three four five six seven eight nine ten "
                            "eleven twelve thirteen fourteen fifteen sixteen seventeen");
    tells(&rig, alone(holds), "three chunks leave");
    tells(&rig, alone(fails), "A check fails: three chunks leave.");
    tells(&rig, alone(warning), "A warning: beware.");
    tells(&rig, alone(cut), "A warning: one two three four five six seven eight nine ten eleven twelve thirteen fourteen...");
    tells(&rig, alone(escape), "a\\x1b[2J");
    tells(&rig, alone(good), "The lesson ends: 1 check holds.");
    tells(&rig, alone(bad), "The lesson ends: 2 of 16 checks failed.");
    rig_free(&rig);
}

static void
a_lesson_gives_its_own_sentence(void **state)
{
    (void)state;
    struct rig rig = rig_new(NULL, RANKS);
    size_t at = begin(&rig, KIND_ddp_mark_bucket_ready, 0, ARGS(1, 0));
    struct told told = round_of(at, at);
    told.own = "Look: bucket {bucket} is full on {on}.";
    tells(&rig, told, "Look: bucket 1 is full on r0, r1.");
    told.own = "{no such thing}";
    tells(&rig, told, "Bucket 1 is full on r0, r1, but bucket 0 must start first: it waits.");
    rig_free(&rig);
}

static void
a_fault_tells_who_stood_where(void **state)
{
    (void)state;
    struct rig rig = rig_new(NULL, RANKS);
    int64_t one = text(&rig, "rank 1 waits in all_reduce #8 (line 106) for rank 0\ncause: ended early"),
            circle = text(&rig, "each waits for the next in send"),
            differ = text(&rig, "rank 1 in barrier #7, rank 0 in broadcast #71\ncause");
    size_t alone_waits = emit(&rig, KIND_fault_deadlock, PHASE_INSTANT, 1, 1, ARGS(1, one));
    size_t all_wait = emit(&rig, KIND_fault_deadlock, PHASE_INSTANT, 1, 1, ARGS(3, circle));
    size_t bare = emit(&rig, KIND_fault_deadlock, PHASE_INSTANT, 1, 1, ARGS(2, 0));
    size_t mismatch = emit(&rig, KIND_fault_mismatch, PHASE_INSTANT, 1, 1, ARGS(7, differ));
    size_t kill = emit(&rig, KIND_fault_injected, PHASE_INSTANT, 1, 1, ARGS(text(&rig, "kill"), 2, -1, 40));
    tells(&rig, alone(alone_waits), "1 rank waits for what will not come. r1 waits in all_reduce #8 for r0.");
    tells(&rig, alone(all_wait), "2 ranks wait for what will not come. Each waits for the next in send.");
    tells(&rig, alone(bare), "2 ranks wait for what will not come.");
    tells(&rig, alone(mismatch), "Call #7: the ranks do not call the same. r1 in barrier, r0 in broadcast #71.");
    tells(&rig, alone(kill), "A fault on purpose: kill number 40, rank 2.");
    rig_free(&rig);
}

/* ---- other programs' traces ---- */

static bool
declare_old(struct trace_writer *writer)
{
    static const struct trace_kind kinds[] = {
        { .name = "my.kind", .args = "bytes:bytes, bucket, name:text", .is_stage = true },
        { .name = "dp.forward", .args = "count", .is_stage = true },
        { .name = "dp.scatter", .args = "devices, chunks", .is_stage = true },
        { .name = "ddp.mark_bucket_ready", .args = "bucket", .is_stage = true },
        { .name = "dp.parallel_apply", .args = "", .is_stage = true },
    };
    for (size_t i = 0; i < countof(kinds); i++) {
        struct trace_kind kind = kinds[i];
        kind.function = kind.pytorch = kind.file = kind.source = "";
        if (!trace_declare(writer, (unsigned)i + 1, &kind))
            return false;
    }
    return true;
}

static void
what_the_table_does_not_know_is_told_by_name_and_arguments(void **state)
{
    (void)state;
    struct rig rig = rig_new(declare_old, 0);
    size_t unknown = emit(&rig, 1, PHASE_BEGIN, 0, -1, ARGS(40, 1, text(&rig, "fc")));
    size_t nameless = emit(&rig, 1, PHASE_BEGIN, 0, -1, ARGS(40, 1, 0));
    size_t other = emit(&rig, 2, PHASE_BEGIN, 0, -1, ARGS(4));
    size_t fewer = emit(&rig, 3, PHASE_END, 0, -1, ARGS(4, 3));
    size_t bucket = emit(&rig, 4, PHASE_BEGIN, 0, 0, ARGS(1));
    size_t nothing = emit(&rig, 5, PHASE_END, 0, -1, ARGS(0));
    tells(&rig, alone(unknown), "my.kind: bytes 40 B, bucket 1, name fc.");
    tells(&rig, alone(nameless), "my.kind: bytes 40 B, bucket 1.");
    tells(&rig, alone(other), "dp.forward: count 4.");
    tells(&rig, alone(fewer), "scatter cut the batch: 3 pieces, for 4 devices.");
    tells(&rig, alone(bucket), "Bucket 1 is full on r0: its all-reduce starts.");
    tells(&rig, alone(nothing), "dp.parallel_apply.");
    struct str out = { 0 };
    tell_into(&rig, &(struct told){ .at = 99, .bucket = -1 }, &out);
    assert_int_equal(out.len, 0);
    rig_free(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_one_row_in_the_order_of_the_stages),
        cmocka_unit_test(a_row_of_another_form_stands_before_its_kind),
        cmocka_unit_test(the_parts_are_those_of_the_story),
        cmocka_unit_test(every_sentence_is_whole_and_short),
        cmocka_unit_test(data_parallel_is_told_to_the_letter),
        cmocka_unit_test(ddp_is_told_to_the_letter),
        cmocka_unit_test(a_bucket_is_told_with_its_names_and_bytes),
        cmocka_unit_test(collectives_are_told_to_the_letter),
        cmocka_unit_test(a_round_tells_what_its_ranks_have_of_their_own),
        cmocka_unit_test(who_came_has_at_most_three_words),
        cmocka_unit_test(the_lesson_is_told_in_its_own_words),
        cmocka_unit_test(a_lesson_gives_its_own_sentence),
        cmocka_unit_test(a_fault_tells_who_stood_where),
        cmocka_unit_test(what_the_table_does_not_know_is_told_by_name_and_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
