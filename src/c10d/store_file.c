/* FileStore: keys in a file that only grows, for processes of one machine. Each change is a record at its end, made
 * under the file's lock; who reads makes up for what was added since he last looked. c10d::FileStore.
 *
 * The file: a mark, then records of 4 bytes of length, the key, 4 bytes of length, the value. Keys of users begin with
 * '/', removed ones with '-'; "refcount/" and "cleanup/" count who uses the file and who did: the last one removes it.
 * A record that a killed writer left unfinished is cut off by the next one.
 *
 * An untrusted lesson must not be able to destroy or fill anything: see open_file and file_limit. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/str.h"
#include "c10d/store_table.h"
#include "sched/account.h"
#include "sched/faults.h"
#include "sched/sched.h"

static const char MARK[] = "ringside store 1\n";
enum { MARK_BYTES = sizeof MARK - 1, HEAD = 4 };

struct file_store {
    struct store       store;
    pthread_mutex_t    mutex;          /* `free`: one operation at a time */
    char              *path, *folder;  /* folder: of an untrusted lesson's file; NULL: the path is whole */
    int                fd;
    int64_t            world_size;
    bool               trusted;
    struct store_table table;          /* what the file says up to `at` */
    uint64_t           at;
    size_t             written;        /* bytes of an untrusted lesson, which its account pays for */
};

/* ---- where a lesson may write ---- */

/* The file's name alone, if it lies in a folder for temporary files; else NULL. */
static const char *
temporary_name(const char *path, char *folder, size_t size)
{
    const char *named = getenv("TMPDIR"), *slash = strrchr(path, '/');
    const char *folders[] = { named != NULL && named[0] == '/' ? named : "/tmp", "/tmp", "/var/tmp" };
    if (slash == NULL || slash[1] == '\0' || strcmp(slash + 1, ".") == 0 || strcmp(slash + 1, "..") == 0)
        return NULL;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        size_t length = strlen(folders[i]);
        while (length > 1 && folders[i][length - 1] == '/')
            length--;
        if ((size_t)(slash - path) != length || strncmp(path, folders[i], length) != 0)
            continue;
        snprintf(folder, size, "%.*s", (int)length, path);
        return slash + 1;
    }
    return NULL;
}

static bool
refused(struct task *me, const struct file_store *file, const char *why)
{
    return failed(me, E_PERMISSION, "a lesson may not open %.200s as a FileStore: %s; --trust lets it", file->path,
                  why);
}

/* Only a file that is new or already such a store, whole and nobody else's: no link leads out of the folder. */
static bool
file_may_be_used(struct task *me, const struct file_store *file)
{
    struct stat about;
    char        mark[MARK_BYTES];
    if (fstat(file->fd, &about) != 0 || !S_ISREG(about.st_mode))
        return failed(me, E_RUNTIME, "%.200s is no file", file->path);
    bool is_store = pread(file->fd, mark, MARK_BYTES, 0) == MARK_BYTES && memcmp(mark, MARK, MARK_BYTES) == 0;
    if (!is_store && about.st_size > 0)
        return file->trusted ? failed(me, E_RUNTIME, "%.200s is there already and is no store: choose a new name",
                                      file->path)
                             : refused(me, file, "it is there already and is no store");
    if (!file->trusted && (about.st_uid != geteuid() || about.st_nlink > 1))
        return refused(me, file, "it belongs to somebody else");
    return true;
}

