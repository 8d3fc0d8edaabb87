/* What a pane is. Each has a file of its own, pane_NAME.c, which defines one struct pane_kind and nothing else that is
 * public, and a row in panes.def. A pane says what is so as of the cursor; what was not recorded is said not to be. It
 * draws its body only: titles, tabs, and the marks of what changed are the frame's. Which panes are on the screen is
 * layout.c's business. `model` has been moved to the cursor (model_seek). */
#ifndef VIEWER_PANES_H
#define VIEWER_PANES_H
#include "canvas.h"
#include "view.h"

struct page; struct str;

/* All that a frame is drawn from, but for its size. */
struct scene {
    const struct model        *model;
    const struct view         *view;
    const struct capabilities *capabilities;
};

/* What a pane has to say about where one stands. Panes follow: of those that the event is about the first in the list is
 * shown in the place that changes. */
enum concern {
    CONCERN_NONE,    /* nothing, at this moment: a tab at most */
    CONCERN_SOME,    /* something: shown where there is room */
    CONCERN_EVENT    /* the event is about it */
};

/* Keys that a pane has to itself while it is focused. */
struct pane_key { const char *key, *word, *help; }; /* "d", "delete", "the chosen breakpoint is gone" */

struct pane_kind {
    const char    *name;             /* of its tab, its title and `pane NAME`: "Buckets" */
    int            least_columns;    /* below that it is not put beside others */
    const char    *tells;            /* kinds that it counts or shows, with blanks between: masked where one is kept back */
    bool           takes_band;       /* when the event is about it: all of the screen's bottom */
    bool           compares;         /* its rows that are new since the last step are marked */
    bool           of_state;         /* what it says comes from the state: nothing before that is worked out */
    enum concern (*concern)(const struct scene *scene);
    void         (*title)(const struct scene *scene, struct str *out);  /* NULL: the name */
    void         (*draw)(const struct scene *scene, struct canvas *pane, int skip); /* without its first `skip` rows */

    /* A pane of lines (page.h) composes them and has no `draw`, `rows` and `enter`: Enter goes to the line's event. */
    void         (*compose)(const struct scene *scene, int width, struct page *page);
    const char    *leads;            /* which lines lead somewhere, for who chose one that does not; NULL: nothing to say */

    /* Panes whose rows can be chosen, else NULL. The chosen row is view->panes[...].line. */
    int          (*rows)(const struct scene *scene);                    /* how many */
    void         (*enter)(struct model *model, struct view *view, int row); /* Enter on one: mostly goes to its event */
    const struct pane_key *keys;                                        /* up to one without a key; NULL none */
    void         (*press)(struct model *model, struct view *view, const char *key); /* one of them */
};

#define PANE(id, unit) extern const struct pane_kind unit##_pane;
#include "panes.def"
#undef PANE
const struct pane_kind *pane_kind(enum pane pane); /* never the timeline */

/* The pane that follows the event: the first that it is about, else the source. The lesson never follows. */
enum pane pane_followed(const struct scene *scene);
/* The one in the place that changes: what a person chose, else what follows. */
enum pane pane_open(const struct scene *scene);
/* In an empty trace one stands at no event: there is none for a pane to speak of. */
bool pane_stands(const struct model *model, const struct view *view);
enum concern pane_concern(const struct scene *scene, enum pane pane);

void pane_draw(const struct scene *scene, enum pane pane, struct canvas *canvas, int skip);
bool pane_has_choices(enum pane pane); /* its rows can be chosen */
/* Of a pane whose rows can be chosen: how many there are, Enter on the chosen one, and a key of the pane's own. Where one
 * stands at no event there are none, and nothing is done. */
int  pane_choices(const struct scene *scene, enum pane pane);
void pane_enter(struct model *model, struct view *view, enum pane pane);
void pane_press(struct model *model, struct view *view, enum pane pane, const char *key);

/* How many rows what the lesson has said since the last step takes, so that it is read whole; 0: nothing is new. */
int lesson_new_rows(const struct scene *scene, int width);
/* With so few rows an open question leaves its keys to the screen's last lines. */
enum { LESSON_BRIEF_ROWS = 6 };
/* The line of the lesson that caused the event, or the last one before it; 0 unknown. */
uint32_t lesson_line(const struct model *model, size_t seq);
#endif
