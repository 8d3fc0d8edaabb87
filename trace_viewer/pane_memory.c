/* Memory as of the cursor: of each device the bytes in use over time, with the peak and the cursor; of the event's own
 * device a table by what they are for, and the largest blocks with their names and lines. A block is counted once,
 * however many tensors lie in it. */
#include "panes.h"

#include "analysis/quantities.h"
#include "analysis/state.h"
#include "analysis/tensors.h"
#include "base/str.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>

enum {
    COLUMN = 24, NAME = 6, FIGURES = 25, STRIP_LEAST = 8, BAR_LEAST = 6, BLOCKS = 64,
    EIGHTH = 0x2581, MARK = 0x25b2
};

/* Each with a letter and an ink, so that colour is never the only sign. */
static const struct { char letter; uint8_t ink; } signs[MEMORY_ROLES] = {
    [ROLE_PARAMETERS] = { 'P', WORK_KERNEL }, [ROLE_BUFFERS] = { 'B', WORK_KERNEL },
    [ROLE_GRADIENTS] = { 'G', WORK_BACKWARD }, [ROLE_OPTIMIZER] = { 'S', WORK_OPTIMIZER },
    [ROLE_REPLICAS] = { 'R', WORK_COMMUNICATION }, [ROLE_ACTIVATIONS] = { 'A', WORK_FORWARD },
    [ROLE_INPUTS] = { 'I', WORK_DATA }, [ROLE_OUTPUTS] = { 'O', WORK_COPY },
    [ROLE_BUCKETS] = { 'U', WORK_COMMUNICATION }, [ROLE_OTHER] = { 'x', WORK_OTHER },
};

static struct style
dim(void)
{
    return (struct style){ .ink = INK_DIM };
}

/* The devices that have a lane; -1: the host alone. */
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

/* Whose table is shown: the event's own device; of the host's events, where devices have memory, the first of these;
 * where a rank works on host memory, the host's. */
static int
own_device(const struct scene *scene)
{
    const struct state *state = scene->model->state;
    int  last = last_device(scene->model), own = trace_event(scene->model->trace, scene->view->cursor)->device;
    bool memory = strncmp(model_kind(scene->model, scene->view->cursor), "memory.", 7) == 0;
    own = own > last ? last : own;
    if (own >= 0)
        return state_memory(state, own).peak > 0 ? own : -1;
    return last >= 0 && !memory && state_memory(state, 0).peak > 0 ? 0 : -1;
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

/* "3.81M": five columns at most. */
static const char *
shortest_bytes(uint64_t bytes, char out[16])
{
    char *blank;
    short_bytes(bytes, out);
    blank = strchr(out, ' ');
    if (blank != NULL && blank[1] == 'B')
        *blank = '\0';
    else if (blank != NULL)
        snprintf(blank, 2, "%c", blank[1]);
    return out;
}

/* ---- over time ---- */

struct strip_look { uint64_t end, most; int columns; };   /* time shown, bytes of a full cell */

static uint64_t
column_time(const struct strip_look *look, int column)
{
    return (uint64_t)((__uint128_t)look->end * (unsigned)column / (unsigned)look->columns);
}

/* Up to the cursor; what comes behind it is not told. Answers the column of the peak; -1: there was nothing. */
static int
draw_strip(const struct scene *scene, struct canvas *pane, struct stretch place, const struct strip_look *look,
           int device)
{
    static const char levels[] = "_.:-=+*#";
    const struct model    *model = scene->model;
    const struct quantity *quantity = model->quantities != NULL
                                          ? quantities_find(model->quantities, QUANTITY_MEMORY, device) : NULL;
    uint64_t now = trace_time(model->trace, scene->view->cursor), peak = 0;
    int      at = -1;
    for (int i = 0; i < look->columns; i++) {
        uint64_t from = column_time(look, i), to = column_time(look, i + 1);
        bool     last = i + 1 == look->columns;
        if (from > now) {
            canvas_put(pane, place.row, place.column + i, dim(), scene->capabilities->utf8 ? 0xb7 : '.');
            continue;
        }
        to = last || to > now ? now + 1 : to;
        struct quantity_span span = quantity_over(quantity, from, to);
        uint64_t here = span.most;
        if (here > peak) {
            peak = here;
            at = i;
        }
        int level = here == 0 || look->most == 0 ? -1 : (int)((__uint128_t)here * 7 / look->most);
        level = level > 7 ? 7 : level;
        if (level >= 0)
            canvas_put(pane, place.row, place.column + i, (struct style){ .ink = WORK_KERNEL },
                       scene->capabilities->utf8 ? EIGHTH + (uint32_t)level
                                                 : (uint32_t)(unsigned char)levels[level]);
    }
    return at;
}

static void
draw_marks(const struct scene *scene, struct canvas *pane, struct stretch place, const struct strip_look *look,
           int peak)
{
    uint64_t now = trace_time(scene->model->trace, scene->view->cursor);
    int      cursor = look->end > 0 ? (int)((__uint128_t)now * (unsigned)look->columns / look->end) : 0;
    bool     utf8 = scene->capabilities->utf8;
    cursor = cursor < look->columns ? cursor : look->columns - 1;
    if (peak >= 0 && peak != cursor) {
        bool left = peak + 7 > look->columns || (cursor > peak && cursor < peak + 7);
        canvas_put(pane, place.row, place.column + peak, (struct style){ .attr = ATTR_BOLD }, utf8 ? MARK : '^');
        if (!left || peak >= 5)
            canvas_text(pane, place.row, place.column + (left ? peak - 5 : peak + 2), dim(), "peak");
    }
    canvas_put(pane, place.row, place.column + cursor, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD },
               utf8 ? 0x2502 : '|');
}

