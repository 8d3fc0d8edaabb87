/* The catalogue of functions: what a script may call. A function is one row of functions.def (its signature in
 * PyTorch's own language, its help) and one C function that gets its arguments as a struct and knows no script.
 *
 *     quantile(Tensor input, float q, int? dim=None, bool keepdim=False, str interpolation="linear") -> Tensor
 *
 * Types: Tensor, Tensor[] (a list), Tensor|Scalar, Scalar (a number, which remembers whether it was whole), int, float,
 * bool, str, int[] (a list of integers, or one), int|int[] (a list of any length is not the same as its only integer),
 * bool|int[], Tensor|int, int|int[][2] (an integer, or two lists of one length), int[2] (a pair, or one integer for
 * both), int?[2] (None in it is -1), int[2]|str, dtype, device, Generator; for functions of a script itself also table,
 * function and any. `?` behind a type: may be None; `...` behind Tensor[]: the tensors may come without a list. Behind
 * a bare `*` arguments are given by name only. What may be integers (but for the two lists) and is named dim, dims, dim0,
 * dim1, dim2, start_dim, end_dim, dimension, source or destination counts from the end where negative and must be a
 * dimension of the first tensor. Layers (nn/layers.def) declare their constructors in the same language.
 *
 * Order of use: catalogue_new once for all scripts of a run; catalogue_find; the caller fills struct arguments by the
 * signature; arguments_settle; function->row->body. */
#ifndef FUNCTIONAL_CATALOGUE_H
#define FUNCTIONAL_CATALOGUE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/dtype.h"
#include "tensor/op.h"

struct task; struct tensor; struct generator; struct catalogue;

enum { PARAMETERS = 21, RESULTS = 4 };
enum argument_type { ARG_TENSOR, ARG_TENSORS, ARG_OPERAND, ARG_SCALAR, ARG_INT, ARG_FLOAT, ARG_BOOL, ARG_TEXT,
                     ARG_SIZES, ARG_LENGTHS, ARG_FLAG_OR_DIMS, ARG_TENSOR_OR_DIM, ARG_DIM_LISTS, ARG_PAIR,
                     ARG_PAIR_OR_NONE, ARG_PADDING, ARG_DTYPE, ARG_DEVICE, ARG_GENERATOR, ARG_TABLE, ARG_FUNCTION,
                     ARG_ANY };
struct parameter {
    const char        *name;         /* ends with the parsed text's zero byte */
    const char        *text;         /* default of a str or int[2]|str, else NULL */
    double             number;       /* default of the others: bool 0 or 1, int[2] both */
    enum argument_type type;
    bool               needed;       /* no default */
    bool               optional;     /* None is allowed */
    bool               none;         /* and the default */
    bool               by_name;      /* behind `*` */
    bool               dimension;    /* of the first tensor */
    bool               spread;       /* TENSORS: may come without a list */
};
enum result_type { RESULT_TENSOR, RESULT_TENSORS /* (Tensor, Tensor) */, RESULT_LIST /* Tensor[] */,
                   RESULT_BOOL, RESULT_INT, RESULT_FLOAT, RESULT_DTYPE, RESULT_NONE };
struct signature {
    const char             *name;
    const struct parameter *parameters;
    int                     count, positional;  /* all, and those before `*` */
    enum result_type        result;
};

/* What was given for a parameter, or its default. Borrowed from the caller for the time of the call. */
struct argument {
    bool            none;            /* nothing, and None is the default; or None itself */
    bool            given;           /* not the default */
    bool            whole;           /* SCALAR, OPERAND: the number was an integer; SIZES: one, no list */
    int             count;           /* how many integers or tensors there are; 1 of a number for int[] */
    double          number;          /* SCALAR, FLOAT, OPERAND without tensor */
    int64_t         integer[TENSOR_DIMS]; /* INT, BOOL, DEVICE, SIZES, pairs: two filled at least; TABLE,
                                        FUNCTION, ANY, GENERATOR: where the script keeps it */
    const int64_t  *integers;        /* LENGTHS: `count`; DIM_LISTS: that, and from TENSOR_DIMS on as many; else NULL */
    enum dtype      dtype;           /* of what is no DTYPE: the type of the number; FLAG_OR_DIMS: BOOL is a flag */
    const char     *text;
    struct tensor  *tensor;          /* NULL: an OPERAND that is a number, or none */
    struct tensor **tensors;
    struct generator *generator;
};

