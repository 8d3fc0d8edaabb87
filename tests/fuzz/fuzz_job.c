/* What the processes of a job read of each other in its store: ends of ranks. Any text is an end or refused; what was
 * read is read again as it is printed. And what its server reads of a client: any message is a request or refused. An
 * input is both: the text, and the message. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "c10d/job_end.h"
#include "c10d/store_wire.h"
#include "fuzz.h"
#include "tokens.h"

static void
read_end(const char *text)
{
    static struct job_end end, again;
    struct str            printed = { 0 };
    if (!job_end_parse(text, &end))
        return;
    job_end_print(&end, &printed);
    fuzz_assert(!str_ok(&printed) || job_end_parse(str_text(&printed), &again), "an end is read again");
    fuzz_assert(!str_ok(&printed) || (again.rank == end.rank && again.how == end.how && again.line == end.line &&
                                      again.group_count == end.group_count && strcmp(again.why, end.why) == 0),
                "an end is the same again");
    str_free(&printed);
}

static void
read_request(const void *bytes, size_t size)
{
    struct store_request request;
    if (wire_read_request(bytes, size, &request) == STORE_DONE)
        wire_free_lists(&request);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    read_end(text);
    read_request(text, size);
    free(text);
    return 0;
}

/* ---- changes ---- */

static const char *const words[] = {
    "rank", "world", "how", "exact", "ns", "line", "inside", "after", "kind", "of_hang", "group", "why", "returned", "threw",
    "killed", "lost", "all_reduce #8", "RuntimeError", "\n", " ", "0", "1", "-1", "2147483648", "9223372036854775807",
    "18446744073709551615", "99999999999999999999",
};
static const struct token_list list = { words, countof(words) };

TOKENS_MUTATOR(list)
TOKENS_CROSSOVER(list)