static int
draw_device(const struct scene *scene, struct canvas *pane, int row, int device, bool own, struct strip_look *look)
{
    struct state_memory memory = state_memory(scene->model->state, device);
    char name[16] = "cpu", now[16], peak[16];
    if (device >= 0)
        snprintf(name, sizeof name, "dev%d", device);
    canvas_textf(pane, row, 1, (struct style){ .attr = own ? ATTR_BOLD : 0 }, "%-*s%8s peak %8s", NAME, name,
                 short_bytes(memory.allocated, now), short_bytes(memory.peak, peak));
    look->columns = pane->width - NAME - FIGURES - 1;
    if (look->columns < STRIP_LEAST || scene->capabilities->words)
        return -1;
    return draw_strip(scene, pane, (struct stretch){ row, NAME + FIGURES, look->columns }, look, device);
}

/* The host and the devices, the own one among them. Answers the row behind. */
static int
draw_devices(const struct scene *scene, struct canvas *pane, int row, int rows)
{
    int last = last_device(scene->model), own = own_device(scene), count = last + 2, first = -1;
    struct strip_look look = { .end = scene->model->end, .most = 1 };
    for (int device = -1; device <= last; device++) {
        uint64_t peak = state_memory(scene->model->state, device).peak;
        look.most = peak > look.most ? peak : look.most;
    }
    rows = rows < 1 ? 1 : rows;
    if (count > rows)
        first = own - rows / 2 < -1 ? -1 : own - rows / 2;
    first = first + rows > last + 1 && count > rows ? last + 1 - rows : first;
    for (int device = first; device <= last && device < first + rows; device++, row++) {
        int peak = draw_device(scene, pane, row, device, device == own, &look);
        if (device == own && look.columns >= STRIP_LEAST && pane->height > 6 && !scene->capabilities->words)
            draw_marks(scene, pane, (struct stretch){ ++row, NAME + FIGURES, look.columns }, &look, peak);
    }
    return row;
}

/* ---- by what it is for ---- */

/* A letter for each share of what is held. */
static void
draw_bar(struct canvas *pane, struct stretch place, const struct state_memory *memory)
{
    for (int i = 0; i < place.room; i++) {
        uint64_t here = (uint64_t)((__uint128_t)memory->allocated * (unsigned)i / (unsigned)place.room), sum = 0;
        int      role = 0;
        while (role < MEMORY_ROLES && here >= sum + memory->role[role])
            sum += memory->role[role++];
        if (role < MEMORY_ROLES)
            canvas_put(pane, place.row, place.column + i, (struct style){ .ink = signs[role].ink },
                       (uint32_t)(unsigned char)signs[role].letter);
    }
}

/* "P parameters  3.81M 48%", as many beside each other as there is room for. Answers the row behind. */
static int
draw_roles(struct canvas *pane, int row, int device, const struct state_memory *memory, bool draws)
{
    int  letters = pane->width >= 2 * (COLUMN + 4) ? 15 : 11, wide = COLUMN + letters - 11;
    int  places = pane->width / wide, place = 0;
    char held[16], reserved[16];
    places = places < 1 ? 1 : places;
    int column = device >= 0 ? canvas_textf(pane, row, 1, dim(), "dev%d", device)
                             : canvas_text(pane, row, 1, dim(), "the host");
    column = canvas_textf(pane, row, column, dim(), ": %s in %llu blocks", shortest_bytes(memory->allocated, held),
                          (unsigned long long)memory->blocks);
    if (memory->reserved > 0)
        column = canvas_textf(pane, row, column, dim(), ", %s reserved", shortest_bytes(memory->reserved, reserved));
    if (draws && pane->width - column - 2 >= BAR_LEAST)
        draw_bar(pane, (struct stretch){ row, column + 1, pane->width - column - 2 }, memory);
    row++;
    for (int role = 0; role < MEMORY_ROLES; role++) {
        char bytes[16];
        if (memory->role[role] == 0)
            continue;
        int at = 1 + place % places * wide, line = row + place / places;
        canvas_put(pane, line, at, (struct style){ .ink = signs[role].ink, .attr = ATTR_BOLD },
                   (uint32_t)(unsigned char)signs[role].letter);
        canvas_textf(pane, line, at + 2, (struct style){ 0 }, "%-*.*s %5s %2llu%%", letters,
                     role == ROLE_OPTIMIZER && letters < 15 ? 9 : letters,
                     memory_role_name((enum memory_role)role), shortest_bytes(memory->role[role], bytes),
                     (unsigned long long)(memory->allocated > 0 ? memory->role[role] * 100 / memory->allocated : 0));
        place++;
    }
    return row + (place + places - 1) / places;
}

