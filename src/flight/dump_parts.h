/* What the files that read dumps share. */
#ifndef FLIGHT_DUMP_PARTS_H
#define FLIGHT_DUMP_PARTS_H
#include <jansson.h>
#include "flight/dump.h"

/* ---- dump_pickle.c ---- */

/* A pickle's value as JSON has it: tuples are arrays, bytes texts, keys that are numbers texts. NULL, and in `why` one
 * line: it wants to run code, it is cut short, it is none. The caller lets it go. */
json_t *dump_unpickle(const void *bytes, size_t size, char *why, size_t room);

/* ---- dump_value.c ---- */

bool        dump_wrong(struct dumps *dumps, const char *format, ...) __attribute__((format(printf, 2, 3))); /* false */
void        dump_note(struct dumps *dumps, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *dump_text(const json_t *value, const char *key);        /* NULL: there is no such text */
int64_t     dump_number(const json_t *value, const char *key, int64_t otherwise);
bool        dump_true(const json_t *value, const char *key);
/* [[3, 4], [2]] and [Float] in words; nothing where it is no list. */
void        dump_list(const json_t *list, struct str *out);
/* Ranks as a list or as text ("[0, 1]"), which the caller frees; none of what is no such list. false: no memory. */
bool        dump_ranks(const json_t *value, int **ranks, int *count);

/* How dumps spell what only Ringside's say: by enum flight_now, by enum flight_cause. */
extern const char *const dump_now_words[], *const dump_why_words[];

/* ---- dump_entry.c ---- */

/* A call of the source's rank, put into the flight. A peer is a rank of its group until dump_settle. false: `why`. */
bool dump_entry(struct dumps *dumps, struct dump_source *source, const json_t *entry);
/* A coalesced call's parts take the state that only its end has. */
void dump_close_coalesced(struct dumps *dumps, int rank);
#endif
