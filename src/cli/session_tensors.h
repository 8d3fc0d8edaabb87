/* What the session says of tensors and of blocks of memory as of its cursor, where its state stands. */
#ifndef CLI_SESSION_TENSORS_H
#define CLI_SESSION_TENSORS_H
#include <stdbool.h>

struct session; struct str;

/* A tensor by its name, or with "" those that the cursor's event is about. false: there is none, or no memory;
 * `out` says which. */
bool session_tell_tensors(struct session *session, const char *name, struct str *out);
/* The largest of each device. false: no memory, and `out` says so. */
bool session_tell_blocks(struct session *session, int last_device, struct str *out);
#endif
