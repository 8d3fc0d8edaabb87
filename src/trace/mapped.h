/* Stretches of a file, mapped for reading. Where the file is cut under the mapping (another program truncates it or
 * writes it anew) the rest reads as zeros from then on, and mapped_gone says so; without this the process would end by
 * SIGBUS. */
#ifndef TRACE_MAPPED_H
#define TRACE_MAPPED_H
#include <stdbool.h>
#include <stddef.h>

struct mapped { void *base; size_t bytes; int place; };

bool mapped_open(struct mapped *mapped, int fd, size_t offset, size_t bytes); /* false: no room; errno says why */
void mapped_close(struct mapped *mapped);
bool mapped_gone(const struct mapped *mapped); /* something was asked for that was not there any more */
#endif