struct function;
struct arguments {
    struct argument        at[PARAMETERS];
    const struct function *function;  /* whose signature `at` follows; of a layer NULL */
    bool                   in_place;  /* called as NAME_: the first tensor changes and is the answer */
    enum dtype             dtype;     /* of fractions where none is asked for; of a layer's parameters; RESULT_DTYPE */
    /* Results beside the first tensor, which the body returns. */
    struct tensor         *more[RESULTS - 1];
    int                    results;   /* how many tensors are answered; 1 unless the body says otherwise */
    struct tensor        **list;      /* RESULT_LIST: `results` of them, in memory of the task's scope */
    double                 number;    /* RESULT_BOOL, RESULT_INT, RESULT_FLOAT: the body returns NULL */
};

/* The body answers the first result in me's scope, NULL: failed (or a result that is no tensor). */
typedef struct tensor *function_body(struct task *me, struct arguments *a);

/* Where a function is found: rs.NAME, t:NAME(), t:NAME_(), nn.functional.NAME, nn.init.NAME, nn.NAME. What ends in _
 * by its own name is called in place wherever it is found. */
enum { FORM_RS = 1, FORM_METHOD = 2, FORM_IN_PLACE = 4, FORM_FUNCTIONAL = 8, FORM_INIT = 64, FORM_NN = 128,
       FORM_AFTER = 16 /* a dim may be one more */, FORM_QUESTION = 32 /* waits for nobody, makes nothing */,
       FORM_BOTH = FORM_RS | FORM_METHOD };
struct function_row {
    const char    *signature, *help;
    function_body *body;
    enum op        op;               /* of bodies that serve several rows; OP_COUNT: none */
    unsigned       forms;
};
struct function { const struct function_row *row; struct signature signature; };

/* Every signature is parsed here, once; the catalogue never changes, so all ranks' scripts may read it at a time.
 * NULL: out of memory. A signature that cannot be read is a broken invariant. */
struct catalogue *catalogue_new(void);
void              catalogue_free(struct catalogue *catalogue);
const struct function *catalogue_functions(const struct catalogue *catalogue, size_t *count);
/* By name or second name among those with a form of `forms`; NULL: none. FORM_IN_PLACE alone: by the name with its _. */
const struct function *catalogue_find(const struct catalogue *catalogue, const char *name, unsigned forms);
/* Second names: absolute is abs. The i-th, or false. */
bool catalogue_alias(size_t i, const char **name, const char **of);

/* Reads one signature; parameters and texts are taken from `arena`. false: out of memory. */
struct arena;
bool signature_parse(struct arena *arena, const char *text, struct signature *out);
void argument_default(const struct parameter *parameter, struct argument *out);   /* as if nothing was given */

/* Dimensions that count from the end are counted from the start; false: failed with IndexError. */
bool arguments_settle(struct task *me, struct arguments *a);

/* ---- for bodies ---- */
/* A number beside a tensor as a 0-dim tensor that does not widen it within its kind; an argument that is a tensor is
 * itself. `beside` may be NULL. */
struct tensor *argument_tensor(struct task *me, const struct argument *argument, const struct tensor *beside);
struct tensor *number_beside(struct task *me, double number, const struct tensor *beside);
/* The op of the row or another: in place if the call is. */
struct tensor *function_apply(struct task *me, const struct arguments *a, enum op op, const struct op_args *args);
/* Two results; `first` is answered. */
struct tensor *answer_two(struct arguments *a, struct tensor *first, struct tensor *second);
/* Memory for `a->list`; it lives as long as me's scope. NULL: failed. */
struct tensor **answer_list(struct task *me, struct arguments *a, int64_t count);
/* The dimensions of an argument (none: all) for tensor_fold; false: failed (one is listed twice). */
struct fold_options;
bool argument_dims(struct task *me, const struct argument *argument, struct fold_options *out);
/* One of the first two is a tensor, else failed: both may not be numbers. */
bool arguments_have_tensor(struct task *me, const struct arguments *a);
/* A copy of another dtype. NULL gives NULL. */
struct tensor *tensor_cast(struct task *me, struct tensor *a, enum dtype dtype);
#endif
