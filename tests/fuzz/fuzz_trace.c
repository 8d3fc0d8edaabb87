/* The reader of traces, on bytes: whatever is in the file, it is opened or refused, put in order, printed, folded and
 * drawn. An input is a packed trace (packed.h). */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../trace_viewer/frame.h"
#include "analysis/moves.h"
#include "analysis/quantities.h"
#include "analysis/state.h"
#include "analysis/story.h"
#include "analysis/tensors.h"
#include "base/str.h"
#include "base/vec.h"
#include "control/commands.h"
#include "fuzz.h"
#include "packed.h"
#include "packed_change.h"
#include "trace/join.h"
#include "trace/match.h"
#include "trace/reader.h"

enum { LOOKED_AT = 120 }; /* events of a trace that are printed: the first ones, and some of the others */

/* ---- asked all that there is to ask ---- */

static void
ask_event(struct trace *trace, size_t seq, struct str *out)
{
    const struct trace_event *event = trace_event(trace, seq);
    struct trace_snapshot snapshot;
    fuzz_assert(event != NULL && event->kind < trace_kinds(trace) + 1, "an event's kind is one that there is");
    str_clear(out);
    trace_print_event(trace, seq, out);
    fuzz_assert(strchr(str_text(out), '\n') == NULL, "an event is one line");
    str_clear(out);
    trace_print_json(trace, seq, out);
    json_t *json = json_loads(str_text(out), 0, NULL);
    fuzz_assert(json_is_object(json) && strchr(str_text(out), '\n') == NULL, "an event is one line of JSON");
    json_decref(json);
    size_t other = trace_partner(trace, seq);
    fuzz_assert(other == SIZE_MAX || trace_partner(trace, other) == seq, "partners have each other");
    other = trace_flow_end(trace, seq);
    fuzz_assert(other == SIZE_MAX || other < trace_count(trace), "a flow ends at an event");
    for (int i = 0; i < 4; i++) {
        fuzz_assert(trace_text_at(trace, event->args[i]) != NULL, "every text is some text");
        if (trace_snapshot_at(trace, event->args[i], &snapshot)) {
            str_clear(out);
            str_add_bytes(out, snapshot.elements, snapshot.bytes); /* all of them can be read */
        }
    }
    fuzz_assert(trace_lane_at(trace, event->lane)->name != NULL, "every lane has a name");
}

static void
ask_state(struct trace *trace, struct state *state, size_t seq)
{
    size_t open[8], at;
    struct state_bucket buckets[8];
    struct state_lock locks[8];
    if (!state_seek(state, seq))
        return;
    for (size_t lane = 0; lane < trace_lanes(trace) && lane < 8; lane++) {
        size_t count = state_open(state, (uint32_t)lane, open, countof(open));
        for (size_t i = 0; i < count && i < countof(open); i++)
            fuzz_assert(open[i] <= seq, "what is open began before");
    }
    for (int device = -1; device < 4; device++) {
        state_memory(state, device);
        state_buckets(state, device, buckets, countof(buckets));
    }
    size_t count = state_locks(state, locks, countof(locks));
    for (size_t i = 0; i < count && i < countof(locks); i++)
        fuzz_assert(locks[i].name != NULL, "a lock has a name");
    for (int i = 0; i < 4; i++)
        state_snapshot(state, trace_event(trace, seq)->args[i], &at);
    state_iteration(state);
}

static void
ask_tensors(struct trace *trace, struct state *state, size_t seq)
{
    struct tensors *tensors = tensors_new(trace);
    struct quantities *quantities = quantities_new(trace);
    struct seen_tensor seen[TENSORS_OF_EVENT], peers[4];
    struct extent extents[8];
    struct storage_facts largest[4];
    char name[160];
    size_t of, count = 0;
    while (tensors != NULL && tensors_grow(tensors, 1000))
        continue;
    while (quantities != NULL && quantities_grow(quantities, 1000))
        continue;
    for (size_t i = 0; quantities != NULL && i < quantities_count(quantities); i++)
        quantity_over(quantities_at(quantities, i), 0, UINT64_MAX);
    if (tensors != NULL && tensors_seen(tensors) > seq)
        count = tensors_of_event(tensors, state, seq, seen, &of);
    for (size_t i = 0; i < count; i++) {
        struct tensor_values values;
        tensors_values(tensors, &seen[i], seq, &values);
        fuzz_assert(seen_summary(&seen[i], &values, 64).known <= 64, "of values at most as many as were asked for");
        tensors_of_peers(tensors, &seen[i], of, seq, peers, countof(peers));
        tensors_extents(tensors, seen[i].storage, seq, extents, countof(extents));
        tensors_storage_name(tensors, seen[i].storage, seq, name);
    }
    if (tensors != NULL)
        tensors_largest(tensors, 0, seq, largest, countof(largest));
    quantities_free(quantities);
    tensors_free(tensors);
}

