/* Lines in, paragraphs out. Interface: plain_run. */
#include "plain.h"

#include "base/str.h"
#include "base/visible.h"
#include "question.h"
#include "words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* false: nobody reads any more. */
static bool
tell(const char *text)
{
    visible_write(stdout, text, strlen(text), VISIBLE_LINES);
    return fflush(stdout) == 0;
}

/* What the last command said, in lines, then in a message. */
static bool
tell_answers(struct view *view)
{
    struct str text = { 0 };
    if (view->answer != NULL)
        str_add(&text, view->answer);
    free(view->answer);
    view->answer = NULL;
    if (view->message[0] != '\0')
        str_addf(&text, "%s\n", view->message);
    view->message[0] = '\0';
    bool good = tell(str_text(&text));
    str_free(&text);
    return good;
}

static bool
tell_step(struct driver *driver)
{
    static const struct capabilities capabilities = { .words = true };
    struct view *view = driver->view;
    struct str   text = { 0 };
    if (view->cursor != NO_EVENT)
        model_seek(driver->model, view->cursor);
    while (model_learn(driver->model, SIZE_MAX))
        continue;
    model_seek_past(driver->model, view->before);
    view_veil(view, driver->model);
    words_of_step(&(struct scene){ driver->model, view, &capabilities }, &text);
    bool good = tell(str_text(&text)) && tell_answers(view) && tell("\n");
    str_free(&text);
    return good;
}

/* Until the engine has answered and a search has come to its end. */
static void
finish(struct driver *driver)
{
    while (driver->session != NULL && driver->session->waiting)
        drive_reply(driver);
    while (drive_on(driver))
        continue;
    model_refresh(driver->model);
}

int
plain_run(struct driver *driver)
{
    struct str            line = { 0 };
    struct control_reader reader = { .fd = STDIN_FILENO };
    bool                  good = tell_step(driver);
    while (good && !driver->leave && control_read_line(&reader, &line)) {
        size_t stood = driver->view->cursor;
        drive_line(driver, str_text(&line));
        finish(driver);
        if (driver->leave)
            break;
        good = driver->view->cursor != stood ? tell_step(driver) : tell_answers(driver->view) && tell("\n");
        str_clear(&line);
    }
    str_free(&line);
    return good ? 0 : 2;
}
