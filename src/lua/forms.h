/* A lesson's text as words, line by line, and forms that a line may have. Nothing here knows Lua's state or allocates.
 *
 * Interface: source_open, then source_line for each line; form_fits for a line, glob_fits for a message. */
#ifndef LUA_FORMS_H
#define LUA_FORMS_H
#include <stdbool.h>
#include <stddef.h>

enum { LINE_TOKENS = 120, FORM_NAMES = 3 };
enum token_kind { TOKEN_NAME, TOKEN_NUMBER, TOKEN_TEXT, TOKEN_SIGN };
struct token { enum token_kind kind; const char *text; size_t length; };
struct source_line { struct token tokens[LINE_TOKENS]; int count; };
/* Comments are left out; a text or comment in long brackets may go on for many lines. */
struct source { const char *at, *end; int level; /* of open long brackets; -1: none */ };
/* What NAMEs and PATHs of a form, or stars of a glob, have met. */
struct found_names { struct { const char *text; size_t length; } name[FORM_NAMES]; int count; };

struct source source_open(const char *text, size_t size);
bool          source_line(struct source *source, struct source_line *line);   /* false: there are no more */
bool          token_is(const struct token *token, const char *text);
/* Words with blanks between them: NAME, TEXT, NUMBER, ... for any words, PATH for names with dots between them, ^ and
 * $ for the line's ends, else itself. If `near` is not NULL, one of the words met must begin with it, or a sign end
 * with it. */
bool form_fits(const char *form, const struct source_line *line, const char *near, struct found_names *names);
/* The whole text, where * stands for any. */
bool glob_fits(const char *glob, const char *text, struct found_names *names);
#endif
