/* The answer pane: what `print`, `info` and their like said, in lines. */
#include "panes.h"

/* What `print` and its like answered. */
static void
draw(const struct scene *scene, struct canvas *pane, int skip)
{
    canvas_wrap(pane, &(struct lines){ .skip = skip }, 1, (struct style){ 0 },
                scene->view->answer != NULL ? scene->view->answer : "print, info and set are answered here");
}

static enum concern
concern(const struct scene *scene)
{
    return scene->view->answer != NULL ? CONCERN_SOME : CONCERN_NONE;
}

const struct pane_kind answer_pane = { .name = "Answer", .least_columns = 60, .concern = concern, .draw = draw };
