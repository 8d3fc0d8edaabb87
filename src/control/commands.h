/* The debugger's commands: one table for keys, ":" lines, the socket and --batch, from which help is printed. */
#ifndef CONTROL_COMMANDS_H
#define CONTROL_COMMANDS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str;

enum command {
#define COMMAND(id, ...) CMD_##id,
#include "control/commands.def"
#undef COMMAND
    CMD_COUNT
};

enum command_scope { SCOPE_SESSION = 1, SCOPE_VIEWER = 2 };  /* who carries it out */

struct command_info {
    const char *name, *args, *help, *keys;  /* keys: "s Space", "" none */
    int         scope;                      /* enum command_scope, or-ed */
    const char *group;                      /* the heading in help: "stepping" */
};
const struct command_info *command_info(int command); /* NULL: no such command */
/* A line in words: the command (its name, its key when that is one character, or any unambiguous prefix; a number
 * alone is goto), the rest. `count` is 1 unless the rest is a number. false: `why` says what is wrong. */
struct command_line { int command; int64_t count; bool has_count; char rest[512]; };
bool command_parse(const char *line, struct command_line *out, char *why, size_t why_size);
/* Only of commands that one of `scope` carries out: without a screen `w` is `where`. */
bool command_parse_of(const char *line, int scope, struct command_line *out, char *why, size_t why_size);
void commands_help(struct str *out, int scope);        /* every command, a line each, by group */

/* ---- the wire: lines of JSON-free text ending in '\n'; a reply is lines and then one line "." ----
 * Requests: a command line as typed. Replies begin with a status line:
 *   "at SEQ state=paused|finished|failed|dead [why=TEXT]" then "trace PATH" when the file changed, then text lines.
 * Then, if there are several runs, a line for each: "branch 2 of 1 from 37 to 62 failed *kill 1" ("*": the present one, "-": another).
 * Then, if this run was changed, where first and how: "edited 37 kill 1".
 * Where a session has several viewers, each is told what the others did: a reply that nobody asked for, whose status line
 * begins with "now". "detach" as a request: this viewer leaves, and the session waits for the next one. */
/* A private socket (0600) in `folder` (base/runtime_folder.h), with which it goes; answers its fd, -1 with `why`. */
int  control_listen(const char *folder, char *path, size_t path_size, char *why, size_t why_size);
int  control_connect(const char *path, char *why, size_t why_size);
bool control_send(int fd, const char *text, size_t count);
/* One line without its newline, at most 64 KiB; false: gone or too long. */
struct control_reader { int fd; char buffer[4096]; size_t used, at; };
bool control_read_line(struct control_reader *reader, struct str *out);
/* Behind what `line` has already, as much of it as one read brings: who was told by poll that there is something never waits
 * for the rest. */
enum heard { HEARD_GONE, HEARD_PART, HEARD_LINE };     /* gone or too long; no newline yet; whole */
enum heard control_hear(struct control_reader *reader, struct str *line);
/* Lines to the one that is ".", without that, at most 16 MiB; false: gone or too long. */
bool control_reply(struct control_reader *reader, struct str *out);
#endif
