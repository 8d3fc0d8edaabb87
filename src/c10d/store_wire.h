/* What a TCP store's client and server say to each other. First the client's hello, 8 bytes, then the server's, the
 * same; before that a client says nothing else. Then requests and replies take turns, each behind 4 bytes of its length:
 *
 *   request  op, what (1 byte each), 2 of padding, keys, values (4 each), number (8), then keys and values
 *   reply    status (1), 3 of padding, number (8), then values
 *
 * a key or value being 4 bytes of length, its bytes and a NUL. Numbers stand as this machine has them: both ends are
 * of one kind, and the hello tells where they are not. */
#ifndef C10D_STORE_WIRE_H
#define C10D_STORE_WIRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/str.h"
#include "c10d/store.h"

/* The longest message; the longest value is a little less. */
enum { WIRE_HELLO = 8, WIRE_HEAD = 4, WIRE_MESSAGE = 64 << 20, WIRE_REPLY_HEAD = 12 };
void wire_hello(char hello[WIRE_HELLO]);
void wire_no_room(char hello[WIRE_HELLO]);     /* what a server that is full says instead, before it closes */
/* With its length; `prefix` stands before each key. */
void wire_add_request(struct str *out, const struct store_request *request, const char *prefix);
/* Of the `count` bytes of a message; texts stay where they are, lists are the caller's to free (wire_free_lists).
 * STORE_UNSUPPORTED: it is none. */
enum store_status wire_read_request(const char *bytes, size_t count, struct store_request *request);
void wire_free_lists(struct store_request *request);
/* The reply's values are `count` bytes, ready made. */
void wire_add_reply(struct str *out, const struct store_reply *reply, const char *bytes, size_t count);
bool wire_read_reply(const char *bytes, size_t count, struct store_reply *reply); /* its head; values follow */
/* A reply that needs no memory: that there is none. */
enum { WIRE_NO_MEMORY = WIRE_HEAD + WIRE_REPLY_HEAD };
void wire_no_memory(char reply[WIRE_NO_MEMORY]);
/* Whether the bytes are so many values and nothing else. */
bool wire_are_values(const char *bytes, size_t count, int64_t values);
#endif
