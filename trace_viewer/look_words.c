/* `look`: the screen's facts in words, into the answer. */
#include "look_internal.h"

#include "base/str.h"
#include "words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The pane whose name begins so; PANE_TIMELINE: none. */
static enum pane
pane_of_name(const char *name)
{
    for (int pane = PANE_LESSON; pane < PANE_COUNT; pane++)
        if (strncasecmp(pane_kind((enum pane)pane)->name, name, strlen(name)) == 0)
            return (enum pane)pane;
    return PANE_TIMELINE;
}

static void
take_answer(struct view *view, struct str *text)
{
    char *copy = str_ok(text) ? strdup(str_text(text)) : NULL;
    if (copy == NULL) {
        view_say(view, "out of memory");
        return;
    }
    free(view->answer);
    view->answer = copy;
    view->chosen = PANE_ANSWER;
    view->panes[PANE_ANSWER].scroll = 0;
}

static void
look_at(struct view *view, struct model *model, const struct command_line *line)
{
    static const struct capabilities capabilities = { .words = true };
    const struct scene scene = { model, view, &capabilities };
    struct str         text = { 0 };
    int                rank = -1;
    enum pane          pane = pane_of_name(line->rest);
    char               end;
    if (line->rest[0] == '\0')
        words_of_step(&scene, &text);
    else if (strcmp(line->rest, "lanes") == 0 || sscanf(line->rest, "rank %d%c", &rank, &end) == 1)
        words_of_lanes(&scene, rank, &text);
    else if (pane != PANE_TIMELINE)
        words_of_pane(&scene, pane, &text);
    else
        view_say(view, "look at what? lanes, rank R, or a pane's name");
    if (text.len > 0)
        take_answer(view, &text);
    else if (view->message[0] == '\0')
        view_say(view, "no lane of rank %d", rank);
    str_free(&text);
}

const struct look_rule look_word_rules[] = {
    { CMD_look, look_at },
    { 0, NULL },
};
