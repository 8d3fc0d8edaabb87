/* A command line of a session: read, and handed to who carries it out. A run whose edits it went back past is left. */
#include "cli/session.h"

bool
session_command(struct session *session, const char *line, struct str *out)
{
    struct command_line parsed;
    char                why[300];
    while (*line == ' ')
        line++;
    if (*line == '\0' || *line == '#')
        return true;
    if (!command_parse_of(line, SCOPE_SESSION, &parsed, why, sizeof why) &&
        !command_parse(line, &parsed, why, sizeof why)) {
        str_addf(out, "%s\n", why);
        return false;
    }
    switch (parsed.command) {
    case CMD_quit:
        session->quit = true;
        return true;
    case CMD_pause: /* nothing is under way any more */
        return true;
    case CMD_help:
        commands_help(out, SCOPE_SESSION);
        return true;
    case CMD_break:
    case CMD_delete:
    case CMD_enable:
    case CMD_disable:
    case CMD_once:
    case CMD_ignore:
    case CMD_condition:
    case CMD_info:
    case CMD_show:
    case CMD_where:
    case CMD_print:
        return session_look(session, &parsed, out);
    case CMD_set:
    case CMD_switch:
    case CMD_delay:
    case CMD_kill:
        return session_change(session, &parsed, out);
    case CMD_runs:
    case CMD_run:
    case CMD_compare:
        return session_runs(session, &parsed, out);
    default:
        return session_move(session, &parsed, out) && session_run_undo(session, out);
    }
}
