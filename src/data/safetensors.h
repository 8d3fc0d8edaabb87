/* Files of named tensors that PyTorch's users exchange (safetensors): eight bytes of length, a JSON header, the elements.
 * Nothing in such a file is believed before it was checked. */
#ifndef DATA_SAFETENSORS_H
#define DATA_SAFETENSORS_H
#include <stdbool.h>
#include <stddef.h>

struct task; struct tensor; struct safetensors;

/* Writes beside `path` first and renames: a file is whole or not there. `keys` and `texts` are the metadata. */
struct safetensors_content {
    struct tensor *const *tensors;
    const char *const    *names;
    size_t                count;
    const char *const    *keys, *const *texts;
    size_t                metadata_count;
};
bool safetensors_save(struct task *me, const char *path, const struct safetensors_content *content)
    __attribute__((warn_unused_result));

/* NULL: failed, in one line. The file stays open until safetensors_close. */
struct safetensors *safetensors_open(struct task *me, const char *path);
void                safetensors_close(struct safetensors *file);   /* NULL is fine */
size_t              safetensors_count(const struct safetensors *file);
const char         *safetensors_name(const struct safetensors *file, size_t index);
/* On the CPU, in me's scope. NULL: failed. */
struct tensor      *safetensors_tensor(struct task *me, struct safetensors *file, size_t index);
size_t              safetensors_metadata(const struct safetensors *file, size_t index, const char **key,
                                         const char **text);       /* answers how many there are */
#endif
