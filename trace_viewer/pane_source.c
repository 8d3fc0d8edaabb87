/* The text of the function that made the event, as the trace itself carries it, with the stage's line marked; for
 * what the lesson itself says, the lesson's text. */
#include "panes.h"

#include "base/str.h"
#include "base/vec.h"
#include "glyph.h"
#include "secrets.h"
#include "trace/reader.h"

#include <stdio.h>
#include <string.h>

enum { NARROW = 72 };

/* What is shown: a text whose first line has the number `first`, and the line to mark; without so many columns of each
 * line, and without so many blanks at its beginning. */
struct listing { const char *text; uint32_t first, mark; bool is_lesson; int columns, indent; };

/* The event whose function is shown: for memory, tasks and the like the stage in which they happen. */
static size_t
shown_event(const struct model *model, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    size_t open[256];
    if (event == NULL || event->phase != PHASE_INSTANT || model_work(model, seq) != WORK_OTHER)
        return seq;
    size_t count = model_open_stages(model, event->lane, open, countof(open));
    return count > 0 && count <= countof(open) ? open[count - 1] : seq;
}

static struct listing
listing_of(const struct model *model, size_t seq, bool lesson)
{
    const char *path;
    seq = shown_event(model, seq);
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL)
        return (struct listing){ .text = "", .first = 1 };
    const struct trace_kind *kind = trace_kind(model->trace, event->kind);
    if (kind->source[0] != '\0' && model_work(model, seq) != WORK_LESSON && !lesson)
        return (struct listing){ .text = kind->source, .first = kind->first_line, .mark = kind->line };
    return (struct listing){ .text = trace_source_text(model->trace, &path), .first = 1,
                             .mark = lesson_line(model, seq), .is_lesson = true };
}

static void
title(const struct scene *scene, struct str *out)
{
    const struct model *model = scene->model;
    const struct view  *view = scene->view;
    size_t seq = view->cursor == NO_EVENT ? NO_EVENT : shown_event(model, view->cursor);
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL || veil_hides(&view->veil, model, view->cursor)) {
        str_add(out, "Source");
        return;
    }
    const struct trace_kind *kind = trace_kind(model->trace, event->kind);
    const char *path;
    if (model_work(model, seq) == WORK_LESSON || kind->source[0] == '\0' || (view->reading && view->full)) {
        trace_source_text(model->trace, &path);
        str_addf(out, "%s:%u", path[0] != '\0' ? path : "Source", lesson_line(model, view->cursor));
        return;
    }
    const char *file = strrchr(kind->file, '/');
    str_addf(out, "%s:%u%s%s", file != NULL ? file + 1 : kind->file, kind->line,
             kind->pytorch[0] != '\0' ? " = " : "", kind->pytorch);
}

/* Comments step back a little; the code is what one reads first. */
static bool
is_comment(const char *line, size_t length, bool *inside)
{
    while (length > 0 && (*line == ' ' || *line == '\t'))
        line++, length--;
    bool opens = length >= 2 && memcmp(line, "/*", 2) == 0;
    bool comment = *inside || opens || (length >= 2 && (memcmp(line, "//", 2) == 0 || memcmp(line, "--", 2) == 0));
    *inside |= opens;
    for (size_t i = 0; i + 1 < length; i++)
        if (line[i] == '*' && line[i + 1] == '/')
            *inside = false;
    return comment;
}

struct source_line { uint32_t number; const char *text; size_t length; bool comment, marked; };

/* An ellipsis stands where it goes on. */
static void
draw_text(struct canvas *pane, struct stretch place, struct style style, const char *text)
{
    struct canvas part = canvas_part(pane, place.row, place.column, 1, place.room);
    canvas_text(&part, 0, 0, style, text);
    if (place.room > 1 && glyph_width(text, place.room + 1) > place.room)
        canvas_put(&part, 0, place.room - 1, style, 0x2026);
}

/* The line without its own first blanks, up to `indent` of them, then without so many columns. */
static const char *
shifted(const char *text, int indent, int columns)
{
    int blanks = (int)strspn(text, " ");
    text += blanks < indent ? blanks : indent;
    while (columns > 0 && *text != '\0') {
        text++;
        columns -= ((unsigned char)*text & 0xc0) != 0x80;
    }
    return text;
}

