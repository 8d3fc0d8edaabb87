/* Chunks of a view whose dimensions are joined: what sums are made of. */
#ifndef CUDA_KERNELS_SOURCE_H
#define CUDA_KERNELS_SOURCE_H
#include "plugins/cuda/kernels/element.h"
#include "plugins/cuda/kernels/joined.h"

/* A chunk: `count` elements of one run; at: where the first is in each view. */
struct chunk_place { int64_t at[JOINED_VIEWS]; int count; };

ON_DEVICE struct chunk_place
place_of_chunk(const struct joined *joined, int64_t chunk)
{
    const int64_t      each = chunks_of_run(joined), run = chunk / each, first = chunk % each * CHUNK;
    struct chunk_place place = { {}, joined->run - first < CHUNK ? (int)(joined->run - first) : (int)CHUNK };
    for (int v = 0; v < joined->views; v++)
        place.at[v] = joined_place(joined, v, run, 1) + first * joined_step(joined, v);
    return place;
}

/* Of T a sum is made, float, double or uint64_t, since integers wrap around; loaded and stored as L. */
template <typename T> struct summed_as { typedef T L; };
template <> struct summed_as<uint64_t> { typedef int64_t L; };

template <typename T> struct joined_source {
    const struct joined *joined;
    const void          *data;
    enum dtype           dtype;
    int64_t              base;     /* elements */

    ON_DEVICE_MEMBER struct chunk_place
    place(int64_t chunk) const
    {
        return place_of_chunk(joined, chunk);
    }
    ON_DEVICE_MEMBER bool
    is_quick() const
    {
        return (int)dtype == (int)dtype_of<typename summed_as<T>::L>::IS;
    }
    ON_DEVICE_MEMBER T
    quick_value(const struct chunk_place &place, int i) const
    {
        return (T)static_cast<const typename summed_as<T>::L *>(data)[base + place.at[0] + i * joined_step(joined, 0)];
    }
    ON_DEVICE_MEMBER T
    value(const struct chunk_place &place, int i) const
    {
        return (T)load<typename summed_as<T>::L>(data, dtype, base + place.at[0] + i * joined_step(joined, 0));
    }
};
#endif
