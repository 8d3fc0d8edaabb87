/* Where this program lies, and what lies there with it. Found from the program's own file, so that it may be installed,
 * moved or linked to anywhere. */
#ifndef BASE_PLACE_H
#define BASE_PLACE_H
#include <stdbool.h>
#include <stddef.h>

/* The folder of the program's file, links followed. false: the system does not tell. */
bool program_folder(char *out, size_t size);
/* A plug-in's file, NAME.so: beside the program, or where `make install` lays them. false: there is none. */
bool plugin_file(const char *name, char *out, size_t size);
/* The file has all that its head speaks of: a library that is cut short ends the process that opens it. What is no ELF
 * file is the loader's to judge. */
bool plugin_is_whole(const char *file);
/* The folder of the lessons that came with the program: as `make install` lays them, else those of the source tree in
 * which it was built, else ./lessons. Relative if it lies below the current folder. false: there is none. */
bool course_folder(char *out, size_t size);
#endif