static void
ask_names(struct trace *trace)
{
    static const char *const keys[] = { "lesson", "title", "seed", "policy", "" };
    const char *path;
    char why[200];
    for (size_t kind = 0; kind < trace_kinds(trace) && kind < 300; kind++) {
        const struct trace_kind *info = trace_kind(trace, (unsigned)kind);
        fuzz_assert(info->name != NULL && info->source != NULL && info->arg_count <= 4, "a kind is whole");
        for (int i = 0; i < info->arg_count; i++)
            fuzz_assert(info->arg_name[i] != NULL && info->arg_type[i] != NULL, "its arguments have names and types");
        if (kind % 32 == 1)
            trace_kind_id(trace, info->name);
    }
    for (size_t i = 0; i < countof(keys); i++)
        fuzz_assert(trace_option_of(trace, keys[i]) != NULL, "an option is some text");
    fuzz_assert(trace_source_text(trace, &path) != NULL && path != NULL, "the lesson is some text");
    struct match_names names = match_names_of_trace(trace);
    struct match *match = match_compile("op or lock or bytes > 10 or lane r0", &names, why, sizeof why);
    for (size_t seq = 0; match != NULL && seq < trace_count(trace) && seq < LOOKED_AT; seq++)
        match_event(match, trace_event(trace, seq), seq, trace_time(trace, seq));
    match_free(match);
}

/* Every kind of move, from the middle; breakpoints of both forms. */
static void
ask_moves(struct trace *trace)
{
    static const char *const lines[] = { "step 3", "back 2", "stage", "rstage", "next", "rnext 2", "finish", "rfinish",
                                         "continue", "rcontinue", "until lock or seq > 9", "runtil bytes > 1" };
    struct move_rules rules = { 0 };
    struct story *story = story_new(trace);
    struct str told = { 0 };
    char why[200];
    size_t count = trace_count(trace);
    breaks_add(&rules.breaks, trace, count / 2, "", &told);
    breaks_add(&rules.breaks, trace, count / 2, "phase = end and rank 1 if depth > 2", &told);
    breaks_list(&rules.breaks, &told);
    for (size_t i = 0; i < countof(lines); i++) {
        struct command_line line;
        struct move move = { .trace = trace, .rules = &rules, .story = story, .ended = true, .at = count / 2 };
        fuzz_assert(command_parse(lines[i], &line, why, sizeof why), "a move is a command");
        if (!move_begin(&move, &line, &told))
            continue;
        while (move_search(&move, count, 1000) == MOVE_GOES_ON)
            continue;
        fuzz_assert(move.at < count, "a move ends at an event");
        move_end(&move);
    }
    breaks_free(&rules.breaks);
    story_free(story);
    str_free(&told);
}

/* How the record is told: each stop is an event behind the last one, with a sentence of its own. */
static void
ask_story(struct trace *trace)
{
    struct story *story = story_new(trace);
    struct story_figures figures;
    struct str told = { 0 };
    if (story == NULL || !story_read(story, trace_count(trace)) || !story_close(story)) {
        story_free(story);
        return;
    }
    for (size_t i = 0; i < story_count(story); i++) {
        const struct story_stop *stop = story_at(story, i);
        fuzz_assert(stop->at < trace_count(trace) && stop->first <= stop->at, "a stop is at an event");
        fuzz_assert(i == 0 || story_at(story, i - 1)->at < stop->at, "stops are in order, and none is there twice");
        str_clear(&told);
        story_again(story, stop, &told);
        story_tell(story, stop, &told);
        fuzz_assert(told.len > 0 && strchr(str_text(&told), '\n') == NULL, "a stop is told on one line");
    }
    story_figures(story, &figures);
    fuzz_assert(figures.stops == story_count(story), "the figures count the stops");
    story_free(story);
    str_free(&told);
}

static void
ask_everything(struct trace *trace)
{
    struct str out = { 0 };
    struct state *state = state_new(trace);
    size_t count = trace_count(trace), step = count / LOOKED_AT + 1;
    fuzz_assert(trace_event(trace, count) == NULL && trace_note(trace) != NULL, "behind the end there is none");
    for (size_t seq = 0; seq < count; seq += seq < LOOKED_AT / 2 ? 1 : step)
        ask_event(trace, seq, &out);
    for (size_t part = 0; count > 0 && state != NULL && part < 5; part++) /* forwards and back */
        ask_state(trace, state, (count - 1) * (part * 3 % 5) / 4);
    if (count > 0 && state != NULL)
        ask_tensors(trace, state, state_seq(state) < count ? state_seq(state) : 0);
    ask_names(trace);
    if (count > 0)
        ask_moves(trace);
    ask_story(trace);
    uint32_t hash = 0, again = 0;
    bool hashed = trace_file_hash(trace, &hash);
    fuzz_assert(!hashed || !trace_file_hash(trace, &again) || hash == again, "a trace has one hash");
    state_free(state);
    str_free(&out);
}

/* ---- drawn ---- */

