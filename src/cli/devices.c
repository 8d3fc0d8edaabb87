/* ringside devices: what this machine offers to a lesson, and what would be needed for the rest.
 *
 * Interface: cli_devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "c10d/nccl.h"
#include "c10d/plugin.h"
#include "cli/commands.h"
#include "cli/message.h"
#include "device/device.h"
#include "device/load.h"
#include "hw/presets.h"
#include "tensor/blas.h"

enum { COLUMNS = 80 };

/* A text behind its label; what does not fit stands below its beginning, broken between words. */
static void
print_told(const char *label, const char *text)
{
    char   line[COLUMNS + 1], blank[COLUMNS];
    size_t room = COLUMNS - strlen(label);
    snprintf(blank, sizeof blank, "%*s", (int)strlen(label), "");
    while (strlen(text) > room) {
        size_t length = room;
        while (length > 0 && text[length] != ' ')
            length--;
        if (length == 0)
            break;                      /* a word longer than a line */
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        answer_line(label, line);
        label = blank;
        text += length + 1;
    }
    answer_line(label, text);
}

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

/* One process a rank. */
static void
print_transports(void)
{
    puts("\nback-ends between ranks (--backend):");
    for (size_t i = 0; i < plugin_count(); i++) {
        struct transport_why    why;
        char                    label[16];
        const struct transport *transport = plugin_open(plugin_name(i), &why);
        snprintf(label, sizeof label, "  %-6s ", plugin_name(i));
        answer_line(label, transport != NULL ? transport->version : why.text);
    }
}

/* Ranks are threads or processes, each with a GPU of its own. */
static void
print_nccl(void)
{
    char                     line[512];
    struct backend_why       why   = { 0 };
    const struct nccl_table *table = nccl_table_open(&why);
    const char              *text  = table != NULL ? table->version(&why) : NULL;
    int                      gpus  = text != NULL ? table->gpus() : 0;
    if (text == NULL)
        snprintf(line, sizeof line, "%s", why.text);
    else if (gpus == 0)
        snprintf(line, sizeof line, "%s; no GPU here: --device cuda --backend nccl has one for each rank", text);
    else
        snprintf(line, sizeof line, "%s; with --device cuda up to %d rank%s here, one for each GPU", text, gpus,
                 gpus == 1 ? "" : "s");
    print_told("  nccl   ", line);
}

static void
print_gpu(int number, const struct probed_device *device)
{
    char line[400], label[24];
    snprintf(label, sizeof label, "  gpu %-2d ", number);
    snprintf(line, sizeof line, "%s: %.1f GiB, %d SMs, compute capability %d.%d%s%s", device->name,
             (double)device->memory / (1024.0 * 1024 * 1024), device->processors, device->major, device->minor,
             device->note[0] != '\0' ? "; " : "", device->note);
    print_told(label, line);
}

/* GPUs and what the plug-in has for them, or the sentence why there is none. */
static void
print_gpus(void)
{
    struct backend_why           why;
    struct backend_probe         probe;
    const struct device_backend *backend = device_backend_open("cuda", &why);
    puts("\nGPUs (--device cuda; several devices share one where there are fewer):");
    if (getenv("RINGSIDE_FAKE_CUDA") != NULL)
        print_told("  fake   ", "RINGSIDE_FAKE_CUDA is set: what follows is no GPU but the tests' stand-in for one, "
                                "in the host's memory");
    if (backend == NULL) {
        print_told("  cuda   ", why.text);
        return;
    }
    backend->probe(&probe);
    print_told("  cuda   ", probe.version);
    if (probe.count == 0)
        print_told("         ", probe.why);
    for (int i = 0; i < probe.count; i++)
        print_gpu(i, &probe.device[i]);
    for (int i = 0; i < probe.part_count; i++)
        print_told("         ", probe.parts[i]);
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
    print_gpus();
    print_hardware();
    print_transports();
    print_nccl();
    return STATUS_DONE;
}
