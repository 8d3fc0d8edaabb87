/* Finds what stands behind --device: virtual devices, or a plug-in that lies beside the program or where `make install`
 * put it. A plug-in that is open stays so until the process ends. */
#ifndef DEVICE_LOAD_H
#define DEVICE_LOAD_H
#include "device/backend.h"

/* `kind` as --device spells it: "cpu", "cuda". NULL: why->text is one sentence that says what to do. It does not say that
 * there is a device: `probe` does. With RINGSIDE_FAKE_CUDA in the environment "cuda" is the plug-in of the tests, whose
 * devices are host memory that is closed to the host. */
const struct device_backend *device_backend_open(const char *kind, struct backend_why *why);
/* The run's devices are of that kind from here on. Before the first of them is made. false: failed. */
struct task;
bool devices_use(struct task *me, const struct device_backend *backend) __attribute__((warn_unused_result));
#endif
