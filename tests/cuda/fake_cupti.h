/* A CUPTI whose records are written by a test. It fills the table in the place of src/plugins/cuda/cupti_open.c: a
 * program that is to meet it links fake_cupti.c and leaves that one out. One thread uses it at a time. */
#ifndef TESTS_CUDA_FAKE_CUPTI_H
#define TESTS_CUDA_FAKE_CUPTI_H
#include <stdbool.h>
#include <stdint.h>
#include "plugins/cuda/cupti.h"

struct fake_cupti {
    /* What it is to do. */
    const char *absent;             /* there is no library: why */
    CUptiResult clock_answer, enable_answer, call_answer;
    bool        lacks_calls;        /* as old ones: no choice of calls */
    bool        is_held;            /* something in the buffer is unfinished: only force gets it */
    size_t      dropped;            /* told once */

    /* What it saw. */
    unsigned    calls;              /* of its functions, all in all */
    unsigned    enabled, runtime_calls, flushes, forced, depth;
    bool        all_calls;          /* the kind of all runtime calls is on */
    CUpti_TimestampCallbackFunc clock;
    CUpti_BuffersCallbackRequestFunc wanted;
    const char *wrong;              /* an order of calls that the real one does not like */
};
extern struct fake_cupti fake_cupti;

/* A call that queues work: the record of its ticket, if one is pushed. Answers the correlation id. */
uint32_t fake_cupti_call(void);
uint32_t fake_cupti_silent_call(uint64_t *external);   /* the same; the record is for fake_cupti_external, later */
void     fake_cupti_external(uint32_t correlation, uint64_t external);
/* Finished work of that call. */
void     fake_cupti_kernel(uint32_t correlation, uint64_t begin, uint64_t end);  /* grid 2 x 3 x 4, block 32 x 2 */
void     fake_cupti_work(CUpti_ActivityKind kind, uint32_t correlation, uint64_t begin, uint64_t end);
void     fake_cupti_short_kernel(uint32_t correlation); /* of another layout: too short */
void     fake_cupti_deliver(void);  /* the buffer is full */
#endif
