/* Modules: a tree of parameters, buffers and children with a forward. Built-in ones are in layers.c; a module written
 * in Lua is one whose type calls into the script. Counted by references. */
#ifndef NN_MODULE_H
#define NN_MODULE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/dtype.h"
#include "nn/value.h"

struct task; struct tensor; struct module; struct str;

/* What a built-in module shows of its options, by name; the list ends with a NULL name. A PAIR is two integers, a NUMBER
 * that is none NaN. */
enum attribute_kind { ATTRIBUTE_INTEGER, ATTRIBUTE_PAIR, ATTRIBUTE_FLAG, ATTRIBUTE_NUMBER };
struct module_attribute { const char *name; enum attribute_kind kind; int at; };
enum { MODULE_INTEGERS = 20, MODULE_NUMBERS = 4 };

/* How modules of a type are copied and end; module_plain is that of types without a script or options of their own. */
struct module_life {
    /* A shallow copy for a replica: same type, own tables; parameters, buffers and children still the original's.
     * The caller rewires them and then calls `rewired`. New reference; NULL: failed. */
    struct module *(*copy)(struct task *me, struct module *self);
    bool (*rewired)(struct task *me, struct module *self);      /* a script's object learns its new fields */
    void (*drop)(struct task *me, struct module *self);         /* what `self` and `options` hold */
};
extern const struct module_life module_plain;

/* Every slot but the last is filled. */
struct module_type {
    const char *name;                                           /* "Linear"; of a script's class: its own name */
    /* args: a TUPLE; kwargs: a DICT or NULL. The result is given to me's scope; NULL: failed. */
    struct value *(*forward)(struct task *me, struct module *self, struct value *args, struct value *kwargs);
    const struct module_life *life;
    void (*describe)(const struct module *self, struct str *out); /* "in_features=10, out_features=10, bias=True" */
    const struct module_attribute *attributes;                  /* NULL: none */
};

/* The name is of name.h. */
struct module_entry { char *name; struct tensor *tensor; struct module *module; }; /* tensor or module may be NULL */
struct module_table { struct module_entry *entries; int count; size_t room; };

/* Called around each forward. `before` answers the arguments, `after` the result; NULL: failed. `token` is before's own;
 * where it leaves none, `after` is not called. */
struct module_hook_calls {
    struct value *(*before)(struct task *me, void *context, struct module *module, struct value *args, void **token);
    struct value *(*after)(struct task *me, void *context, struct module *module, struct value *args,
                           struct value *result, void *token);
    void          (*drop)(struct task *me, void *context);
};
/* Replicas' forwards look while one of them registers the first: `calls` is there before `context`. */
struct module_hooks { const struct module_hook_calls *calls; void *_Atomic context; };

struct module {
    atomic_int                references;                       /* of what it owns: tensors, children, script */
    atomic_int                holders;                          /* of the struct and its hooks: it, its replicas */
    const struct module_type *type;
    struct module_table       parameters, buffers, children;    /* in order of registration */
    bool                      training, is_replica;
    struct module            *original;                         /* replica: held, no replica itself; else NULL */
    int64_t                   integers[MODULE_INTEGERS];        /* the built-in types' options */
    double                    numbers[MODULE_NUMBERS];
    void                     *script;                           /* a script's object, or DataParallel's and DDP's own */
    const char               *class_name;                       /* what type->name shows when the class is a script's */
    char                     *name;                             /* of name.h, qualified; NULL: the outermost module */
    atomic_uint               name_id;                          /* its id in the trace, once asked for */
    struct module_hooks       hooks;                            /* context NULL: none. Asked for by module_hooks alone */
};

struct module *module_new(struct task *me, const struct module_type *type);  /* in me's scope; NULL: failed */
struct module *module_ref(struct module *module);
void           module_unref(struct task *me, struct module *module);
/* A replica holds its original for the hooks alone: parameters and children go with the last reference, so module and
 * replica may have each other and are freed all the same. NULL: none any more. */
void           module_set_original(struct task *me, struct module *replica, struct module *original);
struct module_hooks *module_hooks(struct module *module);         /* its own; a replica's: its original's */
bool           module_add_parameter(struct task *me, struct module *module, const char *name, struct tensor *tensor);
bool           module_add_buffer(struct task *me, struct module *module, const char *name, struct tensor *tensor);
bool           module_add_child(struct task *me, struct module *module, const char *name, struct module *child);
struct tensor *module_parameter(const struct module *module, const char *name);   /* own ones; NULL: none */
struct tensor *module_buffer(const struct module *module, const char *name);
struct module *module_child(const struct module *module, const char *name);

/* nn.Module.__call__: opens the module.forward stage, sets the price name, calls the type's forward. */
struct value  *module_forward(struct task *me, struct module *module, struct value *args, struct value *kwargs);
/* One tensor in, one out. */
struct tensor *module_forward_tensor(struct task *me, struct module *module, struct tensor *input);

/* Depth-first in order of registration, shared tensors once. Names are of name.h, tensors
 * and modules are borrowed; named_tensors_free gives the list back. false: failed. */
struct named_tensors { struct tensor **tensors; char **names; int count; size_t room, names_room; };
bool module_named_parameters(struct task *me, struct module *module, struct named_tensors *out);
bool module_named_buffers(struct task *me, struct module *module, struct named_tensors *out);
/* state_dict's order: each module's parameters and buffers, then its children's; what is shared comes under all its
 * names. */
bool module_named_state(struct task *me, struct module *module, struct named_tensors *out);
void    named_tensors_free(struct task *me, struct named_tensors *list);
int64_t named_bytes(const struct named_tensors *list);                 /* of all their elements */
/* named_modules in PyTorch's order (itself first, name ""), shared ones once. */
struct named_modules { struct module **modules; char **names; int count; size_t room, names_room; };
bool module_named_modules(struct task *me, struct module *module, struct named_modules *out);
void named_modules_free(struct task *me, struct named_modules *list);
/* Parameters and buffers learn their qualified names (tensor->name), for traces and `print`. */
bool module_name_tensors(struct task *me, struct module *module, const char *prefix);

/* module.c. What its bytes are for, which their birth does not show: an event. */
void tensor_announce_role(struct task *me, const struct tensor *tensor, const char *role);

/* module_convert.c */
bool module_to(struct task *me, struct module *module, int device);  /* parameters stay the same tensor objects */
bool module_cast(struct task *me, struct module *module, enum dtype dtype); /* those of fractions; a type of fractions */
bool module_train(struct task *me, struct module *module, bool training); /* false: failed, nothing changed */
const char *module_class_name(const struct module *module);             /* a script's own, or its type's name */
enum { MODULE_DEEPEST = 200 };        /* nested deeper than that, modules are refused or cut */
void module_print(const struct module *module, struct str *out);     /* PyTorch's repr */
bool module_zero_grad(struct task *me, struct module *module, bool set_to_none);
/* copy.deepcopy: modules, parameters and buffers of its own, what was shared inside is shared again; plain attributes
 * of a script's module stay the same objects. In me's scope; NULL: failed. */
struct module *module_clone(struct task *me, struct module *module);
/* Slots of module_plain, for a life that differs in the others. */
struct module *module_plain_copy(struct task *me, struct module *self);
bool           module_plain_rewired(struct task *me, struct module *self);
#endif
