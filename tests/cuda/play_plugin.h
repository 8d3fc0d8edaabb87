/* What the parts of play_plugin share: some devices, each with a stream and memory. */
#ifndef TESTS_CUDA_PLAY_PLUGIN_H
#define TESTS_CUDA_PLAY_PLUGIN_H
#include "play_process.h"

enum { PLAY_DEVICES = 4, PLAY_STREAMS = 4 };

/* Devices device:0 ..., with a stream and room for `floats` on each, and pinned memory for as many. */
struct rig {
    struct play           *p;
    int                    devices;
    size_t                 floats;
    struct backend_device *device[PLAY_DEVICES];
    struct backend_stream *stream[PLAY_DEVICES];
    float                 *memory[PLAY_DEVICES], *host[PLAY_DEVICES];
};
bool rig_open(struct rig *rig, struct play *p, int devices, size_t floats, bool timeline);
void rig_close(struct rig *rig);
bool rig_copy(struct rig *rig, int stream, int to, int from, uint64_t ticket);   /* device numbers; -1-n: host[n] */
struct backend_mark *rig_mark(struct rig *rig, int stream);                      /* put there */
bool rig_finish(struct rig *rig, int stream);

play_part part_probe, part_exclusive, part_prohibited, part_memory, part_copies, part_marks, part_missing_wait, part_past,
    part_kernels, part_views, part_faults_of_kernels, part_empty, part_no_kernel, part_records, part_ranges, part_threads;
play_part part_no_driver, part_old_driver, part_no_gpu, part_hidden_gpu, part_fabric, part_mismatch, part_busy,
    part_unknown, part_wrong_architecture, part_no_memory, part_too_much, part_no_pinned, part_illegal, part_refused,
    part_never, part_read_by_host, part_given_while_used, part_other_gpu, part_absent;
#endif
