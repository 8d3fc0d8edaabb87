/* PyTorch's CPU generator (one Mersenne twister with a cached second normal) and a small generator for policies.
 * Rules: CPUGeneratorImpl, DistributionTemplates.h of PyTorch 2.15; every value here is PyTorch's bit for bit.
 * Fills write `count` elements one after the other in memory order. */
#ifndef BASE_RNG_H
#define BASE_RNG_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/philox.h"

/* What Philox has drawn for a device since the seed, or since the state was set: so many blocks of each subsequence. */
enum { GENERATOR_DEVICES = 64 };
struct device_draws { int owner; uint64_t blocks; };   /* owner: 1 + the device; 0: nobody yet */

struct generator {
    uint64_t seed;
    uint32_t state[624];
    int      position;     /* words used of this block; 0 (fresh) and 624: renew before the next */
    bool     has_normal;   /* path S keeps its second normal here */
    double   next_normal;
    /* Devices that draw by themselves begin at this block of each subsequence; a copy of the generator stands where it
     * stood there, too. The state below has one number for all of them, that of whichever has drawn most. */
    uint64_t blocks;
    struct device_draws devices[GENERATOR_DEVICES];
};

void     generator_seed(struct generator *generator, uint64_t seed); /* drops the cached normal */
uint32_t generator_u32(struct generator *generator);
uint64_t generator_u64(struct generator *generator);                  /* first word is the high half */
float    generator_f32(struct generator *generator);                  /* [0,1), 24 bits */
double   generator_f64(struct generator *generator);                  /* [0,1), 53 bits */

void fill_uniform_f32(struct generator *g, float *out, size_t count, double low, double high);
void fill_uniform_f64(struct generator *g, double *out, size_t count, double low, double high);
/* `contiguous` false forces path S (short or strided tensors); the size rule (16) is applied here. */
struct normal { double mean, std; bool contiguous; };
void fill_normal_f32(struct generator *g, float *out, size_t count, struct normal normal);
void fill_normal_f64(struct generator *g, double *out, size_t count, struct normal normal);
/* rng_half.c: float16, or bfloat16 (brain), as their bits. */
struct uniform { double low, high; };
void fill_uniform_half(struct generator *g, uint16_t *out, size_t count, struct uniform uniform, bool brain);
void fill_normal_half(struct generator *g, uint16_t *out, size_t count, struct normal normal, bool brain);
int64_t  draw_randint(struct generator *g, int64_t low, int64_t high);          /* [low, high) */
int64_t  draw_random_i64(struct generator *g);                                  /* random_() of an int64 */
int64_t  draw_random_f32(struct generator *g);                                  /* random_() of a float: 0..2^24 */
bool     draw_random_bool(struct generator *g);
bool     draw_bernoulli(struct generator *g, double p);                         /* two words */
double   draw_exponential(struct generator *g, double rate);                      /* two words */
void     fill_randperm(struct generator *g, int64_t *out, size_t count);

/* Fills the 5056 bytes of torch.get_rng_state; PyTorch has states of CUDA's generators apart
 * (torch.cuda.get_rng_state). */
void generator_state(const struct generator *generator, unsigned char out[5056]);
bool generator_set_state(struct generator *generator, const unsigned char in[5056]); /* false: not such a state */

/* The next block of that device, which is the same for all after a seed. false: 64 other devices have drawn since. */
bool generator_draws(struct generator *generator, int device, struct philox *at);

/* For policies and ties: one 64-bit state, no relation to PyTorch's numbers (SplitMix64). */
uint64_t splitmix(uint64_t *state);
#endif
