/* trace_viewer: a trace as a timeline, on a terminal or as one printed frame.
 *
 *     trace_viewer TRACE...                      on a terminal; several are one timeline
 *     trace_viewer TRACE --print --size 100x30   one frame as text, the same on every machine
 *     trace_viewer --attach SOCKET [TRACE]       the screen of a running `ringside step` */
#include "analysis/diff.h"
#include "base/descriptors.h"
#include "base/stack.h"
#include "base/str.h"
#include "base/vec.h"
#include "base/visible.h"
#include "config.h"
#include "control/commands.h"
#include "drive.h"

#include "answering.h"
#include "export.h"
#include "frame.h"
#include "guard.h"
#include "keys.h"
#include "loop.h"
#include "plain.h"
#include "strip.h"
#include "trace/reader.h"
#include "trace/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USAGE = 2, WIDEST = 1000 };

enum format { FORMAT_TEXT, FORMAT_ANSI, FORMAT_SVG, FORMAT_HTML };

struct options {
    struct sources sources;
    const char *attach, *keys, *commands;
    int         width, height;
    long long   at;              /* -1: not given */
    bool        print, plain, help, diff, no_config, teacher;
    enum format format;
    enum theme  theme;
    bool        themed;          /* it was asked for */
    struct term_options term;
};

static const char usage[] =
    "usage: trace_viewer TRACE... [options]          (ringside view TRACE... is the same)\n"
    "several traces, or a folder of them, are one timeline; those of a job by its clock\n"
    "  --align CLOCK     of several: job (what its processes measured, or as start),\n"
    "                    start (each from its own), collective, iteration\n"
    "  --print[=FORMAT]  one frame on stdout: text, or ansi (with colours), svg, html\n"
    "  --size WxH        of that frame (80x24)\n"
    "  --at SEQ          the event to stand at\n"
    "  --keys KEYS       pressed before the first frame: 'nn]v', '<Tab>', '<Click 12,5>', '<Drag 9,5 30,5>'\n"
    "  --commands FILE   done before the first frame, a line each, as script writes them\n"
    "  --attach SOCKET   follow and steer a running session\n"
    "  --teacher         every answer is shown, and the lesson's notes are a pane\n"
    "  --plain           no screen: commands are typed, each step is told in words\n"
    "  --diff            two traces against each other, each iteration from one start\n"
    "  --theme NAME      dark, light, high-contrast, colour-blind, none\n"
    "  --ascii           no characters beyond ASCII\n"
    "  --color=HOW       never, 8, 16 or 256 at most; NO_COLOR and --no-color mean never\n"
    "  --no-config       without ~/.config/ringside/viewer.conf, which --print never reads\n"
    "  --help            this\n"
    "On the screen ? lists the keys.\n";

static int
tell_trouble(const char *format, const char *what)
{
    char text[1024];
    snprintf(text, sizeof text, format, what);
    fputs("trace_viewer: ", stderr);
    visible_write(stderr, text, strlen(text), VISIBLE_LINE);
    fputs("\n", stderr);
    return USAGE;
}

static bool
parse_size(const char *text, int *width, int *height)
{
    char end;
    return sscanf(text, "%4dx%4d%c", width, height, &end) == 2 && *width >= 1 && *height >= 1 && *width <= WIDEST &&
           *height <= WIDEST;
}

/* The value of "--name VALUE" or "--name=VALUE"; NULL: another option. */
static const char *
value_of(const char *name, int argc, char **argv, int *i)
{
    size_t length = strlen(name);
    if (strncmp(argv[*i], name, length) != 0)
        return NULL;
    if (argv[*i][length] == '=')
        return argv[*i] + length + 1;
    if (argv[*i][length] != '\0' || *i + 1 >= argc)
        return NULL;
    return argv[++*i];
}

