/* ringside exercise NN: the student's own copy of an exercise, checked again each time it is saved. Each run is a
 * process of its own, which leaves its report in memory that both share: a run that is killed takes nothing with it.
 *
 * Interface: cli_exercise. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/place.h"
#include "base/reader.h"
#include "base/str.h"
#include "base/vec.h"
#include "cli/commands.h"
#include "cli/course.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/run.h"
#include "cli/saved.h"
#include "lua/lesson.h"

enum { EXERCISE_BYTES = 1 << 20, KEPT_MOST = 999 };

struct exercise {
    const char  *word, *given;        /* NN and FILE as given; given NULL: none */
    const char  *variant;
    bool         once, tap, reset;
    struct run_options options;
    char         name[NAME_MAX + 1];  /* "01-six-rows" */
    char         checks[PATH_MAX], original[PATH_MAX], file[PATH_MAX];
    char         failing[sizeof(((struct exercise_report *)0)->name)];
    int          hints_shown;         /* of the check that failed last */
};

static int
print_exercise_help(void)
{
    puts("ringside exercise NN [FILE]     your copy of an exercise, checked each time you save it\n\n"
         "NN is its number or name: 01, six-rows. Without a FILE yours is NN-slug.lua in this folder, and is made\n"
         "from the course's if it is not there. The file returns a table of answers; the checks lie in the course.\n\n"
         "--once            one run: the first check that fails, with its first hint; exit status 0 or 1\n"
         "--variant SEED    with other sizes and values; 0, as written, without it\n"
         "--reset           only begins anew: your file is renamed to NN-slug.lua.1, and a fresh one is copied\n"
         "--tap             one run, every check as a line of TAP\n"
         "--help            this\n\n"
         "Exit status: 0 all checks hold, 1 a check failed, 2 usage or the run ended early.");
    return STATUS_DONE;
}

/* ---- the command line ---- */

struct exercise_option { const char *name; bool takes; };
static const struct exercise_option option_table[] = {
    { "once", false }, { "variant", true }, { "reset", false }, { "tap", false }, { "help", false },
};

/* By name or a beginning that only one has. */
static const struct exercise_option *
find_option(const char *name, size_t length)
{
    const struct exercise_option *found = NULL;
    for (size_t i = 0; i < countof(option_table); i++)
        if (strncmp(option_table[i].name, name, length) == 0)
            found = found == NULL ? &option_table[i] : NULL;
    return length > 0 ? found : NULL;
}

/* -1: go on. */
static int
keep_variant(struct exercise *exercise, const char *value)
{
    char *end = NULL;
    errno     = 0;
    exercise->options.variant = value != NULL ? strtoull(value, &end, 10) : 0;
    if (value == NULL || *value < '0' || *value > '9' || *end != '\0' || errno != 0 ||
        exercise->options.variant > VARIANT_MOST)
        return message(STATUS_USAGE, "exercise: --variant takes a whole number from 0 to %d%s%.60s%s", VARIANT_MOST,
                       value != NULL ? ", not '" : "", value != NULL ? value : "", value != NULL ? "'" : "");
    return -1;
}

static int
refuse_option(const char *word)
{
    const char *meant = nearest(word + 2, option_table, countof(option_table), sizeof option_table[0]);
    if (meant != NULL)
        return message(STATUS_USAGE, "exercise: no option %s; did you mean --%s?", word, meant);
    return message(STATUS_USAGE, "exercise: no option %s; 'ringside exercise --help' lists them", word);
}

/* The option argv[*at]; -1: go on, else the exit status. */
static int
read_exercise_option(struct exercise *exercise, int argc, char **argv, int *at)
{
    const char *word  = argv[*at];
    size_t      length = strcspn(word + 2, "=");
    bool        joined = word[2 + length] == '=';
    const struct exercise_option *option = strcmp(word, "-h") == 0 ? find_option("help", 4)
                                           : word[1] == '-' ? find_option(word + 2, length) : NULL;
    if (option == NULL)
        return refuse_option(word);
    if (option->takes) {
        const char *value = joined ? word + 3 + length : *at + 1 < argc ? argv[++*at] : NULL;
        return keep_variant(exercise, value);
    }
    if (joined)
        return message(STATUS_USAGE, "exercise: --%s takes no value", option->name);
    if (strcmp(option->name, "help") == 0)
        return print_exercise_help();
    exercise->once |= strcmp(option->name, "once") == 0;
    exercise->tap |= strcmp(option->name, "tap") == 0;
    exercise->reset |= strcmp(option->name, "reset") == 0;
    return -1;
}

