# cuda.so, and for the tests fake_cuda.so: the same host code with the same kernels, compiled for CPUs, on a runtime of
# the tests' own (tests/cuda/fake/fake.h). The first needs nvcc, the second CUDA's headers alone. Part of the Makefile.
#
#   make SM="80 90"     code for GPUs of these architectures; SM=all: all that nvcc knows. Left out: for the GPUs that this
#                       machine has. Others take what stands beside it, for the oldest: the driver compiles it as it loads
#   make NVCC=          no cuda.so
#   make cuda-all       each kernel for each architecture, in build/cuda-all, as SM=all does
#   make CUDA_HOME=/opt/cuda CUDA_HOST_CXX=g++-13
NVCC      ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard $(CUDA_HOME)/bin/nvcc /usr/local/cuda/bin/nvcc))
CUDA_HOME ?= $(or $(patsubst %/bin/nvcc,%,$(realpath $(firstword $(NVCC)))),$(firstword $(wildcard /usr/local/cuda /opt/cuda)))
SM        ?= $(sort $(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | grep '^[0-9.]*$$')))

# -isystem of the compiler's own folder would hide C++'s headers.
CUDA_FOLDERS := $(filter-out /usr/include,$(wildcard $(addprefix $(CUDA_HOME)/,include extras/CUPTI/include) \
                $(addsuffix /include,$(NCCL_HOME))))
CUDA_INC     := $(addprefix -isystem ,$(CUDA_FOLDERS))
CUDA_LIB     := $(addprefix -L,$(wildcard $(addprefix $(CUDA_HOME)/,lib64 targets/x86_64-linux/lib targets/sbsa-linux/lib lib)))
HAS_CUDA     := $(shell printf '\043include <cuda_runtime_api.h>\n' | $(CC) $(CUDA_INC) -E -x c - >/dev/null 2>&1 && echo yes)

