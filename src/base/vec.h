/* Growing arrays: the owner keeps items, count and room in fields of its own and asks for room before it writes. */
#ifndef BASE_VEC_H
#define BASE_VEC_H
#include <stdbool.h>
#include <stddef.h>

#define countof(array) (sizeof(array) / sizeof((array)[0]))

/* Makes room for `need` items of `size` bytes at *items (at least doubling). false: no memory, nothing changed.
 * `items` is the address of the owner's pointer. */
bool vec_room(void *items, size_t *room, size_t need, size_t size) __attribute__((warn_unused_result));
#endif
