/* The debugger's wire: a private Unix socket, lines in, replies of lines out that end with a line ".".
 *
 * Interface in order of use: control_listen at the engine's end, control_connect at the viewer's; control_send;
 * control_reply (viewer), control_read_line (engine), control_hear (who has several viewers).
 * The socket lies in a folder that only its owner may enter (base/runtime_folder.h); whoever listed the folder's parent
 * learns nothing but that a session exists. Peers are hostile: lines and replies are bounded. */
#include "control/commands.h"

#include "base/runtime_folder.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { LINE_LIMIT = 64 * 1024, REPLY_LIMIT = 16 * 1024 * 1024 };

static bool
socket_address(const char *path, struct sockaddr_un *address, char *why, size_t why_size)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof address->sun_path) {
        snprintf(why, why_size, "%.60s...: a socket's path has at most %zu characters", path,
                 sizeof address->sun_path - 1);
        return false;
    }
    memcpy(address->sun_path, path, length + 1);
    return true;
}

/* The folder is private before the socket exists, so there is no moment in which others could connect. */
static int
bind_private(const char *path, char *why, size_t why_size)
{
    struct sockaddr_un address;
    if (!socket_address(path, &address, why, why_size))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && chmod(path, 0600) == 0 &&
        listen(fd, 4) == 0)
        return fd;
    snprintf(why, why_size, "cannot make the control socket: %s", strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

int
control_listen(const char *folder, char *path, size_t path_size, char *why, size_t why_size)
{
    int length = snprintf(path, path_size, "%s/" RUNTIME_CONTROL, folder);
    if (length >= 0 && (size_t)length < path_size)
        return bind_private(path, why, why_size);
    snprintf(why, why_size, "no room for the control socket's path");
    return -1;
}

int
control_connect(const char *path, char *why, size_t why_size)
{
    struct sockaddr_un address;
    if (!socket_address(path, &address, why, why_size))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    const char *refused = "it has ended";
    snprintf(why, why_size, "cannot reach the session at %s: %s", path,
             errno == ECONNREFUSED ? refused : strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

bool
control_send(int fd, const char *text, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(fd, text, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == ENOTSOCK)
            sent = write(fd, text, count);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        text += sent;
        count -= (size_t)sent;
    }
    return true;
}

static ssize_t
read_some(int fd, void *buffer, size_t room)
{
    ssize_t count;
    do
        count = read(fd, buffer, room);
    while (count < 0 && errno == EINTR);
    return count;
}

/* What has been read of the line. */
static enum heard
take_rest(struct control_reader *reader, struct str *line)
{
    size_t rest = reader->used - reader->at;
    const char *from = reader->buffer + reader->at;
    const char *newline = rest > 0 ? memchr(from, '\n', rest) : NULL;
    size_t length = newline != NULL ? (size_t)(newline - from) : rest;
    if (line->len + length > LINE_LIMIT)
        return HEARD_GONE;
    str_add_bytes(line, from, length);
    reader->at += newline != NULL ? length + 1 : length;
    return newline == NULL ? HEARD_PART : str_ok(line) ? HEARD_LINE : HEARD_GONE;
}

enum heard
control_hear(struct control_reader *reader, struct str *line)
{
    enum heard heard = take_rest(reader, line);
    if (heard != HEARD_PART)
        return heard;
    ssize_t count = read_some(reader->fd, reader->buffer, sizeof reader->buffer);
    if (count <= 0)
        return HEARD_GONE;
    reader->at = 0;
    reader->used = (size_t)count;
    return take_rest(reader, line);
}

bool
control_read_line(struct control_reader *reader, struct str *out)
{
    enum heard heard;
    str_clear(out);
    do
        heard = control_hear(reader, out);
    while (heard == HEARD_PART);
    return heard == HEARD_LINE;
}

bool
control_reply(struct control_reader *reader, struct str *out)
{
    struct str line = { 0 };
    bool       good = true, ends = false;
    str_clear(out);
    while (good && !ends) {
        good = control_read_line(reader, &line) && out->len + line.len < REPLY_LIMIT;
        ends = good && strcmp(str_text(&line), ".") == 0;
        if (good && !ends) {
            str_add_bytes(out, str_text(&line), line.len);
            str_add(out, "\n");
        }
    }
    str_free(&line);
    return good && str_ok(out);
}
