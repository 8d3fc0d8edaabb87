/* What the files of the plug-in's timelines share: timeline.c (streams, queues of records, who measures), and the two
 * who can measure: cupti.c (NVIDIA's records of all that a GPU does) and pairs.c (an event before and one after each
 * operation). CUPTI belongs to the process, so what it is asked for does, too. */
#ifndef CUDA_TIMELINE_H
#define CUDA_TIMELINE_H
#include <pthread.h>
#include "plugins/cuda/cuda.h"

struct pairs;

/* Streams at a time, and finished records of one that nobody has fetched. */
enum { TIMED_STREAMS = 4096, TIMED_RECORDS = 8192 };

/* A stream whose operations are timed. */
struct timed {
    struct timed          *next;
    struct backend_stream *stream;
    uint32_t               number;    /* 1 .. TIMED_STREAMS - 1: among those that are open */
    pthread_mutex_t        mutex;     /* guards what follows; nobody calls CUPTI while he has it */
    struct backend_record *records;   /* TIMED_RECORDS */
    size_t                 count;
    uint64_t               last;      /* the newest ticket that was queued, */
    uint64_t               newest;    /* and the newest that there was a record of */
    struct pairs          *pairs;     /* pairs.c's */
};

/* One who measures. Functions that can fail leave one phrase in `why`. */
struct timeline_source {
    const char *name;                            /* as RINGSIDE_CUDA_TIMELINE spells it */
    bool (*open)(char *why, size_t size);        /* after close, too */
    void (*close)(void);                         /* the last stream has gone */
    bool (*stream)(struct timed *timed);         /* its thread has entered its device */
    void (*stream_close)(struct timed *timed);
    void (*before)(struct timed *timed, uint64_t ticket);    /* by the thread that queues, */
    void (*after)(struct timed *timed, uint64_t ticket);     /* around what it queues */
    void (*flush)(bool forced);                  /* brings what is finished; forced: also what never will be */
    void (*poll)(struct timed *timed);           /* the same for one stream, whose mutex is held */
    bool (*describe)(char *text, size_t size);   /* for people: "CUPTI 13.0.1"; false: why it cannot be had */
};
extern const struct timeline_source timeline_cupti, timeline_pairs;

/* ---- timeline.c, for those two ---- */
uint64_t timeline_now(void);    /* ns of the run's clock; goes on after the run, so that CUPTI may ask */
void     timeline_add(struct timed *timed, const struct backend_record *record);   /* its mutex is held */
void     timeline_add_to(uint32_t number, struct backend_record *record);          /* fills `stream` in */
void     timeline_lost(uint64_t records);
#endif
