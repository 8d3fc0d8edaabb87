/* How built-in layers are made and called: a layer_kind is what a script may write, nn.NAME(...), one row of layers.def
 * with its signature read; a layer_type is a module type whose forward takes tensors and answers one.
 *
 * Order of use: layer_catalogue_new once for all scripts of a run; the caller fills struct arguments by a kind's
 * signature; layer_new. */
#ifndef NN_LAYER_H
#define NN_LAYER_H
#include "base/dtype.h"
#include "functional/catalogue.h"
#include "nn/layers.h"
#include "nn/module.h"
#include "tensor/tensor.h"

/* ---- what a script may make ---- */
typedef struct module *layer_make(struct task *me, const struct arguments *arguments);
struct layer_row {
    const char              *signature, *help;
    layer_make              *make;
    const struct layer_type *plain;    /* without a maker: the table that has its type */
};
struct layer_kind {
    const struct layer_row *row;
    struct signature        signature; /* of the row, and behind `*` what every layer has: dtype, device */
};
struct layer_catalogue;
struct layer_catalogue  *layer_catalogue_new(void);   /* never changes; NULL: out of memory */
void                     layer_catalogue_free(struct layer_catalogue *catalogue);
const struct layer_kind *layer_kinds(const struct layer_catalogue *catalogue, size_t *count);
struct module *layer_new(struct task *me, const struct layer_kind *kind, struct arguments *arguments);

/* Each in the file of its family. */
#define LAYER(make, signature, help) layer_make make;
#define PLAIN(types, signature, help)
#include "nn/layers.def"
#undef PLAIN
#undef LAYER

/* ---- module types of tensors ---- */
enum { LAYER_INPUTS = 2, LAYER_INPLACE = MODULE_INTEGERS - 1 /* where `inplace` is kept; apply sees to it */ };
struct layer_type {
    struct module_type type;           /* first: a module's type leads here */
    int                inputs;
    struct tensor   *(*apply)(struct task *me, struct module *self, struct tensor *const *in);
};
/* Those that need no maker; a name of NULL ends a table. */
extern const struct layer_type activation_types[], piecewise_types[], shaping_types[];
struct value *layer_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs);
/* A forward that is not there says so, with what the module is for. */
struct value *layer_no_forward(struct task *me, struct module *self, struct value *args, struct value *kwargs);
void          layer_describe_nothing(const struct module *self, struct str *out);
void          layer_describe_attributes(const struct module *self, struct str *out);   /* "dim=1, alpha=1.0" */
void layer_add_number(struct str *out, const char *name, double number);     /* "eps=", 1e-5: eps=1e-05, as Python */

/* ---- for constructors ---- */
struct layer_shape { enum dtype dtype; int dims; const int64_t *size; };
/* Drawn from U(-bound, bound); < 0: not. */
struct tensor *layer_parameter(struct task *me, struct module *module, const char *name,
                               const struct layer_shape *shape, double bound);
bool layer_constant(struct task *me, struct module *module, const char *name, const struct layer_shape *shape,
                    double value);             /* a parameter, all of whose elements are `value` */
bool layer_buffer(struct task *me, struct module *module, const char *name, const struct layer_shape *shape,
                  double value);
bool   layer_uninitialized(struct task *me, struct module *module, const char *name, enum dtype dtype);
bool   layer_no_parameter(struct task *me, struct module *module, const char *name);
double kaiming_bound(double fan_in);                                       /* a = sqrt(5) */
enum { LAYER_SIZE = 1 << 30 };     /* no size is larger, so that products of two are numbers */
bool   layer_positive(struct task *me, const char *module, const char *what, int64_t size);

/* ---- arguments of a forward ---- */
struct forward_call  { const struct module *self; const struct value *args, *kwargs; };
struct forward_names { int count, needed; const char *at[8]; };            /* the first `needed` must be there */
/* The value of argument `index`, positional or by name; NULL and no failure: absent (`needed`: failed). */
struct value *forward_argument(struct task *me, const struct forward_call *call, int index, const char *name,
                               bool needed);
/* Optional tensor; false: failed. */
bool forward_tensor(struct task *me, const struct forward_call *call, int index, const char *name,
                    struct tensor **out);
/* Nothing is given but these. */
bool forward_only(struct task *me, const struct forward_call *call, const struct forward_names *names);
/* All of them, absent ones NULL, and no others. false: failed. */
bool forward_tensors(struct task *me, const struct forward_call *call, const struct forward_names *names,
                     struct tensor **out);
#endif
