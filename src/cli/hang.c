/* ringside hang: why a real job hung, from the dumps of PyTorch's Flight Recorder, in the words that a run of ours
 * gets.
 *
 * Interface: cli_hang. Dumps are read by flight/dump.h, told by flight/report.c. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/reader.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "flight/dump.h"
#include "flight/flight.h"
#include "flight/lesson.h"

static const char help[] =
    "usage: ringside hang FILE... [--rank N]... [--lesson [FILE.lua]]\n"
    "\n"
    "Says why a job hangs: the cause, the first call that differs, who waits for whom, each\n"
    "rank's last calls. FILE is a dump of PyTorch's Flight Recorder, one of each rank, NCCL or\n"
    "gloo: the pickle that PyTorch writes after a time-out, or JSON. A folder stands for the\n"
    "files in it. Pickles are read as data: nothing in them is run.\n"
    "\n"
    "  --rank N    whose dump the next FILE is, one for each FILE in their order (or N,N,...);\n"
    "              else the number at the end of its name says it, as in trace_3 and rank_3.json\n"
    "  --lesson [FILE.lua]\n"
    "              writes a lesson that hangs in the same way, to hang.lua unless said otherwise\n"
    "              (- is standard output); what is there is not overwritten\n"
    "  --help      this text\n"
    "\n"
    "To get dumps: run the job with TORCH_FR_BUFFER_SIZE=2000 (NCCL before 2.9:\n"
    "TORCH_NCCL_TRACE_BUFFER_SIZE=2000, TORCH_NCCL_DUMP_ON_TIMEOUT=1), or write what\n"
    "torch._C._distributed_c10d._dump_fr_trace() answers (NCCL: _dump_nccl_trace) to a file\n"
    "while it hangs.\n"
    "\n"
    "Status: 0 every call is over, 3 it hangs, 2 a file that is no dump.\n";

struct hang_request {
    char      **files;         /* its own */
    size_t      file_count, file_room;
    int        *ranks;         /* --rank, in order */
    size_t      rank_count, rank_room;
    const char *lesson;        /* NULL: none is asked for */
    bool        help;
};

/* ---- what is asked ---- */

static bool
add_file(struct hang_request *request, const char *folder, const char *name)
{
    struct str path = { 0 };
    str_addf(&path, "%s%s%s", folder != NULL ? folder : "", folder != NULL ? "/" : "", name);
    bool good = str_ok(&path) &&
                vec_room(&request->files, &request->file_room, request->file_count + 1, sizeof *request->files);
    if (good)
        request->files[request->file_count++] = path.text;
    else
        str_free(&path);
    return good;
}

static int
no_memory(void)
{
    return message(STATUS_USAGE, "hang: no memory");
}

/* "3" or "0,1,2". */
static int
add_ranks(struct hang_request *request, const char *word)
{
    const char *at = word;
    do {
        char *end  = NULL;
        long  rank = at != NULL && *at >= '0' && *at <= '9' ? strtol(at, &end, 10) : -1;
        if (rank < 0 || rank >= DUMP_RANKS || (*end != '\0' && *end != ','))
            return message(STATUS_USAGE, "hang: --rank wants a rank from 0 to %d, or several with commas, not '%s'",
                           DUMP_RANKS - 1, word != NULL ? word : "");
        if (!vec_room(&request->ranks, &request->rank_room, request->rank_count + 1, sizeof *request->ranks))
            return no_memory();
        request->ranks[request->rank_count++] = (int)rank;
        at = *end == ',' ? end + 1 : NULL;
    } while (at != NULL);
    return -1;
}

static bool
names_lesson(const char *word)
{
    size_t length = word != NULL ? strlen(word) : 0;
    return word != NULL && (strcmp(word, "-") == 0 || (length > 4 && strcmp(word + length - 4, ".lua") == 0));
}

/* -1: go on. Takes one word, or two: *i moves on. */
static int
read_option(int argc, char **argv, int *i, struct hang_request *request)
{
    const char *word = argv[*i], *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        request->help = true;
    } else if (strncmp(word, "--rank=", 7) == 0) {
        return add_ranks(request, word + 7);
    } else if (strcmp(word, "--rank") == 0) {
        *i += 1;
        return add_ranks(request, next);
    } else if (strncmp(word, "--lesson=", 9) == 0) {
        request->lesson = word + 9;
    } else if (strcmp(word, "--lesson") == 0) {
        *i += names_lesson(next);
        request->lesson = names_lesson(next) ? next : "hang.lua";
    } else {
        return message(STATUS_USAGE, "hang: there is no option %s; see ringside hang --help", word);
    }
    return -1;
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The files of a folder whose names end in a rank, in the order of their names. */
static int
add_folder(struct hang_request *request, const char *folder)
{
    DIR   *open  = opendir(folder);
    size_t first = request->file_count;
    bool   good  = true;
    if (open == NULL)
        return message(STATUS_USAGE, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry = readdir(open); good && entry != NULL; entry = readdir(open))
        if (entry->d_name[0] != '.' && dump_rank_of_name(entry->d_name) >= 0)
            good = add_file(request, folder, entry->d_name);
    closedir(open);
    if (!good)
        return no_memory();
    if (request->file_count == first)
        return message(STATUS_USAGE, "%s: no file in this folder has a name that ends in a rank (trace_0, rank_1.json)",
                       folder);
    qsort(request->files + first, request->file_count - first, sizeof *request->files, compare_names);
    return -1;
}

