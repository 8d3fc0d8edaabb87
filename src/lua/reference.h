/* What every public name is: functions of rs and their arguments, methods, ops, kinds of events, commands of the
 * debugger, from the tables that declare them. `ringside help NAME`, rs.help("NAME") and the printed reference. */
#ifndef LUA_REFERENCE_H
#define LUA_REFERENCE_H
#include <stdbool.h>
#include <stddef.h>
#include <lua.h>

struct task; struct str;

enum reference_form { REFERENCE_NAME, REFERENCE_NAMES, REFERENCE_WHOLE };
/* NAME: all that is called `name`, or what is in a namespace of that name, or what takes an argument of that name. NAMES: the namespaces, a line each. WHOLE:
 * the complete reference in Markdown. `found` false: there is nothing of that name; `meant` is the nearest, "" none. */
struct reference_request {
    enum reference_form form;
    const char         *name;
    bool                no_arguments; /* what takes an argument of that name is not told */
    bool                found;
    char                meant[80];
    struct str         *out;
};
/* Makes a script of its own for the time of the answer. false: failed. */
bool reference_answer(struct task *me, struct reference_request *request) __attribute__((warn_unused_result));
/* The same from the state that runs. */
void reference_answer_from(lua_State *L, struct reference_request *request);

/* ---- between reference.c, which finds, and reference_text.c, which tells ---- */
enum topic_kind { TOPIC_FUNCTION, TOPIC_FIELD, TOPIC_OP, TOPIC_EVENT, TOPIC_COMMAND, TOPIC_WORD };
struct topic {
    enum topic_kind kind;
    int             number;    /* of an op, kind of event or command */
    const char     *name;      /* as it is written: "rs.sum", "t:view", "nn.Linear", "dp.scatter" */
    const char     *key;       /* without rs. and with dots only: "sum", "t.view" */
    const char     *space;     /* "rs", "nn.functional", "t", "events" */
    const char     *signature, *other; /* `other`: the same as a method, or NULL */
    const char     *help;
};
void        topic_tell(const struct topic *topic, struct str *out);        /* for a screen */
/* Is that one of its arguments? What it is there goes to `out`, unless that is NULL. */
bool        topic_takes(const struct topic *topic, const char *argument, struct str *out);
void        topic_line(const struct topic *topic, struct str *out);        /* in one line */
void        topic_markdown(const struct topic *topic, struct str *out);
#endif