static bool
parse_flag(const char *argument, struct options *options)
{
    static const char *const formats[] = { "--print", "--print=ansi", "--print=svg", "--print=html" };
    for (size_t i = 0; i < countof(formats); i++)
        if (strcmp(argument, formats[i]) == 0) {
            options->print = true;
            options->format = (enum format)i;
            return true;
        }
    if (strcmp(argument, "--plain") == 0)
        options->plain = true;
    else if (strcmp(argument, "--diff") == 0)
        options->diff = true;
    else if (strcmp(argument, "--ascii") == 0)
        options->term.ascii = true;
    else if (strcmp(argument, "--no-color") == 0)
        options->term.colours = 0;
    else if (strcmp(argument, "--no-config") == 0)
        options->no_config = true;
    else if (strcmp(argument, "--teacher") == 0)
        options->teacher = true;
    else if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
        options->help = true;
    else
        return false;
    return true;
}

static bool
parse_colours(const char *text, struct options *options)
{
    static const struct { const char *name; int colours; } names[] = {
        { "never", 0 }, { "8", 8 }, { "16", 16 }, { "256", 256 }, { "auto", -1 },
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i].name, text) == 0) {
            options->term.colours = names[i].colours;
            return true;
        }
    return false;
}

static bool
parse_clock(const char *text, enum join_clock *clock)
{
    static const char *const names[] = { "job", "start", "collective", "iteration" };
    for (size_t i = 0; i < countof(names); i++)
        if (strcmp(text, names[i]) == 0) {
            *clock = (enum join_clock)i;
            return true;
        }
    return false;
}

/* 0 or the status to exit with, the reason said. */
static int
parse_options(int argc, char **argv, struct options *options)
{
    *options = (struct options){ .width = 80, .height = 24, .at = -1, .term.colours = -1 };
    for (int i = 1; i < argc; i++) {
        const char *value;
        if (parse_flag(argv[i], options))
            continue;
        if ((value = value_of("--size", argc, argv, &i)) != NULL) {
            if (!parse_size(value, &options->width, &options->height))
                return tell_trouble("--size %s: two numbers are meant, such as 100x30", value);
        } else if ((value = value_of("--color", argc, argv, &i)) != NULL) {
            if (!parse_colours(value, options))
                return tell_trouble("--color=%s: never, 8, 16 or 256 is meant", value);
        } else if ((value = value_of("--at", argc, argv, &i)) != NULL) {
            char *end;
            options->at = strtoll(value, &end, 10);
            if (*end != '\0' || end == value || options->at < 0)
                return tell_trouble("--at %s: the number of an event is meant", value);
        } else if ((value = value_of("--align", argc, argv, &i)) != NULL) {
            if (!parse_clock(value, &options->sources.clock))
                return tell_trouble("--align %s: job, start, collective or iteration is meant", value);
        } else if ((value = value_of("--theme", argc, argv, &i)) != NULL) {
            if (!theme_of_name(value, &options->theme))
                return tell_trouble("--theme %s: dark, light, high-contrast, colour-blind or none is meant", value);
            options->themed = true;
        } else if ((value = value_of("--keys", argc, argv, &i)) != NULL) {
            options->keys = value;
        } else if ((value = value_of("--commands", argc, argv, &i)) != NULL) {
            options->commands = value;
        } else if ((value = value_of("--attach", argc, argv, &i)) != NULL) {
            options->attach = value;
        } else if (argv[i][0] == '-' && argv[i][1] != '\0') {
            return tell_trouble("%s: no such option, or it lacks its value; --help lists them", argv[i]);
        } else if (!sources_add(&options->sources, argv[i])) {
            return tell_trouble("%s: that is more traces than can be shown as one", argv[i]);
        }
    }
    if (options->sources.count == 0 && options->attach == NULL && !options->help)
        return tell_trouble("%s; trace_viewer TRACE, or --help", "no trace given");
    return 0;
}