/* No cell holds a control character: a trace cannot steer the terminal. */
static void
check_cells(const struct canvas *canvas)
{
    for (int row = 0; row < canvas->height; row++)
        for (int column = 0; column < canvas->width; column++) {
            uint32_t code = canvas_at(canvas, row, column)->code;
            fuzz_assert(code == 0 || (code >= 0x20 && code != 0x7f && !(code >= 0x80 && code < 0xa0)),
                        "a frame holds no control characters");
        }
}

/* Each pane has its turn on one of the screens; the curves are there. */
static void
draw_panes(struct model *model, struct view *view, size_t screen, const struct capabilities *can)
{
    view->arrange.curves_shown = CURVES_ON;
    arrange_work(view, model);
    while (model_learn(model, SIZE_MAX))
        continue;
    for (int pane = (int)screen; pane < PANE_COUNT; pane += 3) {
        struct canvas canvas;
        view->chosen = (enum pane)pane;
        fuzz_assert(canvas_init(&canvas, view->width, view->height), "there is memory for a canvas");
        frame_draw(model, view, &canvas, can);
        check_cells(&canvas);
        canvas_free(&canvas);
    }
}

/* Takes the trace. */
static void
draw(struct trace *trace)
{
    static const struct { int width, height; struct capabilities can; } screens[] = {
        { 80, 24, { .colours = 256, .utf8 = true } },
        { 33, 9, { .colours = 0 } },
        { 120, 40, { .colours = 8, .utf8 = true } },
    };
    struct model model;
    struct view view;
    if (!model_open(&model, trace))
        return;
    view_init(&view);
    for (size_t i = 0; i < countof(screens); i++) {
        size_t count = trace_count(trace);
        view.width = screens[i].width;
        view.height = screens[i].height;
        view_goto(&view, &model, count > 0 ? (count - 1) * i / 2 : 0);
        if (view.cursor != NO_EVENT && !model_seek(&model, view.cursor))
            continue;
        draw_panes(&model, &view, i, &screens[i].can);
    }
    view_free(&view);
    model_close(&model);
}

/* Beside itself, as the second of two runs. */
static void
draw_twice(struct trace *trace)
{
    char why[200];
    const struct join_part parts[] = { { "a.trace", trace }, { "b.trace", trace } };
    struct trace *whole = trace_join(parts, countof(parts), &(struct join_wish){ .clock = JOIN_ITERATION }, why, sizeof why);
    if (whole != NULL)
        draw(whole);
}

/* As the only one of a job whose traces are there. */
static void
draw_job(struct trace *trace)
{
    char why[200];
    const struct join_part part = { "rank0.trace", trace };
    const struct join_wish wish = { .clock = JOIN_JOB };
    struct trace *whole = trace_join(&part, 1, &wish, why, sizeof why);
    if (whole != NULL)
        draw(whole);
}

/* ---- one input ---- */

/* A trace that shrinks may be read no more through its mapping, only by asking again. */
static void
look(const struct packed *packed, int fd, size_t size)
{
    char why[200] = "";
    struct trace *trace = trace_open_fd(fd, why, sizeof why);
    fuzz_assert(trace != NULL || why[0] != '\0', "who refuses says why");
    if (trace == NULL)
        return;
    if (packed->mode & PACKED_GROWS) {
        ask_everything(trace);
        packed_put(packed, fd, size);
        trace_refresh(trace);
    }
    ask_everything(trace);
    if ((packed->mode & PACKED_SHRINK) && packed->head.complete == 0 &&
        ftruncate(fd, (off_t)(packed->cut % (size + 1))) == 0)
        fuzz_assert(!trace_refresh(trace) || trace_count(trace) > 0, "there is more only where there is any");
    if ((packed->mode & (PACKED_DRAWN | PACKED_SHRINK)) == PACKED_DRAWN) {
        if (packed->cut % 4 == 1)
            draw_twice(trace);
        if (packed->cut % 4 == 2)
            draw_job(trace);
        draw(trace);
    }
    else
        trace_release(trace);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct packed packed;
    if (!packed_read(&packed, data, size))
        return 0;
    size_t bytes = packed_length(&packed);
    if (!(packed.mode & PACKED_SHRINK))
        bytes -= packed.cut % bytes;
    int fd = fuzz_file("", 0);
    packed_put(&packed, fd, packed.mode & PACKED_GROWS ? bytes / 2 : bytes);
    look(&packed, fd, bytes);
    close(fd);
    packed_free(&packed);
    return 0;
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    uint64_t random = seed;
    struct packed packed;
    if (dice(&random, 20) == 0 || !packed_read(&packed, data, size))
        return LLVMFuzzerMutate(data, size, max);
    for (uint64_t times = 1 + dice(&random, 4); times > 0; times--)
        packed_change(&packed, &random);
    size_t written = packed_write(&packed, data, max);
    packed_free(&packed);
    return written > 0 ? written : LLVMFuzzerMutate(data, size, max);
}
