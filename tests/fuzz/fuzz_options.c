/* The command lines of `run` and `step`: any words are options or are refused in one line. An input is the words, a
 * line each; its first byte says which of the two. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "cli/options.h"
#include "fuzz.h"
#include "tokens.h"

enum { WORDS_MOST = 40 };

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    bool step = data[0] % 2 != 0;
    char name[] = "run", *text = malloc(size), *rest = text, *argv[WORDS_MOST + 1] = { name };
    int argc = 1;
    fuzz_assert(text != NULL, "there is memory for the words");
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    for (char *word; argc < WORDS_MOST && (word = strsep(&rest, "\n")) != NULL;)
        argv[argc++] = word;
    struct run_options options;
    int status = options_parse(argc, argv, step ? OPTION_STEP : OPTION_RUN, &options);
    if (status < 0)
        fuzz_assert(options.lesson != NULL && options.timeout >= 0 && options.timeout <= 1e6 && options.world <= 1024,
                    "what is taken is whole");
    free(text);
    return 0;
}

/* ---- changes ---- */

static const char *const words[] = {
    "--trace", "--hash", "--batch", "--seed", "--policy", "--executor", "--timeout", "--check-races", "--teacher",
    "--hardware", "--device", "--backend", "--world", "--tap", "--trust", "--exact", "--quiet", "--no-color", "--ascii",
    "--help", "--", "-", "-h", "--t", "--s=", "--seed=18446744073709551616", "--timeout=nan", "--timeout=1e7", "lesson",
    "order", "random", "round-robin", "free", "stepped", "cpu", "local", "classroom", "nvlink", "\n", "\n", "\n", "=",
};
static const struct token_list list = { words, countof(words) };

TOKENS_MUTATOR(list)
