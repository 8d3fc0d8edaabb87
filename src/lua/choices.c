/* Interface: choices.h. */
#include "lua/choices.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include "base/rng.h"
#include "base/vec.h"
#include "lua/lesson.h"

static const char *
skip_digits(const char *at)
{
    while (isdigit((unsigned char)*at))
        at++;
    return at;
}

/* Thousands may stand apart: 1 000 000, 1,000,000. */
static const char *
skip_thousands(const char *at)
{
    const char *end = skip_digits(at);
    while ((*end == ' ' || *end == ',') && skip_digits(end + 1) == end + 4)
        end += 4;
    return end;
}

/* 0.5, -3, 1e6, 3/4 */
static const char *
skip_number(const char *at)
{
    at += *at == '-' || *at == '+';
    const char *end = skip_thousands(at);
    if (*end == '.' && isdigit((unsigned char)end[1]))
        end = skip_digits(end + 1);
    if (end == at)
        return NULL;
    if (*end != 'e' && *end != 'E' && *end != '/')
        return end;
    const char *power = end + 1;
    power += *power == '-' || *power == '+';
    return isdigit((unsigned char)*power) ? skip_digits(power) : end;
}

/* A number, behind it at most one word: 250, 78 %, 2050 us, 4KiB. */
static bool
is_number(const char *text)
{
    const char *unit = skip_number(text);
    if (unit == NULL)
        return false;
    unit += *unit == ' ';
    bool begins = isalpha((unsigned char)*unit) || *unit == '%' || (*unit & 0x80) != 0;
    return *unit == '\0' || (begins && strpbrk(unit, " ,0123456789") == NULL);
}

static bool
speaks_of_others(const char *text)
{
    static const char *const beginnings[] = { "none of ", "neither", "all of ", "i do not know", "i don't know" };
    for (size_t i = 0; i < countof(beginnings); i++)
        if (strncasecmp(text, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    return false;
}

void
choices_shuffle(struct lesson_choice *choices, int count, uint64_t seed, uint32_t question)
{
    struct lesson_choice written[LESSON_CHOICES];
    int      places[LESSON_CHOICES] = { 0 }, next = 0;
    uint64_t state = seed;
    state = splitmix(&state) + question;
    while (count > 0 && speaks_of_others(choices[count - 1].text))
        count--;
    for (int i = 0; i < count; i++) {
        int other     = (int)(splitmix(&state) % (uint64_t)(i + 1));
        written[i]    = choices[i];
        places[i]     = places[other];
        places[other] = i;
    }
    for (int place = 0; place < count; place++) {
        if (!is_number(written[places[place]].text)) {
            choices[place] = written[places[place]];
            continue;
        }
        while (!is_number(written[next].text))
            next++;
        choices[place] = written[next++];
    }
}
