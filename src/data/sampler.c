/* Streams of indices. Interface: sampler_count, index_stream_open, index_stream_next. */
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
    if (sampler->kind == SAMPLER_SEQUENTIAL)
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
    stream->blocks = stream->at = stream->filled = 0;
}

/* ---- random ---- */

/* Two words of the default generator are the seed of a generator for this pass. */
static bool
begin_random(struct task *me, struct index_stream *stream)
{
    if (stream->drawn_from != NULL)
        return true;
    struct generator *generator = default_generator(me);
    if (generator == NULL)
        return false;
    generator_seed(&stream->own, (uint64_t)draw_random_i64(generator));
    stream->drawn_from = &stream->own;
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

static bool
stream_begin(struct task *me, struct index_stream *stream)
{
    stream->begun = true;
    if (stream->sampler.kind == SAMPLER_RANDOM)
        return begin_random(me, stream);
    if (stream->sampler.kind == SAMPLER_DISTRIBUTED && stream->sampler.shuffle) {
        generator_seed(&stream->own, stream->sampler.seed);
        fill_randperm(&stream->own, stream->indices, (size_t)stream->sampler.length);
    }
    return true;
}

int
index_stream_next(struct task *me, struct index_stream *stream, int64_t *index)
{
    if (!stream->begun && !stream_begin(me, stream))
        return -1;
    switch (stream->sampler.kind) {
    case SAMPLER_RANDOM:      return next_random(stream, index);
    case SAMPLER_DISTRIBUTED: return next_distributed(stream, index);
    case SAMPLER_SEQUENTIAL:  break;
    }
    *index = stream->at;
    return stream->at < stream->sampler.length ? (stream->at++, 1) : 0;
}
