# make                the release build: build/ringside and build/trace_viewer
# make test           every test, through prove
# make BUILD=asan     also: debug, tsan; each has a folder of its own, nothing is ever mixed
# make CC=clang OUT=build/clang
# make fuzz           the fuzzers, in build/fuzz: clang, libFuzzer, address and undefined
# make install        below PREFIX (/usr/local), DESTDIR before it
# make clean          removes build/
BUILD ?= release
OUT   := build/$(BUILD)
ifeq ($(origin CC),default)
CC    := gcc
endif
ifeq ($(origin CXX),default)
CXX   := $(if $(findstring clang,$(CC)),clang++,g++)
endif
PREFIX  ?= /usr/local
SYSTEM  := $(shell uname -s)

# snprintf cuts on purpose, and gcc sees that or not by the level of optimisation: no warning. What the code relies on: no fused multiply-add but where it is written,
# probes for the fibers' guard pages. Comparisons that may trap and roots that set errno keep loops from becoming vectors.
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wundef -Wpointer-arith \
        -Wwrite-strings -Wno-unknown-warning-option -Wno-format-truncation -Werror
BASE := -std=gnu11 -ffp-contract=off -fno-trapping-math -fno-math-errno -fno-omit-frame-pointer -fPIE \
        -fstack-protector-strong '-ffile-prefix-map=$(CURDIR)/='
HARD := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
LINK := -pie
ifeq ($(SYSTEM),Linux)
BASE += -fstack-clash-protection
LINK += -Wl,-z,relro,-z,now -Wl,--as-needed
endif
# gcc clears and copies structs by `rep` instructions, which take longer to begin than the library's vectors need in all.
NOREP := -mmemset-strategy=libcall:-1:noalign -mmemcpy-strategy=libcall:-1:noalign
BASE  += $(shell $(CC) -Werror $(NOREP) -c -x c /dev/null -o /dev/null 2>/dev/null && echo '$(NOREP)')
OPT.release := -O2 $(HARD)
OPT.debug   := -O0
OPT.asan    := -O1 -fPIC -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow -U_FORTIFY_SOURCE
OPT.tsan    := -O1 -fsanitize=thread -U_FORTIFY_SOURCE
OPT.fuzz    := -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -U_FORTIFY_SOURCE
OPT := $(or $(OPT.$(BUILD)),$(error BUILD=$(BUILD)? One of: release debug asan tsan fuzz))

# Lua's package has another name on each system.
LUA  := $(or $(shell for p in lua5.4 lua-5.4 lua54 lua; do pkg-config --exists $$p && echo $$p && break; done),lua5.4)
PKGS := $(LUA) ncursesw jansson zlib
# What sanitizers and fuzzers find is told by line; nobody steps through their builds, and the rest takes long to write.
INFO.asan := -g1
INFO.tsan := -g1
INFO.fuzz := -g1
CFLAGS   ?= $(or $(INFO.$(BUILD)),-g)
CPPFLAGS += -Isrc -D_GNU_SOURCE
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS))
PKG_LIBS   := $(shell pkg-config --libs $(PKGS)) -lpthread -lm -ldl
COMPILE   = $(CC) $(BASE) $(WARN) $(OPT) $(CFLAGS) $(CPPFLAGS) $(PKG_CFLAGS)

