/* Bounded input. Every parser of the project stands on these few functions, so the bounds are checked here once.
 *
 * Interface in order of use: file_open, file_read, reader_of; read_u8 to read_u64, read_bytes, read_text; then look at
 * `broken` once per record. */
#include "base/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct reader
reader_of(const void *bytes, size_t size)
{
    return (struct reader){ .bytes = bytes, .size = size };
}

const void *
read_bytes(struct reader *reader, size_t count)
{
    if (reader->broken || count > reader->size - reader->at) {
        reader->broken = true;
        return NULL;
    }
    const void *bytes = count > 0 || reader->bytes != NULL ? reader->bytes + reader->at : (const void *)"";
    reader->at += count;
    return bytes;
}

/* Little-endian whatever the machine is. */
static uint64_t
read_little_endian(struct reader *reader, size_t count)
{
    const unsigned char *byte = read_bytes(reader, count);
    uint64_t number = 0;
    for (size_t i = count; byte != NULL && i > 0; i--)
        number = number << 8 | byte[i - 1];
    return number;
}

uint8_t
read_u8(struct reader *reader)
{
    return (uint8_t)read_little_endian(reader, 1);
}

uint16_t
read_u16(struct reader *reader)
{
    return (uint16_t)read_little_endian(reader, 2);
}

uint32_t
read_u32(struct reader *reader)
{
    return (uint32_t)read_little_endian(reader, 4);
}

uint64_t
read_u64(struct reader *reader)
{
    return read_little_endian(reader, 8);
}

/* A NUL inside the text would make two readers disagree on its length, so it breaks the reader too. */
const char *
read_text(struct reader *reader)
{
    size_t length = read_u32(reader);
    const char *text = read_bytes(reader, length);
    const char *end = text != NULL ? read_bytes(reader, 1) : NULL;
    if (end == NULL)
        return "";
    if (*end != '\0' || memchr(text, '\0', length) != NULL) {
        reader->broken = true;
        return "";
    }
    return text;
}

static const char *
why_not_read(int error)
{
    switch (error) {
    case ENOENT: return "no such file";
    case EACCES: return "permission denied";
    case EISDIR: return "is a directory";
    case ENXIO: return "is not a regular file"; /* a socket */
    case ENOTDIR: return "no such file";
    case ENAMETOOLONG: return "the name is too long";
    case ELOOP: return "its symbolic links lead in a circle";
    case ENOMEM: return "out of memory";
    case EMFILE:
    case ENFILE: return "too many open files";
    default: return "cannot be read";
    }
}

/* The limits in use are round; a sentence that must not be freed cannot name any other. */
static const char *
too_large(size_t limit)
{
    static const struct {
        size_t      limit;
        const char *why;
    } sizes[] = {
        { (size_t)64 << 10, "larger than 64 KiB" }, { (size_t)1 << 20, "larger than 1 MiB" },
        { (size_t)16 << 20, "larger than 16 MiB" }, { (size_t)64 << 20, "larger than 64 MiB" },
        { (size_t)256 << 20, "larger than 256 MiB" }, { (size_t)1 << 30, "larger than 1 GiB" },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].limit == limit)
            return sizes[i].why;
    }
    return "too large";
}

/* Reads until the end, because files of /proc say 0 for their size; `size` is only where the room begins. */
static char *
read_all(int file, size_t room, size_t limit, size_t *size, const char **why)
{
    char *text = malloc(room + 1);
    size_t have = 0;
    while (text != NULL) {
        if (have > limit) {
            *why = too_large(limit);
            break;
        }
        if (have == room) {
            room = room < 4096 ? 8192 : room * 2;
            char *grown = realloc(text, room + 1);
            if (grown == NULL) {
                free(text);
                text = NULL;
                break;
            }
            text = grown;
        }
        ssize_t got = read(file, text + have, room - have);
        if (got > 0) {
            have += (size_t)got;
        } else if (got == 0) {
            text[have] = '\0';
            *size = have;
            return text;
        } else if (errno != EINTR) {
            *why = why_not_read(errno);
            break;
        }
    }
    free(text);
    return NULL;
}

/* Without waiting for a writer, and without becoming a terminal's owner. */
int
file_open(const char *path, const char **why)
{
    struct stat about;
    int         file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0) {
        *why = why_not_read(errno);
        return -1;
    }
    if (fstat(file, &about) == 0 && S_ISREG(about.st_mode))
        return file;
    *why = S_ISDIR(about.st_mode) ? "is a directory" : "is not a regular file";
    close(file);
    return -1;
}

char *
file_read(const char *path, size_t limit, size_t *size, const char **why)
{
    int         file = file_open(path, why);
    struct stat about;
    char       *text = NULL;
    if (file < 0)
        return NULL;
    *why = "out of memory";
    if (fstat(file, &about) != 0)
        *why = why_not_read(errno);
    else if (about.st_size > 0 && (uint64_t)about.st_size > limit)
        *why = too_large(limit);
    else
        text = read_all(file, about.st_size > 0 ? (size_t)about.st_size + 1 : 4096, limit, size, why);
    close(file);
    return text;
}
