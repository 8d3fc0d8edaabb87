/* Files of named tensors, as rs.load reads them: whatever is in the file, it is read or refused in one line. An input
 * is the file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"
#include "data/safetensors.h"
#include "device/device.h"
#include "fuzz.h"
#include "hw/cost.h"
#include "run.h"
#include "sched/task.h"
#include "tensor/tensor.h"
#include "tokens.h"

enum { LENGTH = 8 };

static bool
read_all(struct task *me, void *argument)
{
    const char *path = argument, *key = NULL, *text = NULL;
    struct safetensors *file = safetensors_open(me, path);
    if (file == NULL) {
        fuzz_assert(me->error.kind != E_NONE && strchr(me->error.message, '\n') == NULL, "a refusal is one line");
        return false;
    }
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const struct tensor *tensor = safetensors_tensor(me, file, i);
        fuzz_assert(tensor != NULL || me->error.kind != E_NONE, "what cannot be read is told");
        fuzz_assert(safetensors_name(file, i) != NULL, "a tensor has a name");
    }
    size_t count = safetensors_metadata(file, 0, &key, &text);
    for (size_t i = 0; i < count; i++) {
        safetensors_metadata(file, i, &key, &text);
        fuzz_assert(key != NULL && text != NULL, "metadata are texts");
    }
    safetensors_close(file);
    return me->error.kind == E_NONE;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[40];
    int fd = fuzz_file(data, size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    fuzz_run(read_all, path);
    close(fd);
    return 0;
}

/* ---- changes ---- */

static const char *const words[] = {
    "\"dtype\"", "\"shape\"", "\"data_offsets\"", "\"__metadata__\"", "\"F32\"", "\"F64\"", "\"F16\"", "\"BF16\"",
    "\"I64\"", "\"I32\"", "\"I8\"", "\"U8\"", "\"BOOL\"", "\"F8\"", "\"a\"", "\"weight\"", "{", "}", "[", "]", ":", ",",
    "null", "true", "[0,0]", "[]", "{}", "1e400", "-1", "\"\\u0000\"", "\"\\ud800\"",
};
static const struct token_list list = { words, countof(words) };

/* The header's length is what it is, most of the time; the data are as long as the last offset says, or not. */
size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    uint64_t random = seed, length = 0;
    uint64_t what = dice(&random, 12);
    if (size >= LENGTH)
        memcpy(&length, data, LENGTH);
    if (size < LENGTH || length > size - LENGTH || what == 0 || max < size + LENGTH)
        return LLVMFuzzerMutate(data, size, max);
    size_t header = (size_t)length, rest = size - LENGTH - header;
    if (what == 1) {
        length = dice(&random, 2) == 0 ? length + dice(&random, 9) - 4 : dice_number(&random);
        memcpy(data, &length, LENGTH);
        return size;
    }
    if (what == 2) { /* more data, or less */
        size_t wanted = (size_t)dice(&random, rest + 33);
        if (LENGTH + header + wanted > max)
            return size;
        if (wanted > rest)
            memset(data + LENGTH + header + rest, 0x5a, wanted - rest);
        return LENGTH + header + wanted;
    }
    uint8_t *behind = malloc(rest + 1);
    fuzz_assert(behind != NULL, "there is memory for a change");
    memcpy(behind, data + LENGTH + header, rest);
    header = tokens_change(&list, data + LENGTH, header, max - LENGTH - rest, &random);
    memcpy(data + LENGTH + header, behind, rest);
    free(behind);
    length = header;
    memcpy(data, &length, LENGTH);
    return LENGTH + header + rest;
}
