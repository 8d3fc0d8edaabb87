/* Interface: lesson_choose, course_has, lessons_folder. */
#include "cli/course.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/nearest.h"
#include "base/place.h"
#include "cli/message.h"
#include "cli/options.h"

enum fit { FIT_NONE, FIT_BEGINNING, FIT_SLUG, FIT_NUMBER, FIT_NAME };

/* What the search in a folder has found: the best fits, and whom a misspelt word may have meant. */
struct lesson_search {
    const char *word;            /* without its folder and without ".lua" */
    enum fit    best;
    int         count;           /* lessons that fit as well as that */
    char        found[NAME_MAX + 1], others[200];
    size_t      least;
    char        meant[NAME_MAX + 1];
};

/* Behind "15-" of "15-hooks-and-order". */
static const char *
slug_of(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    return digits > 0 && name[digits] == '-' ? name + digits + 1 : name;
}

static enum fit
how_it_fits(const char *word, const char *name)
{
    size_t length  = strlen(word);
    bool   number  = strspn(word, "0123456789") == length && length > 0;
    bool   counted = isdigit((unsigned char)name[0]);
    if (strcmp(word, name) == 0)
        return FIT_NAME;
    if (number)
        return counted && strtoull(word, NULL, 10) == strtoull(name, NULL, 10) ? FIT_NUMBER : FIT_NONE;
    if (strcmp(word, slug_of(name)) == 0)
        return FIT_SLUG;
    return length > 0 && (strncmp(word, name, length) == 0 || strncmp(word, slug_of(name), length) == 0)
               ? FIT_BEGINNING : FIT_NONE;
}

static void
note_meant(struct lesson_search *search, const char *name)
{
    size_t far = word_distance(search->word, name), slug = word_distance(search->word, slug_of(name));
    far = slug < far ? slug : far;
    if (far >= search->least)
        return;
    search->least = far;
    snprintf(search->meant, sizeof search->meant, "%s", name);
}

static void
look_at(struct lesson_search *search, const char *name)
{
    enum fit fit = how_it_fits(search->word, name);
    note_meant(search, name);
    if (fit == FIT_NONE || fit < search->best)
        return;
    bool   better = fit > search->best;
    bool   first  = better || strcmp(name, search->found) < 0; /* folders are read in no order */
    size_t used   = better ? 0 : strlen(search->others);
    search->best  = fit;
    search->count = better ? 1 : search->count + 1;
    snprintf(search->others + used, sizeof search->others - used, "%s%s", used > 0 ? ", " : "", name);
    if (first)
        snprintf(search->found, sizeof search->found, "%s", name);
}

/* false: there is no such folder. */
static bool
search_folder(const char *folder, struct lesson_search *search)
{
    DIR           *entries = opendir(folder);
    struct dirent *entry;
    if (entries == NULL)
        return false;
    while ((entry = readdir(entries)) != NULL) {
        size_t length = strlen(entry->d_name);
        char   name[NAME_MAX + 1];
        if (entry->d_name[0] == '.' || length <= 4 || strcmp(entry->d_name + length - 4, ".lua") != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(length - 4), entry->d_name);
        look_at(search, name);
    }
    closedir(entries);
    return true;
}

static bool
is_there(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && !S_ISDIR(about.st_mode);
}

static bool
give(char *out, size_t size, const char *folder, const char *name, const char *ending)
{
    int written = snprintf(out, size, "%s%s%s%s", folder, folder[0] != '\0' ? "/" : "", name, ending);
    return written > 0 && (size_t)written < size;
}

