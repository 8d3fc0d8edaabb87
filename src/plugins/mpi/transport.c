/* The plug-in's table, and who this process is. MPI is started by `place`, once, and ended by `close`.
 * MPI_Finalize waits for all processes, so where a channel was broken it gets a little time only: enough if the
 * others end as well. A process that ends with status 0 without it makes mpirun print a page and answer 1; one
 * that ends with another status may do without. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "plugins/mpi/mpi.h"

enum { LAST_MS = 1500 };

static int
number_of(const char *variable)
{
    const char *text = getenv(variable);
    return text != NULL ? atoi(text) : 0;
}

/* ---- who started us ---- */

/* Open MPI's mpirun, or whoever speaks PMIx: srun. */
static bool
is_launched(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMIX_RANK") != NULL;
}

/* Launchers with which each process would be alone in a world of its own: said in `why`. */
static void
find_strange_launcher(struct transport_why *why)
{
    int tasks = number_of("SLURM_STEP_NUM_TASKS"), size = number_of("PMI_SIZE");
    if (getenv("SLURM_PROCID") != NULL && tasks > 1)
        snprintf(why->text, sizeof why->text, "srun started %d processes in a way that Open MPI does not understand; "
                 "use `srun --mpi=pmix`, or Open MPI's mpirun", tasks);
    else if (size > 1)
        snprintf(why->text, sizeof why->text, "these %d processes were started by MPICH's launcher, with which each "
                 "would be alone; use Open MPI's mpirun (Debian: mpirun.openmpi)", size);
}

/* Open MPI 4.1 writes a message that is longer than its room behind the room, where it moves bytes straight from
 * one process's memory into another's: between processes of one machine by a system call (which containers forbid,
 * as it then tells in many lines), over TCP by "put". Without both it is right, and as fast where the network is
 * the limit. Who sets them has his way. */
static void
choose_settings(void)
{
    (void)setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", false);
    (void)setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", false);
}

/* Open MPI's own plug-ins look for its symbols in the whole process. Where this one was opened for itself alone,
 * they would not find them: the library is opened once more, for all. */
