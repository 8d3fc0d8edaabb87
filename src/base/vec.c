/* Growing arrays. The owner keeps the three fields, this file only decides how far to grow.
 *
 * Interface: vec_room before each write behind the end; the owner frees its items with free(). */
#include "base/vec.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool
vec_room(void *items, size_t *room, size_t need, size_t size)
{
    if (need <= *room)
        return true;

    size_t more = *room < 4 ? 8 : *room * 2;
    if (more < need || *room > SIZE_MAX / 2)
        more = need;
    if (size != 0 && more > PTRDIFF_MAX / size) {
        more = need; /* doubling asked for too much, the need itself may still fit */
        if (more > PTRDIFF_MAX / size)
            return false;
    }

    /* `items` is a `T **` whose T is not known here: the pointer is read and written as bytes. */
    void *old;
    memcpy(&old, items, sizeof old);
    void *grown = realloc(old, more * size);
    if (grown == NULL)
        return false;
    memcpy(items, &grown, sizeof grown);
    *room = more;
    return true;
}
