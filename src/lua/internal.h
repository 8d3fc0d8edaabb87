/* What the files of src/lua share.
 *
 * The lock. One Lua state per rank, one lock per state; whoever runs Lua holds it. A C function called by Lua has three
 * parts: it takes its arguments (Lua may raise), works without Lua (nothing raises), hands over (Lua may raise again):
 *
 *     struct task *me = script_task(L);                    notes the lesson's line for the events that follow
 *     struct tensor *a = check_tensor(L, 1);               first part
 *     struct call call = call_open(L, me, CALL_PLAIN);     a scope; lets the lock go if others want it
 *     struct tensor *result = tensor_neg(me, a);           middle part: touches no Lua
 *     return call_tensor(&call, result);                   takes the lock, raises me's error or pushes the result
 *
 * The other direction, from any task and any depth: script_visit(me, script, body, context) takes the lock (unless me
 * has it), runs body as a protected call on a Lua thread of the task's own and turns what is raised into me's error.
 *
 * Boxes. Tensors, modules, nodes, streams ... are full userdata with a struct box at their head; one object has one
 * live box (so they work as table keys). __gc only queues the object; the queue is emptied at collection points, in
 * order of storage numbers. */
#ifndef LUA_INTERNAL_H
#define LUA_INTERNAL_H
#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "base/dtype.h"
#include "lua/heap.h"
#include "lua/script.h"
#include "nn/module.h"
#include "sched/account.h"
#include "sched/lock.h"

struct task; struct error; struct tensor; struct catalogue; struct layer_catalogue; struct module; struct value;
struct node; struct str; struct generator; struct rank;

/* ---- the script ---- */
/* A task's presence in a script: SLOT_LUA of the task points to it. */
struct visit {
    struct script *script;
    lua_State     *L;            /* the Lua thread on which this task runs now */
    struct module *direct;       /* a module called by Lua itself: its tables keep their identity */
    bool           away;         /* in a middle part, having let Lua go */
    bool           main;         /* the task that made the script */
};

/* As long as the main task is alone it owns Lua without the lock, so that simple lessons show no lock events. Who
 * comes in while it is away (in a backward or a forward that calls back) makes the state shared: all use the lock. */
enum script_mode { MODE_ALONE, MODE_AWAY, MODE_SHARED };
struct visitor_thread { lua_State *L; bool busy; };
struct shelf;

/* Registry references that nobody needs any more, given back by whoever holds the lock next. Counted: objects held
 * by C (modules, hooks, values) may outlive the script. */
struct refs;
/* A Lua value held by C. */
struct script_object {
    struct refs   *refs;
    struct script *script;       /* valid as long as refs_open(refs) */
    int            ref;          /* in the registry */
    char           name[64];     /* a module's class; what a value is */
};

/* What other files of this folder keep per script; `drop` is called by script_free before the state closes. */
enum script_part { SCRIPT_LESSON, SCRIPT_STATE, SCRIPT_TRACE, SCRIPT_JOB_TRACE, SCRIPT_SHARE, SCRIPT_DISTRIBUTED, SCRIPT_NAMES, SCRIPT_CYCLES,
                   SCRIPT_FUTURES, SCRIPT_WORKER, SCRIPT_CREWS, SCRIPT_PARTS };

struct dead { void *object; void (*drop)(struct task *me, void *object); uint64_t order; };

