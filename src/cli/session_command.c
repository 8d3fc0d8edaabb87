/* One command line of a session: read, handed to who carries it out, and edits that it went back past undone. */
#include "cli/session.h"

/* Who goes back past an edit undoes it: the record behind the cursor was another future, and is made anew. */
static bool
undo_later_edits(struct session *session, struct str *out)
{
    size_t kept = session->edit_count;
    while (kept > 0 && session->edits[kept - 1].seq > session->cursor)
        kept--;
    if (kept == session->edit_count)
        return true;
    str_addf(out, "%zu edit%s undone\n", session->edit_count - kept, session->edit_count - kept > 1 ? "s" : "");
    session->edit_count = kept;
    return session_wind(session, out);
}

bool
session_command(struct session *session, const char *line, struct str *out)
{
    struct command_line parsed;
    char                why[300];
    while (*line == ' ')
        line++;
    if (*line == '\0' || *line == '#')
        return true;
    if (!command_parse(line, &parsed, why, sizeof why)) {
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
    case CMD_info:
    case CMD_show:
    case CMD_where:
    case CMD_print:
        return session_look(session, &parsed, out);
    case CMD_set:
    case CMD_switch:
    case CMD_delay:
        return session_change(session, &parsed, out);
    default:
        return session_move(session, &parsed, out) && undo_later_edits(session, out);
    }
}
