/* What the player's own files share: the memory of a case. */
#ifndef TESTS_CUDA_PLAY_KERNELS_INTERNAL_H
#define TESTS_CUDA_PLAY_KERNELS_INTERNAL_H
#include "play_kernels.h"

enum { RIM = 64 };                   /* bytes on both sides of memory; none under AddressSanitizer, which has its own */

enum storage_use { USE_ELEMENTS, USE_WORKSPACE, USE_FAULT };
struct storage {
    struct storage  *next;
    enum storage_use use;
    enum dtype       dtype;
    size_t           bytes;
    char            *block, *data;
    bool             is_used;         /* by what is compared */
    char            *before, *wanted; /* while that is compared */
};

struct storage *storage_new(struct play *p, enum storage_use use, enum dtype dtype, size_t bytes);
bool            storage_rim_holds(const struct storage *s);
void            storages_free(struct play *p);
void           *room(size_t bytes);               /* of the host; ends the program where there is none */

bool case_play(struct play *p, const struct play_case *play_case);   /* play_kernels.c; true: nothing was wrong */
int  check_all(struct play *p, int *number);   /* play_kernels_check.c: says its lines itself; how many are wrong */
#endif