CUDA_C  := $(sort $(wildcard src/plugins/cuda/*.c))
CUDA_CU := $(sort $(wildcard src/plugins/cuda/kernels/*.cu))
CUDA_O  := $(call obj,$(CUDA_C))
# Of the engine: what knows nothing of it but views.
CUDA_ALSO := $(call obj,src/tensor/cpu/view.c)
GPU_O   := $(CUDA_CU:%=$(OUT)/obj/%.o)
CPU_O   := $(CUDA_CU:%=$(OUT)/obj/%.cpu.o)

# What the tests have in the place of the plug-in's own files, which open NVIDIA's libraries.
FAKE_C    := $(sort $(wildcard tests/cuda/fake/*.c))
EMULATE_O := $(call obj,tests/cuda/fake/reference.c) $(OUT)/obj/tests/cuda/fake/emulate.o
RUNTIME_O := $(call obj,$(filter tests/cuda/fake/runtime%,$(FAKE_C))) $(EMULATE_O)
FAKE_O    := $(call obj,$(FAKE_C)) $(OUT)/obj/tests/cuda/fake/emulate.o
FAKED_O   := $(filter-out %/nccl_load.o %/cublas.o,$(CUDA_O)) $(FAKE_O) $(CPU_O)

BUILT_FOR      = $(if $(NVCC),-DCUDA_BUILT_FOR='"$(if $(SM_LIST),$(SM_LIST:%=sm_%) and )PTX of compute_$(firstword $(ALL_SM))"')
COMPILE_CUDA   = $(CC) $(filter-out -fPIE,$(BASE)) $(FIT_SO) $(WARN) $(OPT) $(CFLAGS) $(CPPFLAGS) $(CUDA_INC) $(BUILT_FOR)
COMPILE_KERNEL = $(CXX) -std=c++17 $(filter-out -std=% -fPIE,$(BASE)) $(FIT_SO) $(WARN_CXX) $(OPT) $(CFLAGS) $(CPPFLAGS)
WARN_NVCC     := -Werror all-warnings -Werror default-stream-launch,missing-launch-bounds
for_gpu        = -gencode arch=compute_$(1),code=sm_$(1)
for_driver     = -gencode arch=compute_$(1),code=compute_$(1)
COMPILE_NVCC   = $(NVCC) $(addprefix -ccbin ,$(CUDA_HOST_CXX)) -std=c++17 -O3 --fmad=false -lineinfo $(WARN_NVCC) \
                 --compress-mode=size $(foreach s,$(SM_LIST),$(call for_gpu,$(s))) \
                 $(call for_driver,$(firstword $(ALL_SM))) $(CPPFLAGS) -Xcompiler -fPIC,-fvisibility=hidden
LINK_CUDA      = $(OPT) $(CFLAGS) -shared $(filter-out -pie,$(LINK)) -Wl,--version-script=src/plugins/cuda/symbols.map \
                 -Wl,-z,defs -Wl,--exclude-libs,ALL $(LDFLAGS)
ifneq ($(NVCC),)
ALL_SM  := $(filter 70 75 80 86 89 90 100 120,$(patsubst sm_%,%,$(shell $(NVCC) --list-gpu-code)))
SM_LIST := $(if $(filter all,$(SM)),$(ALL_SM),$(SM))
endif

# Sanitizers look at host code, which the fake has all of.
ifneq ($(HAS_CUDA),)
ifneq ($(filter release debug,$(BUILD)),)
ifneq ($(NVCC),)
PLUGINS += $(OUT)/cuda.so
endif
endif
ifneq ($(BUILD),fuzz)
CUDA_PLAYERS := $(addprefix $(OUT)/,fake_cuda.so play_kernels play_plugin play_cublas play_runtime play_nccl play_timeline)
endif
endif
ifeq ($(and $(NVCC),$(HAS_CUDA)),)
all: without_cuda
endif
.PHONY: without_cuda cuda-all
without_cuda: $(OUT)/ringside $(OUT)/trace_viewer
	@echo 'built without CUDA: install the toolkit (nvcc and cuda_runtime_api.h), run make'
ifneq ($(SM),all)
cuda-all:
	$(MAKE) OUT=build/cuda-all SM=all cuda-all
else
cuda-all: $(GPU_O)
endif

# nvcc's own code asks for C++'s guards and personality. Never -lcuda: it would not load where there is no driver.
$(OUT)/cuda.so: $(CUDA_O) $(CUDA_ALSO) $(GPU_O) src/plugins/cuda/symbols.map
	$(CC) $(LINK_CUDA) -o $@ $(CUDA_O) $(CUDA_ALSO) $(GPU_O) $(CUDA_LIB) -lcudart_static -lstdc++ -ldl -lrt -lpthread -lm
$(OUT)/fake_cuda.so: $(FAKED_O) $(OUT)/libringside.a src/plugins/cuda/symbols.map
	$(CXX) $(LINK_CUDA) -o $@ $(FAKED_O) $(OUT)/libringside.a $(PKG_LIBS)

# What scripts/gpu-check compares with. Lua's functions are the program's that loads it.
BARE_O := $(OUT)/obj/tests/cuda/gpu/bare.cu.o
ifneq ($(filter %/cuda.so,$(PLUGINS)),)
all: $(OUT)/bare.so
endif
$(BARE_O): private CPPFLAGS += $(PKG_CFLAGS)
$(OUT)/bare.so: $(BARE_O)
	$(CC) $(OPT) $(CFLAGS) -shared $(filter-out -pie,$(LINK)) $(LDFLAGS) -Wl,--exclude-libs,ALL -o $@ $< $(CUDA_LIB) -lcudart_static -lstdc++ -ldl -lrt -lpthread

# Each of the players takes what it plays.
PLAYER_LINK = $(CXX) $(OPT) $(CFLAGS) $(LINK) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(PKG_LIBS)
FAULTY_O        := $(OUT)/obj/tests/cuda/play_kernels_faulty.o
KERNEL_FAMILIES := kernels elementwise reduce rows pick products draw
play        = $(call obj,$(addprefix tests/cuda/play_,$(addsuffix .c,$(1))))
$(OUT)/play_kernels: $(call obj,$(wildcard $(KERNEL_FAMILIES:%=tests/cuda/play_%*.c))) $(FAULTY_O) $(EMULATE_O) \
                     $(CPU_O) $(filter %/table.o $(OUT)/obj/src/plugins/cuda/limits%,$(CUDA_O)) $(OUT)/libringside.a
	$(PLAYER_LINK)
$(OUT)/play_plugin: $(call play,plugin parts faults process) $(OUT)/libringside.a
	$(PLAYER_LINK)
$(OUT)/play_cublas: $(call play,cublas) $(OUT)/libringside.a
	$(PLAYER_LINK)
$(OUT)/play_runtime: $(call play,runtime process) $(RUNTIME_O) $(OUT)/libringside.a
	$(PLAYER_LINK)
$(OUT)/play_nccl: $(call obj,$(wildcard tests/cuda/play_nccl*.c)) $(FAKED_O) $(OUT)/libringside.a
	$(PLAYER_LINK)
TIMELINE_C := $(addprefix src/plugins/cuda/,timeline.c cupti.c pairs.c ranges.c trouble.c journal.c)
$(OUT)/play_timeline: $(call obj,$(wildcard tests/cuda/play_timeline*.c) tests/cuda/fake_cupti.c $(TIMELINE_C)) \
                      $(RUNTIME_O) $(call obj,src/plugins/cuda/table.c) $(CPU_O) $(OUT)/libringside.a
	$(PLAYER_LINK)

$(OUT)/obj/src/plugins/cuda/%.o: src/plugins/cuda/%.c $(OUT)/cuda_flags
	@mkdir -p $(@D)
	$(COMPILE_CUDA) -MMD -MP -c -o $@ $<
$(OUT)/obj/tests/cuda/%.o: tests/cuda/%.c $(OUT)/cuda_flags
	@mkdir -p $(@D)
	$(COMPILE_CUDA) -Itests/cuda -Wno-unused-parameter -MMD -MP -c -o $@ $<
$(OUT)/obj/tests/cuda/%.o: tests/cuda/%.cc $(OUT)/cuda_flags
	@mkdir -p $(@D)
	$(COMPILE_KERNEL) -Itests/cuda -MMD -MP -c -o $@ $<
$(OUT)/obj/%.cu.cpu.o: %.cu $(OUT)/cuda_flags
	@mkdir -p $(@D)
	$(COMPILE_KERNEL) -MMD -MP -c -o $@ -x c++ $<
$(OUT)/obj/%.cu.o: %.cu $(OUT)/nvcc_flags
	@mkdir -p $(@D)
	$(COMPILE_NVCC) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
$(OUT)/cuda_flags: FORCE
	@mkdir -p $(@D); echo "$(COMPILE_CUDA) $(COMPILE_KERNEL)" > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(OUT)/nvcc_flags: FORCE
	@mkdir -p $(@D); echo "$(if $(NVCC),$(COMPILE_NVCC))" > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

ALL_O += $(BARE_O) $(CUDA_O) $(GPU_O) $(CPU_O) $(FAKE_O) $(call obj,$(wildcard tests/cuda/*.c)) $(FAULTY_O)
