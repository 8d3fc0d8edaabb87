/* play_timeline: stages as ranges, seen by a profiler of ours that hooks itself in as NVIDIA's do. */
#include <nvtx3/nvToolsExt.h>
#include "play_timeline.h"

static struct { int domains, strings, depth; char text[64]; uint64_t payload; bool is_registered; } seen;
static int some_domain, some_string;

static nvtxDomainHandle_t NVTX_API
seen_domain(const char *name)
{
    CHECK(strcmp(name, "ringside") == 0);
    seen.domains++;
    return (nvtxDomainHandle_t)(void *)&some_domain;
}

static nvtxStringHandle_t NVTX_API
seen_string(nvtxDomainHandle_t domain, const char *text)
{
    CHECK(domain == (nvtxDomainHandle_t)(void *)&some_domain);
    seen.strings++;
    snprintf(seen.text, sizeof seen.text, "%s", text);
    return (nvtxStringHandle_t)(void *)&some_string;
}

static int NVTX_API
seen_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *range)
{
    CHECK(domain == (nvtxDomainHandle_t)(void *)&some_domain && range->payloadType == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
    CHECK(range->version == NVTX_VERSION && range->size == NVTX_EVENT_ATTRIB_STRUCT_SIZE);
    seen.payload       = range->payload.ullValue;
    seen.is_registered = range->messageType == NVTX_MESSAGE_TYPE_REGISTERED;
    return seen.depth++;
}

static int NVTX_API
seen_pop(nvtxDomainHandle_t domain)
{
    CHECK(domain == (nvtxDomainHandle_t)(void *)&some_domain);
    return --seen.depth;
}

/* How a profiler hooks itself in: it overwrites entries of the table that NVTX shows it. */
static int NVTX_API
profiler_comes(NvtxGetExportTableFunc_t tables)
{
    NvtxFunctionTable functions = NULL;
    unsigned          count = 0;
    const NvtxExportTableCallbacks *hooks = tables(NVTX_ETID_CALLBACKS);
    if (getenv("PLAY_NVTX") == NULL || hooks == NULL ||
        hooks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &functions, &count) == 0)
        return 0;
    *functions[NVTX_CBID_CORE2_DomainCreateA]         = (NvtxFunctionPointer)seen_domain;
    *functions[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)seen_string;
    *functions[NVTX_CBID_CORE2_DomainRangePushEx]     = (NvtxFunctionPointer)seen_push;
    *functions[NVTX_CBID_CORE2_DomainRangePop]        = (NvtxFunctionPointer)seen_pop;
    return 1;
}
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = profiler_comes;

static void
ranges_seen(void)
{
    setenv("PLAY_NVTX", "1", 1);
    timeline_range_begin("op", 41);
    timeline_range_begin("backward", 42);
    CHECK(seen.domains == 1 && seen.depth == 2 && seen.payload == 42 && seen.is_registered);
    CHECK(strcmp(seen.text, "backward") == 0 && seen.strings == 2);
    timeline_range_end();
    char again[] = "op";                       /* the same text elsewhere */
    timeline_range_begin(again, 43);
    CHECK(seen.strings == 2 && seen.payload == 43 && seen.domains == 1);
    timeline_range_end();
    timeline_range_end();
    CHECK(seen.depth == 0);
}

static void
ranges_of_too_many_names(void)
{
    setenv("PLAY_NVTX", "1", 1);
    char name[32];
    bool all = true;
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "name %d", i);
        timeline_range_begin(name, (uint64_t)i);
        all = all && seen.is_registered;
        CHECK(seen.payload == (uint64_t)i);
        timeline_range_end();
    }
    CHECK(!all && seen.strings > 500 && seen.strings <= 1024);
}

static void
ranges_unseen(void)
{
    timeline_range_begin("op", 1);
    timeline_range_end();
    timeline_range_end();
    CHECK(seen.domains == 0 && seen.strings == 0 && seen.depth == 0);
}

const struct play_test play_ranges[] = {
    { ranges_seen, "a profiler sees stages as ranges with the numbers of their events", NULL },
    { ranges_of_too_many_names, "names that find no room are told in full", NULL },
    { ranges_unseen, "without a profiler a range is nothing", NULL },
    { NULL, NULL, NULL },
};
