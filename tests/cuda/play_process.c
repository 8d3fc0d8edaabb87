/* Parts of a player, each in a process of its own: what it prints, how it ends. TAP.
 *
 * Interface: play_processes in the parent; play_part_here in the child, play_that and its like in parts. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "play_process.h"

enum { ORDERS = 22, SAID = 8192, AGAIN = 4 };

/* ---- what parts say ---- */

bool
play_that(struct play *p, bool holds, const char *format, ...)
{
    va_list args;
    if (holds || p->wrongs++ >= 10)
        return holds;
    va_start(args, format);
    printf("# ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    return false;
}

bool
play_done(struct play *p, bool done, const char *what)
{
    return play_that(p, done, "%s: %s", what, p->why.text);
}

bool
play_says(struct play *p, enum backend_trouble trouble, const char *words)
{
    return play_that(p, p->why.trouble == trouble && strstr(p->why.text, words) != NULL,
                     "trouble %d, \"%s\"; expected %d with \"%s\"", (int)p->why.trouble, p->why.text,
                     (int)trouble, words);
}

/* 0, or 1 where something was wrong. */
int
play_part_here(struct play *p, const struct part *part)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    part->run(p);
    return p->wrongs > 0;
}

/* ---- a process for each ---- */

struct said { char out[SAID], err[SAID]; int status; };

static void
read_all(int file, char *text)
{
    size_t  length = 0;
    ssize_t n;
    while (length < SAID - 1 && (n = read(file, text + length, SAID - 1 - length)) > 0)
        length += (size_t)n;
    text[length] = '\0';
    close(file);
}

static void
child(char *const *again, const struct part *part, const char *words, const int *out, const int *err)
{
    char *arguments[AGAIN + 2];
    int   n = 0;
    for (; again[n] != NULL && n < AGAIN; n++)
        arguments[n] = again[n];
    arguments[n]     = (char *)(uintptr_t)part->name;
    arguments[n + 1] = NULL;
    setenv("RINGSIDE_FAKE_CUDA", words, 1);
    dup2(out[1], 1);
    dup2(err[1], 2);
    close(out[0]);
    close(err[0]);
    execv("/proc/self/exe", arguments);
    _exit(127);
}

/* What a part says fits a pipe: reading one after the other does not hold it up. */
static void
play_child(char *const *again, const struct part *part, const char *words, struct said *said)
{
    int out[2], err[2];
    if (pipe(out) != 0 || pipe(err) != 0)
        exit(1);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        child(again, part, words, out, err);
    close(out[1]);
    close(err[1]);
    read_all(out[0], said->out);
    read_all(err[0], said->err);
    waitpid(pid, &said->status, 0);
}

/* Without the line that the fake begins with, which has to come once. */
static bool
said_as_wanted(const struct part *part, const char *err, bool is_fake)
{
    static const char first[] = "fake CUDA: ordering, lifetimes and error paths of host code; no device code ran\n";
    if (!is_fake)
        return true;
    const char *at = strstr(err, first);
    if (at != err || strstr(at + 1, first) != NULL)
        return false;
    return part->dies || (part->said == NULL ? err[sizeof first - 1] == '\0' : strstr(err, part->said) != NULL);
}

static bool
play_once(char *const *again, const struct part *part, const char *order, bool is_fake)
{
    static struct said said;
    char words[200];
    snprintf(words, sizeof words, "order=%s,%s", order, part->fake);
    play_child(again, part, words, &said);
    bool ended = part->dies ? said.status != 0 : WIFEXITED(said.status) && WEXITSTATUS(said.status) == 0;
    bool right = said_as_wanted(part, said.err, is_fake);
    if (ended && right)
        return true;
    printf("# %s, status %d\n%s", words, said.status, said.out);
    for (char *rest = said.err, *line; (line = strsep(&rest, "\n")) != NULL;)
        if (line[0] != '\0')
            printf("# stderr: %s\n", line);
    return false;
}

static bool
play_orders(char *const *again, const struct part *part, bool is_fake)
{
    bool right  = true;
    int  orders = part->in_all_orders && is_fake ? ORDERS : 1;
    for (int i = 0; i < orders; i++) {
        char order[20];
        snprintf(order, sizeof order, i == 0 ? "lazy" : i == 1 ? "eager" : "seed:%d", i - 1);
        right = play_once(again, part, order, is_fake) && right;
    }
    return right;
}

int
play_processes(const struct part *parts, int count, char *const *again, int here, bool is_fake)
{
    int number = 0, wrongs = 0;
    for (int i = 0; i < count; i++) {
        if ((parts[i].where & here) == 0)
            continue;
        bool right = play_orders(again, &parts[i], is_fake);
        wrongs += !right;
        printf("%sok %d - %s%s\n", right ? "" : "not ", ++number, parts[i].sentence,
               parts[i].in_all_orders && is_fake ? ": late, at once, and in 20 drawn orders" : "");
        fflush(stdout);
    }
    printf("1..%d\n", number);
    return wrongs > 0;
}