static int
read_request(int argc, char **argv, struct hang_request *request)
{
    bool options = true;
    int  status  = -1;
    for (int i = 1; i < argc && status < 0; i++) {
        struct stat about;
        if (options && strcmp(argv[i], "--") == 0)
            options = false;
        else if (options && argv[i][0] == '-' && argv[i][1] != '\0')
            status = read_option(argc, argv, &i, request);
        else if (stat(argv[i], &about) == 0 && S_ISDIR(about.st_mode))
            status = add_folder(request, argv[i]);
        else if (!add_file(request, NULL, argv[i]))
            status = no_memory();
    }
    if (status >= 0)
        return status;
    if (request->help) {
        fputs(help, stdout);
        return STATUS_DONE;
    }
    if (request->file_count == 0)
        return message(STATUS_USAGE, "hang: which dumps? usage: ringside hang FILE... (one of each rank)");
    if (request->rank_count > 0 && request->rank_count != request->file_count)
        return message(STATUS_USAGE, "hang: --rank is given %zu times, for %zu files", request->rank_count,
                       request->file_count);
    return -1;
}

/* ---- what the dumps say ---- */

static int
read_file(const struct hang_request *request, size_t index, struct dumps *dumps)
{
    const char *path = request->files[index], *why = NULL;
    size_t      size  = 0;
    char       *bytes = file_read(path, DUMP_BYTES, &size, &why);
    if (bytes == NULL)
        return message(STATUS_USAGE, "%s: %s", path, why);
    bool good = dump_read(dumps, path, bytes, size, request->rank_count > 0 ? request->ranks[index] : -1);
    free(bytes);
    return good ? -1 : message(STATUS_USAGE, "%s: %s", path, dumps->why);
}

static int
read_dumps(const struct hang_request *request, struct flight *flight)
{
    struct dumps dumps  = { .flight = flight };
    int          status = -1;
    for (size_t i = 0; i < request->file_count && status < 0; i++)
        status = read_file(request, i, &dumps);
    if (status < 0 && !dump_settle(&dumps))
        status = message(STATUS_USAGE, "hang: %s", dumps.why);
    for (const char *line = str_text(&dumps.notes), *end = NULL; status < 0 && *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        message(STATUS_DONE, "%.*s", (int)(end - line), line);
    }
    dumps_free(&dumps);
    return status;
}

/* ---- what is told ---- */

static int
columns(void)
{
    struct winsize window;
    bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0;
    return known && window.ws_col > 80 ? window.ws_col : 80;
}

static int
print_report(const struct flight *flight, const struct hang *hang)
{
    struct str report = { 0 };
    hang_print(flight, hang, columns(), &report);
    bool good = str_ok(&report);
    visible_write(stdout, str_text(&report), report.len, VISIBLE_LINES);
    str_free(&report);
    return good ? -1 : no_memory();
}

/* A file of that name is made, or none: never one that was there. */
static int
write_new(const char *path, const char *text, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0 && errno == EEXIST)
        return message(STATUS_USAGE, "%s is there already: name another file with --lesson FILE.lua", path);
    ssize_t count   = 0;
    size_t  written = 0;
    while (file >= 0 && written < size && (count = write(file, text + written, size - written)) > 0)
        written += (size_t)count;
    int  error = file < 0 || count < 0 ? errno : 0;
    bool good  = file >= 0 && close(file) == 0 && written == size;
    if (good)
        return -1;
    if (file >= 0)
        unlink(path);
    return message(STATUS_USAGE, "cannot write %s: %s", path, error != 0 ? strerror(error) : "the disk is full");
}

static int
write_lesson(const struct flight *flight, const struct hang *hang, const char *path)
{
    struct str text   = { 0 };
    int        status = -1;
    if (!flight_lesson(flight, hang, &text))
        status = !str_ok(&text) ? no_memory()
                                : message(-1, "no lesson: these dumps do not say why anybody waits");
    else if (strcmp(path, "-") == 0)
        visible_write(stdout, str_text(&text), text.len, VISIBLE_LINES);
    else
        status = write_new(path, str_text(&text), text.len);
    if (status < 0 && text.len > 0 && strcmp(path, "-") != 0)
        answer_line("a lesson that hangs in the same way: ringside run ", path);
    str_free(&text);
    return status;
}

static int
tell(const struct hang_request *request, struct flight *flight)
{
    struct hang hang;
    bool        alone = request->lesson != NULL && strcmp(request->lesson, "-") == 0; /* stdout is the lesson's */
    flight_diagnose(flight, &hang);
    int status = alone ? -1 : print_report(flight, &hang);
    if (status < 0 && request->lesson != NULL)
        status = write_lesson(flight, &hang, request->lesson);
    return status >= 0 ? status : hang.cause == HANG_NONE ? STATUS_DONE : STATUS_FAILED;
}

int
cli_hang(int argc, char **argv)
{
    struct hang_request request = { 0 };
    struct flight       flight  = { 0 };
    int status = read_request(argc, argv, &request);
    if (status < 0)
        status = read_dumps(&request, &flight);
    if (status < 0)
        status = tell(&request, &flight);
    flight_free(&flight);
    for (size_t i = 0; i < request.file_count; i++)
        free(request.files[i]);
    free(request.files);
    free(request.ranks);
    return status;
}
