/* NCCL's results as sentences: what was tried, NCCL's word for what happened, its own last words, and what to do.
 *
 * Interface: nccl_failed. In PyTorch: getNcclErrorDetailStr of NCCLUtils.hpp. */
#include <stdio.h>
#include <string.h>
#include "plugins/cuda/nccl_api.h"

struct result { const char *name, *hint; };

static const struct result results[] = {
    [RESULT_SUCCESS]  = { "ncclSuccess", "" },
    [RESULT_CUDA]     = { "ncclUnhandledCudaError", "a call of CUDA failed within NCCL; NCCL_DEBUG=INFO says which" },
    [RESULT_SYSTEM]   = { "ncclSystemError", "a socket, shared memory or a device of the system failed: see "
                          "NCCL_DEBUG=WARN, NCCL_SOCKET_IFNAME where a machine has several networks, and the size of "
                          "/dev/shm in a container" },
    [RESULT_INTERNAL] = { "ncclInternalError", "NCCL contradicts itself, often after an earlier error; "
                          "NCCL_DEBUG=INFO says more" },
    [RESULT_ARGUMENT] = { "ncclInvalidArgument", "NCCL_DEBUG=WARN says which" },
    [RESULT_USAGE]    = { "ncclInvalidUsage", "the ranks do not agree, or NCCL's settings do not allow it; "
                          "NCCL_DEBUG=WARN says what" },
    [RESULT_REMOTE]   = { "ncclRemoteError", "another rank has ended, or the network to it broke: look at what that "
                          "one said first" },
    [RESULT_IN_PROGRESS] = { "ncclInProgress", "" },
};

/* What NCCL's own words need beside them. */
struct meaning { const char *words, *hint; };

static const struct meaning meanings[] = {
    { "Duplicate GPU detected", "two ranks use one GPU, which NCCL does not do: start as many ranks as there are GPUs, "
      "or leave out --backend nccl" },
    { "are using the same GPU", "two ranks use one GPU, which NCCL does not do: start as many ranks as there are GPUs, "
      "or leave out --backend nccl" },
    { "no socket interface found", "NCCL finds no network to meet the others: NCCL_SOCKET_IFNAME names one" },
    { "No space left on device", "/dev/shm is full: in a container give it more (--shm-size)" },
    { "Error while creating shared memory", "/dev/shm is too small: in a container give it more (--shm-size)" },
    { "unhandled system error", "a socket, shared memory or a device of the system failed: see NCCL_DEBUG=WARN" },
};

/* Without the line's end, and of several lines the last, which is the cause. */
static void
last_words(const struct nccl_api *api, nccl_handle comm, char *out, size_t room)
{
    const char *text = api->last_error(comm), *from = text != NULL ? text : "";
    size_t      length = strlen(from);
    while (length > 0 && (from[length - 1] == '\n' || from[length - 1] == ' '))
        length--;
    for (size_t i = length; i > 0; i--)
        if (from[i - 1] == '\n') {
            from += i;
            length -= i;
            break;
        }
    snprintf(out, room, "%.*s", (int)length, from);
}

bool
nccl_failed(const struct nccl_api *api, int result, nccl_handle comm, const char *what, struct backend_why *why)
{
    bool        is_known = result > RESULT_SUCCESS && result <= RESULT_IN_PROGRESS;
    const char *name = is_known ? results[result].name : "a result that has no name here", *hint = is_known
        ? results[result].hint : "";
    char        words[160];
    last_words(api, comm, words, sizeof words);
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (strstr(words, meanings[i].words) != NULL)
            hint = meanings[i].hint;
    if (words[0] == '\0' && !is_known)
        snprintf(words, sizeof words, "%s", api->text(result));
    why->trouble = TROUBLE_FAILED;
    snprintf(why->text, sizeof why->text, "NCCL failed in %s: %s (%d)%s%s%s%s", what, name, result, words[0] != '\0'
             ? ": " : "",
             words, hint[0] != '\0' ? "; " : "", hint);
    return false;
}