static void
press_keys(struct driver *driver, const char *keys)
{
    char key[KEY_ROOM];
    while (*keys != '\0' && !driver->leave) {
        keys_take(&keys, key);
        if (driver->view->cursor != NO_EVENT)
            model_seek(driver->model, driver->view->cursor);
        while (model_learn(driver->model, SIZE_MAX)) /* a key meets the panes that a person would see */
            continue;
        drive_key(driver, key);
        while (drive_on(driver))
            continue;
        if (driver->wish == WISH_EDIT)
            view_say(driver->view, "an editor needs a terminal");
        driver->wish = WISH_NONE;
    }
}

/* false: it cannot be read, which was told. Empty lines and those that begin with # are passed over. */
static bool
do_commands(struct driver *driver, const char *path)
{
    struct str            line   = { 0 };
    struct control_reader reader = { .fd = open(path, O_RDONLY | O_CLOEXEC) };
    if (reader.fd < 0) {
        char trouble[512];
        snprintf(trouble, sizeof trouble, "%.400s: %s", path, strerror(errno));
        tell_trouble("%s", trouble);
        return false;
    }
    while (!driver->leave && control_read_line(&reader, &line)) {
        const char *text = str_text(&line);
        if (text[strspn(text, " ")] != '\0' && text[0] != '#')
            drive_line(driver, text);
        while (driver->session != NULL && driver->session->waiting)
            drive_reply(driver);
        while (drive_on(driver))
            continue;
    }
    close(reader.fd);
    str_free(&line);
    return true;
}

/* Plain text has no colours; a frame for a file is UTF-8 whatever the locale says, so that it is always the same. */
static int
print_frame(struct driver *driver, const struct options *options)
{
    struct capabilities capabilities = { .utf8 = !options->term.ascii };
    capabilities.theme = driver->view->theme;
    if (options->format != FORMAT_TEXT)
        capabilities.colours = options->term.colours < 0 ? 256 : options->term.colours;
    struct canvas canvas;
    struct str text = { 0 };
    bool starved = false;
    if (!canvas_init(&canvas, options->width, options->height))
        return tell_trouble("%s", "out of memory");
    canvas.starved = &starved;
    if (driver->view->cursor != NO_EVENT && driver->view->cursor < driver->model->seen)
        starved = !model_seek(driver->model, driver->view->cursor);
    while (model_learn(driver->model, SIZE_MAX))
        continue;
    model_seek_past(driver->model, driver->view->before);
    do
        arrange_work(driver->view, driver->model);
    while (driver->view->arrange.working);
    view_veil(driver->view, driver->model);
    starved = starved || !model_has_learned(driver->model) || driver->view->arrange.curves.starved
           || driver->view->asking.starved;
    shelf_begin(driver->model->shelf, SIZE_MAX);
    frame_draw(driver->model, driver->view, &canvas, &capabilities);
    if (options->format == FORMAT_SVG)
        export_svg(&canvas, &capabilities, &text);
    else if (options->format == FORMAT_HTML)
        export_html(&canvas, &capabilities, &text);
    else
        canvas_print(&canvas, &capabilities, options->format == FORMAT_ANSI, &text);
    starved = starved || !str_ok(&text);
    bool good = !starved && fwrite(str_text(&text), 1, text.len, stdout) == text.len && fflush(stdout) == 0;
    canvas_free(&canvas);
    str_free(&text);
    return good ? 0 : tell_trouble("%s", starved ? "out of memory" : "cannot write the frame");
}

/* It is the cause more often than not. */
static size_t
first_difference(const struct diff *diff, size_t otherwise)
{
    size_t                   count;
    const struct difference *list = diff_list(diff, &count, NULL);
    return count > 0 ? list[0].seq : otherwise;
}

