/* A TCP store's server: one thread with a table of keys, which serves whoever speaks the store's language
 * (store_wire.h). Order of use: store_server_start; store_server_port; store_server_stop, which joins the thread.
 *
 * Peers are hostile. Memory is taken for what has come, not for what is announced, and all peers together have a bound.
 * One that says no hello, stops in the middle of a message or sends what is none is closed; where there is no room for
 * another peer the oldest that has not said hello makes room. Nobody is waited for. */
#ifndef C10D_STORE_SERVER_H
#define C10D_STORE_SERVER_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sched; struct store_server;
/* Takes over the listening socket, which does not block. NULL: `why`. `sched`: whose account pays; NULL outside of a
 * run. */
struct store_server *store_server_start(struct sched *sched, int listener, char *why, size_t why_size);
size_t store_server_peers(const struct store_server *server); /* how many are connected; from any thread */
/* After it has served those that are still connected for so long, or until they have gone. 0: at once. */
void store_server_stop(struct store_server *server, uint64_t linger_ms);
#endif
