/* Interface: heading_print, heading_print_line, heading_print_beside_words. */
#include "heading.h"

#include "analysis/story.h"
#include "model.h"
#include "question.h"
#include "view.h"

#include <string.h>

static bool
is_told(const struct model *model, const struct view *view)
{
    return model->story != NULL && view->cursor != NO_EVENT &&
           veil_question(model, &view->asking, view->cursor) == NO_EVENT;
}

void
heading_print(const struct model *model, const struct view *view, struct str *out)
{
    if (is_told(model, view))
        story_tell_event(model->story, view->cursor, out);
}

void
heading_print_line(const struct model *model, const struct view *view, struct str *out)
{
    if (is_told(model, view))
        story_tell_line(model->story, view->cursor, out);
}

/* The pane shows it among the lesson's words. */
static bool
is_item(const struct model *model, size_t seq)
{
    const char *kind = model_kind(model, seq);
    return strcmp(kind, "lesson.say") == 0 || strcmp(kind, "lesson.ask") == 0 || strcmp(kind, "lesson.check") == 0;
}

void
heading_print_beside_words(const struct model *model, const struct view *view, struct str *out)
{
    if (view->cursor == NO_EVENT || !is_item(model, view->cursor)) {
        heading_print(model, view, out);
        return;
    }
    if (!is_told(model, view))
        return;
    const struct story_stop *stop = story_at(model->story, story_index(model->story, view->cursor));
    if (stop != NULL && stop->at == view->cursor)
        story_again(model->story, stop, out);
}
