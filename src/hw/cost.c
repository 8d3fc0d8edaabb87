/* Prices in virtual time. Computed in double from the preset's four numbers and the lesson's own, rounded half up
 * once per priced action, so that a price is the same on every machine and sums of prices are exact.
 *
 * Interface in order of use: cost_preset, cost_set for each of the lesson's `costs`; then cost_host, cost_kernel,
 * cost_copy, cost_hop while it runs; cost_print for whoever asks what made the times. */
#include "hw/cost.h"

#include "hw/presets.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const double most_us = 1e12;
static const uint64_t most_ps = (uint64_t)1 << 62; /* a saturated price leaves a clock room to be added to */

bool
cost_preset(struct cost_model *model, const char *name)
{
    const struct preset *preset = preset_find(name);
    if (preset == NULL)
        return false;
    *model = (struct cost_model){
        .preset = preset->name,
        .host_us = preset->host_us,
        .kernel_us = preset->kernel_us,
        .latency_us = preset->latency_us,
        .bytes_per_us = preset->bytes_per_us,
    };
    return true;
}

static const struct cost_item *
find_item(const struct cost_model *model, const char *name)
{
    for (int i = 0; name != NULL && i < model->item_count; i++) {
        if (strcmp(model->items[i].name, name) == 0)
            return &model->items[i];
    }
    return NULL;
}

/* The four general prices by name; NULL for an op or a module. */
static double *
general_price(struct cost_model *model, const char *name)
{
    if (strcmp(name, "host") == 0)
        return &model->host_us;
    if (strcmp(name, "kernel") == 0)
        return &model->kernel_us;
    if (strcmp(name, "latency") == 0)
        return &model->latency_us;
    if (strcmp(name, "bandwidth") == 0)
        return &model->bytes_per_us;
    return NULL;
}

bool
cost_set(struct cost_model *model, const char *name, double us)
{
    if (!(us >= 0 && us <= most_us))
        return false;
    double *general = general_price(model, name);
    if (general != NULL) {
        if (general == &model->bytes_per_us && us == 0)
            return false; /* nothing would ever arrive */
        *general = us;
        return true;
    }

    const struct cost_item *known = find_item(model, name);
    if (known != NULL) {
        model->items[known - model->items].us = us;
        return true;
    }
    struct cost_item *item = &model->items[model->item_count];
    size_t length = strlen(name);
    if (model->item_count == (int)(sizeof model->items / sizeof model->items[0]) || length == 0 ||
        length >= sizeof item->name)
        return false;
    memcpy(item->name, name, length + 1);
    item->us = us;
    model->item_count++;
    return true;
}

uint64_t
cost_us(double us)
{
    double ps = floor(us * 1e6 + 0.5);
    if (!(ps > 0))
        return 0;
    return ps >= (double)most_ps ? most_ps : (uint64_t)ps;
}

uint64_t
cost_host(const struct cost_model *model)
{
    return cost_us(model->host_us);
}

uint64_t
cost_kernel(const struct cost_model *model, const char *op, const char *module, bool *found)
{
    const struct cost_item *item = find_item(model, op);
    if (item == NULL)
        item = find_item(model, module);
    if (found != NULL)
        *found = item != NULL;
    return cost_us(item != NULL ? item->us : model->kernel_us);
}

uint64_t
cost_copy(const struct cost_model *model, uint64_t bytes)
{
    return cost_us(model->latency_us + (double)bytes / model->bytes_per_us);
}

struct link_price
cost_link(const struct cost_model *model, int from, int to)
{
    const struct topology *topology = &model->topology;
    if (topology->ranks_per_node == 0)
        return (struct link_price){ model->latency_us, model->bytes_per_us };
    return topology_crosses(topology, from, to) ? topology->inter : topology->intra;
}

uint64_t
cost_hop(const struct cost_model *model, int from, int to, uint64_t bytes)
{
    struct link_price price = cost_link(model, from, to);
    return cost_us(price.latency_us + (double)bytes / price.bytes_per_us);
}

/* ", nodes of 8 ranks: hop 5 us + bytes / (100000 B/us) inside, ... between" */
static int
print_topology(const struct topology *topology, char *out, unsigned long size)
{
    if (topology->ranks_per_node == 0)
        return 0;
    return snprintf(out, size, ", nodes of %d ranks: hop %.15g us + bytes / (%.15g B/us) inside, "
                               "%.15g us + bytes / (%.15g B/us) between",
                    topology->ranks_per_node, topology->intra.latency_us, topology->intra.bytes_per_us,
                    topology->inter.latency_us, topology->inter.bytes_per_us);
}

void
cost_print(const struct cost_model *model, char *out, unsigned long size)
{
    if (size == 0)
        return;
    int length = snprintf(out, size, "%s: host %.15g us, kernel %.15g us, hop %.15g us + bytes / (%.15g B/us)",
                          model->preset != NULL ? model->preset : "custom", model->host_us, model->kernel_us,
                          model->latency_us, model->bytes_per_us);
    if (length >= 0 && (unsigned long)length < size)
        length += print_topology(&model->topology, out + length, size - (unsigned long)length);
    for (int i = 0; i < model->item_count && length >= 0 && (unsigned long)length < size; i++) {
        const struct cost_item *item = &model->items[i];
        unsigned long at = (unsigned long)length;
        length += snprintf(out + at, size - at, ", %s %.15g us", item->name, item->us);
    }
}

const char *const *
cost_presets(void)
{
    static const char *const names[] = {
#define PRESET(name, host, kernel, latency, bandwidth, memory, about) name,
#include "hw/presets.def"
#undef PRESET
        NULL,
    };
    return names;
}
