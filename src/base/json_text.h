/* JSON out of a text, in jansson's values, and back into one. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct str;

struct json_wrong {
    int         line;                /* from 1 */
    const char *why;                 /* without a byte of the text; NULL: there was no memory */
};

/* An object or an array. `flags`: JSON_REJECT_DUPLICATES, no name may come twice in an object; JSON_ALLOW_NUL, in texts. NULL:
 * `wrong` says why. */
json_t *json_text_parse(const char *text, size_t length, size_t flags, struct json_wrong *wrong);
/* In one line, behind what is there. false: there was no memory. */
bool    json_text_write(const json_t *value, struct str *out);
#endif
