/* Files without a name on a disk, for what would be too much for memory. */
#ifndef TRACE_NAMELESS_H
#define TRACE_NAMELESS_H
#include <stdbool.h>
#include <stddef.h>

int  nameless_file(void);                  /* -1: no folder on a disk that can be written to has room */
bool nameless_room(int fd, size_t bytes);  /* false: `bytes` more would take the disk's last GiB */
#endif
