/* Interface: heading_print, heading_print_line, heading_print_beside_words. */
#include "heading.h"

#include "analysis/story.h"
#include "analysis/story_words.h"
#include "model.h"
#include "question.h"
#include "view.h"

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

void
heading_print_beside_words(const struct model *model, const struct view *view, struct str *out)
{
    if (view->cursor == NO_EVENT || story_part_of(model_kind(model, view->cursor)) != PART_WORD) {
        heading_print(model, view, out);
        return;
    }
    if (!is_told(model, view))
        return;
    const struct story_stop *stop = story_at(model->story, story_index(model->story, view->cursor));
    if (stop != NULL && stop->at == view->cursor)
        story_again(model->story, stop, out);
}
