/* The teacher's notes, as the lesson's text in the trace has them: what is given to rs.teacher, or the field `teacher`
 * of a table. Only with --teacher. */
#include "panes.h"

#include "base/str.h"
#include "lua_text.h"
#include "trace/reader.h"

#include <string.h>

static const char *
skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* The text that stands for the notes at this word `teacher`; length 0: it is another one. */
static const char *
notes_behind(const char *at, size_t *length)
{
    at = skip_blanks(at);
    if (*at == '=' || *at == '(')
        at = skip_blanks(at + 1);
    *length = lua_long_text(at);
    if (*length == 0 && (*at == '"' || *at == '\''))
        *length = lua_short_text(at);
    if (*length < 2)
        return at;
    size_t mark = at[0] == '[' ? 2 + strspn(at + 1, "=") : 1;
    *length -= *length >= 2 * mark ? 2 * mark : *length;
    at += mark;
    size_t newline = at[0] == '\n'; /* Lua leaves out the first */
    *length -= newline < *length ? newline : 0;
    return at + newline;
}

static const char *
find_notes(const char *text, size_t *length)
{
    static const char word[] = "teacher";
    *length = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        bool whole = (at == text || !lua_is_name(at[-1])) && !lua_is_name(at[sizeof word - 1]);
        const char *notes = whole ? notes_behind(at + sizeof word - 1, length) : NULL;
        if (notes != NULL && *length > 0)
            return notes;
    }
    return NULL;
}

static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    const char *path, *text = trace_source_text(scene->model->trace, &path);
    size_t      length;
    const char *notes = find_notes(text, &length);
    struct str  all = { 0 };
    if (!scene->view->teacher || notes == NULL) {
        canvas_wrap(pane, &(struct lines){ .skip = skip }, 1, (struct style){ .ink = INK_DIM },
                    scene->view->teacher ? "this lesson has no notes" : "for teachers: --teacher shows them");
        return;
    }
    str_add_bytes(&all, notes, length);
    canvas_wrap(pane, &(struct lines){ .skip = skip, .hang = 2 }, 1, (struct style){ 0 }, canvas_words(pane, &all));
    str_free(&all);
}

static enum concern
concern(const struct scene *scene)
{
    return scene->view->teacher ? CONCERN_SOME : CONCERN_NONE;
}

const struct pane_kind notes_pane = { .name = "Notes", .least_columns = 40, .concern = concern, .draw = draw };
