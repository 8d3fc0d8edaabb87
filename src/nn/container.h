/* Containers whose modules or parameters are called by their owner, and packed sequences. */
#ifndef NN_CONTAINER_H
#define NN_CONTAINER_H
#include "nn/module.h"

struct module *nn_module_list(struct task *me);
struct module *nn_module_dict(struct task *me);
struct module *nn_parameter_list(struct task *me);
struct module *nn_parameter_dict(struct task *me);
bool           module_is_list(const struct module *module);       /* ModuleList, Sequential */
bool           module_is_dict(const struct module *module);
bool           module_is_parameter_list(const struct module *module);
bool           module_is_parameter_dict(const struct module *module); /* a dict too */
bool           module_append(struct task *me, struct module *list, struct module *child);
bool           parameter_append(struct task *me, struct module *list, struct tensor *parameter);

/* torch.nn.utils.rnn. The packed form: a NAMEDTUPLE PackedSequence(data, batch_sizes, sorted_indices,
 * unsorted_indices). x: [T, N, ...], or [N, T, ...] if batch_first; sorted: the lengths must fall. */
struct integer_list { const int64_t *at; int64_t count; };
struct padded_form  { bool batch_first, sorted; };
struct value *pack_padded(struct task *me, struct tensor *x, const struct integer_list *lengths,
                          const struct padded_form *form);
/* (padded, lengths). total_length < 0: the longest. */
struct value *pad_packed(struct task *me, struct value *packed, bool batch_first, double padding, int64_t total_length);
#endif
