/* Streams of indices. Interface: sampler_count, index_stream_open, index_stream_resume, index_stream_next,
 * index_stream_place. */
#include "data/sampler.h"
#include "sched/task.h"
#include "tensor/tensor.h"

enum { GROUP = 32 };   /* with replacement, PyTorch draws so many at a time */

static int64_t
samples_of(const struct sampler *sampler)
{
    return sampler->samples > 0 ? sampler->samples : sampler->length;
}

int64_t
sampler_count(const struct sampler *sampler)
{
    if (sampler->kind == SAMPLER_SEQUENTIAL || sampler->kind == SAMPLER_SUBSET)
        return sampler->length;
    if (sampler->kind == SAMPLER_RANDOM)
        return samples_of(sampler);
    int64_t whole = sampler->length / sampler->replicas, rest = sampler->length % sampler->replicas;
    return whole + (rest > 0 && !sampler->drop_last);
}

size_t
sampler_room(const struct sampler *sampler)
{
    int64_t indices = sampler->length;
    if (sampler->kind == SAMPLER_SEQUENTIAL)
        indices = 0;
    else if (sampler->kind == SAMPLER_RANDOM && sampler->replacement)
        indices = GROUP;
    return sizeof(struct index_stream) + (size_t)indices * sizeof(int64_t);
}

void
index_stream_open(struct index_stream *stream, const struct sampler *sampler, struct generator *generator)
{
    stream->sampler    = *sampler;
    stream->drawn_from = generator;
    stream->begun      = false;
    stream->place      = (struct sampler_place){ .yielded = 0 };
    stream->skip = stream->blocks = stream->at = stream->filled = 0;
}

void
index_stream_resume(struct index_stream *stream, const struct sampler_place *place)
{
    stream->place         = *place;
    stream->place.yielded = 0;
    stream->skip          = place->yielded;
}

struct sampler_place
index_stream_place(const struct index_stream *stream)
{
    struct sampler_place place = stream->place;
    place.yielded += stream->skip;
    return place;
}

/* ---- random ---- */

/* Two words of the default generator are the seed of a generator for this pass. */
static bool
begin_with_seed(struct task *me, struct index_stream *stream)
{
    struct sampler_place *place = &stream->place;
    if (!place->has_seed) {
        struct generator *generator = default_generator(me);
        if (generator == NULL)
            return false;
        place->seed     = draw_random_i64(generator);
        place->has_seed = true;
    }
    generator_seed(&stream->own, (uint64_t)place->seed);
    stream->drawn_from = &stream->own;
    return true;
}

/* From a generator that is there. A pass that goes on draws once more what it drew: from that generator, if it was
 * given, else from a copy, since others draw from the task's own, too. */
static bool
begin_with_generator(struct task *me, struct index_stream *stream)
{
    struct sampler_place *place = &stream->place;
    bool                  given = stream->drawn_from != NULL;
    struct generator     *generator = given ? stream->drawn_from : default_generator(me);
    if (generator == NULL)
        return false;
    if (place->has_generator && given)
        *generator = place->generator;
    else if (place->has_generator)
        *(generator = &stream->own) = place->generator;
    place->generator     = *generator;
    place->has_generator = true;
    stream->drawn_from   = generator;
    return true;
}

/* The next permutation or group of draws; the last may be empty, but a permutation is drawn for it all the same.
 * false: that was the last. */
static bool
next_block(struct index_stream *stream)
{
    const struct sampler *sampler = &stream->sampler;
    int64_t               block = sampler->replacement ? GROUP : sampler->length, samples = samples_of(sampler);
    if (block == 0 || stream->blocks > samples / block)
        return false;
    stream->filled = stream->blocks < samples / block ? block : samples % block;
    stream->at     = 0;
    stream->blocks++;
    if (!sampler->replacement)
        fill_randperm(stream->drawn_from, stream->indices, (size_t)sampler->length);
    for (int64_t i = 0; sampler->replacement && i < stream->filled; i++)
        stream->indices[i] = draw_randint(stream->drawn_from, 0, sampler->length);
    return true;
}

static int
next_random(struct index_stream *stream, int64_t *index)
{
    while (stream->at == stream->filled)
        if (!next_block(stream))
            return 0;
    *index = stream->indices[stream->at++];
    return 1;
}

/* ---- distributed ---- */

/* Every rank shuffles alike, then takes each replicas-th; what is missing at the end comes from the beginning. */
static int
next_distributed(struct index_stream *stream, int64_t *index)
{
    const struct sampler *sampler = &stream->sampler;
    if (stream->at == sampler_count(sampler))
        return 0;
    int64_t place = (sampler->rank + stream->at++ * sampler->replicas) % sampler->length;
    *index        = sampler->shuffle ? stream->indices[place] : place;
    return 1;
}

/* ---- any ---- */

static bool
stream_begin(struct task *me, struct index_stream *stream)
{
    const struct sampler *sampler = &stream->sampler;
    stream->begun = true;
    if (sampler->kind == SAMPLER_RANDOM && stream->drawn_from == NULL)
        return begin_with_seed(me, stream);
    if (sampler->kind == SAMPLER_RANDOM)
        return begin_with_generator(me, stream);
    if (sampler->kind == SAMPLER_SUBSET) {
        if (!begin_with_generator(me, stream))
            return false;
        fill_randperm(stream->drawn_from, stream->indices, (size_t)sampler->length);
    }
    if (sampler->kind == SAMPLER_DISTRIBUTED && sampler->shuffle) {
        generator_seed(&stream->own, sampler->seed);
        fill_randperm(&stream->own, stream->indices, (size_t)sampler->length);
    }
    return true;
}

static int
next_place(struct index_stream *stream, int64_t *index)
{
    if (stream->at == stream->sampler.length)
        return 0;
    *index = stream->at++;
    if (stream->sampler.kind == SAMPLER_SUBSET)
        *index = stream->indices[*index];
    return 1;
}

static int
stream_next(struct index_stream *stream, int64_t *index)
{
    int more = 0;
    switch (stream->sampler.kind) {
    case SAMPLER_RANDOM:      more = next_random(stream, index); break;
    case SAMPLER_DISTRIBUTED: more = next_distributed(stream, index); break;
    case SAMPLER_SEQUENTIAL:
    case SAMPLER_SUBSET:      more = next_place(stream, index); break;
    }
    stream->place.yielded += more;
    return more;
}

int
index_stream_next(struct task *me, struct index_stream *stream, int64_t *index)
{
    if (!stream->begun && !stream_begin(me, stream))
        return -1;
    int more = 1;
    for (; more > 0 && stream->skip > 0; stream->skip--)
        more = stream_next(stream, index);
    stream->skip = 0;
    return more > 0 ? stream_next(stream, index) : 0;
}
