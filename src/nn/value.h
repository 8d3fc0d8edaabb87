/* What goes into a forward and comes out of it: tensors and the containers Python has, as DataParallel's scatter and
 * gather need to tell them apart. Counted by references; makers give to me's scope. Elements are references. */
#ifndef NN_VALUE_H
#define NN_VALUE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct task; struct tensor; struct value;

enum value_kind {
    VALUE_NONE, VALUE_TENSOR, VALUE_INTEGER, VALUE_NUMBER, VALUE_BOOL, VALUE_TEXT,
    VALUE_TUPLE, VALUE_LIST, VALUE_DICT, VALUE_NAMEDTUPLE, VALUE_OBJECT /* a script's own, by reference */
};

struct value {
    atomic_int      references;
    enum value_kind kind;
    struct tensor  *tensor;
    int64_t         integer;
    double          number;
    char           *text;            /* TEXT, or the type's name of a NAMEDTUPLE: of name.h */
    struct value  **items;           /* TUPLE, LIST, NAMEDTUPLE, and DICT's values */
    char          **keys;            /* DICT's and NAMEDTUPLE's, in order: of name.h */
    int             count;
    bool            whole;           /* TUPLE: a forward's one result; else a forward's tuple is several results */
    void           *object;          /* OBJECT: kept by the two functions below */
    const char     *type;            /* OBJECT: what its script calls it; lives as long as the object */
    void          (*drop_object)(struct task *me, void *object);
};

struct value *value_none(struct task *me);
struct value *value_tensor(struct task *me, struct tensor *tensor);   /* NULL in, NULL out */
struct value *value_integer(struct task *me, int64_t integer);
struct value *value_number(struct task *me, double number);
struct value *value_bool(struct task *me, bool flag);
struct value *value_text(struct task *me, const char *text);
/* Containers take references on items. `keys` for DICT and NAMEDTUPLE, `name` for NAMEDTUPLE. */
struct value_form { enum value_kind kind; const char *const *keys; const char *name; };
struct value *value_container(struct task *me, const struct value_form *form, int count, struct value *const *items);
struct value *value_tuple(struct task *me, int count, struct value *const *items);
/* Of the form of `like`. */
struct value *value_like(struct task *me, const struct value *like, int count, struct value *const *items);
/* Takes `object` over, also when it fails; `type` is borrowed from it. */
struct value *value_object(struct task *me, void *object, const char *type,
                           void (*drop)(struct task *me, void *object));
struct value *value_ref(struct task *me, struct value *value);
void          value_unref(struct task *me, struct value *value);
void          value_keep(struct task *me, struct value **field, struct value *value);
/* The first tensor found depth-first, NULL: none. Borrowed. */
struct tensor *value_first_tensor(const struct value *value);
/* Calls visit on each tensor, depth-first; stops when it answers false. */
bool value_each_tensor(const struct value *value, bool (*visit)(void *context, struct tensor *tensor), void *context);
/* Its first tensors, as tensor_announce tells of one. */
void value_announce(struct task *me, const struct value *value, const char *role);
/* The same structure with map(tensor) in the place of each tensor, depth-first. NULL: failed, or map answered NULL. */
struct value *value_map(struct task *me, struct value *value,
                        struct tensor *(*map)(struct task *me, void *context, struct tensor *tensor), void *context);
#endif
