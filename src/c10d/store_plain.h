/* A TCP store's client for who has no task: the launcher, and whoever explains why a run stands still. One request at a
 * time, over a blocking connection, so many seconds at most for each. Order of use: store_plain_open, store_plain_ask ...,
 * store_plain_close. */
#ifndef C10D_STORE_PLAIN_H
#define C10D_STORE_PLAIN_H
#include <stdbool.h>
#include "c10d/store.h"

int  store_plain_open(const char *host, int port, int patience_s);   /* -1: nobody of this kind is there */
/* The reply's bytes are the caller's to free; keys as other stores' clients write them. false: the connection is lost. */
bool store_plain_ask(int fd, const struct store_request *request, struct store_reply *reply);
void store_plain_close(int fd);
#endif
