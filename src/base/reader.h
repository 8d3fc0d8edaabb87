/* Bounded input: everything that comes from outside is read through one of these, which never reads past its end.
 * After the first short read `broken` stays set and every later read answers zeros. Little-endian. */
#ifndef BASE_READER_H
#define BASE_READER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reader {
    const unsigned char *bytes;
    size_t               size, at;
    bool                 broken;
};

struct reader reader_of(const void *bytes, size_t size);
uint8_t       read_u8(struct reader *reader);
uint16_t      read_u16(struct reader *reader);
uint32_t      read_u32(struct reader *reader);
uint64_t      read_u64(struct reader *reader);
const void   *read_bytes(struct reader *reader, size_t count); /* NULL when broken; not copied */
/* A u32 length and that many bytes, then a NUL that the length does not count: how texts stand in trace files. */
const char   *read_text(struct reader *reader);                /* "" when broken */

/* The whole file, at most `limit` bytes, in memory that the caller frees, with a NUL behind it. On failure NULL
 * and in `why` a sentence without the file's name ("no such file", "larger than 64 MiB"). */
char *file_read(const char *path, size_t limit, size_t *size, const char **why);
/* A regular file, opened to be read; the caller closes it. -1 and `why` for what is none (a pipe, a device, a folder, a
 * socket: at once, whoever may write into it) or cannot be opened. */
int   file_open(const char *path, const char **why);
#endif
