/* A fuzzer without libFuzzer: each file, or each file of a folder, is one input. What crashed once does not again. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/reader.h"
#include "fuzz.h"

enum { INPUT_MOST = 64 << 20 };

size_t
LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max)
{
    (void)data;
    (void)max;
    return size;
}

static void
run_file(const char *path)
{
    size_t size;
    const char *why;
    char *bytes = file_read(path, INPUT_MOST, &size, &why);
    if (bytes == NULL) {
        fprintf(stderr, "%s: %s\n", path, why);
        exit(2);
    }
    uint8_t *input = malloc(size > 0 ? size : 1); /* of its exact size: the sanitizers see who reads behind it */
    fuzz_assert(input != NULL, "there is memory for the input");
    memcpy(input, bytes, size);
    LLVMFuzzerTestOneInput(input, size);
    free(input);
    free(bytes);
}

static int
is_input(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int
main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **entries;
        int inside = scandir(argv[i], &entries, is_input, alphasort);
        if (inside < 0) {
            run_file(argv[i]);
            count++;
        }
        for (int k = 0; k < inside; k++) {
            char path[1024];
            snprintf(path, sizeof path, "%s/%s", argv[i], entries[k]->d_name);
            run_file(path);
            free(entries[k]);
            count++;
        }
        if (inside >= 0)
            free(entries);
    }
    printf("%d inputs\n", count);
    return 0;
}
