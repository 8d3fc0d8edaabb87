/* Moves over a record: where step, stage, next, finish, continue, until and their reverses stop. A session (live, or in a
 * batch) and the viewer of a saved trace ask here, so all of them have the same stops.
 *
 *   step      the next event, but passes over memory.* (with it comm.numbers, autograd.graph) and lock.* unless they
 *             are shown (move_rules)
 *   next      the next stop of the story (analysis/story.h)
 *   stage     in the order of the trace, on any lane, the next begin of a stage of dp, ddp, c10d, autograd, module or
 *             optim, or the next word of the lesson: lesson.begin, say, ask, end, and a check that fails. So it goes
 *             into what a stage does; finish passes over that. Points of the engine (dp.scatter.chunk, c10d.issue)
 *             lie in the stages that make them, and are step's; so are checks that hold, which come by the dozen, and
 *             how ranks meet (c10d.rendezvous, c10d.store.*: four stages a rank before the lesson's own first one),
 *             unless that is what one looks at: `show stores`, or a lesson with show = "stores"
 *   finish    the end of the stage around the event, on its lane; of a begin its own end
 *   continue  the next event at which a breakpoint holds
 *   until     the next event for which EXPR holds
 *
 * A reverse (back, rnext, rstage, rfinish, rcontinue, runtil) is the exact mirror: the same stops in the other order, and
 * rfinish goes to the begin where finish goes to the end. Where nothing is left the move ends at the record's edge.
 *
 * Where somebody is asked (rules.asks) every move forwards stops at a question as well, the first time it comes there.
 *
 * A search is done in slices, so that whoever searches millions of events can look up between them, and it may meet the
 * end of a record that still grows: then it is asked to go on once there is more.
 *
 * Order of use: a struct move with trace, story, rules, ended and at filled in; move_begin; move_search until it has
 * stopped or its edge will not move; then the cursor is move.at; move_end. */
#ifndef ANALYSIS_MOVES_H
#define ANALYSIS_MOVES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "analysis/breaks.h"

struct command_line;
struct story;

enum shown { SHOWN_MEMORY = 1, SHOWN_LOCKS = 2, SHOWN_STORES = 4 };

/* What a person has set, kept from move to move. */
struct move_rules {
    struct breaks breaks;
    bool          asks;
    size_t        asked;                     /* up to here one has been asked */
    unsigned      shown;                     /* enum shown, or-ed: families that step and stage stop at too */
};

struct move {
    struct trace            *trace;          /* borrowed, as the rules are */
    struct move_rules       *rules;
    struct story            *story;          /* of that trace, borrowed; next asks it. NULL: no memory */
    bool                     ended;          /* no event will come behind those that there are */
    size_t                   at;             /* the cursor, then the event that was looked at last */

    int                      command;        /* enum command */
    bool                     meetings;       /* stage: at stores and rendezvous too */
    bool                     backwards;
    size_t                   from, left;     /* where it began; stops still to come, this one included */
    uint32_t                 lane;           /* finish: whose stage, and how many were opened in it meanwhile */
    size_t                   inside;
    struct match            *match;          /* until */
    const struct breakpoint *stopped_by;     /* continue */
};

enum move_result {
    MOVE_STOPPED,                            /* at `at` */
    MOVE_GOES_ON,                            /* the slice is used up */
    MOVE_AT_EDGE,                            /* `at` is the last event there is (backwards: event 0), and no stop; rnext
                                              * at the last event: what comes behind it tells which stops lie before */
    MOVE_NO_MEMORY                           /* for the story; the cursor stays */
};

/* Of enum command: step, stage, next, finish, continue, until or a reverse. */
bool is_move(int command);
/* false: it cannot be done, `told` gets the reason in one line, and there is nothing to end. */
bool move_begin(struct move *move, const struct command_line *line, struct str *told);
/* Looks at `slice` events at most, none of them at or behind `count`. */
enum move_result move_search(struct move *move, size_t count, size_t slice);
/* How far the run should go before the search goes on: a step sees nothing of the future, a long search asks rarely. */
size_t move_wants(const struct move *move);
void   move_end(struct move *move);

/* Whether step stops at that event. */
bool move_shows(const struct trace *trace, const struct move_rules *rules, size_t seq);
/* show memory|locks|stores|all|none. false: another word; `told` gets a line either way. */
bool move_show(struct move_rules *rules, const char *what, struct str *told);
#endif
