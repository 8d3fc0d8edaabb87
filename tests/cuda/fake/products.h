/* What the tests ask of the cuBLAS that is none; see products.c. */
#ifndef TESTS_CUDA_FAKE_PRODUCTS_H
#define TESTS_CUDA_FAKE_PRODUCTS_H
#include <stdint.h>

struct fake_products {
    uint64_t queued, done;      /* products; a batch is one */
    int      handles;           /* open now */
    int      math, atomics;     /* as the last handle was told */
};
struct fake_products fake_products(void);
#endif