struct script {
    lua_State     *L;            /* the main thread */
    lua_State     *door;         /* for what must be protected before a visitor has a thread of its own */
    struct lock    lock;         /* "lua state" */
    struct task   *holder;       /* who holds the lock: what script_task answers */
    _Atomic int    mode;         /* enum script_mode */
    _Atomic int    visitors;     /* tasks other than the main one that are in, or wait to come in */
    struct visit   visit;        /* the main task's */
    struct script_options options;
    const struct catalogue *catalogue; /* the options' or its own */
    struct catalogue *own_catalogue;   /* NULL: shared */
    const struct layer_catalogue *layers;   /* likewise */
    struct layer_catalogue *own_layers;
    struct sched  *sched;
    int            rank;
    bool           stepped;      /* the collector is stopped; whole collections at counted points only */
    bool           fatal;        /* a budget is exceeded: pcall does not catch any more */
    struct heap    heap;
    struct collector collector;  /* the run asks it when memory is short */
    struct shelf  *shelves;      /* what tables are filled from on first use (shelf.c) */
    size_t         shelf_count, shelf_room;
    struct arena   signatures;   /* of entries that have one in the catalogue's language */
    size_t         bytes;        /* of Lua's own objects */
    size_t         trace_charged; /* bytes in the run's account that the reader of the trace may have */
    size_t         bytes_collected; /* `bytes` after the last collection */
    size_t         taken_collected; /* what the run's account said then */
    uint64_t       debt;         /* tensor bytes handed to Lua since the last collection */
    uint32_t       boxes;        /* made so far: their serial numbers */
    uint64_t       random[4];    /* math.random: xoshiro256** */
    uint64_t       variation;    /* rs.vary: splitmix's state */
    struct refs   *refs;
    struct dead   *dead;         /* found by the collector, not dropped yet */
    size_t         dead_count, dead_room;
    struct visitor_thread *threads; /* anchored in the registry */
    size_t         thread_count, thread_room;
    bool           equality_noted; /* of tensors (tensor.c) */
    _Atomic int    due;          /* futures that who waits must end (futures.c) */
    bool           no_memory;    /* the limit has refused something: "not enough memory" means the budget */
    uint64_t       outer;        /* SLOT_LUA of the main task before */
    char           name[128];    /* the lesson's file name, without its folder */
    char           last_error[2048]; /* message of the error object at registry["ringside.error"] */
    /* In a job: how many spawns there have been, questions to rs.trace, cuts of its traces. */
    unsigned       spawns, questions, questions_forgotten, cuts;
    bool           trace_told;   /* to the other processes: where it is */
    struct rank   *lone;         /* lone.c: freed last, since works and modules point there; NULL: none */
    void          *parts[SCRIPT_PARTS];
    void         (*drop_part[SCRIPT_PARTS])(struct task *me, void *part);
};

struct script *script_of(lua_State *L);            /* from the state's extra space */
struct task   *script_task(lua_State *L);          /* the holder; me->line becomes the lesson's line */
uint32_t       script_line(lua_State *L);          /* of the innermost function of the lesson on the stack; 0: none */
void           script_count_steps(lua_State *L);      /* charges one turn of the hook; may raise */
/* Work that a C function is about to do, in Lua instructions' worth (about 10 ns): raises if the lesson has no more.
 * Small amounts are gathered: it costs next to nothing in functions that are called all the time. */
void           script_charge(lua_State *L, uint64_t steps);
uint64_t       steps_of_bytes(uint64_t bytes);        /* that are copied or looked through */
uint64_t       steps_of_source(uint64_t bytes);       /* of a text that is compiled */
void           charge_libraries(lua_State *L);        /* Lua's own functions charge what they do (charges.c) */
void           search_open(lua_State *L);             /* string.find, match, gmatch, gsub (search.c) */
void           tables_open(lua_State *L);             /* the library `table` (tables.c) */
void           mathematics_open(lua_State *L);        /* the functions of `math` that give fractions (mathematics.c) */
void           guard_coroutines(lua_State *L);        /* coroutine.create, wrap, resume (coroutine.c) */
void           script_note_line(struct script *script); /* the holder's line; where memory is short nobody else can */
struct script *task_script(const struct task *me); /* NULL: this task is in no script */

/* ---- the doors (door.c) ---- */
/* CALL_BACK: other tasks may call Lua meanwhile (backward, forward, wait). CALL_KEEP: the lock stays, for short work on
 * what replicas share (hook lists of one node) and for what stands for Lua's own work (rs.advance with lock). */
enum call_kind { CALL_PLAIN, CALL_BACK, CALL_KEEP };
struct call {
    lua_State   *L, *outer;
    struct task *me;
    size_t       mark;
    uint32_t     line;
    uint8_t      depth;
    bool         released;
};
struct call call_open(lua_State *L, struct task *me, enum call_kind kind);
void        call_close(struct call *call);                       /* takes the lock again; the scope stays */
/* The last part: closes, raises if me has failed (`ok` false, or a NULL result), else pushes and answers how many. */
int  call_done(struct call *call, bool ok);                      /* pushes nothing: 0 */
int  call_self(struct call *call, bool ok);                      /* pushes argument 1: methods that answer self */
int  call_tensor(struct call *call, struct tensor *result);
int  call_value(struct call *call, struct value *result);        /* one value; None is nil */
int  call_module(struct call *call, struct module *result);
int  call_integer(struct call *call, bool ok, int64_t integer);
void call_end(struct call *call, bool ok);                       /* closes, raises if not ok; the scope stays for
                                                                    results that the caller still has to push ... */
