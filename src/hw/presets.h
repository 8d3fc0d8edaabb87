/* The hardware that a lesson or --hardware may name, one row of presets.def each. */
#ifndef HW_PRESETS_H
#define HW_PRESETS_H
#include <stddef.h>

struct preset {
    const char *name;
    double      host_us, kernel_us, latency_us, bytes_per_us, memory_gib;
    const char *about;
};

size_t               preset_count(void);
const struct preset *preset_at(size_t index);         /* NULL behind the last */
const struct preset *preset_find(const char *name);   /* NULL: no such hardware */
#endif
