/* Samplers as streams of integers, with PyTorch's draws in PyTorch's order (torch/utils/data/sampler.py,
 * distributed.py): a stream draws when its first index is asked for, and, as Python's generators do, once more when it
 * has run out. A data set is only its length here. */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/rng.h"

struct task;

enum sampler_kind { SAMPLER_SEQUENTIAL, SAMPLER_RANDOM, SAMPLER_DISTRIBUTED };
struct sampler {
    enum sampler_kind kind;
    int64_t           length;          /* of the data set */
    int64_t           samples;         /* RANDOM: how many, 0: length */
    bool              replacement;     /* RANDOM */
    bool              shuffle, drop_last; /* DISTRIBUTED, from here */
    int64_t           replicas, rank;
    uint64_t          seed;            /* plus the epoch */
};
/* How many indices one pass gives. */
int64_t sampler_count(const struct sampler *sampler);

/* One pass. Lives in sampler_room() bytes of the caller's, nothing else is to be freed. */
struct index_stream {
    struct sampler    sampler;
    struct generator *drawn_from;      /* NULL: seeded from me's default one when it begins */
    struct generator  own;
    bool              begun;
    int64_t           blocks;          /* RANDOM: permutations (or groups) drawn so far */
    int64_t           at, filled;      /* of the indices below */
    int64_t           indices[];
};
size_t sampler_room(const struct sampler *sampler);
void   index_stream_open(struct index_stream *stream, const struct sampler *sampler, struct generator *generator);
/* 1: an index; 0: there are no more; -1: failed. */
int    index_stream_next(struct task *me, struct index_stream *stream, int64_t *index);
#endif
