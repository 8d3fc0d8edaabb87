/* Whether the libraries can be opened without harm: where memory is short they end the process or turn in a circle. */
#ifndef TENSOR_CPU_BLAS_TRIAL_H
#define TENSOR_CPU_BLAS_TRIAL_H
#include <stdbool.h>
#include <stddef.h>

struct blas;

/* There is address space for so many bytes in one piece, now. */
bool address_space_fits(size_t bytes);
/* Allocations may fail here before memory is at its end: a limit is set, or the allocator is not the C library's. */
bool memory_is_guarded(void);
/* Runs it in a child process. true: it came to its end. Threads must not have been started. */
bool child_survives(bool (*attempt)(struct blas *blas), struct blas *blas);
/* Runs it here, in the same way: what it prints is not for the user, and a library allocates by what stdout is. */
void run_silent(bool (*attempt)(struct blas *blas), struct blas *blas);
#endif
