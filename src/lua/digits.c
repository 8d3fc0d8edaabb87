/* rs.data.digits: the data set that comes with the lessons, the only file that a lesson may reach. */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/place.h"
#include "base/vec.h"
#include "data/digits.h"
#include "lua/data.h"
#include "lua/internal.h"
#include "lua/lesson.h"
#include "sched/task.h"
#include "tensor/tensor.h"

static const char FILE_NAME[] = "digits.csv.gz";

static bool
lies_in(const char *folder, const char *below, char *out, size_t size)
{
    int written = snprintf(out, size, "%s/%s/%s", folder, below, FILE_NAME);
    return written > 0 && (size_t)written < size && access(out, R_OK) == 0;
}

/* Beside the lesson, else with the course. */
static bool
find_file(const struct lesson *lesson, char *out, size_t size)
{
    static const char *const of_lesson[]    = { "data", "../data", "../lessons/data" };
    char                     path[PATH_MAX] = "";
    if (lesson != NULL && lesson_options(lesson)->path != NULL) {
        snprintf(path, sizeof path, "%s", lesson_options(lesson)->path);
        const char *folder = dirname(path);
        for (size_t i = 0; i < countof(of_lesson); i++)
            if (lies_in(folder, of_lesson[i], out, size))
                return true;
    }
    return course_folder(path, sizeof path) && lies_in(path, "data", out, size);
}

/* 0: all rows. */
static void
check_split(lua_State *L, int64_t *first, int64_t *end)
{
    int         table = option_table(L, 1);
    const char *split = NULL;
    option_known(L, table, "split");
    split = option_text(L, table, "split", "all");
    if (strcmp(split, "train") == 0)
        *end = DIGITS_TRAIN;
    else if (strcmp(split, "test") == 0)
        *first = DIGITS_TRAIN;
    else if (strcmp(split, "all") != 0)
        raise_error(L, "ValueError", "split is \"%.20s\": expected \"train\", \"test\" or \"all\"", split);
}

static void
digits_drop(struct task *me, void *digits)
{
    (void)me;
    digits_free(digits);
}

/* images, labels = rs.data.digits{split = "train"} */
static int
digits(lua_State *L)
{
    struct task   *me = script_task(L);
    int64_t        first = 0, end = INT64_MAX;
    char           path[PATH_MAX + 64];
    struct digits *read = NULL;
    check_split(L, &first, &end);
    if (!find_file(lesson_of(me), path, sizeof path))
        raise_error(L, "RuntimeError", "%s was found neither beside the lesson nor with the program", FILE_NAME);
    read             = lua_newuserdatauv(L, sizeof *read, 0);
    *read            = (struct digits){ 0 };
    struct call call = call_open(L, me, CALL_PLAIN);
    born(me, read, digits_drop);
    struct tensor *images = NULL, *labels = NULL;
    if (!task_failed(me) && digits_read(me, path, read)) {
        end    = end < read->rows ? end : read->rows;
        first  = first < end ? first : end;
        images = tensor_from(me, DTYPE_F32, 2, (const int64_t[]){ end - first, DIGITS_PIXELS },
                             read->pixels + first * DIGITS_PIXELS);
        labels = tensor_from(me, DTYPE_I64, 1, (const int64_t[]){ end - first }, read->labels + first);
    }
    call_end(&call, images != NULL && labels != NULL);
    push_tensor(L, images);
    push_tensor(L, labels);
    return call_leave(&call, 2);
}

static const struct lua_entry entries[] = {
    { "digits", digits, "images, labels = rs.data.digits{split = \"all\"}",
      "1797 handwritten digits of 8 x 8 pixels in a row of 64; split \"train\" or \"test\": the first 1438, the "
      "others" },
};

void
lua_open_data(lua_State *L)
{
    lua_open_dataset(L);
    lua_open_sampler(L);
    lua_open_batches(L);
    lua_open_loader(L);
    lua_open_workers(L);
    fill_namespace(L, "data", entries, countof(entries));
    lua_open_save(L);
    lua_open_progress(L);
}
