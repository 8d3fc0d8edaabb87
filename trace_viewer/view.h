/* What a person looks at: the cursor in the trace, the window in time, the panes, the question asked last. The model
 * says what there is, the view where one stands in it; a frame is drawn from both and changes neither. */
#ifndef VIEWER_VIEW_H
#define VIEWER_VIEW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "arrange.h"
#include "hunt.h"
#include "binds.h"
#include "branches.h"
#include "marks.h"
#include "model.h"
#include "prompt.h"
#include "scale.h"
#include "search.h"
#include "settings.h"
#include "theme.h"
#include "asking.h"
#include "predict.h"
#include "veil.h"
#include "analysis/moves.h"
#include "base/str.h"
#include "control/commands.h"

struct cast;

enum pane {
    PANE_TIMELINE,
#define PANE(id, unit) PANE_##id,
#include "panes.def"
#undef PANE
    PANE_COUNT
};

/* How a pane is looked at: rows scrolled away, and the row that is chosen where rows can be; what is folded, a bit each,
 * by the pane's own numbers; of a tensor the value, from 1, and whether its change is shown. */
struct pane_look { int scroll, line; uint64_t folded[4]; int element; bool percent; };

/* Who may go on: a saved trace never does, a session does when asked. */
enum run_state { RUN_SAVED, RUN_PAUSED, RUN_RUNNING, RUN_FINISHED, RUN_FAILED, RUN_GONE };

/* What covers the screen: what is enough to begin with; all keys and commands. */
enum help { HELP_NONE, HELP_FIRST, HELP_KEYS };

struct view {
    size_t         cursor;             /* the event one stands at; NO_EVENT in an empty trace */
    int            lane;               /* the selected lane */
    int            top;                /* the first lane shown */
    int            width, height;      /* of the screen, set before commands are carried out */
    uint64_t       unit;               /* ps a column; 0: all of the trace */
    bool           all;                /* all of it was asked for */
    int64_t        left;               /* first column */
    size_t         measure;            /* from this event to the cursor; NO_EVENT none */
    enum pane      focus;
    enum pane      chosen;             /* in the place that changes; PANE_TIMELINE: what the event is about */
    struct pane_look panes[PANE_COUNT]; /* [PANE_TIMELINE]: of the list of keys */
    size_t         before;             /* the event stood at before the last move forwards; NO_EVENT: nothing is new */
    bool           full;               /* the focused pane alone */
    enum help      help;
    struct search  search;
    struct marks   marks;
    struct settings settings;          /* the options of :set */
    struct binds   binds;              /* keys that a person gave commands */
    char          *answer;             /* what the session said last, in lines; owned, NULL none */
    struct move_rules rules;
    struct move    move;               /* the search under way in a recorded trace */
    struct hunt    hunt;               /* if it has a question: that is under way instead */
    bool           moving;
    struct asking  asking;
    struct predict predict;
    int            hints;              /* asked for, of the check that failed last */
    bool           reading;            /* the lesson's text has the screen */
    bool           teaches;            /* `layout teach` */
    bool           teacher;            /* --teacher: notes are shown, and every answer */
    struct veil    veil;               /* as of the last view_veil */
    struct arrange arrange;            /* the timeline's lanes, flows and curves */
    enum run_state run;
    enum theme     theme;
    struct cast   *cast;               /* the film that is being made; NULL none */
    struct str     done;               /* the commands so far, a line each */
    struct prompt  prompt;             /* what is being typed */
    char           message[512];       /* the line above the keys */
    char           todo[640];          /* a command that a pane asks for; "" none */
    bool           todo_typed;         /* it is typed for the person, who finishes it */
    bool           asks_to_leave;      /* whether a run that is not over ends: s stops it, d detaches, all else stays */
    bool           chooses;            /* the list of ranks, of which one runs first, is open; its line */
    int            choice;
    struct match  *events;             /* which of them are listed; NULL: those that step stops at */
    char          *points;             /* a session's breakpoints as it told them, in lines; owned, NULL not yet */
    struct branches branches;          /* the runs that the session keeps; none: there is one */
    struct edited  edited;             /* whether and where the present run was changed */
    char           gone[128];          /* how the engine went, while it is gone; "" */
};

void view_init(struct view *view);
void view_free(struct view *view);
/* Another run's trace takes the old one's place: what stops a run is looked up there. */
void view_use(struct view *view, const struct trace *trace);
/* Lines for the pane that shows what was answered. */
void view_answer(struct view *view, const char *text);
void view_say(struct view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A command to be carried out, or typed at the prompt, once the key is done. */
void view_do(struct view *view, bool typed, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The window in time for a timeline of that many columns; with unit 0 the whole trace. */
struct scale view_scale(const struct view *view, const struct model *model, int columns);
/* Stands at that event: its lane is selected; the window moves by whole columns only if the event left its middle.
 * false: a question comes before it, and there one stands. */
bool view_goto(struct view *view, const struct model *model, size_t seq);
/* A zoom in which the first whole step of the lesson, forward and backward, can be read. */
void view_zoom_to_step(struct view *view, const struct model *model);
/* The same while the lesson runs and nobody knows yet how long it will be. */
void view_zoom_running(struct view *view, const struct model *model);
bool view_is_predicting(const struct view *view); /* `predict` waits for an answer here */
/* What open questions hide and how ranks are aligned is worked out anew: before a frame, and before a command looks for
 * events. */
void view_veil(struct view *view, const struct model *model);
/* The run was changed before that event: what the lesson says of its numbers is said of another run. */
bool view_is_edited(const struct view *view, size_t seq);
/* The question at the cursor, if it is open: put off, or not asked yet; NO_EVENT: none. */
size_t view_question(const struct view *view, const struct model *model);
/* The cursor's event in one line, without the answer that is still to be found. */
void view_print_event(const struct view *view, const struct model *model, struct str *out);
#endif
