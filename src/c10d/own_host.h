#ifndef C10D_OWN_HOST_H
#define C10D_OWN_HOST_H
#include <stddef.h>

/* Our address towards others, as whoever has the store at `store_host` sees it; NULL: loopback. `out` holds it. */
const char *own_host(const char *store_host, char *out, size_t size);
/* Equal where processes share a clock. */
enum { HOST_ID_BYTES = 64 };
void own_host_id(char host[HOST_ID_BYTES]);
#endif
