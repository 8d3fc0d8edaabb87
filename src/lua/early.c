/* What a script prints before it is known whether it shall be shown.
 *
 * Interface: early.h. */
#include "lua/early.h"

enum { MOST = 64 << 10 };

void
early_add(struct early *early, const char *text, size_t length)
{
    size_t room = early->lost > 0 ? 0 : MOST - early->text.len;
    size_t kept = length < room ? length : room;
    str_add_bytes(&early->text, text, kept);
    early->lost += length - kept;
}

/* The line that was cut is lost, too. */
void
early_end(struct early *early)
{
    struct str *text = &early->text;
    while (early->lost > 0 && text->len > 0 && text->text[text->len - 1] != '\n') {
        text->len--;
        early->lost++;
    }
    if (early->lost > 0)
        str_addf(text, "[note] %llu bytes more were printed: %d are kept until init_process_group or the end",
                 (unsigned long long)early->lost, MOST);
    else if (text->len > 0)
        text->len--;
}

void
early_free(struct early *early)
{
    str_free(&early->text);
    *early = (struct early){ 0 };
}
