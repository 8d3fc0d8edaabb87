/* Dice for the mutators, and what every fuzzer needs of the system. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/rng.h"
#include "fuzz.h"

uint64_t
dice(uint64_t *random, uint64_t below)
{
    return splitmix(random) % below;
}

uint64_t
dice_number(uint64_t *random)
{
    uint64_t power = (uint64_t)1 << dice(random, 64);
    switch (dice(random, 6)) {
    case 0:
        return dice(random, 16);
    case 1:
        return 0 - dice(random, 16);
    case 2:
        return power - 1 + dice(random, 3);
    case 3:
        return 0 - (power - 1 + dice(random, 3));
    case 4:
        return splitmix(random) >> dice(random, 64);
    default:
        return dice(random, 300);
    }
}

void
fuzz_assert(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz: this does not hold: %s\n", what);
    abort();
}

int
fuzz_file(const void *bytes, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, bytes, size, 0) != (ssize_t)size) {
        perror("fuzz: a file in memory");
        exit(1);
    }
    return fd;
}
