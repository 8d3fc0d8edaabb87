/* Interface: program_folder, plugin_file, plugin_is_whole, course_folder. */
#include "base/place.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <elf.h>
#endif
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif
#include "base/vec.h"

static bool
program_file(char out[PATH_MAX])
{
#ifdef __APPLE__
    char     named[PATH_MAX];
    uint32_t room = sizeof named;
    return _NSGetExecutablePath(named, &room) == 0 && realpath(named, out) != NULL;
#else
    ssize_t length = readlink("/proc/self/exe", out, PATH_MAX - 1);
    out[length > 0 ? length : 0] = '\0';
    return length > 0;
#endif
}

bool
program_folder(char *out, size_t size)
{
    char file[PATH_MAX];
    if (!program_file(file) || strrchr(file, '/') == NULL)
        return false;
    *strrchr(file, '/') = '\0';
    int written = snprintf(out, size, "%s", file[0] != '\0' ? file : "/");
    return written > 0 && (size_t)written < size;
}

bool
plugin_file(const char *name, char *out, size_t size)
{
    static const char *const places[] = { "", "../lib/ringside/" };
    char program[PATH_MAX];
    if (!program_folder(program, sizeof program))
        return false;
    for (size_t i = 0; i < countof(places); i++) {
        int written = snprintf(out, size, "%s/%s%s.so", program, places[i], name);
        if (written > 0 && (size_t)written < size && access(out, F_OK) == 0)
            return true;
    }
    return false;
}

bool
plugin_is_whole(const char *file)
{
#ifdef __linux__
    Elf64_Ehdr  head;
    struct stat status;
    FILE       *in = fopen(file, "rb");
    if (in == NULL)
        return true;
    bool is_elf = fread(&head, sizeof head, 1, in) == 1 && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 &&
                  head.e_ident[EI_CLASS] == ELFCLASS64;
    bool known  = fstat(fileno(in), &status) == 0;
    fclose(in);
    return !is_elf || !known ||
           (uint64_t)status.st_size >= head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize;
#else
    (void)file;
    return true;
#endif
}

/* As short as people write it: from the current folder on, if it lies below. */
static bool
tell_folder(const char *folder, char *out, size_t size)
{
    char        real[PATH_MAX], here[PATH_MAX];
    const char *told = realpath(folder, real) != NULL ? real : folder;
    size_t      length = getcwd(here, sizeof here) != NULL ? strlen(here) : 0;
    if (length > 1 && strncmp(told, here, length) == 0 && (told[length] == '/' || told[length] == '\0'))
        told = told[length] == '/' ? told + length + 1 : ".";
    int written = snprintf(out, size, "%s", told);
    return written > 0 && (size_t)written < size;
}

bool
course_folder(char *out, size_t size)
{
    static const char *const places[] = { "../share/ringside/lessons", "../lessons", "../../lessons" };
    char program[PATH_MAX], folder[PATH_MAX + 32];
    bool known = program_folder(program, sizeof program);
    for (size_t i = 0; known && i < countof(places); i++) {
        snprintf(folder, sizeof folder, "%s/%s", program, places[i]);
        if (access(folder, R_OK) == 0)
            return tell_folder(folder, out, size);
    }
    int written = snprintf(out, size, "lessons");
    return written > 0 && (size_t)written < size && access("lessons", R_OK) == 0;
}
