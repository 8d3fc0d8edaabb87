/* play_kernels [WORD]: plays all cases, or those whose sentence or kernel has WORD in it, and prints TAP.
 *
 * Order of use: main; family_play, case_play; check_table. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "play_kernels_internal.h"

enum { SAY_AT_MOST = 5 };

static const struct play_case *const families[] = {
    play_elementwise, play_reduce, play_rows, play_pick, play_products, play_draws,
};

void
play_wrong(struct play *p, const char *format, ...)
{
    va_list args;
    if (p->wrongs++ >= SAY_AT_MOST)
        return;
    va_start(args, format);
    fputs("# ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

bool
case_play(struct play *p, const struct play_case *play_case)
{
    p->kernel   = play_case->kernel;
    p->random   = 1;
    p->wrongs   = p->compared = p->found = 0;
    p->said[0]  = '\0';
    play_case->run(p);
    if (p->compared == 0)
        play_wrong(p, "the case compares nothing");
    if (p->wrongs > SAY_AT_MOST)
        printf("# and %d more\n", p->wrongs - SAY_AT_MOST);
    storages_free(p);
    return p->wrongs == 0;
}

static bool
is_asked(const struct play_case *play_case, const char *word)
{
    return word == NULL || strstr(play_case->sentence, word) != NULL ||
           (play_case->kernel < KERNEL_COUNT && strstr(kernel_name(play_case->kernel), word) != NULL);
}

/* How many were wrong. */
static int
family_play(struct play *p, const struct play_case *cases, const char *word, int *number)
{
    int wrong = 0;
    for (const struct play_case *c = cases; c->run != NULL; c++) {
        if (!is_asked(c, word))
            continue;
        bool holds = case_play(p, c);
        wrong += !holds;
        bool named = c->kernel < KERNEL_COUNT;
        printf("%sok %d - %s%s%s\n", holds ? "" : "not ", ++*number, named ? kernel_name(c->kernel) : "",
               named ? ": " : "", c->sentence);
        fflush(stdout);
    }
    return wrong;
}

int
main(int argc, char **argv)
{
    int         seen[KERNEL_COUNT] = { 0 }, number = 0, wrong = 0;
    struct play play = { .seen = seen };
    const char *word = argc > 1 ? argv[1] : NULL;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        wrong += family_play(&play, families[f], word, &number);
    if (word == NULL)
        wrong += check_all(&play, &number);
    printf("1..%d\n", number);
    return wrong > 0;
}
