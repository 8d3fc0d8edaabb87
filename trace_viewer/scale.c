/* Time to columns, in whole numbers only. Interface: scale_unit_for, scale_finer, scale_coarser to choose the zoom;
 * scale_eighths, scale_column, scale_time to convert. */
#include "scale.h"

enum { FINEST = 1000 }; /* 1 ns */
static const uint64_t coarsest = 10000000000000000u; /* 10 000 s: a thousand columns stay below 2^64 */

uint64_t
scale_coarser(uint64_t unit)
{
    if (unit >= coarsest)
        return coarsest;
    uint64_t lead = unit;
    while (lead >= 10)
        lead /= 10;
    return lead == 2 ? unit / 2 * 5 : unit * 2;
}

uint64_t
scale_finer(uint64_t unit)
{
    if (unit <= FINEST)
        return FINEST;
    uint64_t lead = unit;
    while (lead >= 10)
        lead /= 10;
    return lead == 5 ? unit / 5 * 2 : unit / 2;
}

uint64_t
scale_unit_for(uint64_t length, int columns)
{
    uint64_t unit = FINEST;
    while (unit < coarsest && length / unit >= (uint64_t)(columns > 0 ? columns : 1))
        unit = scale_coarser(unit);
    return unit;
}

/* When a moment of the trace is shown: a rank that is aligned may begin before the start. */
static __int128
shown(const struct scale *scale, uint64_t time)
{
    return (__int128)time + scale->shift;
}

static __int128
divided(__int128 value, uint64_t unit)
{
    return value >= 0 ? value / unit : -((-value + unit - 1) / unit);
}

int64_t
scale_eighths(const struct scale *scale, uint64_t time)
{
    __int128 at = divided(shown(scale, time) * 8, scale->unit) - (__int128)scale->left * 8;
    int64_t limit = 8 * ((int64_t)scale->columns + 1);
    return at < -limit ? -limit : at > 2 * limit ? 2 * limit : (int64_t)at;
}

int64_t
scale_number(const struct scale *scale, uint64_t time)
{
    if (scale->shift == 0) /* division in 128 bits costs several times as much */
        return (int64_t)(time / scale->unit);
    __int128 at = divided(shown(scale, time), scale->unit);
    return at > INT64_MAX ? INT64_MAX : (int64_t)at;
}

int
scale_column(const struct scale *scale, uint64_t time)
{
    __int128 at = (__int128)scale_number(scale, time) - scale->left;
    return at < 0 ? -1 : at >= scale->columns ? scale->columns : (int)at;
}

uint64_t
scale_time(const struct scale *scale, int column)
{
    __int128 at = ((__int128)scale->left + column) * scale->unit - scale->shift;
    return at < 0 ? 0 : at > UINT64_MAX - 1 ? UINT64_MAX - 1 : (uint64_t)at;
}
