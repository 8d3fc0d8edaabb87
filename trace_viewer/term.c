/* Cells to curses, bytes to keys. Curses has the output alone: what comes in is read here and decoded by decode.c, as
 * curses reports neither drags nor pastes. Interface in order of use: term_open; term_show and term_key in a loop,
 * term_resize and term_suspend when asked to, term_give and term_take around other programs; term_close. */
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
#include <time.h>
#include <unistd.h>
#include <wchar.h>

enum { LARGEST = 1000, ESC_WAIT_MS = 25, PASTE_WAIT_MS = 1000 };

struct term {
    SCREEN             *screen;
    struct capabilities capabilities;
    short               pairs[INK_COUNT][INK_COUNT]; /* 0 not made yet */
    short               pair_count;
    struct decoder      decoder;
    int64_t             read_ms;                     /* when bytes came last */
    bool                reports, mouse;              /* the terminal has a mouse to report; it was asked to */
};

static int64_t
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Modes that curses does not ask for: a line that is full keeps no screen from being left. */
static void
ask(const char *modes)
{
    ssize_t written = write(STDOUT_FILENO, modes, strlen(modes));
    (void)written;
}

static int
colours_of_terminal(const struct term_options *options)
{
    const char *none = getenv("NO_COLOR");
    bool forbidden = options->colours < 0 && none != NULL && none[0] != '\0';
    if (options->colours == 0 || forbidden || !has_colors())
        return 0;
    start_color();
    use_default_colors();
    int most = options->colours < 0 || options->colours > COLORS ? COLORS : options->colours;
    return most >= 256 ? 256 : most >= 16 ? 16 : most >= 8 ? 8 : 0;
}

/* What this terminal sends for keys, as its description says. */
static void
learn_keys(struct decoder *decoder)
{
    static const struct { const char *name, *key; } named[] = {
        { "kcuu1", "Up" }, { "kcud1", "Down" }, { "kcub1", "Left" }, { "kcuf1", "Right" }, { "khome", "Home" },
        { "kend", "End" }, { "kpp", "PageUp" }, { "knp", "PageDown" }, { "kdch1", "Delete" }, { "kich1", "Insert" },
        { "kcbt", "BackTab" }, { "kf1", "F1" }, { "kf2", "F2" }, { "kf3", "F3" }, { "kf4", "F4" }, { "kf5", "F5" },
        { "kf6", "F6" }, { "kf7", "F7" }, { "kf8", "F8" }, { "kf9", "F9" }, { "kf10", "F10" },
    };
    for (size_t i = 0; i < countof(named) && decoder->own_count < SEQUENCES; i++) {
        char        name[8];
        snprintf(name, sizeof name, "%s", named[i].name);
        const char *bytes = tigetstr(name);
        if (bytes == NULL || bytes == (char *)-1 || bytes[0] != '\x1b' || strlen(bytes) >= SEQUENCE_ROOM)
            continue;
        struct sequence *own = &decoder->own[decoder->own_count++];
        snprintf(own->bytes, sizeof own->bytes, "%s", bytes);
        snprintf(own->key, sizeof own->key, "%s", named[i].key);
    }
}

/* Terminals that say how the mouse is reported understand SGR reports and marked pastes too. */
static bool
has_reports(void)
{
    char        name[] = "kmous";
    const char *mouse = tigetstr(name);
    return mouse != NULL && mouse != (char *)-1;
}

static void
ask_reports(struct term *term)
{
    if (term->reports)
        ask(term->mouse ? "\x1b[?2004h\x1b[?1002h\x1b[?1006h" : "\x1b[?2004h\x1b[?1006l\x1b[?1002l");
}

static void
end_reports(const struct term *term)
{
    if (term->reports)
        ask("\x1b[?1006l\x1b[?1002l\x1b[?2004l");
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
        snprintf(why, why_size, "no screen for a timeline here (TERM=%.40s); --print writes a frame as text, --plain "
                 "tells it in words", name != NULL ? name : "");
        free(term);
        return NULL;
    }
    set_term(term->screen);
    drop_handlers();
    raw();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    typeahead(-1);
    curs_set(0);
    term->capabilities.utf8 = !options->ascii && strcmp(nl_langinfo(CODESET), "UTF-8") == 0 && wcwidth(0x2500) == 1;
    term->capabilities.colours = colours_of_terminal(options);
    term->reports = has_reports();
    learn_keys(&term->decoder);
    refresh();
    ask_reports(term);
    return term;
}

void
term_close(struct term *term)
{
    if (term == NULL)
        return;
    end_reports(term);
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

bool
term_is_behind(const struct term *term)
{
    int waiting = 0;
    (void)term;
    return ioctl(STDOUT_FILENO, TIOCOUTQ, &waiting) == 0 && waiting > 0;
}

void
term_mouse(struct term *term, bool wanted)
{
    if (term->mouse == wanted)
        return;
    term->mouse = wanted;
    ask_reports(term);
}

/* What has come within so many ms; false: the terminal is gone. */
static bool
read_bytes(struct term *term, int wait_ms, bool *any)
{
    unsigned char bytes[1024];
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    size_t        room = decoder_room(&term->decoder);
    *any = false;
    if (poll(&input, 1, wait_ms) <= 0 || room == 0)
        return true;
    ssize_t got = read(STDIN_FILENO, bytes, room < sizeof bytes ? room : sizeof bytes);
    if (got <= 0)
        return got < 0 && (errno == EINTR || errno == EAGAIN);
    decoder_feed(&term->decoder, bytes, (size_t)got);
    term->read_ms = now_ms();
    *any = true;
    return true;
}

/* A lone Esc is a key once nothing has followed it for a moment. */
bool
term_key(struct term *term, char key[KEY_ROOM])
{
    bool any;
    if (decoder_key(&term->decoder, false, now_ms(), key))
        return true;
    if (!read_bytes(term, 0, &any))
        return false;
    while (!decoder_key(&term->decoder, false, now_ms(), key)) {
        int64_t idle = now_ms() - term->read_ms;
        if (term->decoder.pasting && term->decoder.count == 0 && idle > PASTE_WAIT_MS)
            term->decoder.pasting = false; /* its end was lost */
        if (term->decoder.count == 0)
            return true;
        if (idle >= ESC_WAIT_MS) {
            decoder_key(&term->decoder, true, now_ms(), key);
            return true;
        }
        if (!read_bytes(term, (int)(ESC_WAIT_MS - idle), &any))
            return false;
    }
    return true;
}

void
term_give(struct term *term)
{
    end_reports(term);
    def_prog_mode();
    endwin();
}

void
term_take(struct term *term)
{
    reset_prog_mode();
    term_resize(term);
    refresh();
    ask_reports(term);
}

void
term_suspend(struct term *term)
{
    sigset_t stop, before;
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    term_give(term);
    sigprocmask(SIG_UNBLOCK, &stop, &before);
    kill(0, SIGTSTP); /* the whole group, as the key would */
    sigprocmask(SIG_SETMASK, &before, NULL);
    term_take(term);
}
