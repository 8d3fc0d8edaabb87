/* play_plugin PLUGIN: plays the table of a kind of device without the engine, and prints TAP. Each part is a process
 * of its own, because errors of GPUs are for good; those whose order matters are played in several. With the fake
 * runtime (fake_cuda.so) all parts are played, with a real GPU those that need no fault on demand, without any the
 * one that says so.
 *
 *     play_plugin PLUGIN PART      one part, in this process
 *
 * Order of use: main; play_processes; part_run in the child. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "play_plugin.h"

enum where { FAKE = 1, GPU = 2, NOTHING = 4, BOTH = FAKE | GPU };

static const struct part parts[] = {
    { "probe", part_probe, "probe names GPUs, versions and the ways between GPUs", BOTH, false, "devices=2", NULL,
      false },
    { "exclusive", part_exclusive, "a GPU for one process at a time has a note", FAKE, false, "mode=exclusive", NULL,
      false },
    { "prohibited", part_prohibited, "so has one for none", FAKE, false, "mode=prohibited", NULL, false },
    { "memory", part_memory, "segments are aligned and apart, and are given back", BOTH, false, "", NULL, false },
    { "copies", part_copies, "bytes go from the host over two devices back to the host", BOTH, true, "devices=2", NULL,
      false },
    { "copies_shared", part_copies, "so they do where the devices share a GPU", FAKE, true, "", NULL, false },
    { "copies_far", part_copies, "so they do where there is no straight way", FAKE, false, "devices=2,peer=off", NULL,
      false },
    { "marks", part_marks, "streams that wait for each other's marks hand values to and fro", BOTH, true, "devices=2",
      NULL, false },
    { "missing_wait", part_missing_wait, "without the waits the fake's late order gives wrong values", FAKE, false, "",
      NULL, false },
    { "past", part_past, "a mark is past when its stream is, and before it was ever put", BOTH, true, "", NULL, false },
    { "kernels", part_kernels, "kernels give the CPU's bits", BOTH, true, "", NULL, false },
    { "views", part_views, "kernels take views that lie apart in memory", BOTH, false, "", NULL, false },
    { "faults_of_kernels", part_faults_of_kernels, "a kernel tells of an index that it cannot use in the host's memory",
      BOTH, false, "", NULL, false },
    { "empty", part_empty, "nothing to do is done", BOTH, false, "", NULL, false },
    { "no_kernel", part_no_kernel, "a kernel that no GPU has is refused by a sentence", BOTH, false, "", NULL, false },
    { "records", part_records, "work is told of by its ticket, in order, with times that rise", BOTH, true, "", NULL,
      false },
    { "ranges", part_ranges, "ranges may be opened and closed on any thread", BOTH, false, "", NULL, false },
    { "threads", part_threads, "four threads with a device each do not disturb each other", BOTH, true, "devices=2",
      NULL, false },
    { "no_driver", part_no_driver, "no driver: it says so", FAKE, false, "fail=no-driver", NULL, false },
    { "old_driver", part_old_driver, "a driver that is too old: it names both versions", FAKE, false, "fail=old-driver",
      NULL, false },
    { "no_gpu", part_no_gpu, "a driver without a GPU: it says so", FAKE, false, "fail=no-gpu", NULL, false },
    { "hidden_gpu", part_hidden_gpu, "GPUs hidden by CUDA_VISIBLE_DEVICES: it says what is in it", FAKE, false,
      "fail=no-gpu", NULL, false },
    { "fabric", part_fabric, "a fabric that is not up: it names the fabric manager", FAKE, false, "fail=count:802",
      NULL, false },
    { "mismatch", part_mismatch, "a driver of two versions: it says what to restart", FAKE, false, "fail=count:803",
      NULL, false },
    { "busy", part_busy, "a GPU that takes no more processes: it names the compute mode", FAKE, false, "fail=count:46",
      NULL, false },
    { "unknown", part_unknown, "an error that the driver does not know: it says what to try", FAKE, false,
      "fail=count:999", NULL, false },
    { "wrong_architecture", part_wrong_architecture,
      "code for other GPUs: it names theirs and this one's when the device is opened", FAKE, false,
      "fail=wrong-architecture", NULL, false },
    { "no_memory", part_no_memory, "no memory: it says how much was asked and is free, and goes on", FAKE, false,
      "memory=64,fail=memory:3", NULL, false },
    { "too_much", part_too_much, "more than a GPU has is refused, and less is not", BOTH, false, "memory=64", NULL,
      false },
    { "no_pinned", part_no_pinned, "no memory to pin: it says so, and goes on", FAKE, false, "fail=pinned:2", NULL,
      false },
    { "illegal", part_illegal,
      "a broken GPU: every later call says the same, with the oldest work that was not finished", FAKE, true,
      "fail=illegal:3", "touches what it must not", false },
    { "refused", part_refused, "a launch that is refused names its kernel, and the next one works", FAKE, false,
      "fail=launch:2", NULL, false },
    { "never", part_never, "a mark that is never reached is never past", FAKE, true, "fail=never:1",
      "would be for ever", false },
    { "read_by_host", part_read_by_host, "the host cannot read a fake GPU's memory", FAKE, false, "", NULL, true },
    { "given_while_used", part_given_while_used,
      "a segment that is given back while work in a queue uses it is told of", FAKE, false, "",
      "which is queued, uses it", false },
    { "other_gpu", part_other_gpu, "a kernel that would touch another GPU's memory is told of", FAKE, true, "devices=2",
      "of another GPU's memory", false },
    { "absent", part_absent, "without a GPU it loads, and says why there is none", NOTHING, false, "", NULL, false },
};
enum { PARTS = sizeof parts / sizeof *parts };

/* ---- the plug-in ---- */

static const struct device_backend *
plugin_open(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) {
        printf("Bail out! %s\n", dlerror());
        exit(1);
    }
    const struct device_backend *table = dlsym(library, DEVICE_BACKEND_SYMBOL);
    if (table == NULL || table->abi != DEVICE_BACKEND_ABI || table->size != sizeof *table) {
        printf("Bail out! %s has no table of this version\n", path);
        exit(1);
    }
    return table;
}

static int
here_of(const char *path)
{
    struct backend_probe probe;
    if (strstr(path, "fake") != NULL)
        return FAKE;
    plugin_open(path)->probe(&probe);
    return probe.count > 0 ? GPU : NOTHING;
}

static int
part_run(const char *path, const struct part *part)
{
    struct play p = { .cuda = plugin_open(path), .is_fake = strstr(path, "fake") != NULL };
    return play_part_here(&p, part);
}

int
main(int argc, char **argv)
{
    char *const again[] = { argv[0], argv[1], NULL };
    if (argc == 2) {
        int here = here_of(argv[1]);
        return play_processes(parts, PARTS, again, here, here == FAKE);
    }
    for (int i = 0; i < PARTS && argc == 3; i++)
        if (strcmp(parts[i].name, argv[2]) == 0)
            return part_run(argv[1], &parts[i]);
    fprintf(stderr, "play_plugin PLUGIN [PART]\n");
    return 2;
}
