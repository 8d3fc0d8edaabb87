/* Open MPI behind the door of transport.h. Bytes travel as MPI's messages, and between processes of one machine,
 * where sums are made, through memory that they share. MPI's own collectives are not used: its non-blocking ones
 * take twice as long as its blocking ones, which nobody could give up; neither adds in the order of all other
 * back-ends (Gloo's ring), and a collective under way cannot be cancelled, so a dead rank would keep the others'
 * memory for ever.
 *
 * The files, in the order in which a program meets them: transport.c (the table; who this process is), channel.c
 * (members meet), shared.c (their memory), message.c (send and receive), flight.c (the messages of one
 * collective), spread.c (collectives that move bytes), reduce.c (those that reduce). */
#ifndef PLUGINS_MPI_H
#define PLUGINS_MPI_H
#include <mpi.h>
#include <stdatomic.h>
#include "c10d/transport.h"

struct shared;

struct mpi {
    int         rank, size;
    long        cores;
    atomic_bool broken;           /* some channel was: the others are not waited for long at the end */
    atomic_bool left_behind;      /* some thread was, while it waits in MPI for somebody who will not come */
    atomic_bool over;             /* MPI_Finalize is */
};

/* One message of a collective. */
struct leg {
    MPI_Request          request;
    struct transport_hop hop;
    void                *data;
    bool                 over;
};

struct channel {
    struct mpi    *mpi;
    int            rank, size;
    MPI_Comm       calls, messages;  /* communicators of its own, so that tags of one are no tags of the other */
    int            tag_max;
    struct shared *shared;           /* NULL: not all members can share memory, or there is one */
    struct leg    *legs;             /* of the call that runs: room for 2 a rank, */
    char         **parts;            /* one a rank, */
    char          *scratch;          /* what others sent to be added; made when first needed */
    atomic_bool    dead;             /* a call failed or was given up: the members no longer agree */
    atomic_bool    hurried;          /* a request could not be cancelled in time; the next ones are not waited for */
};

/* ---- waiting ---- */

/* Between two looks. The first ones cost nothing; then the waiter is asked, every few looks. */
struct patience {
    struct channel                *channel;
    const struct transport_waiter *waiter;
    unsigned                       free_looks;
    uint64_t                       looks, asked;
};
enum { MEMORY_LOOKS = 1024 };                      /* at memory: some 20 us */
/* free_looks: where each rank has a core; else whoever looks keeps the others from coming. */
struct patience patience_new(struct channel *channel, const struct transport_waiter *waiter, unsigned free_looks);
bool            patience_look(struct patience *patience);     /* false: give up */

/* ---- message.c ---- */

int  message_isend(MPI_Comm comm, int peer, int tag, const void *data, size_t bytes, MPI_Request *request);
int  message_irecv(MPI_Comm comm, int peer, int tag, void *data, size_t bytes, MPI_Request *request);
size_t message_bytes(const MPI_Status *status);
uint64_t mpi_milliseconds(void);
/* "MPI_ERR_INTERN: internal error" without its name, behind what was tried. */
void mpi_why(struct transport_why *why, int error, const char *what);
/* A receive ends without a message, if its peer lets it end in time. */
void message_cancel(struct channel *channel, MPI_Request *request);
bool message_send(void *channel, int peer, uint32_t tag, const void *data, size_t bytes,
                  struct transport_request *request);
bool message_recv(void *channel, int peer, uint32_t tag, void *data, size_t bytes, struct transport_request *request);
enum transport_state message_test(void *channel, struct transport_request *request);
void message_drop(void *channel, struct transport_request *request);

/* ---- flight.c: the messages of a collective that are under way together ---- */

struct flight {
    struct channel              *channel;
    const struct transport_call *call;
    struct transport_why        *why;
    int                          count;       /* of channel->legs */
    bool                         failed;
};
void flight_send(struct flight *flight, int peer, uint64_t slot, const void *data, size_t bytes);
void flight_recv(struct flight *flight, int peer, uint64_t slot, void *data, size_t bytes);
bool flight_land(struct flight *flight);     /* all have come and gone; no more are under way in any case */

/* ---- shared.c ---- */

/* Blocks; all members call it. NULL: they do not share memory, and that is nobody's fault. */
struct shared *shared_new(MPI_Comm comm, int rank, int size);
void           shared_free(struct shared *shared);
size_t         shared_room(const struct shared *shared);        /* bytes of a slot */
/* Where rank `rank` puts what it shows in round `round`: two rounds have two slots. */
char          *shared_slot(const struct shared *shared, int rank, uint64_t round);
uint64_t       shared_round(struct shared *shared);             /* the next one: each has one meeting or more */
/* Before the first meeting of a collective; the rank that is in another one when they have met, -1: none is. */
void           shared_call(struct shared *shared, const struct transport_call *call);
int            shared_differs(const struct shared *shared);
/* Nobody leaves before all have come. What was written before is seen after. false: given up, or they differ. */
bool           shared_meet(struct shared *shared, struct patience *patience);

/* ---- collectives: spread.c, reduce.c ---- */

bool spread_run(struct channel *channel, const struct transport_call *call, struct transport_why *why);
bool reduce_run(struct channel *channel, const struct transport_call *call, struct transport_why *why);
void bytes_copy(void *to, const void *from, size_t bytes);      /* of none: from and to nowhere */

/* ---- channel.c ---- */

void *channel_connect(void *mpi, const struct transport_channel_options *options, struct transport_why *why);
void  channel_disconnect(void *channel, bool broken);
#endif
