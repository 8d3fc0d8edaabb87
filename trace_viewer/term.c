/* Cells to curses, curses to keys. Interface in order of use: term_open; term_show and term_key in a loop,
 * term_resize and term_suspend when asked to; term_close. */
#include "term.h"

#include "base/vec.h"
#include "glyph.h"

#include <curses.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum { LARGEST = 1000, ESC_WAIT_MS = 25 };

struct term {
    SCREEN             *screen;
    struct capabilities capabilities;
    short               pairs[INK_COUNT][INK_COUNT]; /* 0 not made yet */
    short               pair_count;
};

static int
colours_of_terminal(const struct term_options *options)
{
    const char *none = getenv("NO_COLOR");
    if (options->no_colour || (none != NULL && none[0] != '\0') || !has_colors())
        return 0;
    start_color();
    use_default_colors();
    return COLORS >= 256 ? 256 : COLORS >= 16 ? 16 : COLORS >= 8 ? 8 : 0;
}

/* Curses brings handlers of its own for what the loop asks for. That of a stop takes the modes it finds afterwards for
 * those from before curses; that of an interrupt would run when the screen is gone. */
static void
drop_handlers(void)
{
    static const int handled[] = { SIGTSTP, SIGINT, SIGTERM };
    struct sigaction action;
    for (size_t i = 0; i < countof(handled); i++)
        if (sigaction(handled[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            signal(handled[i], SIG_DFL);
}

struct term *
term_open(const struct term_options *options, char *why, size_t why_size)
{
    const char *name = getenv("TERM");
    bool usable = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && name != NULL && name[0] != '\0' &&
                  strcmp(name, "dumb") != 0;
    setlocale(LC_CTYPE, "");
    struct term *term = usable ? calloc(1, sizeof *term) : NULL;
    if (term != NULL)
        term->screen = newterm(NULL, stdout, stdin);
    if (term == NULL || term->screen == NULL) {
        snprintf(why, why_size, "no screen for a timeline here; --print writes a frame as text");
        free(term);
        return NULL;
    }
    set_term(term->screen);
    drop_handlers();
    raw();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESC_WAIT_MS);
    curs_set(0);
    term->capabilities.utf8 = !options->ascii && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    term->capabilities.colours = colours_of_terminal(options);
    return term;
}

void
term_close(struct term *term)
{
    if (term == NULL)
        return;
    endwin();
    delscreen(term->screen);
    free(term);
}

const struct capabilities *
term_capabilities(const struct term *term)
{
    return &term->capabilities;
}

void
term_size(const struct term *term, int *width, int *height)
{
    (void)term;
    getmaxyx(stdscr, *height, *width);
    *width = *width < 1 ? 1 : *width > LARGEST ? LARGEST : *width;
    *height = *height < 1 ? 1 : *height > LARGEST ? LARGEST : *height;
}

void
term_resize(struct term *term)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resizeterm(size.ws_row, size.ws_col);
    term_redraw(term);
}

void
term_redraw(struct term *term)
{
    (void)term;
    clearok(stdscr, TRUE);
}

void
term_theme(struct term *term, enum theme theme)
{
    if (term->capabilities.theme == theme)
        return;
    term->capabilities.theme = theme;
    memset(term->pairs, 0, sizeof term->pairs);
    term->pair_count = 0;
    term_redraw(term);
}

static short
pair_of(struct term *term, struct style style)
{
    if (term->capabilities.colours == 0 || (style.ink == INK_PLAIN && style.paper == INK_PLAIN) ||
        style.ink >= INK_COUNT || style.paper >= INK_COUNT)
        return 0;
    short *pair = &term->pairs[style.ink][style.paper];
    if (*pair == 0 && term->pair_count + 1 < COLOR_PAIRS && term->pair_count < 32000) {
        const struct capabilities *own = &term->capabilities;
        short number = (short)(term->pair_count + 1);
        if (init_pair(number, (short)ink_colour(style.ink, own->colours, own->theme),
                      (short)ink_colour(style.paper, own->colours, own->theme)) == OK) {
            term->pair_count = number;
            *pair = number;
        }
    }
    return *pair;
}

static void
show_cell(struct term *term, const struct cell *cell, int row, int column)
{
    attr_t attr = A_NORMAL;
    if (cell->style.attr & ATTR_BOLD)
        attr |= A_BOLD;
    if (cell->style.attr & ATTR_REVERSE)
        attr |= A_REVERSE;
    if (cell->style.attr & ATTR_UNDERLINE)
        attr |= A_UNDERLINE;
    wchar_t text[2] = { (wchar_t)cell->code, L'\0' };
    if (!term->capabilities.utf8)
        text[0] = (wchar_t)glyph_ascii(cell->code);
    cchar_t glyph;
    if (setcchar(&glyph, text, attr, pair_of(term, cell->style), NULL) == OK)
        mvadd_wch(row, column, &glyph);
}

void
term_show(struct term *term, const struct canvas *canvas)
{
    for (int row = 0; row < canvas->height; row++)
        for (int column = 0; column < canvas->width; column++) {
            const struct cell *cell = canvas_at(canvas, row, column);
            if (cell->code != 0)
                show_cell(term, cell, row, column);
        }
    refresh();
}

static void
name_special(int code, char key[16])
{
    static const struct { int code; const char *name; } names[] = {
        { KEY_UP, "Up" }, { KEY_DOWN, "Down" }, { KEY_LEFT, "Left" }, { KEY_RIGHT, "Right" }, { KEY_HOME, "Home" },
        { KEY_END, "End" }, { KEY_ENTER, "Enter" }, { KEY_BACKSPACE, "Backspace" }, { KEY_BTAB, "BackTab" },
        { KEY_PPAGE, "PageUp" }, { KEY_NPAGE, "PageDown" }, { KEY_DC, "Delete" },
    };
    key[0] = '\0';
    for (size_t i = 0; i < countof(names); i++)
        if (names[i].code == code)
            snprintf(key, 16, "%s", names[i].name);
    if (code > KEY_F0 && code <= KEY_F(12))
        snprintf(key, 16, "F%d", code - KEY_F0);
}

static void
name_character(wint_t code, char key[16])
{
    if (code == '\r' || code == '\n')
        snprintf(key, 16, "Enter");
    else if (code == '\t')
        snprintf(key, 16, "Tab");
    else if (code == ' ')
        snprintf(key, 16, "Space");
    else if (code == 27)
        snprintf(key, 16, "Esc");
    else if (code == 127 || code == 8)
        snprintf(key, 16, "Backspace");
    else if (code < 32)
        snprintf(key, 16, "^%c", (int)code + 64);
    else if (code < 127)
        snprintf(key, 16, "%c", (int)code);
    else {
        mbstate_t state = { 0 };
        size_t length = wcrtomb(key, (wchar_t)code, &state);
        key[length < 15 ? length : 0] = '\0';
    }
}

bool
term_key(struct term *term, char key[16])
{
    (void)term;
    wint_t code;
    int got = get_wch(&code);
    key[0] = '\0';
    if (got == KEY_CODE_YES) {
        name_special((int)code, key);
        return true;
    }
    if (got == OK) {
        name_character(code, key);
        return true;
    }
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    return poll(&input, 1, 0) <= 0 || (input.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

void
term_suspend(struct term *term)
{
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    def_prog_mode();
    endwin();
    sigprocmask(SIG_UNBLOCK, &stop, &before);
    kill(0, SIGTSTP); /* the whole group, as the key would */
    sigprocmask(SIG_SETMASK, &before, NULL);
    reset_prog_mode();
    term_resize(term);
    refresh();
}
