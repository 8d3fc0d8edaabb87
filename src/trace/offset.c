/* Offsets of clocks. An answer that came back after a way of d ns was read somewhere within it, so each exchange
 * says that the offset lies between from_server - received and at_server - sent; what all of them say is what is
 * known.
 *
 * Interface in order of use: clock_offset_find, clock_offset_print, clock_offset_parse. */
#include "trace/offset.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct between { int64_t least, most; };

/* false: numbers that no clocks show. */
static bool
read_exchange(const struct clock_exchange *exchange, struct between *between)
{
    return exchange->received >= exchange->sent && exchange->from_server >= exchange->at_server &&
           !__builtin_sub_overflow(exchange->from_server, exchange->received, &between->least) &&
           !__builtin_sub_overflow(exchange->at_server, exchange->sent, &between->most) &&
           between->least >= -(INT64_MAX / 4) && between->most <= INT64_MAX / 4 && between->least <= between->most;
}

bool
clock_offset_find(const struct clock_exchange *exchanges, size_t count, struct clock_offset *out)
{
    const struct clock_exchange *best = NULL;
    struct between               all = { INT64_MIN, INT64_MAX }, shortest = { 0, 0 }, one;
    for (size_t i = 0; i < count; i++) {
        if (!read_exchange(&exchanges[i], &one))
            continue;
        all.least = one.least > all.least ? one.least : all.least;
        all.most  = one.most < all.most ? one.most : all.most;
        if (best == NULL || one.most - one.least < shortest.most - shortest.least) {
            best     = &exchanges[i];
            shortest = one;
        }
    }
    if (best == NULL)
        return false;
    if (all.least > all.most)
        all = shortest;
    int64_t width = all.most - all.least;
    *out = (struct clock_offset){ .local = best->received, .offset = all.least + width / 2,
                                  .error = width - width / 2, .ticks = best->ticks };
    return true;
}

void
clock_offset_print(const struct clock_offset *offset, char text[CLOCK_OFFSET_TEXT])
{
    snprintf(text, CLOCK_OFFSET_TEXT, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64, offset->local, offset->offset,
             offset->error, offset->ticks);
}

/* Within what picoseconds can hold: a year is 3e16 ns. */
static bool
is_sane(const struct clock_offset *offset)
{
    const int64_t most = INT64_MAX / 4;
    return offset->local >= 0 && offset->local <= most && offset->offset >= -most && offset->offset <= most &&
           offset->error >= 0 && offset->error <= most;
}

/* A number and one blank behind it, or the end. */
static bool
read_number(const char **text, int64_t *number)
{
    char *end;
    if ((**text < '0' || **text > '9') && **text != '-')
        return false;
    errno   = 0;
    *number = strtoll(*text, &end, 10);
    bool good = end != *text && errno == 0 && (*end == ' ' || *end == '\0');
    *text = end + (*end == ' ');
    return good;
}

bool
clock_offset_parse(const char *text, struct clock_offset *out)
{
    struct clock_offset read = { 0 };
    int64_t             ticks = 0;
    if (!read_number(&text, &read.local) || !read_number(&text, &read.offset) || !read_number(&text, &read.error) ||
        !is_sane(&read))
        return false;
    if (*text != '\0' && !read_number(&text, &ticks))
        return false;
    read.ticks = (uint64_t)ticks;
    *out       = read;
    return *text == '\0' && ticks >= 0;
}