/* ---- the largest blocks ---- */

static size_t
find_blocks(const struct scene *scene, struct storage_facts blocks[BLOCKS])
{
    const struct tensors *tensors = scene->model->tensors;
    if (tensors == NULL || tensors_seen(tensors) <= scene->view->cursor)
        return 0;
    return tensors_largest(tensors, own_device(scene), scene->view->cursor, blocks, BLOCKS);
}

/* "39.5 KiB 0.weight  line 118": by its name, else by the stage in which it was taken. */
static void
draw_block(const struct scene *scene, struct canvas *pane, int row, const struct storage_facts *block, bool chosen)
{
    const struct model *model = scene->model;
    char       name[160], bytes[16];
    struct str text = { 0 };
    uint32_t   line = trace_event(model->trace, block->born)->line;
    tensors_storage_name(model->tensors, block->storage, scene->view->cursor, name);
    str_addf(&text, "%8s  ", short_bytes((uint64_t)(block->block > 0 ? block->block : block->bytes), bytes));
    if (name[0] == '\0' && block->stage != SIZE_MAX)
        str_addf(&text, "taken in %s", model_kind(model, block->stage));
    else
        str_add(&text, name[0] != '\0' ? name : "taken outside of stages");
    if (line > 0)
        str_addf(&text, "  line %u", line);
    str_addf(&text, "  event %zu", block->born);
    canvas_cut(pane, (struct stretch){ row, 1, pane->width - 2 }, (struct style){ .attr = chosen ? ATTR_REVERSE : 0 },
               canvas_words(pane, &text));
    str_free(&text);
}

static void
draw_blocks(const struct scene *scene, struct canvas *pane, int row, int skip)
{
    struct storage_facts blocks[BLOCKS];
    bool focused = scene->view->focus == PANE_MEMORY;
    int  count = (int)find_blocks(scene, blocks), room = pane->height - row - 1;
    int  line = scene->view->panes[PANE_MEMORY].line, first = focused && line >= room ? line - room + 1 : 0;
    (void)skip;
    if (count == 0 || room < 1)
        return;
    canvas_text(pane, row++, 1, dim(), count > 1 ? "the largest blocks:" : "its one block:");
    for (int i = first; i < count && row < pane->height; i++)
        draw_block(scene, pane, row++, &blocks[i], focused && i == line);
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    int own = own_device(scene);
    struct state_memory memory = state_memory(scene->model->state, own);
    int row = draw_devices(scene, pane, 0, pane->height > 9 ? (pane->height - 4) / 3 : 1);
    if (row < pane->height)
        row = draw_roles(pane, row, own, &memory, !scene->capabilities->words);
    draw_blocks(scene, pane, row, skip);
}

static enum concern
concern(const struct scene *scene)
{
    const char *kind = model_kind(scene->model, scene->view->cursor);
    bool about = strcmp(kind, "memory.alloc") == 0 || strcmp(kind, "memory.free") == 0 ||
                 strcmp(kind, "memory.segment") == 0 || strcmp(kind, "memory.role") == 0;
    return about ? CONCERN_EVENT : CONCERN_SOME;
}

static int
rows(const struct scene *scene)
{
    struct storage_facts blocks[BLOCKS];
    return (int)find_blocks(scene, blocks);
}

/* To where the block was taken. */
static void
enter(struct model *model, struct view *view, int row)
{
    struct storage_facts blocks[BLOCKS];
    int count = (int)find_blocks(&(struct scene){ model, view, NULL }, blocks);
    if (row >= 0 && row < count)
        view_goto(view, model, blocks[row].born);
}

const struct pane_kind memory_pane = { .name = "Memory", .least_columns = 30, .compares = true, .of_state = true,
                                       .tells = "memory",
                                       .concern = concern, .draw = draw, .rows = rows, .enter = enter };
