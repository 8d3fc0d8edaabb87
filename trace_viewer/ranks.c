/* Interface: ranks_print. */
#include "ranks.h"

#include "base/str.h"

void
ranks_print(const int *ranks, size_t count, struct str *out)
{
    enum { MOST_PARTS = 6 };
    int parts = 0;
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && ranks[end] == ranks[end - 1] + 1;)
            end++;
        if (parts++ == MOST_PARTS) {
            str_addf(out, ", +%zu", count - i);
            return;
        }
        str_addf(out, "%sr%d", i > 0 ? ", " : "", ranks[i]);
        if (end - i > 1)
            str_addf(out, "%sr%d", end - i > 2 ? "-" : ", ", ranks[end - 1]);
    }
}