int  call_leave(struct call *call, int results);                 /* ... and is released here; answers `results` */

/* false: failed(me), stack as before the call. Between, script_task(L) == me. `body` is a lua_CFunction whose argument
 * 1 is `context` as a light userdata; what it returns is dropped. */
bool script_visit(struct task *me, struct script *script, lua_CFunction body, void *context)
    __attribute__((warn_unused_result));
/* lua_pcall for who holds the lock already: function and arguments on L's stack. false: failed(me), all popped. */
bool script_call(lua_State *L, struct task *me, int arguments, int results) __attribute__((warn_unused_result));

/* A task that is in no call of the main task's will visit the script: from now on the main task uses the lock, too. With
 * the lock held; script_visited once for each, when that task has come, or will not. */
void script_expect(struct task *me, struct script *script);
void script_visited(struct script *script);

/* me's error becomes a Lua error; never returns. An error object is a table {kind, message, line} with __tostring. */
int raise(lua_State *L, struct task *me);
int raise_error(lua_State *L, const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
void stack_room(lua_State *L, int count);   /* for so many more values; raises MemoryError */
int arg_error(lua_State *L, int argument, const char *expected);  /* TypeError: "argument 1 of NAME: expected ..." */
int arg_most(lua_State *L, int most);                             /* TypeError if more were given; answers how many */
/* A new error object, pushed. */
void push_error(lua_State *L, const char *kind, const char *message, uint32_t line);
/* What the error object at `index` says: kind, message and line. */
void error_of_object(lua_State *L, int index, struct error *out);
/* The Lua error object at the top of the stack is recorded in me (and popped). */
void fail_from_lua(lua_State *L, struct task *me);

int  error_handler(lua_State *L);   /* the message handler of every protected call: strings become error objects */

/* Collection: at counted points in `stepped`; a step in `free`. */
void script_collect(lua_State *L, struct task *me);               /* and drops what was found */
void script_collect_if_due(lua_State *L, struct task *me);        /* zero_grad: in `free` only when it is worth it */
void script_allocated(lua_State *L, struct task *me, uint64_t bytes); /* a new object was handed to Lua */
/* From now on (or no more) the run asks this script to collect when it runs short of memory. */
void script_may_be_asked(struct script *script, bool may);
lua_State *task_lua(const struct task *me);   /* on which me runs Lua now; NULL: it does not, or has let Lua go */
bool task_holds_script(const struct task *me, const struct script *script); /* me is in it and may touch Lua now */

/* ---- boxes and objects (box.c) ---- */
enum box_kind { BOX_TENSOR, BOX_MODULE, BOX_NODE, BOX_OPTIMIZER, BOX_STREAM, BOX_EVENT, BOX_GENERATOR, BOX_HANDLE,
                BOX_GROUP, BOX_WORK, BOX_STORE, BOX_FUTURE, BOX_BUCKET, BOX_HOOK_RUN, BOX_HOOK_STATE,
                BOX_KINDS };
struct box {
    void         *object;       /* NULL: empty */
    void        (*drop)(struct task *me, void *object); /* NULL: borrowed */
    uint32_t      serial;       /* in order of making */
    enum box_kind kind;
};
/* Registered name of the metatable of a kind: "ringside.tensor" ... */
const char *box_metatable(enum box_kind kind);
struct box *box_push(lua_State *L, enum box_kind kind, int values); /* empty, with `values` user values; the metatable
                                                                       must exist (box_class) */
/* Fills the box at the top of the stack; takes over one reference. If `shared` and the object has a live box, that one
 * takes this one's place on the stack. */
void  box_fill(lua_State *L, void *object, void (*drop)(struct task *me, void *object), bool shared);
void *box_test(lua_State *L, int index, enum box_kind kind);        /* NULL: not such a box, or empty */
void *box_check(lua_State *L, int index, enum box_kind kind);       /* else raises */
/* Makes the metatable of a kind (leaves it on the stack): __gc, __name, and `methods` as its __index. */
struct lua_entry;
void  box_class(lua_State *L, enum box_kind kind, const struct lua_entry *methods, size_t count);

void script_drop_dead(struct task *me, struct script *script);      /* what the collector has found */
struct refs *refs_new(void);                                        /* NULL: no memory */
void  refs_settle(lua_State *L, struct refs *refs);                 /* with the lock held: gives them back */
void  refs_close(struct refs *refs);                                /* the script is gone; NULL is fine */

struct script_object *object_new(lua_State *L, struct task *me, int index, const char *name); /* refers to the value at
                                                                     index; NULL: no memory (failed) */
void object_push(lua_State *L, const struct script_object *object); /* nil: of another script */
void object_free(struct task *me, void *object);                    /* from any task, lock or no lock */
bool object_open(const struct script_object *object);               /* its script still lives */

/* ---- functions with their documentation: declared once, in the table that registers them ---- */
/* `signature`: how a lesson writes it ("rs.help(name)"), or, with " -> any" at its end, in the catalogue's language:
 * then the function takes its arguments by take_arguments (dispatch.h). */
struct lua_entry { const char *name; lua_CFunction function; const char *signature, *help; };
/* Into a table that is filled on first use (shelf.h), else at once; noted for help. */
void add_entries(lua_State *L, int table, const struct lua_entry *entries, size_t count);
void note_help(lua_State *L, const char *signature, const char *help); /* of the function at the top of the stack */
void note_made_help(lua_State *L, const char *signature, const char *help); /* a help that must be copied */
void note_name(lua_State *L, const char *signature, const char *help); /* of another name of a function */
void push_notes(lua_State *L);                        /* the table of them: signature -> what noted_help reads */
const char *noted_help(lua_State *L, int index);
bool push_noted(lua_State *L, const char **help);     /* the function at the top becomes its signature; false: it has none */
void open_namespace(lua_State *L, const char *path, const struct lua_entry *entries, size_t count);
                        /* "nn.functional": rs.nn.functional is made if need be, filled and left on the stack */
void fill_namespace(lua_State *L, const char *path, const struct lua_entry *entries, size_t count); /* ... and popped */
void add_methods(lua_State *L, enum box_kind kind, const struct lua_entry *methods, size_t count);
void push_ringside(lua_State *L);      /* the table `rs` */

/* ---- metatables by name (class.c) ---- */
bool  has_class(lua_State *L, int index, const char *class);
#define LOADER_CLASS "ringside.loader"
void  open_class(lua_State *L, const char *class, const struct lua_entry *methods, size_t count,
                 const luaL_Reg *metamethods);
void *push_owned(lua_State *L, size_t size, const char *class, lua_CFunction drop); /* zeros; `drop` is its __gc */
void  push_weak_table(lua_State *L, const char *name, const char *mode); /* of the registry, "k" or "v" weak */
/* In the namespace at the top the constructor of this path ("rs.nn.Linear") becomes a class with static methods: a table
 * that is called as the constructor was. */
void  make_class(lua_State *L, const char *path, const struct lua_entry *statics, size_t count);
/* Classes that a lesson writes: a family is known by its metatable's name, `call` makes an object of one. */
void  open_class_family(lua_State *L, const char *family, lua_CFunction call);
void  push_class(lua_State *L, const char *family, const char *name);
int   declare_class(lua_State *L, const char *family, const char *expected); /* by the arguments (name, base); pushed */
int   init_object(lua_State *L);       /* on the stack: class, object, arguments; calls init, answers the object */

/* ---- arguments and results (values.c) ---- */
struct tensor *check_tensor(lua_State *L, int index);
struct tensor *check_any_tensor(lua_State *L, int index);           /* one that is uninitialized, too */
struct tensor *known_tensor(lua_State *L, struct tensor *tensor);   /* raises if it is uninitialized; NULL: NULL */
struct tensor *test_tensor(lua_State *L, int index);                /* NULL: not a tensor */
void           push_tensor(lua_State *L, struct tensor *tensor);    /* takes a reference of its own; NULL: nil */
struct module *check_module(lua_State *L, int index);
struct module *test_module(lua_State *L, int index);
void           push_module(lua_State *L, struct module *module);    /* the same object each time; NULL: nil */
void           push_node(lua_State *L, struct node *node);
int64_t        check_integer(lua_State *L, int index);
int64_t        opt_integer(lua_State *L, int index, int64_t otherwise);
double         check_number(lua_State *L, int index);
const char    *check_text(lua_State *L, int index);
void           check_function(lua_State *L, int index);
void           check_table(lua_State *L, int index);
bool           check_flag(lua_State *L, int index);                 /* true or false */
bool           opt_flag(lua_State *L, int index, bool otherwise);
enum dtype     check_dtype(lua_State *L, int index);                /* "float32" */
int            check_device(lua_State *L, int index);               /* "cpu" (-1), "device:1", "cuda:1", "cuda" or 1 */
int            opt_device(lua_State *L, int index);                 /* nothing, or the host: the current one */
int            index_read(lua_State *L);                            /* t[...] with anything but a name (index.c) */
int            index_write(lua_State *L);
/* Fields of a trailing table of options (index 0 or nil: all absent). They leave the stack as it was. */
int            option_table(lua_State *L, int index);               /* index if a plain table, 0 if none; else raises */
int64_t        option_integer(lua_State *L, int table, const char *name, int64_t otherwise);
double         option_number(lua_State *L, int table, const char *name, double otherwise);
bool           option_bool(lua_State *L, int table, const char *name, bool otherwise);
const char    *option_text(lua_State *L, int table, const char *name, const char *otherwise); /* the table's */
enum dtype     option_dtype(lua_State *L, int table, enum dtype otherwise);          /* field dtype */
int            option_device(lua_State *L, int table, int otherwise);                /* field device */
bool           flag_or_option(lua_State *L, int index, const char *name, bool otherwise); /* true, {NAME = true} */
bool           option_push(lua_State *L, int table, const char *name); /* false: nil, nothing pushed */
void           option_known(lua_State *L, int table, const char *names); /* "dtype device": others are errors */
void           options_listed(lua_State *L, int table, const char *names); /* the same beside elements in order */
/* Fields of the table at `table`. */
void           set_integer(lua_State *L, int table, const char *name, int64_t value);
void           set_number(lua_State *L, int table, const char *name, double value);
void           set_flag(lua_State *L, int table, const char *name, bool flag);
void           set_text(lua_State *L, int table, const char *name, const char *text);
/* A trailing table of options becomes arguments: f(t, {dim = 1}) is f(t, 1). `names` are those of the arguments from
 * `first` on. Anything else at the end (a list, a tensor, a number) stays. */
void           option_spread(lua_State *L, int first, const char *names);
/* Raises AttributeError: `what` has no `name`, and what may be meant among the keys of the table at `index` (and, if
 * it is not NULL, the words in `more`). */
int            no_attribute(lua_State *L, const char *what, const char *name, int index, const char *more);
/* The same; `otherwise` is said where nothing is near: "; the wrapped module is ddp.module". */
int            no_attribute_but(lua_State *L, const char *what, const char *name, int index, const char *more,
                                const char *otherwise);
void           guard_ringside(lua_State *L);   /* rs and its namespaces raise it, once all is in them */
/* A sequence of tensors at index (or one tensor) into an array on the stack as userdata (pushed); answers the array. */
struct tensor **check_tensors(lua_State *L, int index, int *count);
void list_only(lua_State *L, int index);   /* raises if the list at index has named fields: {1, 2, dtype = ...} */
/* Deep conversion. NULL: failed(me). Tables without string keys are lists, with them dicts; rs.tuple, rs.namedtuple,
 * rs.none as they say; other things travel by reference. `deep` false: tables too. The value is in me's scope. */
struct value  *value_from_lua(lua_State *L, struct task *me, int index, bool deep);
struct value  *arguments_from_lua(lua_State *L, struct task *me, int first, struct value **kwargs, bool deep); /* TUPLE;
                                                                    a trailing rs.kw{} becomes *kwargs */
void           push_value(lua_State *L, const struct value *value);     /* None is nil at the top, rs.none inside */
int            push_results(lua_State *L, const struct value *value);   /* a tuple that is not whole: several results */
void           drop_text(struct task *me, void *text);                 /* a struct str, for `born` */
void           gather_values(lua_State *L, int first);  /* what lies from `first` on becomes one list in its place */
bool           is_plain_table(lua_State *L, int index);                 /* a table without a metatable of ours */

/* ---- modules (module.c): user value 1 of a box is its table of plain attributes, 2 the class (nil: built in) ---- */
bool           module_is_script(const struct module *module);
struct script_object *module_attributes(const struct module *module); /* of a script's: its attribute table, whose
                                                        metatable's __index is the class */
struct module *script_module_new(lua_State *L, struct task *me, int class_index); /* init not run; pushed; raises */

#define MODULE_CLASS "ringside.class"                                    /* the family of classes of modules */
/* nn.DataParallel at index, as the base of a class: its class is pushed. false: it is something else. */
bool           push_base_class(lua_State *L, int index);
/* A DataParallel's device_ids, output_device and dim; a replica's _former_parameters (parallel.c). false: none. */
bool           push_parallel_attribute(lua_State *L, const struct module *module, const char *name);
/* The same of a DistributedDataParallel (ddp.c); and setting one of them to what is at 3. false: no such one. */
bool           push_ddp_attribute(lua_State *L, const struct module *module, const char *name);
/* And of a SyncBatchNorm (sync_batch_norm.c). */
bool           push_sync_batch_norm_attribute(lua_State *L, const struct module *module, const char *name);
bool           push_ddp_inside(lua_State *L, const struct module *module, const char *name);  /* ddp_inspect.c: it is at 1 */
bool           set_ddp_attribute(lua_State *L, struct module *module, const char *name);
void           add_module_hooks(lua_State *L);                           /* module_hooks.c */
void           module_hook_remove(lua_State *L, int number);

/* What PyTorch's warnings.warn says: told once for each text, an event and a line of the narration. */
void lesson_warn(lua_State *L, const char *text);
void lesson_warn_of_engine(struct task *me, const char *text);  /* the same, of who holds no Lua: task_warn leads here */

/* ---- repeatable names of things (sandbox.c) ---- */
void push_text(lua_State *L, int index);      /* tostring without addresses: "table: 1" */
void push_shown(lua_State *L, int index);     /* show.c: as print shows it, a plain table by its contents */
int  push_sorted_keys(lua_State *L, int index); /* of a table: numbers ascending, texts by bytes, our boxes by serial;
                                                   pushes a list, answers how many */
void sandbox_open(lua_State *L, struct script *script);
/* Before the engine sets one that may be a lesson's: raises if it has a __gc and the script is not trusted. */
void sandbox_metatable(lua_State *L, int index);

/* ---- one function per namespace file; each leaves the stack as it was ---- */
void lua_open_ringside(lua_State *L);         /* calls the others */
void lua_open_errors(lua_State *L);           /* error.c */
void lua_open_values(lua_State *L);
void lua_open_tensor(lua_State *L);
void lua_open_index(lua_State *L);
void lua_open_create(lua_State *L);
void lua_open_dtypes(lua_State *L);
void lua_open_random(lua_State *L);
void lua_open_autograd(lua_State *L);
void lua_open_module(lua_State *L);
void lua_open_nn(lua_State *L);
void lua_open_state(lua_State *L);
void lua_open_catalog(lua_State *L);
void lua_open_container(lua_State *L);
void lua_open_function(lua_State *L);
void lua_open_parallel(lua_State *L);
void lua_open_optim(lua_State *L);
void lua_open_data(lua_State *L);             /* digits.c: utils.data, data, save and load */
void lua_open_cuda(lua_State *L);
void lua_open_memory(lua_State *L);
void lua_open_lesson(lua_State *L);           /* lesson.c */
void lua_open_exercise(lua_State *L);         /* exercise.c */
void lua_open_trace(lua_State *L);            /* trace.c */
void lua_open_distributed(lua_State *L);      /* distributed.c */
void lua_open_futures(lua_State *L);
void lua_open_faults(lua_State *L);
void lua_open_gradcheck(lua_State *L);
void lua_open_checkpoint(lua_State *L);
#endif
