/* Lines of many processes on one output.
 *
 * Interface: stream_read, stream_finish; sink_mend, sink_waits, sink_is_crowded, sink_write,
 * sink_free. */
#include "cli/launch_lines.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/visible.h"

/* A longer line is cut. A pipe that poll says has room takes PIPE_BYTES at once. */
enum { LINE_MOST = 256 << 10, READ_BYTES = 64 << 10, CROWDED = 1 << 20, PIPE_BYTES = 4096 };

/* ---- in ---- */

static bool
names_itself(const char *text, size_t count, int rank)
{
    char   name[24];
    size_t length = (size_t)snprintf(name, sizeof name, "rank %d", rank);
    return count >= length && memcmp(text, name, length) == 0 &&
           (count == length || !isdigit((unsigned char)text[length]));
}

/* Whole, or not at all. */
static void
put_line(const struct stream *stream, const char *text, size_t count, struct str *out)
{
    size_t before = out->len;
    if (stream->prefixed && !names_itself(text, count, stream->rank))
        str_addf(out, "[%d] ", stream->rank);
    if (stream->raw)
        str_add_bytes(out, text, count);
    else
        visible_add(out, text, count, VISIBLE_LINES);
    str_add(out, "\n");
    if (!str_ok(out))
        out->len = before;
}

/* At most LINE_MOST, and no character is cut in two. */
static size_t
piece_of(const char *text)
{
    size_t length = LINE_MOST;
    for (int i = 0; i < 3 && ((unsigned char)text[length] & 0xc0) == 0x80; i++)
        length--;
    return length;
}

static void
put_pieces(const struct stream *stream, const char *text, size_t count, struct str *out)
{
    while (count > LINE_MOST) {
        size_t length = piece_of(text);
        put_line(stream, text, length, out);
        text += length;
        count -= length;
    }
    put_line(stream, text, count, out);
}

/* What came, up to its last newline, joined to what was there before. */
static void
take_bytes(struct stream *stream, const char *bytes, size_t count, struct str *out)
{
    const char *end = bytes + count, *newline;
    while ((newline = memchr(bytes, '\n', (size_t)(end - bytes))) != NULL) {
        size_t length = (size_t)(newline - bytes);
        if (stream->line.len > 0) {
            str_add_bytes(&stream->line, bytes, length);
            put_pieces(stream, str_text(&stream->line), stream->line.len, out);
            str_free(&stream->line);
        } else {
            put_pieces(stream, bytes, length, out);
        }
        bytes = newline + 1;
    }
    str_add_bytes(&stream->line, bytes, (size_t)(end - bytes));
    while (stream->line.len > LINE_MOST && str_ok(&stream->line)) {
        size_t length = piece_of(stream->line.text);
        put_line(stream, stream->line.text, length, out);
        memmove(stream->line.text, stream->line.text + length, stream->line.len - length);
        stream->line.len -= length;
    }
    if (!str_ok(&stream->line)) { /* no memory for a line: it is lost, and that is told */
        out->broken = true;
        str_free(&stream->line);
    }
}

static void
stream_close(struct stream *stream)
{
    if (stream->fd >= 0)
        close(stream->fd);
    stream->fd = -1;
}

bool
stream_read(struct stream *stream, struct str *out)
{
    char    bytes[READ_BYTES];
    ssize_t count = -1;
    if (stream->fd < 0)
        return false;
    do
        count = read(stream->fd, bytes, sizeof bytes);
    while (count < 0 && errno == EINTR);
    if (count > 0)
        take_bytes(stream, bytes, (size_t)count, out);
    else if (count == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
        stream_close(stream);
    return count > 0;
}

void
stream_finish(struct stream *stream, struct str *out)
{
    if (stream->line.len > 0)
        put_line(stream, str_text(&stream->line), stream->line.len, out);
    str_free(&stream->line);
    stream_close(stream);
}

/* ---- out ---- */

bool
sink_waits(const struct sink *sink)
{
    return sink->queue.len > sink->sent && !sink->gone;
}

bool
sink_is_crowded(const struct sink *sink)
{
    return sink_waits(sink) && sink->queue.len - sink->sent > CROWDED;
}

void
sink_mend(struct sink *sink)
{
    sink->lost         = sink->lost || !str_ok(&sink->queue);
    sink->queue.broken = false;
}

static void
sink_forget(struct sink *sink)
{
    sink_mend(sink);
    sink->sent = 0;
    str_free(&sink->queue);
}

void
sink_write(struct sink *sink)
{
    size_t  left  = sink->queue.len - sink->sent;
    ssize_t count = 0;
    if (left > 0 && !sink->gone)
        count = write(sink->fd, sink->queue.text + sink->sent, left < PIPE_BYTES ? left : PIPE_BYTES);
    if (count < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
        sink->gone  = true;
        sink->error = errno != EPIPE ? errno : 0;
    }
    sink->sent += count > 0 ? (size_t)count : 0;
    if (sink->gone || sink->sent == sink->queue.len) {
        sink_forget(sink);
    } else if (sink->sent > CROWDED) {
        sink->queue.len -= sink->sent;
        memmove(sink->queue.text, sink->queue.text + sink->sent, sink->queue.len);
        sink->sent = 0;
    }
}

void
sink_free(struct sink *sink)
{
    sink_forget(sink);
}
