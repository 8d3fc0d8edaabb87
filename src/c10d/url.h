/* The address of a rendezvous, as init_method has it: SCHEME://HOST:PORT/PATH?NAME=VALUE&NAME=VALUE, each part but the
 * scheme may be missing; a host with colons stands in brackets. Knows nothing of stores. */
#ifndef C10D_URL_H
#define C10D_URL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { URL_BYTES = 4096 };
struct url {
    char        text[URL_BYTES];   /* cut into pieces, which the rest points to */
    const char *scheme, *host, *path, *query;   /* "" where there is none */
    int64_t     port;              /* -1: none */
};
bool url_parse(const char *text, struct url *url, char *why, size_t why_size); /* false: `why` */
/* The value of an option, as it is written; false: there is none. */
bool url_option(const struct url *url, const char *name, char *value, size_t size);
/* A whole number and nothing else. */
bool url_number(const char *text, int64_t *number);
#endif
