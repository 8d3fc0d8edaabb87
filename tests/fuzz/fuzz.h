/* What a fuzzer and libFuzzer call of each other, and the dice that its mutator throws: the same seed, the same input.
 * A fuzzer is one file fuzz_NAME.c. In BUILD=fuzz libFuzzer brings main; in every other build plain.c does, which
 * runs over the files that it is given. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H
#include <stddef.h>
#include <stdint.h>

/* The fuzzer's: one input; an input changed a little, at most `max` bytes long (answers its length). */
int    LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
/* Some fuzzers': two inputs made one. */
size_t LLVMFuzzerCustomCrossOver(const uint8_t *one, size_t size, const uint8_t *other, size_t other_size,
                                 uint8_t *out, size_t max, unsigned seed);

/* libFuzzer's: changes bytes without knowing what they mean. plain.c answers `size` and changes nothing. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

uint64_t dice(uint64_t *random, uint64_t below);   /* 0 .. below - 1; below is at least 1 */
uint64_t dice_number(uint64_t *random);            /* what breaks counting: near 0, near powers of two, anything */

/* Ends the process as a crash does, so that what a fuzzer asserts is found too. */
void fuzz_assert(int holds, const char *what);

/* A file of no name that holds these bytes; the caller closes it. No memory ends the process. */
int  fuzz_file(const void *bytes, size_t size);
#endif
