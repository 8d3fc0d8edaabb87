/* Lines of a pane, each of which may lead to an event and be chosen. Built anew for a frame, or for a key that goes to
 * a line. Order of use: zeros, page_add and its like, page_draw or page_event, page_free. */
#ifndef VIEWER_PAGE_H
#define VIEWER_PAGE_H
#include "panes.h"
#include "base/str.h"

struct page_line { size_t at, event; struct style style, head; int heads; uint32_t mark; };
struct page {
    struct str        text;    /* of all lines, each ends with a NUL */
    struct page_line *lines;
    size_t            count, room;
    bool              starved;
};

/* A line that leads to that event (NO_EVENT: to none). */
void page_add(struct page *page, size_t event, struct style style, const char *text);
void page_addf(struct page *page, size_t event, struct style style, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A text in lines of at most `width` cells, all but the first `hang` further in. */
void page_wrap(struct page *page, size_t event, struct style style, int width, int hang, const char *text);
/* A text of several lines as it stands. */
void page_lines(struct page *page, size_t event, struct style style, const char *text);
/* The first `cells` of the line added last have another style. */
void page_head(struct page *page, int cells, struct style style);
void page_mark(struct page *page, uint32_t mark);    /* in its margin */
size_t page_event(const struct page *page, int row); /* NO_EVENT: none */
/* Without its first `skip` lines; the chosen one stands out if `pane` has the keys. */
void page_draw(const struct page *page, const struct scene *scene, enum pane pane, struct canvas *canvas, int skip);
void page_free(struct page *page);

/* The width that the pane's text has on the screen. */
int  page_width(const struct scene *scene, enum pane pane);
/* Bytes in a few cells: "36 B", "2.0 MB". */
const char *page_bytes(int64_t bytes, char out[24]);
/* "lesson.lua:31": file and line of the lesson; "" for line 0. */
void page_place(const struct model *model, uint32_t line, struct str *out);
#endif
