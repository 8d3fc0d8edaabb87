/* What the files of look share: each carries out the commands of one table. */
#ifndef VIEWER_LOOK_INTERNAL_H
#define VIEWER_LOOK_INTERNAL_H
#include "look.h"

/* A command and who carries it out. Tables end with a row without a function. */
struct look_rule { int command; void (*carry)(struct view *view, struct model *model, const struct command_line *line); };

extern const struct look_rule look_move_rules[], look_find_rules[], look_zoom_rules[], look_pane_rules[],
                              look_timeline_rules[], look_mark_rules[], look_option_rules[], look_word_rules[],
                              look_export_rules[], look_fault_rules[], look_lesson_rules[];

/* The next (or last) event for which `is` holds; `what` is said where there is none. */
void hunt(struct view *view, struct model *model, int direction,
          bool (*is)(const struct view *view, const struct model *model, size_t seq), const char *what);
/* What is not found may be there, and wait for an answer: said behind that it was not found. */
const char *or_hidden(const struct view *view);
void zoom_into(struct view *view, struct model *model);   /* the selected stage */
int  bounded(int value, int low, int high);
#endif
