/* ringside SUBCOMMAND ...: one row per subcommand.
 *
 * Interface: main. */
#include <limits.h>
#include <lua.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/descriptors.h"
#include "base/place.h"
#include "base/stack.h"
#include "base/vec.h"
#include "c10d/plugin.h"
#include "c10d/transport.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "tensor/blas.h"

#define RINGSIDE_VERSION "0.1.0"

struct subcommand {
    const char *name;         /* first: `nearest` walks over it */
    int       (*run)(int argc, char **argv);
    const char *help;
};

static int cli_version(int argc, char **argv);

static const struct subcommand subcommand_table[] = {
    { "run", cli_run, "run a lesson, narration on stdout" },
    { "step", cli_step, "the same on a screen, paused at the first event" },
    { "launch", cli_launch, "a lesson in many processes, one a rank, as torchrun does" },
    { "view", cli_view, "the timeline of a trace" },
    { "story", cli_story, "how a lesson or a trace is told: the stops of n, a line each" },
    { "events", cli_events, "every event of a trace, one line each" },
    { "hang", cli_hang, "why a real job hangs: reads PyTorch's Flight Recorder dumps" },
    { "explore", cli_explore, "a lesson in other orders: which of them hang, race or differ" },
    { "devices", cli_devices, "what this machine offers, and what is missing for the rest" },
    { "lessons", cli_lessons, "the course: name, minutes, title, what it needs, and the file" },
    { "exercise", cli_exercise, "your copy of an exercise, checked each time you save it" },
    { "synth", cli_synth, "a made trace of any size, to try a screen or a script on" },
    { "bench", cli_bench, "how fast it is" },
    { "version", cli_version, "which one this is, and what was built in; --version says the same" },
    { "help", cli_help, "what a name is: a function, an event, a command; --all: the reference" },
};

static int
print_subcommands(void)
{
    puts("ringside: watch data-parallel training\n");
    for (size_t i = 0; i < countof(subcommand_table); i++)
        printf("  ringside %-9s %s\n", subcommand_table[i].name, subcommand_table[i].help);
    puts("\nEach has --help. To begin: ringside run 01");
    return STATUS_DONE;
}

int (*subcommand_find(const char *name))(int argc, char **argv)
{
    for (size_t i = 0; i < countof(subcommand_table); i++)
        if (strcmp(name, subcommand_table[i].name) == 0)
            return subcommand_table[i].run;
    return NULL;
}

/* The list of subcommands, and what else has a name. */
static int
print_all_help(void)
{
    print_subcommands();
    puts("\nringside help NAME tells more, of a name or a namespace:\n");
    return help_names();
}

/* `first`, then of the back-ends between processes the ones that are there, or are not. */
static void
print_plugins(const char *label, const char *first, bool there)
{
    struct transport_why why;
    const char          *between = first[0] != '\0' ? ", " : "";
    printf("%s%s", label, first);
    for (size_t i = 0; i < plugin_count(); i++) {
        if ((plugin_open(plugin_name(i), &why) != NULL) != there)
            continue;
        printf("%s%s", between, plugin_name(i));
        between = ", ";
    }
    puts(between[0] != '\0' ? "" : "nothing");
}

static int
print_version(void)
{
    char        fast[128], file[PATH_MAX];
    struct blas blas;
    bool        cuda = plugin_file("cuda", file, sizeof file);   /* NCCL's part is in it */
    blas_open(&blas);
    blas_describe(&blas, fast, sizeof fast);
    puts("ringside " RINGSIDE_VERSION);
    puts("  executors  stepped, free");
    printf("  devices    virtual (cpu)%s\n", cuda ? ", cuda" : "");
    print_plugins("  backends   ", cuda ? "local, nccl" : "local", true);
    printf("  products   exact (fixed order); fast: %s\n", fast);
    puts("  scripting  " LUA_RELEASE);
    print_plugins("  not built  ", cuda ? "" : "cuda, nccl", false);
    puts("  compiler   " __VERSION__);
    if (blas.warning[0] != '\0')
        answer_line("  warning    ", blas.warning);
    return STATUS_DONE;
}

static int
cli_version(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") != 0)
        return message(STATUS_USAGE, "version takes no '%s'", argv[1]);
    if (argc > 1)
        puts("ringside version    which one this is, and what was built in");
    return argc > 1 ? STATUS_DONE : print_version();
}

static int
run_subcommand(int argc, char **argv)
{
    if (argc < 2) {
        print_subcommands();
        return STATUS_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_subcommands();
    if (strcmp(argv[1], "help") == 0 && argc == 2)
        return print_all_help();
    if (strcmp(argv[1], "--version") == 0)
        return print_version();
    int (*run)(int argc, char **argv) = subcommand_find(argv[1]);
    if (run != NULL)
        return run(argc - 1, argv + 1);
    const char *meant = nearest(argv[1], subcommand_table, countof(subcommand_table), sizeof subcommand_table[0]);
    if (meant != NULL)
        return message(STATUS_USAGE, "no subcommand '%s'; did you mean '%s'?", argv[1], meant);
    return message(STATUS_USAGE, "no subcommand '%s'; 'ringside --help' lists them", argv[1]);
}

int
main(int argc, char **argv)
{
    descriptors_fill();
    signal(SIGXFSZ, SIG_IGN); /* a file-size limit is a full disk, not the end of the run */
    int status = stack_run(run_subcommand, argc, argv);
    if (status < 0)
        return message(STATUS_FAILED, "the stack is too small here and there is no memory for another; see ulimit -s");
    return output_finish(status);
}
