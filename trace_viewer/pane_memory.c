/* Memory by device as of the cursor: how much there is now, the peak, what is reserved, and a bar whose letters say
 * what the bytes are for; below, of the event's own device, the bytes by what they are for. Interface: memory_draw. */
#include "panes.h"

#include "analysis/state.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>

enum { COLUMN = 26, BAR = 36, BAR_LEAST = 8 };

/* Each with a letter and an ink, so that colour is never the only sign. */
static const struct { char letter; uint8_t ink; } signs[MEMORY_ROLES] = {
    [ROLE_PARAMETERS] = { 'P', WORK_KERNEL }, [ROLE_BUFFERS] = { 'B', WORK_KERNEL },
    [ROLE_GRADIENTS] = { 'G', WORK_BACKWARD }, [ROLE_OPTIMIZER] = { 'S', WORK_OPTIMIZER },
    [ROLE_REPLICAS] = { 'R', WORK_COMMUNICATION }, [ROLE_ACTIVATIONS] = { 'A', WORK_FORWARD },
    [ROLE_INPUTS] = { 'I', WORK_DATA }, [ROLE_OUTPUTS] = { 'O', WORK_COPY }, [ROLE_OTHER] = { 'x', WORK_OTHER },
};

/* The devices that have a lane, the host first. */
static int
last_device(const struct model *model)
{
    int last = -1;
    for (size_t i = 0; i < model->lane_count; i++) {
        int device = trace_lane_at(model->trace, i)->device;
        last = device > last && device < 1024 ? device : last;
    }
    return last;
}

/* "980 B", "12.5 KiB", "3.81 MiB": eight columns at most. */
static const char *
short_bytes(uint64_t bytes, char out[16])
{
    static const char units[] = "BKMGTPE";
    double value = (double)bytes;
    int    unit  = 0;
    for (; value >= 1000 && units[unit + 1] != '\0'; unit++)
        value /= 1024;
    if (unit == 0)
        snprintf(out, 16, "%.0f B", value);
    else
        snprintf(out, 16, "%.*f %ciB", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
    return out;
}

/* The bytes of one role after another, then what was held at the peak. */
static void
draw_bar(struct canvas *pane, int row, int column, const struct state_memory *memory, uint64_t most,
         const struct capabilities *capabilities)
{
    int room = pane->width - column - 1;
    for (int i = 0; i < room; i++) {
        uint64_t here = (uint64_t)((__uint128_t)most * (unsigned)i / (unsigned)room), sum = 0;
        int      role = 0;
        while (role < MEMORY_ROLES && here >= sum + memory->role[role])
            sum += memory->role[role++];
        if (role < MEMORY_ROLES)
            canvas_put(pane, row, column + i, (struct style){ .ink = signs[role].ink },
                       (uint32_t)(unsigned char)signs[role].letter);
        else if (here < memory->peak)
            canvas_put(pane, row, column + i, (struct style){ .ink = INK_DIM }, capabilities->utf8 ? 0x2591 : '.');
    }
}

static void
draw_device(struct canvas *pane, int row, int device, const struct state_memory *memory, bool own)
{
    char name[16] = "cpu", now[16], peak[16], reserved[16] = "";
    if (device >= 0)
        snprintf(name, sizeof name, "dev %d", device);
    if (device >= 0)
        short_bytes(memory->reserved, reserved);
    canvas_textf(pane, row, 1, (struct style){ .attr = own ? ATTR_BOLD : 0 }, "%-7s %8s %8s %8s", name,
                 short_bytes(memory->allocated, now), short_bytes(memory->peak, peak), reserved);
}

/* "P parameters    3.81 MiB", as many beside each other as there is room for. */
static void
draw_roles(struct canvas *pane, int row, int device, const struct state_memory *memory)
{
    int places = (pane->width - 2) / (COLUMN + 1), place = 0;
    places = places < 1 ? 1 : places;
    if (device >= 0)
        canvas_textf(pane, row++, 1, (struct style){ .ink = INK_DIM }, "device %d, by what it is for:", device);
    else
        canvas_text(pane, row++, 1, (struct style){ .ink = INK_DIM }, "the host's, by what it is for:");
    for (int role = 0; role < MEMORY_ROLES; role++) {
        char bytes[16];
        if (memory->role[role] == 0)
            continue;
        int column = 1 + place % places * (COLUMN + 1), line = row + place / places;
        canvas_put(pane, line, column, (struct style){ .ink = signs[role].ink, .attr = ATTR_BOLD },
                   (uint32_t)(unsigned char)signs[role].letter);
        canvas_textf(pane, line, column + 2, (struct style){ 0 }, "%-14s %8s",
                     memory_role_name((enum memory_role)role), short_bytes(memory->role[role], bytes));
        place++;
    }
    if (place == 0)
        canvas_text(pane, row, 1, (struct style){ .ink = INK_DIM }, "nothing is held");
    else if (device >= 0)
        canvas_text(pane, row + (place + places - 1) / places, 1, (struct style){ .ink = INK_DIM },
                    "(blocks are rounded up to 512 bytes)");
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    const struct model        *model = scene->model;
    const struct view         *view = scene->view;
    const struct capabilities *capabilities = scene->capabilities;
    int      row = -skip;
    int      last = last_device(model), own = trace_event(model->trace, view->cursor)->device;
    uint64_t most = 1;
    own = own > last ? last : own < 0 && last >= 0 ? 0 : own;
    for (int device = -1; device <= last; device++) {
        uint64_t peak = state_memory(model->state, device).peak;
        most = peak > most ? peak : most;
    }
    canvas_textf(pane, row++, 1, (struct style){ .ink = INK_DIM }, "%-7s %8s %8s reserved", "", "now", "peak");
    for (int device = -1; device <= last; device++, row++) {
        struct state_memory memory = state_memory(model->state, device);
        draw_device(pane, row, device, &memory, device == own);
        if (pane->width > BAR + 1 + BAR_LEAST)
            draw_bar(pane, row, BAR, &memory, most, capabilities);
    }
    struct state_memory memory = state_memory(model->state, own);
    draw_roles(pane, row, own, &memory);
}

static enum concern
concern(const struct scene *scene)
{
    const char *kind = model_kind(scene->model, scene->view->cursor);
    return strncmp(kind, "memory.", 7) == 0 && strcmp(kind, "memory.copy") != 0 ? CONCERN_EVENT : CONCERN_SOME;
}

const struct pane_kind memory_pane = { .name = "Memory", .least_columns = 30, .compares = true, .of_state = true,
                                       .concern = concern, .draw = draw };
