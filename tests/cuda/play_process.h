/* What players of several parts share: the parts, and what one found wrong. Each part is a process of its own, because
 * errors of GPUs are for good, and because the fake runtime (fake/fake.h) is set by the environment. */
#ifndef TESTS_CUDA_PLAY_PROCESS_H
#define TESTS_CUDA_PLAY_PROCESS_H
#include "device/backend.h"

struct play {
    const struct device_backend *cuda;
    bool                         is_fake;
    int                          wrongs;
    struct backend_why           why;
};
/* false: said, counted. */
bool play_that(struct play *p, bool holds, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A call of the table has to be done; says its sentence if not. */
bool play_done(struct play *p, bool done, const char *what);
bool play_says(struct play *p, enum backend_trouble trouble, const char *words);   /* `why` has that in it */

typedef void play_part(struct play *p);
struct part {
    const char *name;
    play_part  *run;
    const char *sentence;
    int         where;         /* bits: where it is played */
    bool        in_all_orders; /* of the fake: late, at once, 20 drawn ones */
    const char *fake;          /* RINGSIDE_FAKE_CUDA beside the order */
    const char *said;          /* has to be on stderr; NULL: nothing is, but the fake's first line */
    bool        dies;          /* by a signal, or by a sanitizer's exit */
};
/* `again`: what starts this program for one part, whose name is put behind. Prints TAP; answers main's status. */
int play_processes(const struct part *parts, int count, char *const *again, int here, bool is_fake);
int play_part_here(struct play *p, const struct part *part);
#endif
