/* Columns of the screen and moments of time, to and fro. Interface: axis_plain, piece_is_gap, axis_column, axis_time,
 * axis_scale. */
#include "axis.h"

void
axis_plain(struct axis *axis, const struct scale *scale)
{
    *axis = (struct axis){ .unit = scale->unit, .columns = scale->columns, .count = 1 };
    axis->piece[0] = (struct piece){ 0, scale->columns, scale->left, scale->columns };
}

bool
piece_is_gap(const struct piece *piece)
{
    return piece->length > piece->columns;
}

int
axis_column(const struct axis *axis, uint64_t shown)
{
    int64_t column = (int64_t)(shown / axis->unit);
    if (axis->count == 0 || column < axis->piece[0].left)
        return -1;
    for (int i = 0; i < axis->count; i++) {
        const struct piece *piece = &axis->piece[i];
        int64_t inside = column - piece->left;
        if (inside >= piece->length)
            continue;
        if (!piece_is_gap(piece))
            return piece->at + (int)inside;
        return piece->at + (piece->columns > 1 && inside >= piece->length / 2 ? 1 : 0);
    }
    return axis->columns;
}

uint64_t
axis_time(const struct axis *axis, int column)
{
    int last = axis->count - 1, i = 0;
    while (i < last && axis->piece[i + 1].at <= column)
        i++;
    const struct piece *piece = &axis->piece[i];
    int64_t inside = column - piece->at;
    if (piece_is_gap(piece))
        inside = inside <= 0 ? 0 : inside >= piece->columns ? piece->length : piece->length / 2;
    __int128 time = ((__int128)piece->left + inside) * axis->unit;
    return time < 0 ? 0 : time > UINT64_MAX - 1 ? UINT64_MAX - 1 : (uint64_t)time;
}

struct scale
axis_scale(const struct axis *axis, int piece, uint64_t shift)
{
    const struct piece *this = &axis->piece[piece];
    return (struct scale){ axis->unit, this->left, this->columns, shift };
}
