/* Rows of a moment, sorted by their key. Interface: rows_take for a key's row, rows_find, rows_range, rows_drop. */
#include <string.h>

#include "analysis/internal.h"
#include "base/vec.h"

static int
compare_row_keys(struct row_key a, struct row_key b)
{
    if (a.first != b.first)
        return a.first < b.first ? -1 : 1;
    return a.second < b.second ? -1 : a.second > b.second;
}

void *
rows_find(const struct rows *rows, int64_t first, int64_t second, size_t *place)
{
    const struct row_key wanted = { first, second };
    size_t low = 0, high = rows->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct row_key key;
        memcpy(&key, rows->items + middle * rows->size, sizeof key);
        int order = compare_row_keys(key, wanted);
        if (order == 0) {
            low = middle;
            break;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (place != NULL)
        *place = low;
    return low < high ? rows->items + low * rows->size : NULL;
}

void *
rows_take(struct rows *rows, int64_t first, int64_t second, size_t size)
{
    size_t place;
    rows->size = size;
    void *row = rows_find(rows, first, second, &place);
    if (row != NULL)
        return row;
    if (!vec_room(&rows->items, &rows->room, rows->count + 1, size))
        return NULL;
    unsigned char *at = rows->items + place * size;
    memmove(at + size, at, (rows->count - place) * size);
    memset(at, 0, size);
    memcpy(at, &(struct row_key){ first, second }, sizeof(struct row_key));
    rows->count++;
    return at;
}

void *
rows_range(const struct rows *rows, int64_t first, size_t *count)
{
    size_t from, to;
    if (rows->count == 0) {
        *count = 0;
        return NULL;
    }
    rows_find(rows, first, INT64_MIN, &from);
    rows_find(rows, first, INT64_MAX, &to);
    *count = to - from;
    return rows->items + from * rows->size;
}

void
rows_drop(struct rows *rows, int64_t first)
{
    size_t count;
    unsigned char *from = rows_range(rows, first, &count);
    if (count == 0)
        return;
    size_t behind = (size_t)(rows->items + rows->count * rows->size - from) - count * rows->size;
    memmove(from, from + count * rows->size, behind);
    rows->count -= count;
}
