/* A stage is a scope three times over: of time (begin and end event), of memory (what is born in it dies with it)
 * and of scheduling (entering and leaving are where another task may get the baton).
 *
 *     STAGE(me, ddp_mark_bucket_ready, index, reducer->next);    first line of the function, on one line
 *     POINT(me, memory_alloc, storage, bytes);                   something without a length
 *     POINT_ON(me, device, dp_scatter_chunk, alias, rows);       the same, of another device than me's
 *
 * Each kind is a row of stages.def and is used in exactly one function, which that row names. At most four
 * integer arguments (at most one call that makes events among them); texts are ids from stage_text_id. */
#ifndef SCHED_STAGE_H
#define SCHED_STAGE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "sched/sched.h"
#include "trace/schema.h"

struct stage {
    struct task *me;
    int64_t      args[4];
    uint16_t     kind;      /* 0: it is not recorded */
    uint16_t     outer;     /* the task's stage around it */
    int16_t      device;
    uint8_t      depth;     /* stages around it: put back when it leaves, for the task's own count saturates */
    uint32_t     flow_in;   /* set by stage_arrive: the end event carries it */
    uint32_t     lane;
    size_t       mark;
};

void stage_enter(struct stage *stage);       /* of which me, kind and args are set */
void stage_leave(struct stage *stage);
void point_emit(struct task *me, enum kind kind, int64_t a, int64_t b, int64_t c, int64_t d);
void point_emit_on(struct task *me, int device, enum kind kind, const int64_t args[4]);

#define STAGE(task, name, ...)                                                                                     \
    struct stage stage_ __attribute__((cleanup(stage_leave), unused)) = { .me = (task), .args = { __VA_ARGS__ },   \
                                                                          .kind = KIND_##name };                   \
    stage_enter(&stage_)
#define POINT(me, kind, ...)                                                                                       \
    (__builtin_expect((me)->off[KIND_##kind], 0) ? (void)0                                                         \
                                                 : point_with((me), KIND_##kind, (const int64_t[4]){ __VA_ARGS__ }))
#define POINT_ON(me, device, kind, ...)                                                                            \
    (__builtin_expect((me)->off[KIND_##kind], 0)                                                                   \
         ? (void)0                                                                                                 \
         : point_emit_on((me), (device), KIND_##kind, (const int64_t[4]){ __VA_ARGS__ }))

/* Inlined, so that the arguments travel in registers. */
static inline __attribute__((always_inline)) void
point_with(struct task *me, enum kind kind, const int64_t args[4])
{
    point_emit(me, kind, args[0], args[1], args[2], args[3]);
}

/* Flows: the next begin or instant event of `me` leaves with this id; the innermost open stage of the given
 * variable arrives with it: stage_arrive(&stage_, flow). */
void stage_depart(struct task *me, uint32_t flow);
static inline void stage_arrive(struct stage *stage, uint32_t flow) { stage->flow_in = flow; }
/* Arguments known only at the end (bytes received, result): the end event carries the changed ones. */
static inline void stage_set(struct stage *stage, int index, int64_t value) { stage->args[index] = value; }

/* Events on a lane that has no task (a stream): appended at `time`, which must not lie before now. */
struct lane_event {
    enum kind kind;
    int       phase;       /* enum trace_phase */
    uint64_t  time;
    uint32_t  lane, line, iteration, flow;
    int       rank, device;
    int64_t   args[4];
};
void lane_emit(struct task *me, const struct lane_event *event);

/* Begin and end that do not nest as a C scope does (a lock that is held). */
void span_begin(struct task *me, enum kind kind, const int64_t args[4]);
void span_end(struct task *me, enum kind kind, const int64_t args[4]);

int64_t  stage_text_id(struct task *me, const char *text);  /* interned for an argument of type text */
/* The same, kept beside the text by who owns it: 0 before the first time and after a change of the text. */
int64_t  stage_kept_id(struct task *me, atomic_uint *kept, const char *text);
int64_t  stage_name_id(struct task *me, const char *text);  /* the same of a text that lives as long as the run */
uint64_t stage_seq(const struct task *me);                  /* events recorded so far by this run (`stepped`) or this task's buffer */
static inline bool stage_enabled(const struct task *me, enum kind kind) { return !me->off[kind]; }
/* A disabled category costs one predictable branch (its stages still are scopes and scheduling points). */
void     stage_category(struct sched *sched, enum kind kind, bool on);
#endif