# The reading tower is a library of its own, so the viewer cannot link the engine even by mistake.
READING := base trace hw control analysis convert
CLI_C   := $(sort $(wildcard src/cli/*.c))
LIB_C   := $(sort $(filter-out $(CLI_C) src/plugins/%,$(wildcard src/*/*.c src/*/*/*.c)))
LIB_S   := $(sort $(wildcard src/*/*.S))
READ_C  := $(filter $(READING:%=src/%/%),$(LIB_C))
VIEW_C  := $(sort $(wildcard trace_viewer/*.c))
TEST_C  := $(sort $(wildcard tests/unit/test_*.c))
TESTS   := $(TEST_C:tests/unit/%.c=$(OUT)/%.t)
PLAY_C  := $(sort $(wildcard tests/transport/*.c))
FUZZ_C  := $(sort $(wildcard tests/fuzz/*.c))
FUZZERS := $(patsubst tests/fuzz/fuzz_%.c,$(OUT)/fuzz_%,$(filter tests/fuzz/fuzz_%,$(FUZZ_C)))
TEXT    := $(if $(wildcard src/stages.def),$(OUT)/gen/stage_text.c)
obj      = $(patsubst %.S,$(OUT)/obj/%.S.o,$(patsubst %.c,$(OUT)/obj/%.o,$(1)))
LIB_O   := $(call obj,$(LIB_C) $(LIB_S)) $(TEXT:.c=.o)
READ_O  := $(call obj,$(READ_C))
ALL_O    = $(LIB_O) $(call obj,$(CLI_C) $(VIEW_C) $(TEST_C) $(FUZZ_C) $(PLAY_C) $(MPI_C)) $(GLOO_O)

.PHONY: all test tests fuzz fuzzers install clean help FORCE
.DELETE_ON_ERROR:
.SECONDARY:
all: $(OUT)/ringside $(OUT)/trace_viewer
ifeq ($(OUT),build/release)
all: build/ringside build/trace_viewer
endif
build/ringside build/trace_viewer: build/%: build/release/%
	@ln -sfn release/$* $@

# "q" and a fresh file: two folders may have a file of the same name, and "r" would keep only one of them.
$(OUT)/libringside.a: $(LIB_O) $(OUT)/sources
	@rm -f $@
	$(AR) qcs $@ $(filter %.o,$^)
$(OUT)/libreading.a: $(READ_O) $(OUT)/sources
	@rm -f $@
	$(AR) qcs $@ $(filter %.o,$^)
$(OUT)/ringside: $(call obj,$(CLI_C)) $(OUT)/libringside.a
	$(CC) $(OPT) $(CFLAGS) $(LINK) $(LDFLAGS) -rdynamic -o $@ $^ $(PKG_LIBS) $(LDLIBS)
$(OUT)/trace_viewer: $(call obj,$(VIEW_C)) $(OUT)/libreading.a
	$(CC) $(OPT) $(CFLAGS) $(LINK) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) $(LDLIBS)

# Loaded before the program by `ringside bench`, to count allocations.
ifeq ($(SYSTEM),Linux)
all: $(OUT)/allocations.so
endif
$(OUT)/allocations.so: src/plugins/allocations.c $(OUT)/flags
	$(CC) -std=gnu11 $(WARN) -O2 $(CFLAGS) -shared -fPIC -o $@ $<

# Plug-ins between processes, each built where its toolkit is: Gloo's headers and a C++ compiler; Open MPI's mpicc, MPICH's
# has another ABI. They export one symbol. Gloo's headers ask for one that its packages forget: it is looked for last.
ifneq ($(BUILD),fuzz)
HASH    := \#
GLOO_C  := $(if $(shell printf '$(HASH)if __has_include(<gloo/transport/tcp/device.h>)\nyes\n$(HASH)endif\n' | \
             $(CXX) -E -P -x c++ - 2>/dev/null | grep yes),$(sort $(wildcard src/plugins/gloo/*.cc)))
MPICC   := $(shell for m in mpicc.openmpi mpicc; do $$m --showme:version 2>/dev/null | grep -q 'Open MPI' && echo $$m && break; done)
MPI_C   := $(if $(MPICC),$(sort $(wildcard src/plugins/mpi/*.c)))
endif
WARN_CXX := -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wvla -Wundef -Wpointer-arith -Wwrite-strings -Wno-unknown-warning-option -Werror
FIT_SO   := -fPIC -fvisibility=hidden
COMPILE_CXX = $(CXX) -std=c++17 $(filter-out -std=% -fPIE,$(BASE)) $(FIT_SO) $(WARN_CXX) $(OPT) $(CFLAGS) $(CPPFLAGS) \
              -idirafter src/plugins/gloo/compat
COMPILE_MPI = $(CC) $(filter-out -fPIE,$(BASE)) $(FIT_SO) $(WARN) $(OPT) $(CFLAGS) $(CPPFLAGS) \
              $(patsubst -I%,-isystem %,$(shell $(MPICC) --showme:compile))
LINK_SO     = $(OPT) $(CFLAGS) -shared $(filter-out -pie,$(LINK)) -Wl,--version-script=src/plugins/one_symbol.map $(LDFLAGS)
GLOO_O     := $(GLOO_C:%.cc=$(OUT)/obj/%.o)
PLUGINS    := $(if $(GLOO_C),$(OUT)/gloo.so) $(if $(MPI_C),$(OUT)/mpi.so)
include src/plugins/cuda/build.mk
all: $(PLUGINS)
$(OUT)/gloo.so: $(GLOO_O) src/plugins/one_symbol.map
	$(CXX) $(LINK_SO) -o $@ $(GLOO_O) -lgloo -lpthread
$(OUT)/mpi.so: $(call obj,$(MPI_C)) src/plugins/one_symbol.map
	$(CC) $(LINK_SO) -o $@ $(call obj,$(MPI_C)) $(shell $(MPICC) --showme:link) -lpthread
$(OUT)/obj/src/plugins/gloo/%.o: src/plugins/gloo/%.cc $(OUT)/plugin_flags
	@mkdir -p $(@D)
	$(COMPILE_CXX) -MMD -MP -c -o $@ $<
$(OUT)/obj/src/plugins/mpi/%.o: src/plugins/mpi/%.c $(OUT)/plugin_flags
	@mkdir -p $(@D)
	$(COMPILE_MPI) -MMD -MP -c -o $@ $<
$(OUT)/plugin_flags: FORCE
	@mkdir -p $(@D); echo "$(COMPILE_CXX) $(if $(MPI_C),$(COMPILE_MPI))" > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Plays plug-ins between processes, without the engine.
$(OUT)/play: $(call obj,$(PLAY_C))
	$(CC) $(OPT) $(CFLAGS) $(LINK) $(LDFLAGS) -o $@ $^ -lpthread -lm -ldl

# The viewer's own tests, tests/unit/test_view*.c, bring its objects, all but the one with main.
$(OUT)/%.t: $(OUT)/obj/tests/unit/%.o $(OUT)/libringside.a
	$(CC) $(OPT) $(CFLAGS) $(LINK) $(LDFLAGS) -o $@ $^ -lcmocka $(PKG_LIBS) $(LDLIBS)
$(OUT)/test_view%.t: $(OUT)/obj/tests/unit/test_view%.o $(call obj,$(filter-out %/main.c,$(VIEW_C))) \
                     $(OUT)/libringside.a
	$(CC) $(OPT) $(CFLAGS) $(LINK) $(LDFLAGS) -o $@ $^ -lcmocka $(PKG_LIBS) $(LDLIBS)

# libFuzzer brings main and mutates; in every other build a fuzzer is a plain program that runs over given files.
# The towers do not go into one program: the reader's fuzzer draws, the others run.
FUZZ_LINK := $(if $(filter fuzz,$(BUILD)),-fsanitize=fuzzer)
FUZZ_ALL  := $(filter-out tests/fuzz/fuzz_% tests/fuzz/run.c $(if $(FUZZ_LINK),tests/fuzz/plain.c),$(FUZZ_C))
FUZZ_RUN  := tests/fuzz/run.c $(filter src/cli/session% src/cli/message% src/cli/options% src/cli/job_start%,$(CLI_C))
$(OUT)/fuzz_%: $(OUT)/obj/tests/fuzz/fuzz_%.o $(call obj,$(FUZZ_ALL) $(FUZZ_RUN)) $(OUT)/libringside.a
	$(CC) $(OPT) $(CFLAGS) $(FUZZ_LINK) $(LINK) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) $(LDLIBS)
$(OUT)/fuzz_trace: $(OUT)/obj/tests/fuzz/fuzz_trace.o $(call obj,$(FUZZ_ALL) $(filter-out %/main.c,$(VIEW_C))) \
                   $(OUT)/libreading.a
	$(CC) $(OPT) $(CFLAGS) $(FUZZ_LINK) $(LINK) $(LDFLAGS) -o $@ $^ $(PKG_LIBS) $(LDLIBS)

# Kernels: loops of any length become vectors, which changes no bit.
$(OUT)/obj/src/tensor/cpu/%.o: private OPT := $(OPT:-O2=-O3)
$(OUT)/obj/src/c10d/reduce.o $(OUT)/obj/src/c10d/shared.o: private OPT := $(OPT:-O2=-O3)

# The compiler writes beside each object what it was made from, .def files too (-MMD). The flags file is touched
# when the flags change, so those rebuild everything and nothing else does. Tests leave their `state` unused.
$(OUT)/obj/%.o: %.c $(OUT)/flags
	@mkdir -p $(@D)
	$(COMPILE) $(if $(filter tests/%,$<),-Wno-unused-parameter) -MMD -MP -c -o $@ $<
$(OUT)/obj/%.S.o: %.S $(OUT)/flags
	@mkdir -p $(@D)
	$(COMPILE) -MMD -MP -c -o $@ $<
$(OUT)/gen/%.o: $(OUT)/gen/%.c $(OUT)/flags
	$(COMPILE) -MMD -MP -c -o $@ $<
$(OUT)/flags: FORCE
	@mkdir -p $(@D); echo "$(COMPILE)" > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# The text of each stage function travels in every trace; a fresh list of sources makes it anew.
$(OUT)/gen/stage_text.c: src/stages.def scripts/stage-text $(LIB_C) $(OUT)/sources
	@mkdir -p $(@D)
	scripts/stage-text src/stages.def $(LIB_C) > $@
$(OUT)/sources: FORCE
	@mkdir -p $(@D); echo '$(LIB_C) $(LIB_S)' > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@

-include $(wildcard $(ALL_O:.o=.d))

tests: all $(TESTS) $(FUZZERS) $(OUT)/play $(CUDA_PLAYERS)
fuzzers: $(FUZZERS) $(OUT)/ringside
fuzz:
	@echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	    clang -fsanitize=fuzzer,address,undefined -x c -o /dev/null - 2>/dev/null || \
	    { echo "make fuzz: needs clang and its libFuzzer (libclang_rt.fuzzer); scripts/setup installs them"; exit 1; }
	$(MAKE) BUILD=fuzz CC=clang fuzzers
test: tests
	@for t in tests/*/*.t; do test -x $$t || { echo "$$t cannot be executed: chmod +x $$t"; exit 1; }; done
	RINGSIDE_OUT=$(OUT) ASAN_OPTIONS=allocator_may_return_null=1 CMOCKA_MESSAGE_OUTPUT=TAP \
	    prove --exec '' $(PROVE_FLAGS) $(TESTS) $(sort $(wildcard tests/*/*.t))

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/ringside/lessons
	install -m 755 $(OUT)/ringside $(OUT)/trace_viewer $(DESTDIR)$(PREFIX)/bin
	$(if $(strip $(PLUGINS)),install -d $(DESTDIR)$(PREFIX)/lib/ringside && install -m 755 $(PLUGINS) $(DESTDIR)$(PREFIX)/lib/ringside)
	cp -R lessons/. $(DESTDIR)$(PREFIX)/share/ringside/lessons
clean:
	rm -rf build
help:
	@sed -n 's/^# make/  make/p' Makefile
