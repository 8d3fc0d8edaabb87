/* The player of transports: exercises every slot of a plug-in (src/c10d/transport.h) between processes, without the
 * engine. What a process plays is a part; each part has processes of its own where the player forks them. */
#ifndef TESTS_TRANSPORT_PLAY_H
#define TESTS_TRANSPORT_PLAY_H
#include <pthread.h>
#include <stdatomic.h>
#include "c10d/transport.h"

enum { PLAY_FINE = 0, PLAY_WRONG = 1, PLAY_SKIPPED = 77, PLAY_HUNG = 78 };

/* Who waits: until it is told to give up, for a time, or until a key is in the store. Counts what it is asked. */
struct patience {
    struct play            *play;
    int64_t                 until_ms;       /* 0: for ever */
    const char             *until_key;      /* NULL: none; given up a while after it is there */
    int64_t                 seen_ms;        /* the key */
    unsigned long           pauses, pauses_after;
    bool                    gave_up;
    unsigned long           sends, recvs, ends, strangers;
    size_t                  sent_bytes;
    int                     open_hops;
    pthread_t               owner;          /* hops are told on the thread that runs the collective */
    struct transport_waiter waiter;
};

struct play {
    const struct transport *transport;
    void                   *opened;
    int                     rank, size;
    const char             *folder;         /* of the store's files */
    const char             *part;
    char                    at[120];        /* what is tried, for a process that hangs or is wrong */
    atomic_int              wrongs;
    struct transport_store  store;
    struct patience         patience;
};

/* A channel and the number of its next call. */
struct line {
    struct play     *play;
    struct patience *patience;             /* of the thread that has it */
    void            *channel;
    int              ranks[64];
    int              size, rank;
    uint64_t         number;
    char             name[64];
};

struct part {
    const char *name, *sentence;
    int       (*run)(struct play *p);       /* PLAY_... */
    int         least;                      /* processes */
    bool        kills;                      /* the last rank dies by SIGKILL: played alone where a launcher started us */
    bool        is_asked;                   /* played only when named: not every library stands it */
};

extern const struct part play_parts[];
extern const size_t      play_part_count;

/* play.c */
void  play_wrong(struct play *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void  play_at(struct play *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void  play_note(struct play *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
int64_t play_now_ms(void);
void *play_memory(size_t bytes);
void  patience_init(struct patience *w, struct play *p, int64_t for_ms, const char *until_key);

/* play_store.c */
void  play_store_init(struct play *p);
void  play_flag(struct play *p, const char *key);
bool  play_flagged(struct play *p, const char *key);
void  play_flag_wait(struct play *p, const char *key);
void  play_meet(struct play *p, const char *what);      /* all processes, through the store */

/* play_line.c: channels, rooms, numbers */
bool  line_open(struct line *l, struct play *p, const char *name, const int *ranks, int size, struct patience *w);
bool  line_open_all(struct line *l, struct play *p, const char *name);
void  line_close(struct line *l, bool broken);
bool  line_run(struct line *l, struct transport_call *call, struct patience *w);   /* false was told by play_wrong */
enum transport_state line_wait(struct line *l, struct transport_request *r, struct patience *w);
void  line_send(struct line *l, int peer, uint32_t tag, const void *data, size_t bytes);
void  line_recv(struct line *l, int peer, uint32_t tag, void *data, size_t room, size_t bytes);

size_t      dtype_size(enum transport_dtype d);
const char *dtype_text(enum transport_dtype d);
const char *reduce_text(enum transport_reduce op);
bool        dtype_takes(enum transport_dtype d, enum transport_reduce op);
double      number_get(enum transport_dtype d, const void *at, size_t i);
void        number_put(enum transport_dtype d, void *at, size_t i, double x);
double      number_fold(enum transport_dtype d, enum transport_reduce op, double a, double b);
double      number_of(enum transport_dtype d, int rank, size_t i);   /* 1, 2 or 3, of bool 0 or 1: what `rank` holds at i */
void        play_reduce(const struct transport_call *call, void *into, const void *from, size_t bytes);

/* Memory with a rim that must stay as it is. */
struct transport_span room_new(enum transport_dtype d, size_t elements);
void                  room_fill(struct transport_span s, enum transport_dtype d, int rank, size_t first);
void                  room_check(struct play *p, struct transport_span s, const char *what);   /* the rim */
bool                  room_holds(struct play *p, struct transport_span s, enum transport_dtype d, int rank, size_t first);
void                  room_free(struct play *p, struct transport_span s, const char *what);

/* play_collectives.c, play_messages.c, play_faults.c */
int part_all_reduce(struct play *p), part_broadcast(struct play *p), part_reduce(struct play *p);
int part_all_gather(struct play *p), part_gather(struct play *p), part_scatter(struct play *p);
int part_reduce_scatter(struct play *p), part_all_to_all(struct play *p), part_barrier(struct play *p);
int part_messages(struct play *p), part_any(struct play *p), part_large(struct play *p), part_too_long(struct play *p);
int part_unread(struct play *p), part_channels(struct play *p);
int part_impatient(struct play *p), part_unmet(struct play *p), part_cancelled(struct play *p);
int part_killed(struct play *p), part_killed_peer(struct play *p), part_unequal(struct play *p);
#endif