/* "exercises/15" -> the course's folder of exercises and "15". false: the word leads elsewhere. */
static bool
split_word(const char *word, char *folder, size_t size, char *name, size_t name_size)
{
    char course[PATH_MAX];
    if (strncmp(word, "lessons/", 8) == 0)
        word += 8;
    const char *slash = strrchr(word, '/');
    if (word[0] == '/' || word[0] == '.' || strstr(word, "..") != NULL || !course_folder(course, sizeof course))
        return false;
    snprintf(name, name_size, "%s", slash != NULL ? slash + 1 : word);
    size_t length = strlen(name);
    if (length > 4 && strcmp(name + length - 4, ".lua") == 0)
        name[length - 4] = '\0';
    int written = snprintf(folder, size, "%s%s%.*s", course, slash != NULL ? "/" : "",
                           slash != NULL ? (int)(slash - word) : 0, word);
    return written > 0 && (size_t)written < size;
}

/* A name that none of the lessons has may be an example's. */
static bool
is_example(const char *word, int lessons, char *folder, size_t size, struct lesson_search *search)
{
    size_t length = strlen(folder);
    if (lessons > 0 || strchr(word, '/') != NULL || snprintf(folder + length, size - length, "/examples") < 0)
        return false;
    return search_folder(folder, search) && search->count == 1;
}

static bool
looks_like_path(const char *word)
{
    size_t length = strlen(word);
    return strchr(word, '/') != NULL || (length > 4 && strcmp(word + length - 4, ".lua") == 0);
}

/* What is said of a word that means no lesson, or several. */
static void
tell_why(const char *word, const struct lesson_search *search, char *why, size_t size)
{
    if (search->count > 1)
        snprintf(why, size, "'%.100s' could be several lessons: %s", word, search->others);
    else if (search->meant[0] != '\0')
        snprintf(why, size, "no lesson '%.100s'; did you mean %s?", word, search->meant);
    else
        snprintf(why, size, "no lesson '%.100s', here or in the course; 'ringside lessons' lists them", word);
}

static bool
find_lesson(const char *word, char *out, size_t size, char *why, size_t why_size)
{
    char                 folder[PATH_MAX], name[NAME_MAX + 1];
    struct lesson_search search = { .word = name, .least = SIZE_MAX };
    snprintf(why, why_size, "the name of the lesson is too long");
    if (!give(out, size, "", word, ".lua"))
        return false;
    if (!is_there(word) && is_there(out))
        return true;
    snprintf(out, size, "%s", word);
    if (is_there(word))
        return true;
    if (split_word(word, folder, sizeof folder, name, sizeof name)) {
        search.least = word_reach(name) + 1;
        if (search_folder(folder, &search) && search.count == 1)
            return give(out, size, folder, search.found, ".lua");
        if (is_example(word, search.count, folder, sizeof folder, &search))
            return give(out, size, folder, search.found, ".lua");
    }
    if (looks_like_path(word) && search.count == 0 && (search.meant[0] == '\0' || strchr(word, '/') != NULL))
        return true;
    tell_why(word, &search, why, why_size);
    return false;
}

int
lesson_choose(const char *command, struct run_options *options)
{
    char why[400];
    if (!find_lesson(options->lesson, options->found, sizeof options->found, why, sizeof why))
        return message(STATUS_USAGE, "%s: %s", command, why);
    options->lesson = options->found;
    return -1;
}

bool
course_has(const char *word, char *name, size_t size)
{
    char                 folder[PATH_MAX], wanted[NAME_MAX + 1];
    struct lesson_search search = { .word = wanted };
    bool one = split_word(word, folder, sizeof folder, wanted, sizeof wanted) && search_folder(folder, &search) &&
               search.count == 1;
    snprintf(name, size, "%s", search.found);
    return one;
}

void
lessons_folder(const char *word, char *out, size_t size)
{
    char        course[PATH_MAX];
    struct stat about;
    snprintf(out, size, "%s", word);
    if (stat(word, &about) == 0 || word[0] == '/' || word[0] == '.' || !course_folder(course, sizeof course))
        return;
    char below[2 * PATH_MAX];
    snprintf(below, sizeof below, "%s/%s", course, word);
    if (stat(below, &about) == 0)
        snprintf(out, size, "%s", below);
}
