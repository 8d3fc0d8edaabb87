/* ringside devices: what this machine offers to a lesson, and what would be needed for the rest.
 *
 * Interface: cli_devices. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/vec.h"
#include "c10d/nccl.h"
#include "c10d/plugin.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "device/device.h"
#include "hw/presets.h"
#include "tensor/blas.h"

/* What back-ends without a plug-in yet stand on: a library that is there or not, and the package that brings it. A
 * library alone is no back-end. */
struct missing { const char *name, *soname, *library, *package; };
static const struct missing missing_table[] = {
    { "cuda", "libcuda.so.1", "the NVIDIA driver", "with the card's driver; the toolkit is nvidia-cuda-toolkit" },
};

static void
print_processor(void)
{
    char  line[256], model[200] = "unknown processor";
    FILE *info = fopen("/proc/cpuinfo", "r");
    while (info != NULL && fgets(line, sizeof line, info) != NULL) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || colon == NULL)
            continue;
        snprintf(model, sizeof model, "%.180s", colon + 2);
        model[strcspn(model, "\n")] = '\0';
        break;
    }
    if (info != NULL)
        fclose(info);
    double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    snprintf(line, sizeof line, "%s, %ld cores, %.1f GiB", model, sysconf(_SC_NPROCESSORS_ONLN),
             bytes / (1024.0 * 1024 * 1024));
    answer_line("host      ", line);
}

static void
print_hardware(void)
{
    puts("\nhardware that times can be made for (--hardware), per host op, kernel, hop:");
    for (size_t i = 0; i < preset_count(); i++) {
        const struct preset *p = preset_at(i);
        printf("  %-15s %4g us %5g us %5g us + bytes / %5g GB/s   %s\n", p->name, p->host_us, p->kernel_us,
               p->latency_us, p->bytes_per_us / 1000, p->about);
    }
}

/* One process a rank: --backend. */
static void
print_transports(void)
{
    puts("\nback-ends between processes (--backend):");
    for (size_t i = 0; i < plugin_count(); i++) {
        struct transport_why    why;
        char                    label[16];
        const struct transport *transport = plugin_open(plugin_name(i), &why);
        snprintf(label, sizeof label, "  %-6s ", plugin_name(i));
        answer_line(label, transport != NULL ? transport->version : why.text);
    }
}

/* Ranks are threads or processes. */
static void
print_nccl(void)
{
    char                     line[512];
    struct backend_why       why;
    const struct nccl_table *table = nccl_table_open(&why);
    int                      gpus  = table != NULL ? table->gpus() : 0;
    puts("\nback-end between GPUs (--device cuda --backend nccl):");
    if (table != NULL)
        snprintf(line, sizeof line, "%s, for up to %d rank%s on this machine: one GPU per rank", table->version(&why),
                 gpus,
                 gpus == 1 ? "" : "s");
    answer_line("  nccl   ", table == NULL ? why.text : line);
}

static void
print_missing(void)
{
    puts("\nnot built into this ringside:");
    for (size_t i = 0; i < countof(missing_table); i++) {
        void *library = dlopen(missing_table[i].soname, RTLD_LAZY | RTLD_LOCAL);
        const struct missing *m = &missing_table[i];
        if (library != NULL)
            printf("  %-6s %s is here; missing: this ringside's own %s back-end\n", m->name, m->library, m->name);
        else
            printf("  %-6s missing: %s (%s) and this ringside's own %s back-end\n", m->name, m->library, m->package,
                   m->name);
        if (library != NULL)
            dlclose(library);
    }
}

static void
print_products(void)
{
    char        fast[128];
    struct blas blas;
    bool        any = blas_open(&blas);
    blas_describe(&blas, fast, sizeof fast);
    puts("products  exact: a fixed order of sums, the same bits on every CPU (stepped, and free with --exact)");
    if (any)
        printf("          %s: free, one thread a rank, chosen by shape\n", fast);
    if (!any || blas.onednn[0] == '\0' || blas.openblas[0] == '\0')
        puts("          faster with OpenBLAS (libopenblas0-pthread) and oneDNN (libdnnl3): scripts/setup brings them");
    if (blas.warning[0] != '\0')
        answer_line("warning   ", blas.warning);
}

int
cli_devices(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        puts("ringside devices    what this machine offers, and what is missing for the rest");
        return STATUS_DONE;
    }
    if (argc > 1)
        return message(STATUS_USAGE, "devices takes no '%s'", argv[1]);
    print_processor();
    printf("device:N  virtual, 0 to %d: host memory with streams and events of their own\n", DEVICE_MAX);
    puts("dtypes    float32, float64, float16, bfloat16, int64, int32, int8, uint8, bool");
    print_products();
    puts("ranks     local: tasks of one process, up to 1024");
    print_hardware();
    print_transports();
    print_nccl();
    print_missing();
    return STATUS_DONE;
}