static void
show_library(void)
{
    Dl_info info;
    if (dladdr((void *)(uintptr_t)&MPI_Init_thread, &info) != 0 && info.dli_fname != NULL)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static bool
start(struct transport_why *why)
{
    int level = MPI_THREAD_SINGLE;
    choose_settings();
    show_library();
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) {
        snprintf(why->text, sizeof why->text, "MPI could not be started");
        return false;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (level >= MPI_THREAD_MULTIPLE)
        return true;
    snprintf(why->text, sizeof why->text,
             "this MPI was built without support of threads (MPI_THREAD_MULTIPLE); use one that has it");
    return false;
}

static bool
find_place(struct transport_place *place, struct transport_why *why)
{
    MPI_Comm near  = MPI_COMM_NULL;
    int      error = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_rank(MPI_COMM_WORLD, &place->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place->size);
    if (error != MPI_SUCCESS) {
        mpi_why(why, error, "asking who is on this machine");
        return false;
    }
    MPI_Comm_rank(near, &place->local_rank);
    MPI_Comm_size(near, &place->local_size);
    MPI_Comm_free(&near);
    int tasks = number_of("SLURM_STEP_NUM_TASKS");
    if (place->size > 1 || getenv("OMPI_COMM_WORLD_SIZE") != NULL || tasks <= 1)
        return true;
    snprintf(why->text, sizeof why->text,
             "srun started %d processes, and Open MPI sees one; use `srun --mpi=pmix`, or Open MPI's mpirun", tasks);
    return false;
}

static bool
mpi_place(struct transport_place *place, struct transport_why *why)
{
    int is_up = 0;
    why->text[0] = '\0';
    if (!is_launched()) {
        find_strange_launcher(why);
        return false;
    }
    MPI_Initialized(&is_up);
    return (is_up || start(why)) && find_place(place, why);
}

static bool
mpi_tell_all(void *bytes, size_t count, struct transport_why *why)
{
    int error = MPI_Bcast(bytes, (int)count, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (error != MPI_SUCCESS)
        mpi_why(why, error, "telling all where to meet");
    return error == MPI_SUCCESS;
}

/* ---- open, close ---- */

static void *
mpi_open(const struct transport_options *options, struct transport_why *why)
{
    int is_up = 0, is_over = 0, rank = -1, size = 0;
    MPI_Initialized(&is_up);
    MPI_Finalized(&is_over);
    if (!is_up || is_over) {
        snprintf(why->text, sizeof why->text,
                 "no MPI launcher started this process; use Open MPI's mpirun (Debian: mpirun.openmpi)");
        return NULL;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank != options->rank || size != options->size) {
        snprintf(why->text, sizeof why->text, "this process is rank %d of %d, and for MPI rank %d of %d", options->rank,
                 options->size, rank, size);
        return NULL;
    }
    struct mpi *mpi = calloc(1, sizeof *mpi);
    if (mpi == NULL) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return NULL;
    }
    mpi->rank  = rank;
    mpi->size  = size;
    mpi->cores = sysconf(_SC_NPROCESSORS_ONLN);
    return mpi;
}

static void *
finalize_run(void *data)
{
    struct mpi *mpi = data;
    MPI_Finalize();
    atomic_store(&mpi->over, true);
    return NULL;
}

/* Whoever is still inside MPI then uses `mpi`: it is left to the end of the process. */
static void
finalize_hurriedly(struct mpi *mpi)
{
    const struct timespec moment = { .tv_nsec = 1000000 };
    pthread_t             thread;
    if (pthread_create(&thread, NULL, finalize_run, mpi) != 0)
        return;
    pthread_detach(thread);
    for (int ms = 0; ms < LAST_MS && !atomic_load(&mpi->over); ms++)
        nanosleep(&moment, NULL);
}

/* Where somebody was left behind inside MPI, nothing is ended. */
static void
mpi_close(void *transport)
{
    struct mpi *mpi = transport;
    if (atomic_load(&mpi->left_behind))
        return;
    if (atomic_load(&mpi->broken)) {
        finalize_hurriedly(mpi);
        return;
    }
    MPI_Finalize();
    free(mpi);
}

/* ---- the table ---- */

static bool
mpi_has(enum transport_operation operation, enum transport_dtype dtype, enum transport_reduce op)
{
    (void)dtype;       /* the engine's own function reduces, whatever it is */
    return operation < TRANSPORT_OPERATIONS && op != TRANSPORT_AVG;
}

static bool
mpi_run(void *data, const struct transport_call *call, struct transport_why *why)
{
    struct channel *channel = data;
    why->text[0] = '\0';
    if (atomic_load(&channel->dead)) {
        snprintf(why->text, sizeof why->text, "an earlier call of the group failed or was given up");
        return false;
    }
    bool reduces = call->operation == TRANSPORT_ALL_REDUCE || call->operation == TRANSPORT_REDUCE ||
                   call->operation == TRANSPORT_REDUCE_SCATTER;
    if (channel->shared != NULL)
        shared_call(channel->shared, call);
    bool fine = reduces ? reduce_run(channel, call, why) : spread_run(channel, call, why);
    if (!fine)
        atomic_store(&channel->dead, true);
    if (!fine && channel->shared != NULL && shared_differs(channel->shared) >= 0)
        snprintf(why->text, sizeof why->text, "rank %d of the group calls something else, or of another size",
                 shared_differs(channel->shared));
    return fine;
}

/* Numbers of one digit, in this library's case. */
static const char version[] = {
    'O', 'p', 'e', 'n', ' ', 'M', 'P', 'I', ' ', '0' + OMPI_MAJOR_VERSION, '.', '0' + OMPI_MINOR_VERSION, '\0'
};

extern const struct transport ringside_transport_1;
__attribute__((visibility("default"))) const struct transport ringside_transport_1 = {
    .abi = TRANSPORT_ABI,
    .name = "mpi",
    .version = version,
    .place = mpi_place,
    .tell_all = mpi_tell_all,
    .open = mpi_open,
    .close = mpi_close,
    .connect = channel_connect,
    .disconnect = channel_disconnect,
    .has = mpi_has,
    .run = mpi_run,
    .send = message_send,
    .recv = message_recv,
    .test = message_test,
    .cancel = message_drop,
};
