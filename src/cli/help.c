/* ringside help: what a name is. Subcommands tell themselves; everything else is in the reference.
 *
 * Interface: cli_help. */
#include <stdio.h>
#include <string.h>
#include "base/str.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "device/device.h"
#include "hw/cost.h"
#include "lua/reference.h"
#include "sched/sched.h"
#include "sched/task.h"
#include "trace/writer.h"

static int
usage(void)
{
    puts("ringside help                  the subcommands, and the namespaces of names\n"
         "ringside help NAME             what NAME is: a function (add, t:view, nn.Linear, dist.all_reduce), a kind\n"
         "                               of event (dp.scatter), a command of the debugger (break), a subcommand (run)\n"
         "ringside help NAMESPACE        what is in rs, nn, nn.functional, optim, dist, t, events, commands, ops ...\n"
         "ringside help python          what is written in Python, and what here instead\n"
         "ringside help --all            the whole reference, in Markdown");
    return STATUS_DONE;
}

static bool
answer_task(struct task *me, void *request)
{
    return reference_answer(me, request);
}

/* false: the error is told. */
static bool
ask_reference(struct reference_request *request)
{
    char                 why[300] = "";
    struct error         error = { 0 };
    struct cost_model    cost;
    struct trace_options trace = { .clock = CLOCK_VIRTUAL_PS };
    struct trace_writer *writer = trace_create(&trace, why, sizeof why);
    struct sched_options options = { .executor = EXECUTOR_STEPPED, .writer = writer, .cost = &cost };
    struct sched        *sched = NULL;
    if (writer != NULL && cost_preset(&cost, "classroom"))
        sched = sched_new(&options, why, sizeof why);
    bool ok = sched != NULL && sched_run(sched, answer_task, request, &error);
    if (!ok)
        message(0, "%s", sched != NULL ? error.message : why);
    if (sched != NULL)
        devices_free(sched);
    sched_free(sched);
    if (writer != NULL)
        trace_close(writer);
    return ok;
}

int
help_names(void)
{
    struct str               out = { 0 };
    struct reference_request request = { .form = REFERENCE_NAMES, .out = &out };
    bool                     ok = ask_reference(&request);
    fputs(str_text(&out), stdout);
    str_free(&out);
    return ok ? STATUS_DONE : STATUS_FAILED;
}

static int
tell_name(const char *name, bool whole, int (*subcommand)(int argc, char **argv))
{
    struct str               out = { 0 };
    struct reference_request request = { .form = whole ? REFERENCE_WHOLE : REFERENCE_NAME, .name = name, .out = &out,
                                         .no_arguments = subcommand != NULL };
    int                      status = ask_reference(&request) ? STATUS_DONE : STATUS_FAILED;
    bool                     found = status == STATUS_DONE && request.found;
    if (found)
        fputs(str_text(&out), stdout);
    if (found && subcommand != NULL)
        puts("");
    if (subcommand != NULL) {
        char  word[64], option[] = "--help", *words[] = { word, option, NULL };
        snprintf(word, sizeof word, "%s", name);
        fflush(stdout); /* view becomes another program */
        status = subcommand(2, words);
    } else if (status == STATUS_DONE && !found && request.meant[0] != '\0') {
        status = message(STATUS_USAGE, "no help for '%s': did you mean %s?", name, request.meant);
    } else if (status == STATUS_DONE && !found) {
        status = message(STATUS_USAGE, "no help for '%s'; 'ringside help' lists what there is", name);
    }
    str_free(&out);
    return status;
}

int
cli_help(int argc, char **argv)
{
    if (argc != 2)
        return message(STATUS_USAGE, "help takes one name; 'ringside help --help' says which");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return usage();
    if (strcmp(argv[1], "--all") == 0 || strcmp(argv[1], "--reference") == 0)
        return tell_name("", true, NULL);
    if (argv[1][0] == '-')
        return message(STATUS_USAGE, "help: no option %s; there is --all", argv[1]);
    return tell_name(argv[1], false, subcommand_find(argv[1]));
}
