/* Interface: descriptors_fill. */
#include "base/descriptors.h"

#include <fcntl.h>
#include <unistd.h>

void
descriptors_fill(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR); /* the lowest that is free */
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}