static int
read_words(struct exercise *exercise, int argc, char **argv)
{
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!only_words && strcmp(word, "--") == 0) {
            only_words = true;
        } else if (!only_words && word[0] == '-' && word[1] != '\0') {
            int status = read_exercise_option(exercise, argc, argv, &i);
            if (status >= 0)
                return status;
        } else if (exercise->word == NULL) {
            exercise->word = word;
        } else if (exercise->given == NULL) {
            exercise->given = word;
        } else {
            return message(STATUS_USAGE, "exercise: one exercise and one file, not '%s' too", word);
        }
    }
    if (exercise->reset && exercise->given != NULL)
        return message(STATUS_USAGE, "exercise: --reset is for your copy in this folder, not for '%s'",
                       exercise->given);
    return -1;
}

/* ---- which one ---- */

static int
is_checks(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 4 && entry->d_name[0] != '.' && strcmp(entry->d_name + length - 4, ".lua") == 0;
}

/* Says which exercises there are. */
static int
tell_exercises(const struct exercise *exercise, const char *course)
{
    char            folder[PATH_MAX + 16];
    struct dirent **entries = NULL;
    struct str      names   = { 0 };
    snprintf(folder, sizeof folder, "%s/checks", course);
    int count = scandir(folder, &entries, is_checks, alphasort);
    for (int i = 0; i < count; i++) {
        str_addf(&names, "%s%.*s", i > 0 ? ", " : "", (int)strlen(entries[i]->d_name) - 4, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    if (count <= 0)
        message(0, "no exercises in %s", folder);
    else if (exercise->word == NULL)
        message(0, "exercise: which one? There are %s", str_text(&names));
    else
        message(0, "no exercise '%.60s'; there are %s", exercise->word, str_text(&names));
    str_free(&names);
    return STATUS_USAGE;
}

static int
find_exercise(struct exercise *exercise)
{
    char course[PATH_MAX], word[NAME_MAX + 16];
    if (!course_folder(course, sizeof course))
        return message(STATUS_USAGE, "exercise: the course is not here: no folder of lessons lies beside the program");
    snprintf(word, sizeof word, "checks/%.250s", exercise->word != NULL ? exercise->word : "");
    if (exercise->word == NULL || strchr(exercise->word, '/') != NULL ||
        !course_has(word, exercise->name, sizeof exercise->name))
        return tell_exercises(exercise, course);
    int a = snprintf(exercise->checks, PATH_MAX, "%s/checks/%s.lua", course, exercise->name);
    int b = snprintf(exercise->original, PATH_MAX, "%s/exercises/%s.lua", course, exercise->name);
    int c = exercise->given != NULL ? snprintf(exercise->file, PATH_MAX, "%s", exercise->given)
                                    : snprintf(exercise->file, PATH_MAX, "%s.lua", exercise->name);
    if (a >= PATH_MAX || b >= PATH_MAX || c >= PATH_MAX)
        return message(STATUS_USAGE, "exercise: a path is too long");
    return -1;
}

/* ---- the student's file ---- */

static bool
is_there(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

/* "NN-slug.lua" -> "NN-slug.lua.1", or the first number that is free. */
static int
put_aside(const struct exercise *exercise)
{
    char kept[PATH_MAX + 16];
    int  number = 0;
    do
        snprintf(kept, sizeof kept, "%s.%d", exercise->file, ++number);
    while (is_there(kept) && number < KEPT_MOST);
    if (is_there(kept) || rename(exercise->file, kept) != 0)
        return message(STATUS_USAGE, "cannot rename %s to %s: %s", exercise->file, kept,
                       is_there(kept) ? "it is there" : strerror(errno));
    answer_line("your file is now ", kept);
    return -1;
}

static int
copy_original(const struct exercise *exercise)
{
    size_t      size = 0, written = 0;
    const char *why  = NULL;
    char       *text = file_read(exercise->original, EXERCISE_BYTES, &size, &why);
    if (text == NULL)
        return message(STATUS_USAGE, "%s: %s", exercise->original, why);
    int     file  = open(exercise->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    ssize_t count = 0;
    while (file >= 0 && written < size && (count = write(file, text + written, size - written)) > 0)
        written += (size_t)count;
    int  error = file < 0 || count < 0 ? errno : 0;
    bool ok    = file >= 0 && close(file) == 0 && written == size;
    free(text);
    if (ok) {
        answer_line("your copy of the exercise: ", exercise->file);
        return -1;
    }
    if (file >= 0)
        unlink(exercise->file);
    return message(STATUS_USAGE, "cannot write %s here: %s; go to a folder of your own, or name a FILE", exercise->file,
                   error != 0 ? strerror(error) : "the disk is full");
}

/* -1: there is a file to be checked. */
static int
have_file(const struct exercise *exercise)
{
    struct stat about;
    if (stat(exercise->file, &about) == 0 && S_ISDIR(about.st_mode))
        return message(STATUS_USAGE, "%s is a folder; rename it, or name a FILE", exercise->file);
    if (exercise->given != NULL)
        return is_there(exercise->file) ? -1 : message(STATUS_USAGE, "%s: no such file", exercise->file);
    int status = exercise->reset && is_there(exercise->file) ? put_aside(exercise) : -1;
    if (status >= 0 || is_there(exercise->file))
        return status;
    return copy_original(exercise);
}

/* ---- what is said ---- */

static int
terminal_width(void)
{
    enum { WIDTH = 80, LEAST = 20 };
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < LEAST)
        return WIDTH;
    return size.ws_col;
}

/* How many bytes of the text go into `room` cells: up to the last blank that fits; a word alone may be longer. */
static size_t
wrapped_length(const char *text, int room)
{
    size_t length = 0, blank = 0;
    for (int cells = 0; text[length] != '\0'; length++) {
        if (text[length] == ' ' && length > 0)
            blank = length;
        cells += ((unsigned char)text[length] & 0xc0) != 0x80;
        if (cells > room && blank > 0)
            return blank;
    }
    return length;
}

/* The label and the text, on as many lines as it takes; all but the first stand as far in as the label's blanks. */
static void
tell(const char *label, const char *text)
{
    int  width = terminal_width(), indent = (int)strspn(label, " ");
    char piece[sizeof ((struct exercise_report *)0)->hints], blanks[16];
    snprintf(blanks, sizeof blanks, "%*s", indent + 2, "");
    for (;;) {
        size_t length = wrapped_length(text, width - (int)strlen(label));
        snprintf(piece, sizeof piece, "%.*s", (int)length, text);
        answer_line(label, piece);
        text += length;
        text += strspn(text, " ");
        if (*text == '\0')
            return;
        label = blanks;
    }
}

/* On a terminal, as long as the checks run. */
static void
tell_checking(bool now)
{
    if (!isatty(STDOUT_FILENO))
        return;
    fputs(now ? "checking ..." : "\r\033[K", stdout);
    fflush(stdout);
}

/* ---- one run ---- */

static void
set_options(struct exercise *exercise, char **argument)
{
    argument[0]                  = exercise->file;
    exercise->options.lesson     = exercise->checks;
    exercise->options.executor   = EXECUTOR_STEPPED;
    exercise->options.args       = argument;
    exercise->options.arg_count  = 1;
    exercise->options.tap        = exercise->tap;
}

/* In a process of its own; answers its exit status. */
static int
run_apart(struct exercise *exercise, struct exercise_report *report)
{
    fflush(stdout);
    tell_checking(true);
    memset(report, 0, sizeof *report);
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        return message(STATUS_FAILED, "exercise: no process for the checks: %s", strerror(errno));
    if (child == 0) {
        char *argument[1];
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(STATUS_FAILED);
        set_options(exercise, argument);
        exercise->options.report = report;
        _exit(output_finish(run_lesson(&exercise->options, NULL)));
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    tell_checking(false);
    if (WIFSIGNALED(status))
        return message(STATUS_FAILED, "exercise: the checks were ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* The hint whose turn it is: the first when a check begins to fail, the next each time it fails again. */
static void
tell_hint(struct exercise *exercise, const struct exercise_report *report)
{
    const char *at    = report->hints;
    int         count = 1;
    bool        again = strcmp(exercise->failing, report->name) == 0;
    snprintf(exercise->failing, sizeof exercise->failing, "%s", report->name);
    if (*at == '\0')
        return;
    for (const char *line = at; (line = strchr(line, '\n')) != NULL; line++)
        count++;
    exercise->hints_shown = !again ? 1 : exercise->hints_shown < count ? exercise->hints_shown + 1 : count;
    for (int i = 1; i < exercise->hints_shown; i++)
        at = strchr(at, '\n') + 1;
    char label[48], hint[sizeof report->hints];
    snprintf(label, sizeof label, "  hint %d of %d: ", exercise->hints_shown, count);
    snprintf(hint, sizeof hint, "%.*s", (int)strcspn(at, "\n"), at);
    tell(label, hint);
}

static void
tell_report(struct exercise *exercise, const struct exercise_report *report, int status)
{
    int held = report->checks - report->failed;
    if (status == STATUS_DONE) {
        printf("all %d checks hold", report->checks);
        if (exercise->options.variant > 0)
            printf(" in variant %llu", (unsigned long long)exercise->options.variant);
        puts("");
        return;
    }
    if (report->endless > 0) {
        char endless[100];
        snprintf(endless, sizeof endless, "line %d of your file did not come to an end: an endless loop?",
                 report->endless);
        tell("", endless);
        return;
    }
    if (report->failed == 0) {
        printf("%d checks held, then the run ended\n", held);
        return;
    }
    printf("%d of %d checks hold\n", held, report->checks);
    tell("next: ", report->name);
    char detail[sizeof report->detail];
    for (const char *at = report->detail; *at != '\0'; at += strspn(at, "\n")) {
        snprintf(detail, sizeof detail, "%.*s", (int)strcspn(at, "\n"), at);
        tell("  ", detail);
        at += strcspn(at, "\n");
    }
    tell_hint(exercise, report);
}

/* ---- again and again ---- */

static int
watch_exercise(struct exercise *exercise, struct exercise_report *report)
{
    struct saved     saved;
    enum saved_event event  = SAVED;
    int              status = STATUS_CHECK;
    saved_open(&saved, exercise->file);
    while (event != SAVED_ENDED) {
        if (event == SAVED) {
            status = run_apart(exercise, report);
            tell_report(exercise, report, status);
        } else {
            answer_line("gone, waiting until it is back: ", exercise->file);
        }
        if (status == STATUS_DONE && event == SAVED)
            break;
        if (event == SAVED)
            answer_line("waiting until you save ", exercise->file);
        if (fflush(stdout) != 0)
            break; /* nobody reads any more */
        event = saved_wait(&saved);
        puts("");
    }
    saved_close(&saved);
    return event == SAVED_ENDED ? message(STATUS_USAGE, "%s: its folder is gone", exercise->file) : status;
}

static int
check_exercise(struct exercise *exercise)
{
    char *argument[1];
    if (exercise->tap) {
        set_options(exercise, argument);
        return run_lesson(&exercise->options, NULL);
    }
    const int               access = PROT_READ | PROT_WRITE, shared = MAP_SHARED | MAP_ANONYMOUS;
    struct exercise_report *report = mmap(NULL, sizeof *report, access, shared, -1, 0);
    if (report == MAP_FAILED)
        return message(STATUS_FAILED, "out of memory");
    int status;
    if (exercise->once) {
        status = run_apart(exercise, report);
        tell_report(exercise, report, status);
    } else {
        status = watch_exercise(exercise, report);
    }
    munmap(report, sizeof *report);
    return status;
}

int
cli_exercise(int argc, char **argv)
{
    struct exercise *exercise = calloc(1, sizeof *exercise);
    if (exercise == NULL)
        return message(STATUS_FAILED, "out of memory");
    int status = read_words(exercise, argc, argv);
    if (status < 0)
        status = find_exercise(exercise);
    if (status < 0)
        status = have_file(exercise);
    if (status < 0)
        status = exercise->reset ? STATUS_DONE : check_exercise(exercise);
    free(exercise);
    return status;
}
