/* What the flight recorder keeps of a call; see recorder.c. */
#ifndef C10D_RECORDER_H
#define C10D_RECORDER_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "c10d/fingerprint.h"
#include "flight/flight.h"

struct task; struct work; struct post; struct process_group;

struct recorded {
    struct fingerprint print;
    int64_t            record;      /* of all the rank's calls, from 0 */
    int64_t            sequence;    /* of the group's collectives, or of its sends and receives on this rank */
    int64_t            tag;
    int                peer;        /* in the world; -1: any, or no send or receive */
    bool               is_p2p;
    enum flight_state  state;
    uint32_t           line;
    uint64_t           created_ps, started_ps, completed_ps, timeout_ps;
};

struct recorder {
    pthread_mutex_t  mutex;
    struct recorded *calls;         /* a ring */
    size_t           room;
    uint64_t         count;         /* of all that were ever recorded */
    int64_t          posts;
};

bool     recorder_init(struct recorder *recorder, int ranks);     /* false: no memory */
void     recorder_free(struct recorder *recorder);
/* A call is made. Answers its number for recorder_reach, from 1. */
uint64_t recorder_call(const struct work *work, const struct fingerprint *print);
uint64_t recorder_post(struct task *me, struct process_group *group, const struct post *post);
/* The sequence number of a call: as long as nobody has made so many since that it is forgotten; -1. */
int64_t  recorder_sequence(struct recorder *recorder, uint64_t number);
/* It began to move, or is over, at `now` ps; 0: no call. */
void     recorder_reach(struct process_group *group, uint64_t number, enum flight_state state, uint64_t now);
/* The last calls, at most so many, in their order; answers how many. */
size_t   recorder_copy(struct recorder *recorder, struct recorded *out, size_t most);
#endif
