/* A text that grows. A failed allocation is remembered, not reported: appending goes on as a no-op, and who
 * cares asks str_ok once at the end. Zero-initialised is empty; `text` is never NULL after the first append. */
#ifndef BASE_STR_H
#define BASE_STR_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str {
    char  *text; /* ends with a NUL that len does not count */
    size_t len, room;
    bool   broken; /* an allocation failed */
};

void        str_add(struct str *str, const char *text);
void        str_add_bytes(struct str *str, const void *bytes, size_t count);
void        str_add_unsigned(struct str *str, uint64_t number); /* its digits, as %PRIu64 has them, but faster */
void        str_add_signed(struct str *str, int64_t number);
void        str_addf(struct str *str, const char *format, ...) __attribute__((format(printf, 2, 3)));
void        str_addv(struct str *str, const char *format, va_list args);
/* Another text between two words, nothing if it is empty; broken if that is. */
void        str_enclose(struct str *str, const char *before, const struct str *part, const char *after);
void        str_clear(struct str *str);      /* keeps the room; it is not broken any more */
void        str_clip_lines(struct str *str, size_t most);   /* the lines that fit, whole, and "..." if some do not */
bool        str_ok(const struct str *str);
const char *str_text(const struct str *str); /* "" when nothing was ever added */
void        str_free(struct str *str);

/* As Python writes a float: 0.1, 1.0, 1e-08, inf. */
enum { FLOAT_TEXT = 40 };
void float_text(double number, char text[FLOAT_TEXT]);
#endif
