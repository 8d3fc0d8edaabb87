// What a GPU does without the engine, for scripts/gpu-check: bare launches, copies and kernels to compare figures
// with, the GPU's clock, and a kernel that breaks. A library that a script of --trust loads:
//     local bare = package.loadlib("bare.so", "luaopen_bare")()
//
// gpus(): how many; info(): lines of text about the first. launch(n): us of each of n launches of an empty kernel, one
// after the other, with one wait behind them. copy(bytes): GB/s from pinned memory to the GPU. stream(bytes): GB/s of
// y = 2 x, both read and written bytes counted. clock(n): n readings {host ns before, the GPU's globaltimer, host ns
// after}; ticks(): ns between two values of globaltimer that differ. break_gpu(): a kernel reads what is not there.
// Each raises what CUDA says.
#include <cuda_runtime.h>
#include <ctime>
extern "C" {
#include <lauxlib.h>
#include <lua.h>
}

namespace {

constexpr int THREADS = 256;

__global__ void __launch_bounds__(THREADS) empty_kernel() {}

__global__ void __launch_bounds__(THREADS) twice_kernel(float4 *to, const float4 *from, size_t count)
{
    size_t i = blockIdx.x * size_t(THREADS) + threadIdx.x;
    if (i < count) {
        float4 x = from[i];
        to[i] = make_float4(2 * x.x, 2 * x.y, 2 * x.z, 2 * x.w);
    }
}

__device__ unsigned long long global_timer()
{
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

__global__ void __launch_bounds__(1) clock_kernel(unsigned long long *out)
{
    *out = global_timer();
}

// The smallest of a hundred steps.
__global__ void __launch_bounds__(1) ticks_kernel(unsigned long long *out)
{
    unsigned long long least = ~0ull, last = global_timer();
    for (int i = 0; i < 100;) {
        unsigned long long now = global_timer();
        if (now == last)
            continue;
        if (now - last < least)
            least = now - last;
        last = now;
        i++;
    }
    *out = least;
}

__global__ void __launch_bounds__(1) wild_kernel(int *somewhere)
{
    *somewhere = 1;
}

void done(lua_State *L, cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        luaL_error(L, "%s: %s", what, cudaGetErrorString(error));
}

double host_ns()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * double(now.tv_sec) + double(now.tv_nsec);
}

// One for the process: it ends soon.
cudaStream_t own_stream(lua_State *L)
{
    static cudaStream_t stream = nullptr;
    if (stream == nullptr)
        done(L, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    return stream;
}

void *memory(lua_State *L, size_t bytes)
{
    void *at = nullptr;
    done(L, cudaMalloc(&at, bytes), "memory of the GPU");
    return at;
}

int gpus(lua_State *L)
{
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess)
        count = 0;
    lua_pushinteger(L, count);
    return 1;
}

int attribute(cudaDeviceAttr name)
{
    int value = 0;
    cudaDeviceGetAttribute(&value, name, 0);
    return value;
}

int info(lua_State *L)
{
    cudaDeviceProp properties;
    done(L, cudaGetDeviceProperties(&properties, 0), "asking the GPU");
    lua_pushfstring(L, "%s, sm_%d%d, %d multiprocessors, %d MiB, L2 %d KiB, clock %d MHz, memory clock %d MHz, %d bits",
                    properties.name, properties.major, properties.minor, properties.multiProcessorCount,
                    int(properties.totalGlobalMem >> 20), attribute(cudaDevAttrL2CacheSize) >> 10,
                    attribute(cudaDevAttrClockRate) / 1000, attribute(cudaDevAttrMemoryClockRate) / 1000,
                    attribute(cudaDevAttrGlobalMemoryBusWidth));
    return 1;
}

int launch(lua_State *L)
{
    int          count  = int(luaL_checkinteger(L, 1));
    cudaStream_t stream = own_stream(L);
    double       begin  = 0;
    for (int round = 0; round < 2; round++) {
        begin = host_ns();
        for (int i = 0; i < count; i++)
            empty_kernel<<<1, THREADS, 0, stream>>>();
        done(L, cudaGetLastError(), "launching");
        if (round == 1)
            lua_pushnumber(L, (host_ns() - begin) * 1e-3 / count);
        done(L, cudaStreamSynchronize(stream), "waiting");
    }
    return 1;
}

int copy(lua_State *L)
{
    size_t       bytes  = size_t(luaL_checkinteger(L, 1));
    cudaStream_t stream = own_stream(L);
    void        *to = memory(L, bytes), *from = nullptr;
    double       best = 0;
    done(L, cudaMallocHost(&from, bytes), "pinned memory");
    for (int i = 0; i < 20; i++) {
        double begin = host_ns();
        done(L, cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "copying");
        done(L, cudaStreamSynchronize(stream), "waiting");
        double rate = double(bytes) / (host_ns() - begin);
        best = rate > best ? rate : best;
    }
    cudaFree(to);
    cudaFreeHost(from);
    lua_pushnumber(L, best);
    return 1;
}

int stream_rate(lua_State *L)
{
    size_t       bytes  = size_t(luaL_checkinteger(L, 1)), count = bytes / sizeof(float4);
    cudaStream_t stream = own_stream(L);
    auto        *to = static_cast<float4 *>(memory(L, bytes)), *from = static_cast<float4 *>(memory(L, bytes));
    double       best = 0;
    for (int i = 0; i < 20; i++) {
        double begin = host_ns();
        for (int j = 0; j < 10; j++)
            twice_kernel<<<unsigned((count + THREADS - 1) / THREADS), THREADS, 0, stream>>>(to, from, count);
        done(L, cudaGetLastError(), "launching");
        done(L, cudaStreamSynchronize(stream), "waiting");
        double rate = 20 * double(bytes) / (host_ns() - begin);
        best = rate > best ? rate : best;
    }
    cudaFree(to);
    cudaFree(from);
    lua_pushnumber(L, best);
    return 1;
}

unsigned long long *shared_number(lua_State *L)
{
    static unsigned long long *number = nullptr;
    if (number == nullptr)
        done(L, cudaMallocHost(&number, sizeof *number), "pinned memory");
    return number;
}

int clock_readings(lua_State *L)
{
    int                 count  = int(luaL_checkinteger(L, 1));
    cudaStream_t        stream = own_stream(L);
    unsigned long long *number = shared_number(L);
    lua_createtable(L, count, 0);
    for (int i = -5; i < count; i++) {
        double before = host_ns();
        clock_kernel<<<1, 1, 0, stream>>>(number);
        done(L, cudaGetLastError(), "launching");
        done(L, cudaStreamSynchronize(stream), "waiting");
        double after = host_ns();
        if (i < 0)
            continue;
        lua_createtable(L, 3, 0);
        const double three[] = { before, double(*number), after };
        for (int j = 0; j < 3; j++) {
            lua_pushnumber(L, three[j]);
            lua_rawseti(L, -2, j + 1);
        }
        lua_rawseti(L, -2, i + 1);
    }
    return 1;
}

int ticks(lua_State *L)
{
    cudaStream_t        stream = own_stream(L);
    unsigned long long *number = shared_number(L);
    ticks_kernel<<<1, 1, 0, stream>>>(number);
    done(L, cudaGetLastError(), "launching");
    done(L, cudaStreamSynchronize(stream), "waiting");
    lua_pushinteger(L, lua_Integer(*number));
    return 1;
}

// Says nothing of what becomes of it: that is for who calls CUDA next.
int break_gpu(lua_State *L)
{
    cudaStream_t stream = own_stream(L);
    wild_kernel<<<1, 1, 0, stream>>>(reinterpret_cast<int *>(16));
    (void)cudaStreamSynchronize(stream);
    return 0;
}

}

extern "C" __attribute__((visibility("default"))) int luaopen_bare(lua_State *L)
{
    static const luaL_Reg functions[] = {
        { "gpus", gpus }, { "info", info }, { "launch", launch }, { "copy", copy }, { "stream", stream_rate },
        { "clock", clock_readings }, { "ticks", ticks }, { "break_gpu", break_gpu }, { nullptr, nullptr },
    };
    luaL_newlib(L, functions);
    return 1;
}
