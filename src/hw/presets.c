/* The table of hardware presets. Measured figures: NCCL's tuning tables, nvbandwidth, published all-reduce runs.
 *
 * Interface: preset_find for a name; preset_count and preset_at to list them. */
#include "hw/presets.h"

#include <string.h>

static const struct preset preset_table[] = {
#define PRESET(name, host, kernel, latency, bandwidth, memory, about) \
    { name, host, kernel, latency, bandwidth, memory, about },
#include "hw/presets.def"
#undef PRESET
};

size_t
preset_count(void)
{
    return sizeof preset_table / sizeof preset_table[0];
}

const struct preset *
preset_at(size_t index)
{
    return index < preset_count() ? &preset_table[index] : NULL;
}

const struct preset *
preset_find(const char *name)
{
    for (size_t i = 0; i < preset_count(); i++) {
        if (strcmp(preset_table[i].name, name) == 0)
            return &preset_table[i];
    }
    return NULL;
}
