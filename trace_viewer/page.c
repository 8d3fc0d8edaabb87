/* Pages of lines. Interface: page_add, page_addf, page_wrap, page_head, page_mark, then page_draw or page_event;
 * words that several panes use. */
#include "page.h"

#include "layout.h"
#include "base/vec.h"
#include "trace/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHOSEN = 0x25ba };

static void
end_line(struct page *page, size_t at, size_t event, struct style style)
{
    str_add_bytes(&page->text, "", 1);
    if (!vec_room(&page->lines, &page->room, page->count + 1, sizeof *page->lines)) {
        page->starved = true;
        return;
    }
    page->lines[page->count++] = (struct page_line){ .at = at, .event = event, .style = style };
}

void
page_add(struct page *page, size_t event, struct style style, const char *text)
{
    size_t at = page->text.len;
    str_add(&page->text, text);
    end_line(page, at, event, style);
}

void
page_addf(struct page *page, size_t event, struct style style, const char *format, ...)
{
    size_t  at = page->text.len;
    va_list args;
    va_start(args, format);
    str_addv(&page->text, format, args);
    va_end(args);
    end_line(page, at, event, style);
}

/* How many bytes of the text have room in so many cells: as far as a blank, if there is one. */
static size_t
line_length(const char *text, int width)
{
    size_t end = 0, blank = 0, whole = strcspn(text, "\n");
    int    cells = 0;
    while (end < whole && cells < width) {
        if (text[end] == ' ')
            blank = end;
        end++;
        while (end < whole && ((unsigned char)text[end] & 0xc0) == 0x80)
            end++;
        cells++;
    }
    return end >= whole || text[end] == ' ' || blank == 0 ? end : blank;
}

void
page_wrap(struct page *page, size_t event, struct style style, int width, int hang, const char *text)
{
    bool first = true;
    width = width < 8 ? 8 : width;
    hang  = hang > width / 2 ? width / 2 : hang;
    do {
        size_t length = line_length(text, first ? width : width - hang), at = page->text.len;
        if (!first)
            str_addf(&page->text, "%*s", hang, "");
        str_add_bytes(&page->text, text, length);
        end_line(page, at, event, style);
        text += length;
        text += strspn(text, " \n");
        first = false;
    } while (*text != '\0');
}

void
page_lines(struct page *page, size_t event, struct style style, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n"), at = page->text.len;
        str_add_bytes(&page->text, text, length);
        end_line(page, at, event, style);
        text += length + (text[length] == '\n');
    }
}

void
page_head(struct page *page, int cells, struct style style)
{
    if (page->count == 0)
        return;
    page->lines[page->count - 1].heads = cells;
    page->lines[page->count - 1].head  = style;
}

void
page_mark(struct page *page, uint32_t mark)
{
    if (page->count > 0)
        page->lines[page->count - 1].mark = mark;
}

size_t
page_event(const struct page *page, int row)
{
    return row >= 0 && (size_t)row < page->count ? page->lines[row].event : NO_EVENT;
}

static void
draw_line(const struct page *page, const struct page_line *line, bool chosen, struct canvas *canvas, int row)
{
    struct canvas body = canvas_part(canvas, row, 1, 1, canvas->width - 1);
    struct style  style = line->style;
    style.attr |= chosen ? ATTR_REVERSE : 0;
    if (chosen)
        canvas_fill(&body, 0, style, ' ');
    canvas_text(&body, 0, 0, style, str_text(&page->text) + line->at);
    for (int i = 0; i < line->heads; i++) {
        const struct cell *cell = canvas_at(&body, 0, i);
        struct style head = line->head;
        head.attr |= chosen ? ATTR_REVERSE : 0;
        if (cell != NULL && cell->code != 0)
            canvas_put(&body, 0, i, head, cell->code);
    }
    if (chosen)
        canvas_put(canvas, row, 0, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, CHOSEN);
    else if (line->mark != 0)
        canvas_put(canvas, row, 0, (struct style){ .ink = WORK_FAULT, .attr = ATTR_BOLD }, line->mark);
}

void
page_draw(const struct page *page, const struct scene *scene, enum pane pane, struct canvas *canvas, int skip)
{
    if (page->starved || !str_ok(&page->text)) {
        canvas_starve(canvas);
        return;
    }
    int chosen = scene->view->focus == pane ? scene->view->panes[pane].line : -1;
    for (int row = 0; row < canvas->height && (size_t)(row + skip) < page->count; row++)
        draw_line(page, &page->lines[row + skip], row + skip == chosen, canvas, row);
}

void
page_free(struct page *page)
{
    str_free(&page->text);
    free(page->lines);
    *page = (struct page){ 0 };
}

int
page_width(const struct scene *scene, enum pane pane)
{
    struct layout layout = layout_of(scene, scene->view->width, scene->view->height);
    const struct slot *slot = layout_slot(&layout, pane);
    int width = slot != NULL ? slot->box.width - (slot->box.column > 0) : scene->view->width;
    return width - 1;
}

const char *
page_bytes(int64_t bytes, char out[24])
{
    static const char units[] = " kMGTPE";
    double value = (double)bytes;
    int    unit  = 0;
    for (; value >= 999.5 && units[unit + 1] != '\0'; unit++)
        value /= 1000;
    if (unit == 0)
        snprintf(out, 24, "%lld B", (long long)bytes);
    else
        snprintf(out, 24, "%.*f %cB", value < 9.95 ? 1 : 0, value, units[unit]);
    return out;
}

void
page_place(const struct model *model, uint32_t line, struct str *out)
{
    const char *path = "";
    trace_source_text(model->trace, &path);
    const char *slash = strrchr(path, '/');
    if (line > 0)
        str_addf(out, "%s:%u", slash != NULL ? slash + 1 : path[0] != '\0' ? path : "line", line);
}
