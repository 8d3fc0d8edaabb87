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

enum sampler_kind { SAMPLER_SEQUENTIAL, SAMPLER_RANDOM, SAMPLER_SUBSET, SAMPLER_DISTRIBUTED };
struct sampler {
    enum sampler_kind kind;
    int64_t           length;          /* of the data set; SUBSET: of the list, whose places it answers */
    int64_t           samples;         /* RANDOM: how many, 0: length */
    bool              replacement;     /* RANDOM */
    bool              shuffle, drop_last; /* DISTRIBUTED, from here */
    int64_t           replicas, rank;
    uint64_t          seed;            /* plus the epoch */
};
/* How many indices one pass gives. */
int64_t sampler_count(const struct sampler *sampler);

/* Where a pass stands, enough to go on from there in another run. */
struct sampler_place {
    int64_t          yielded;          /* indices that lie behind it */
    bool             has_seed;         /* RANDOM without a generator of its own: what its pass is shuffled with */
    int64_t          seed;
    bool             has_generator;    /* else: the generator as it was when the pass began */
    struct generator generator;
};

/* One pass. Lives in sampler_room() bytes of the caller's, nothing else is to be freed. */
struct index_stream {
    struct sampler    sampler;
    struct generator *drawn_from;      /* NULL: me's default one, or one seeded from it, as the kind says */
    struct generator  own;
    struct sampler_place place;
    int64_t           skip;            /* indices to be passed over when it begins */
    bool              begun;
    int64_t           blocks;          /* RANDOM: permutations (or groups) drawn so far */
    int64_t           at, filled;      /* of the indices below */
    int64_t           indices[];
};
size_t sampler_room(const struct sampler *sampler);
void   index_stream_open(struct index_stream *stream, const struct sampler *sampler, struct generator *generator);
/* Before the first index: the pass goes on at `place`. A generator that was given goes back to where it stood when that
 * pass began; the task's own is left alone. */
void   index_stream_resume(struct index_stream *stream, const struct sampler_place *place);
/* Where it stands now; another one of this kind can go on from there. */
struct sampler_place index_stream_place(const struct index_stream *stream);
/* 1: an index; 0: there are no more; -1: failed. */
int    index_stream_next(struct task *me, struct index_stream *stream, int64_t *index);
#endif