static int
open_file(const struct file_store *file)
{
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK;
    if (file->trusted)
        return open(file->path, flags, 0644);
    int folder = open(file->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -1;
    int fd    = openat(folder, strrchr(file->path, '/') + 1, flags | O_NOFOLLOW, 0600);
    int error = errno;
    close(folder);
    errno = error;
    return fd;
}

/* ---- the lock ---- */

/* In `stepped` nobody of this process holds it; another process may, for a moment. */
static bool
lock_file(struct task *me, struct file_store *file)
{
    uint64_t begin = sched_now(me), tries = 0;
    uint64_t limit = store_timeout_ps(&file->store);
    while (flock(file->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return failed(me, E_RUNTIME, "cannot lock %.200s: %s", file->path, strerror(errno));
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        if (sched_is_stopping(me))
            return sched_goes_on(me) && failed(me, E_STOPPED, "the run is over");
        if (sched_now(me) - begin > limit || ++tries * UINT64_C(1000000000) > limit)
            return failed(me, E_RUNTIME, "%.200s is locked by another process", file->path);
    }
    return true;
}

static void
unlock_file(struct file_store *file)
{
    flock(file->fd, LOCK_UN);
}

/* ---- reading ---- */

/* 4 bytes of length, then so many. false: the file does not hold them yet. */
static bool
read_piece(const char *bytes, size_t count, size_t *at, const char **piece, uint32_t *length)
{
    if (count - *at < HEAD)
        return false;
    memcpy(length, bytes + *at, HEAD);
    if (count - *at - HEAD < *length)
        return false;
    *piece = bytes + *at + HEAD;
    *at += HEAD + *length;
    return true;
}

/* A record as a change of the table. */
static enum store_status
replay(struct file_store *file, const char *key, uint32_t key_bytes, const char *value, uint32_t value_bytes)
{
    char                 name[STORE_KEY_BYTES + 2];
    bool                 removed = key_bytes > 0 && key[0] == '-';
    const char          *keys = name;
    struct store_text    text = { value, value_bytes };
    struct store_reply   reply = { 0 };
    struct store_request request = { .op = removed ? STORE_DELETE : STORE_SET, .keys = &keys, .key_count = 1,
                                     .values = &text, .value_count = !removed };
    key += removed;
    key_bytes -= removed;
    if (key_bytes == 0 || key_bytes >= sizeof name || memchr(key, '\0', key_bytes) != NULL)
        return STORE_DONE; /* of another version, or damaged: nobody asks for it */
    memcpy(name, key, key_bytes);
    name[key_bytes] = '\0';
    store_table_answer(&file->table, &request, &reply);
    return reply.status;
}

static bool
bad_file(struct task *me, const struct file_store *file)
{
    return failed(me, E_RUNTIME, "cannot read %.200s: %s", file->path, errno != 0 ? strerror(errno) : "it was cut");
}

/* Everything behind `at`; under the lock. */
static bool
catch_up(struct task *me, struct file_store *file)
{
    struct stat about;
    errno = 0;
    if (fstat(file->fd, &about) != 0 || (uint64_t)about.st_size < file->at)
        return bad_file(me, file);
    if (about.st_nlink == 0)
        return failed(me, E_RUNTIME, "%.200s was removed: its last user has gone", file->path);
    size_t count = (size_t)((uint64_t)about.st_size - file->at), at = 0;
    if (count == 0)
        return true;
    if (!account_take(me->sched, count))
        return memory_failed(me, count, "the store");
    char       *bytes  = malloc(count);
    bool        ok     = bytes != NULL || memory_failed(me, count, "the store");
    const char *key, *value;
    uint32_t    key_bytes, value_bytes;
    if (ok && pread(file->fd, bytes, count, (off_t)file->at) != (ssize_t)count)
        ok = bad_file(me, file);
    for (size_t next = 0; ok && read_piece(bytes, count, &next, &key, &key_bytes) &&
                          read_piece(bytes, count, &next, &value, &value_bytes); at = next)
        if (replay(file, key, key_bytes, value, value_bytes) != STORE_DONE)
            ok = memory_failed(me, value_bytes, "the store");
    file->at += at;
    free(bytes);
    account_give(me->sched, count);
    return ok;
}

/* ---- writing ---- */

/* How long the file may become. */
static size_t
file_limit(const struct file_store *file)
{
    const size_t LARGEST = 16 << 20;
    return file->trusted ? SIZE_MAX : LARGEST;
}

static void
add_piece(struct str *out, const char *prefix, const void *bytes, size_t count)
{
    uint32_t length = (uint32_t)(strlen(prefix) + count);
    str_add_bytes(out, &length, HEAD);
    str_add_bytes(out, prefix, strlen(prefix));
    str_add_bytes(out, bytes, count);
}

static bool
write_all(int fd, const char *bytes, size_t count, uint64_t at)
{
    while (count > 0) {
        ssize_t written = pwrite(fd, bytes, count, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        count -= (size_t)written;
        at += (uint64_t)written;
    }
    return true;
}

/* Under the lock, all read: the records stand at the end, whole, or not at all. */
static bool
append_records(struct task *me, struct file_store *file, const struct str *records)
{
    if (!str_ok(records))
        return memory_failed(me, records->room, "the store");
    if (records->len > file_limit(file) || file->at > file_limit(file) - records->len)
        return failed(me, E_RUNTIME, "%.200s would grow beyond %zu MiB; --trust lets it", file->path,
                      file_limit(file) >> 20);
    if (!file->trusted && !account_take(me->sched, records->len))
        return memory_failed(me, records->len, "the store");
    if (!file->trusted)
        file->written += records->len;
    bool ok = !fault_fills_disk(me->sched) && ftruncate(file->fd, (off_t)file->at) == 0 &&
              write_all(file->fd, records->text, records->len, file->at);
    if (!ok) {
        failed(me, E_RUNTIME, "cannot write to %.200s: %s", file->path, strerror(errno));
        if (ftruncate(file->fd, (off_t)file->at) != 0)
            return false; /* the next reader meets a record that is not whole */
    }
    return ok;
}

/* ---- operations ---- */

/* The request with the file's keys. NULL: failed. */
static const char **
file_keys(struct task *me, const struct store_request *request)
{
    size_t count = (size_t)request->key_count, bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += strlen(request->keys[i]) + 2;
    const char **keys = calloc(1, count * sizeof *keys + bytes + 1);
    if (keys == NULL)
        return failed_null(me, E_MEMORY, "out of memory for a store");
    char *at = (char *)(keys + count);
    for (size_t i = 0; i < count; i++) {
        keys[i] = at;
        at += sprintf(at, "/%s", request->keys[i]) + 1;
    }
    return keys;
}

/* Whether the request was granted and changes something. */
static bool
is_change(const struct store_request *request, const struct store_reply *reply)
{
    switch (request->op) {
    case STORE_SET:
    case STORE_ADD:
    case STORE_APPEND:
    case STORE_DELETE: return reply->status == STORE_DONE;
    case STORE_COMPARE_SET: return reply->status == STORE_DONE && reply->number != 0;
    default: return false;
    }
}

/* What the request has made of its keys, as records. */
static void
add_records(struct file_store *file, const struct store_request *request, struct str *out)
{
    for (int i = 0; i < request->key_count; i++) {
        const char               *key   = request->keys[i];
        uint64_t                  place = 0;
        const struct store_entry *entry = map_get_text(&file->table.places, key, &place)
                                              ? &file->table.entries[place] : NULL;
        if (request->op == STORE_DELETE || entry == NULL || entry->value == NULL) {
            add_piece(out, "-", key, strlen(key));
            add_piece(out, "", "", 0);
        } else {
            add_piece(out, "", key, strlen(key));
            add_piece(out, "", entry->value->bytes, entry->value->count);
        }
    }
}

/* Under the lock. What cannot be written must not stand in the table: then it is read anew. */
static bool
change_file(struct task *me, struct file_store *file, const struct store_request *request, struct store_reply *reply)
{
    struct str records = { 0 };
    if (!catch_up(me, file))
        return false;
    store_table_answer(&file->table, request, reply);
    if (!is_change(request, reply))
        return true;
    add_records(file, request, &records);
    bool ok = append_records(me, file, &records);
    if (ok) {
        file->at += records.len;
    } else {
        store_table_close(&file->table);
        file->at = MARK_BYTES;
    }
    str_free(&records);
    return ok;
}

static bool
file_ask(struct task *me, struct store *store, const struct store_request *request, struct store_reply *reply)
{
    struct file_store   *file  = (struct file_store *)store;
    struct store_request inner = *request;
    if (request->op >= STORE_PUSH || (request->op == STORE_CHECK && request->what == STORE_QUEUES)) {
        reply->status = STORE_UNSUPPORTED;
        return true;
    }
    const char **keys = file_keys(me, request);
    if (keys == NULL)
        return false;
    inner.keys = keys;
    pthread_mutex_lock(&file->mutex);
    bool ok = lock_file(me, file);
    if (ok) {
        ok = change_file(me, file, &inner, reply);
        unlock_file(file);
    }
    pthread_mutex_unlock(&file->mutex);
    free(keys);
    if (ok && request->op == STORE_LIST && reply->status == STORE_DONE)
        store_reply_keep(reply, "/"); /* without the file's own */
    if (request->op == STORE_DELETE)
        reply->number = 1; /* PyTorch's answers true whether the key was there or not */
    return ok;
}

/* ---- users ---- */

/* A count of the file's own, under the lock. */
static bool
count_users(struct task *me, struct file_store *file, const char *key, int64_t amount, int64_t *now)
{
    struct store_request request = { .op = STORE_ADD, .keys = &key, .key_count = 1, .number = amount };
    struct store_reply   reply   = { 0 };
    bool                 ok      = change_file(me, file, &request, &reply);
    *now                         = reply.number;
    if (ok && reply.status == STORE_NO_MEMORY)
        return memory_failed(me, strlen(key), "the store");
    return ok && (reply.status == STORE_DONE || failed(me, E_RUNTIME, "%.200s is damaged", file->path));
}

static void
remove_file(const struct file_store *file)
{
    if (file->trusted) {
        unlink(file->path);
        return;
    }
    int folder = open(file->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        unlinkat(folder, strrchr(file->path, '/') + 1, 0);
        close(folder);
    }
}

/* The last of world_size users removes the file; of an untrusted lesson's file the last one there is. In a task that
 * has failed, too. */
static void
leave_file(struct task *me, struct file_store *file)
{
    struct error saved = me->error;
    int64_t      users = 0, gone = 0;
    me->error.kind = E_NONE;
    if (lock_file(me, file)) {
        bool counted = count_users(me, file, "cleanup/", 1, &gone) && count_users(me, file, "refcount/", -1, &users);
        if (counted && users == 0 && (!file->trusted || (file->world_size >= 0 && gone >= file->world_size)))
            remove_file(file);
        unlock_file(file);
    }
    me->error = saved;
}

static void
file_close(struct task *me, struct store *store)
{
    struct file_store *file = (struct file_store *)store;
    if (file->fd >= 0) {
        leave_file(me, file);
        close(file->fd);
    }
    account_give(store->sched, file->written);
    store_table_close(&file->table);
    pthread_mutex_destroy(&file->mutex);
    free(file->folder);
    free(file->path);
    free(file);
}

static struct store *
file_clone(struct task *me, struct store *store)
{
    struct file_store        *file    = (struct file_store *)store;
    struct store_file_options options = { .path = file->path, .world_size = file->world_size,
                                          .trusted = file->trusted };
    return store_file_new(me, &options);
}

/* As in PyTorch a FileStore's waits end with a RuntimeError. */
static const struct store_kind file_kind = {
    .name = "FileStore", .late = E_RUNTIME, .ask = file_ask, .wait = store_poll, .clone = file_clone,
    .close = file_close,
};

const char *
store_file_path(const struct store *store)
{
    return store->kind == &file_kind ? ((const struct file_store *)store)->path : NULL;
}

/* ---- opening ---- */

static bool
join_file(struct task *me, struct file_store *file)
{
    int64_t users = 0;
    if (!file_may_be_used(me, file))
        return false;
    struct stat about;
    if (fstat(file->fd, &about) == 0 && about.st_size == 0 && !write_all(file->fd, MARK, MARK_BYTES, 0))
        return failed(me, E_RUNTIME, "cannot write to %.200s: %s", file->path, strerror(errno));
    file->at = MARK_BYTES;
    return count_users(me, file, "refcount/", 1, &users);
}

static void
let_file_go(struct file_store *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* Its last user may remove it while we wait for the lock: then it is another file's turn. */
static bool
enter_file(struct task *me, struct file_store *file)
{
    enum { TRIES = 100 };
    struct stat about;
    for (int i = 0; i < TRIES; i++) {
        file->fd = open_file(file);
        if (file->fd < 0 && (errno == ELOOP || errno == EACCES) && !file->trusted)
            return refused(me, file, errno == ELOOP ? "it is a link" : "it belongs to somebody else");
        if (file->fd < 0)
            return failed(me, E_RUNTIME, "cannot open %.200s: %s", file->path, strerror(errno));
        if (!lock_file(me, file))
            break;
        bool there = fstat(file->fd, &about) == 0 && about.st_nlink > 0;
        bool ok    = there && join_file(me, file);
        unlock_file(file);
        if (there && !ok)
            break;
        if (there)
            return true;
        let_file_go(file);
    }
    let_file_go(file);
    return failed(me, E_RUNTIME, "%.200s is removed again and again", file->path);
}

struct store *
store_file_new(struct task *me, const struct store_file_options *options)
{
    char               folder[4096] = "";
    struct file_store *file         = task_failed(me) ? NULL : calloc(1, sizeof *file);
    if (file == NULL)
        return failed_null(me, E_MEMORY, "out of memory for a store");
    bool allowed = options->trusted || temporary_name(options->path, folder, sizeof folder) != NULL;
    store_begin(me, &file->store, &file_kind);
    store_table_open(&file->table, me->sched, 0);
    pthread_mutex_init(&file->mutex, NULL);
    file->fd         = -1;
    file->world_size = options->world_size;
    file->trusted    = options->trusted;
    file->path       = strdup(options->path);
    file->folder     = strdup(folder);
    bool ok = (file->path != NULL && file->folder != NULL) || failed(me, E_MEMORY, "out of memory for a store");
    if (ok && options->path[0] == '\0')
        ok = failed(me, E_VALUE, "a FileStore needs the name of a file");
    if (ok && !allowed)
        ok = refused(me, file, "only files that lie in $TMPDIR, /tmp or /var/tmp itself are its own");
    if (ok && enter_file(me, file))
        return &file->store;
    file_close(me, &file->store);
    return NULL;
}
