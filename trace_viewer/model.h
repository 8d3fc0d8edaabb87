/* What a trace says, arranged for drawing: per lane its spans level by level, its marks and its events. Grows with
 * the trace; never changes what it already holds but the ends of open spans. Order of use: model_open, then
 * model_refresh whenever the trace may have grown, model_close. */
#ifndef VIEWER_MODEL_H
#define VIEWER_MODEL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "theme.h"

struct diff; struct trace; struct trace_event; struct state; struct str;

enum { LEVELS = 24 };                 /* deeper spans are part of the ones around them */
#define STILL_OPEN UINT64_MAX         /* end of a span that has not ended */
#define NO_EVENT   SIZE_MAX

/* Times in ps. Spans of one level of one lane do not overlap and are in order. */
struct span { uint64_t begin, end; uint32_t seq; uint8_t work; };
struct mark { uint64_t time; uint32_t seq; uint8_t work; };

struct level { struct span *spans; size_t count, room; };

struct lane {
    struct level levels[LEVELS];
    int          depth;                       /* levels in use */
    struct mark *marks;
    size_t       mark_count, mark_room;
    uint32_t    *events;                      /* every event of the lane, in order */
    size_t       event_count, event_room;
    int          open;                        /* spans open now; open_kind[i] for those with a level */
    uint16_t     open_kind[LEVELS];
};

struct model {
    struct trace *trace;      /* owned */
    struct state *state;      /* as of `at` */
    size_t        at;
    struct state *past;       /* as of `past_at`: what was so before the last step */
    size_t        past_at;
    struct diff  *diff;       /* of the two runs that the trace is of; NULL: they are not compared */
    struct lane  *lanes;
    size_t        lane_count, lane_room;
    size_t        seen;       /* events taken in */
    uint64_t      end;        /* time of the last of them */
    uint32_t     *faults, *lessons;  /* fault events and failed checks; what the lesson says, and faults */
    size_t        fault_count, fault_room, lesson_count, lesson_room;
    bool          ranked;     /* lanes of more than one rank */
    uint8_t      *work;       /* of each kind */
    size_t        kind_count;
};

bool model_open(struct model *model, struct trace *trace); /* false: no memory; the trace is released */
bool model_refresh(struct model *model);                   /* true: there is something new */
void model_close(struct model *model);
bool model_compare(struct model *model, char *why, size_t why_size); /* two traces as one: from now on with `diff` */
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

/* The innermost span of a level at or around a time: its index, or the first one behind it. */
size_t level_find(const struct level *level, uint64_t time);
/* The place of `seq` among the lane's events, or of the first one behind it. */
size_t lane_find(const struct lane *lane, size_t seq);
/* What to write on a span or mark: "replicate", "Linear", "wait allreduce". Short, from the event's own words. */
void   model_label(const struct model *model, size_t seq, struct str *out);
#endif
