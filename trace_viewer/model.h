/* What a trace says, arranged for drawing (analysis/index.h), and the state as of an event. Nothing here walks over all
 * events. Order of use: model_open; model_finish, or model_arrange between frames, until model_is_whole; model_refresh
 * whenever the trace may have grown; model_close. */
#ifndef VIEWER_MODEL_H
#define VIEWER_MODEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "analysis/index.h"
#include "theme.h"

struct diff; struct stats; struct trace; struct trace_event; struct state; struct str; struct shelf; struct scale;

struct model {
    struct trace *trace;      /* owned */
    struct state *state;      /* as of `at` */
    size_t        at;
    struct state *past;       /* as of `past_at`: what was so before the last step */
    size_t        past_at;
    struct diff  *diff;       /* of the two runs that the trace is of; NULL: they are not compared */
    struct tensors    *tensors;    /* model_learn; NULL: nothing was learned yet */
    struct quantities *quantities;
    struct stats      *stats;
    struct story      *story;      /* model_story; NULL: nobody has asked */
    struct index *index;      /* ask it by the functions below where there is one */
    size_t        lane_count;
    size_t        seen;       /* events taken in */
    uint64_t      end;        /* time of the last of them */
    const uint32_t *faults, *lessons;  /* fault events and failed checks; what the lesson says, and faults */
    size_t        fault_count, lesson_count;
    uint64_t      version;    /* of the trace's order */
    bool          ranked;     /* lanes of more than one rank */
    uint8_t      *work;       /* of each kind */
    size_t        kind_count;
    struct shelf *shelf;      /* rows painted lately: strip.c's business */
};

bool model_open(struct model *model, struct trace *trace); /* false: no memory; the trace is released */
bool model_refresh(struct model *model);                   /* true: there is something new */
bool model_arrange(struct model *model);                   /* one slice, some milliseconds; true: something is new */
bool model_is_whole(const struct model *model);            /* else a sample is drawn */
void model_finish(struct model *model);                    /* all of it now: for a frame that must be exact */
void model_close(struct model *model);
bool model_compare(struct model *model, char *why, size_t why_size); /* two traces as one: from now on with `diff` */
/* Takes in what the tensor and memory panes ask for, by so many events at most. true: there is more. */
bool model_learn(struct model *model, size_t slice);
/* How the run is told, read as far as whoever asked had it read; NULL: no memory. */
struct story *model_story(struct model *model);
bool model_has_learned(const struct model *model);         /* false when model_learn has no more: no memory for it */
bool model_seek(struct model *model, size_t seq);          /* the state as of that event */
bool model_seek_past(struct model *model, size_t seq);     /* the past state; NO_EVENT: none is wanted */
/* Both, by at most so many events of each; until it answers true `at` (and `past_at`) may be NO_EVENT: what is asked of
 * the state then is still being worked out. */
bool model_approach(struct model *model, size_t seq, size_t before, size_t budget);
/* state_open; of a state that is still being worked out nothing. */
size_t model_open_stages(const struct model *model, uint32_t lane, size_t *seqs, size_t room);

const char *model_kind(const struct model *model, size_t seq);       /* its name */
enum work   model_work(const struct model *model, size_t seq);
bool        model_is_lesson(const struct model *model, size_t seq, const char *what); /* "ask": lesson.ask */
/* An argument by its name; false: the kind has none of that name. */
bool        model_argument(const struct model *model, size_t seq, const char *name, int64_t *value);
const char *model_argument_text(const struct model *model, size_t seq, const char *name); /* "" none */

/* Lanes. Of marks and spans by place and the pyramid see analysis/index.h. */
int    model_depth(const struct model *model, size_t lane);          /* levels in use */
size_t model_lane_events(const struct model *model, size_t lane);    /* how many */
/* The next event of the lane behind `seq` (direction 1) or before it (-1); NO_EVENT: none. With seq NO_EVENT the lane's
 * first (1) or last. */
size_t model_lane_next(const struct model *model, size_t lane, size_t seq, int direction);
/* The span of that level around a time, or the first one behind it; false: none. */
bool   model_span_at(const struct model *model, size_t lane, int level, uint64_t time, struct span *out);
/* The span that this begin event begins, and its level; false: none (a mark, or too deep). */
bool   model_span(const struct model *model, size_t seq, struct span *out, int *level);

size_t model_partner(const struct model *model, size_t seq);         /* of a begin its end, of an end its begin; NO_EVENT */
size_t model_flow_end(const struct model *model, size_t seq);        /* where the flow of that event leads or came from */

/* The nearest event behind `seq` (direction 1) or before it (-1) that is such; NO_EVENT: none. */
size_t model_next_kind(const struct model *model, unsigned kind, size_t seq, int direction); /* ends of spans are passed over */
size_t model_next_wait(const struct model *model, size_t lane, size_t seq, int direction);   /* begin of a wait */
size_t model_next_iteration(const struct model *model, size_t seq, int direction); /* backwards: a first event of one */
size_t model_next_fault(const struct model *model, size_t seq, int direction);
size_t model_seq_at(const struct model *model, uint64_t time);       /* the first event at that time or behind it */

/* What to write on a span or mark: "replicate", "Linear", "wait allreduce". Short, from the event's own words. */
void   model_label(const struct model *model, size_t seq, struct str *out);
/* The arguments that labels of the kind are made of, a bit each; 0: all of its events have the same label. */
uint8_t model_label_arguments(const struct model *model, unsigned kind);
#endif