static void
draw_line(struct canvas *pane, int row, const struct source_line *line, const struct listing *listing,
          const struct secrets *secrets)
{
    char text[512];
    secrets_line(secrets, line->text, line->length, text, sizeof text);
    struct style style = { .ink = line->comment ? INK_DIM : INK_PLAIN, .attr = line->marked ? ATTR_BOLD : 0 };
    int column = canvas_textf(pane, row, 1, (struct style){ .ink = INK_DIM }, "%4u ", line->number);
    if (line->marked)
        canvas_put(pane, row, 0, (struct style){ .ink = INK_ACCENT, .attr = ATTR_BOLD }, 0x25ba);
    draw_text(pane, (struct stretch){ row, column, pane->width - column }, style,
              shifted(text, listing->indent, listing->columns));
}

static void
draw_listing(struct canvas *pane, const struct listing *listing, int64_t from, const struct secrets *secrets)
{
    uint32_t    number = listing->first;
    bool        inside = false;
    const char *text = listing->text;
    for (int64_t i = 0; *text != '\0' && i < from + pane->height; i++, number++) {
        size_t length = strcspn(text, "\n");
        struct source_line line = { number, text, length, is_comment(text, length, &inside), number == listing->mark };
        if (i >= from)
            draw_line(pane, (int)(i - from), &line, listing, secrets);
        text += length + (text[length] == '\n');
    }
}

/* In a narrow pane the marked line begins at the left, where it would not fit otherwise. */
static int
indent_of(const struct listing *listing, int width)
{
    const char *line = listing->text;
    for (uint32_t number = listing->first; number < listing->mark && *line != '\0'; number++) {
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    int blanks = (int)strspn(line, " "), length = (int)strcspn(line, "\n");
    return width < NARROW && length > width - 6 ? blanks : 0;
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    const struct model *model = scene->model;
    const struct view  *view = scene->view;
    struct listing listing = listing_of(model, view->cursor, view->reading && view->full);
    if (listing.text[0] == '\0') {
        canvas_text(pane, 0, 1, (struct style){ .ink = INK_DIM }, "the trace carries no source for this event");
        return;
    }
    /* The whole function if it fits; else so that the marked line has a third of the pane above it. */
    int64_t lines = 0, marked = (int64_t)listing.mark - listing.first;
    for (const char *at = listing.text; *at != '\0'; at++)
        lines += *at == '\n' || at[1] == '\0';
    int64_t from = lines <= pane->height ? 0 : marked - pane->height / 3;
    if (from > lines - pane->height)
        from = lines - pane->height;
    from = (from < 0 ? 0 : from) + skip;
    from = from < 0 ? 0 : from < lines ? from : lines - 1; /* its last line stays */
    listing.columns = view->panes[PANE_SOURCE].line;
    listing.indent  = indent_of(&listing, pane->width);

    struct secrets secrets = { .text = listing.text };
    if (listing.is_lesson && !secrets_find(model, view, listing.text, &secrets))
        canvas_starve(pane);
    else
        draw_listing(pane, &listing, from, &secrets);
    secrets_free(&secrets);
}

static enum concern
concern(const struct scene *scene)
{
    (void)scene;
    return CONCERN_SOME;
}

static const struct pane_key keys[] = {
    { "Left", "left", "the text slides back" },
    { "Right", "right", "what is further right comes into view" },
    { NULL, NULL, NULL },
};

static void
press(struct model *model, struct view *view, const char *key)
{
    enum { SLIDE = 8, FURTHEST = 400 };
    int *columns = &view->panes[PANE_SOURCE].line;
    (void)model;
    *columns += strcmp(key, "Right") == 0 ? SLIDE : -SLIDE;
    *columns = *columns < 0 ? 0 : *columns > FURTHEST ? FURTHEST : *columns;
}

const struct pane_kind source_pane = { .name = "Source", .least_columns = 60, .concern = concern, .title = title,
                                       .draw = draw, .keys = keys, .press = press };