static void
stand(struct driver *driver, const struct options *options)
{
    size_t count = driver->model->seen;
    if (driver->session == NULL && sources_note(driver->model->trace)[0] != '\0')
        view_say(driver->view, "%s", sources_note(driver->model->trace));
    driver->view->teacher    = options->teacher;
    driver->view->asking.all = options->teacher || options->diff; /* who compares has seen both to their ends */
    driver->view->width = options->width;
    driver->view->height = options->height;
    if (!options->print)
        view_zoom_to_step(driver->view, driver->model);
    if (count == 0)
        return;
    size_t seq = options->at >= 0 ? (size_t)options->at : options->print ? count - 1 : 0;
    if (options->at < 0 && driver->model->diff != NULL)
        seq = first_difference(driver->model->diff, seq);
    answering_pass(driver->view, driver->model, seq); /* who names an event has come there */
    view_goto(driver->view, driver->model, seq < count ? seq : count - 1);
    if (options->at >= 0 && (size_t)options->at >= count)
        view_say(driver->view, "there is no event %lld; the last one is %zu", options->at, count - 1);
}

/* The first question to the engine: where are you, and which trace do you write? */
static int
greet(struct session *session, const struct options *options, struct reply *reply)
{
    char why[512];
    session->fd = control_connect(options->attach, why, sizeof why);
    if (session->fd < 0)
        return tell_trouble("%s", why);
    if (!session_ask(session, "where") || !session_answer(session, reply))
        return tell_trouble("%s: the session does not answer; it has one viewer, and may have that", options->attach);
    return 0;
}

static int
view_trace(void *argument)
{
    const struct options *options = argument;
    struct session session = { .fd = -1 };
    struct reply reply = { 0 };
    if (options->attach != NULL && greet(&session, options, &reply) != 0)
        return USAGE;
    char why[512];
    struct sources sources = options->sources;
    if (options->diff)
        sources.clock = JOIN_ITERATION;
    if (reply.trace[0] != '\0') {
        sources.count = 0;
        sources_add(&sources, reply.trace);
    }
    if (sources.count == 0)
        return tell_trouble("%s", "the session names no trace");
    struct trace *trace = sources_open(&sources, why, sizeof why);
    if (trace == NULL)
        return tell_trouble("%s", why);
    struct model model;
    struct view view;
    if (!model_open(&model, trace))
        return tell_trouble("%s", "out of memory");
    if (options->diff && !model_compare(&model, why, sizeof why)) {
        model_close(&model);
        return tell_trouble("%s", why);
    }
    if (options->print || options->plain)
        model_finish(&model);
    view_init(&view);
    struct driver driver = { .model = &model, .view = &view, .session = options->attach != NULL ? &session : NULL };
    stand(&driver, options);
    if (reply.stands) {
        view.run = reply.run;
        view_goto(&view, &model, reply.seq < model.seen ? reply.seq : model.seen > 0 ? model.seen - 1 : 0);
    }
    reply_free(&reply);
    if (!options->print && !options->no_config)
        config_read(&view, &model);
    if (options->themed)
        view.theme = options->theme;
    if (options->keys != NULL)
        press_keys(&driver, options->keys);
    bool done = options->commands == NULL || do_commands(&driver, options->commands);
    int status = !done ? USAGE : options->print ? print_frame(&driver, options)
                 : options->plain ? plain_run(&driver) : loop_run(&driver, &options->term);
    if (driver.detached)
        printf("the run waits for a screen: trace_viewer --attach %s\n", options->attach);
    view_free(&view);
    model_close(&model);
    if (session.fd >= 0)
        close(session.fd);
    return status;
}

static int
run_viewer(int argc, char **argv)
{
    descriptors_fill();
    struct options options;
    int status = parse_options(argc, argv, &options);
    if (status != 0)
        return status;
    if (options.help) {
        fputs(usage, stdout);
        return fflush(stdout) == 0 ? 0 : tell_trouble("cannot write standard output: %s", strerror(errno));
    }
    if (!isatty(STDOUT_FILENO) && !options.plain)
        options.print = true;
    return options.print || options.plain ? view_trace(&options) : guard_run(view_trace, &options);
}

int
main(int argc, char **argv)
{
    int status = stack_run(run_viewer, argc, argv);
    return status >= 0 ? status : tell_trouble("%s", "the stack is too small here and there is no memory for another");
}
