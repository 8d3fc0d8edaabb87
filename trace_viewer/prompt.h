/* The line that is being typed above the keys: editing, and what was typed at each prompt before. */
#ifndef VIEWER_PROMPT_H
#define VIEWER_PROMPT_H
#include <stdbool.h>
#include <stddef.h>
#include "canvas.h"

enum { PROMPT_ROOM = 512, PROMPT_LINES = 64, PROMPT_KINDS = 12 };

/* What was entered at one prompt; the oldest goes first. */
struct history { char title[24]; char *lines[PROMPT_LINES]; int count; };

struct prompt {
    char   title[64];                 /* ":", "/", "until "; "" none is open */
    char   typed[PROMPT_ROOM];
    size_t caret;                     /* a byte of `typed`, or its end */
    char   offers[PROMPT_ROOM];       /* several words that may be meant */
    char   draft[PROMPT_ROOM];        /* what was typed before one went into the history */
    int    back;                      /* how far into it; 0: not */
    struct history past[PROMPT_KINDS];
};

enum prompt_end { PROMPT_STAYS, PROMPT_ENTERED, PROMPT_LEFT, PROMPT_COMPLETES };

void            prompt_open(struct prompt *prompt, const char *title);
/* What was entered there in another way. */
void            prompt_keep(struct prompt *prompt, const char *title, const char *line);
bool            prompt_is_open(const struct prompt *prompt);
/* PROMPT_ENTERED: the line is in `typed` and remembered; an empty one that is to be looked for or run to is the last one. PROMPT_COMPLETES: Tab, which is the caller's. */
enum prompt_end prompt_key(struct prompt *prompt, const char *key);
/* Puts `text` for the bytes from `from` to the caret. */
void            prompt_replace(struct prompt *prompt, size_t from, const char *text);
void            prompt_close(struct prompt *prompt);
void            prompt_draw(const struct prompt *prompt, struct canvas *line);
void            prompt_free(struct prompt *prompt);
#endif
