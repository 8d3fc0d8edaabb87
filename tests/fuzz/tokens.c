/* Words of a text and what becomes of them. */
#include "tokens.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "fuzz.h"

enum { TOKENS_MOST = 1024, TOKEN_ROOM = 64 };

struct stretch { size_t at, length; };

/* The sort of what begins with that character: of a word, a number, a quoted text, a sign. */
static int
sort_of(uint8_t c)
{
    if (isdigit(c))
        return '0';
    if (isalpha(c) || c == '_' || c >= 0x80)
        return 'a';
    return c == '"' || c == '\'' ? '"' : '+';
}

static size_t
token_length(const uint8_t *text, size_t left)
{
    size_t length = 1;
    int sort = sort_of(text[0]);
    if (sort == '+')
        return 1;
    if (sort == '"') {
        while (length < left && text[length] != text[0] && text[length] != '\n')
            length++;
        return length < left ? length + 1 : length;
    }
    while (length < left && (isalnum(text[length]) || text[length] == '_' || text[length] >= 0x80 ||
                             (sort == '0' && text[length] == '.')))
        length++;
    return length;
}

static size_t
find_tokens(const uint8_t *text, size_t size, struct stretch *tokens)
{
    size_t count = 0;
    for (size_t at = 0; at < size && count < TOKENS_MOST;) {
        if (text[at] == ' ') {
            at++;
            continue;
        }
        size_t length = token_length(text + at, size - at);
        tokens[count++] = (struct stretch){ at, length };
        at += length;
    }
    return count;
}

/* Puts `with` in the place of a stretch; answers the new length, the old one when there is no room. */
static size_t
replace(uint8_t *text, size_t size, size_t max, struct stretch what, const char *with)
{
    size_t length = strlen(with), behind = size - what.at - what.length;
    if (what.at + length + behind > max)
        return size;
    memmove(text + what.at + length, text + what.at + what.length, behind);
    memcpy(text + what.at, with, length);
    return what.at + length + behind;
}

static void
some_number(char out[TOKEN_ROOM], uint64_t *random)
{
    static const char *const odd[] = { "0", "-0.0", "1e308", "1e-320", "1e999", "2.5", "0x7fffffff", "1e6", "-1",
                                       "9007199254740993", "9223372036854775807", "-9223372036854775808" };
    if (dice(random, 2) == 0)
        snprintf(out, TOKEN_ROOM, "%s", odd[dice(random, countof(odd))]);
    else
        snprintf(out, TOKEN_ROOM, "%" PRId64, (int64_t)dice_number(random));
}

/* From the list, and of that sort if a few tries find one. */
static void
some_word(const struct token_list *list, int sort, char out[TOKEN_ROOM], uint64_t *random)
{
    const char *word = "";
    for (int tries = 0; tries < 12; tries++) {
        word = list->words[dice(random, list->count)];
        if (sort_of((uint8_t)word[0]) == sort)
            break;
    }
    snprintf(out, TOKEN_ROOM, "%s", word);
}

static void
copy_token(char out[TOKEN_ROOM], const uint8_t *text, struct stretch token)
{
    size_t length = token.length < TOKEN_ROOM - 1 ? token.length : TOKEN_ROOM - 1;
    memcpy(out, text + token.at, length);
    out[length] = '\0';
}

static size_t
swap_tokens(uint8_t *text, size_t size, size_t max, struct stretch one, struct stretch other)
{
    char first[TOKEN_ROOM], second[TOKEN_ROOM];
    if (one.at + one.length > other.at || one.length >= TOKEN_ROOM || other.length >= TOKEN_ROOM)
        return size;
    copy_token(first, text, one);
    copy_token(second, text, other);
    size = replace(text, size, max, other, first);
    return replace(text, size, max, one, second);
}

static size_t
change_once(const struct token_list *list, uint8_t *text, size_t size, size_t max, uint64_t *random)
{
    struct stretch tokens[TOKENS_MOST];
    size_t count = find_tokens(text, size, tokens);
    struct stretch none = { size, 0 }, token = count > 0 ? tokens[dice(random, count)] : none;
    char word[TOKEN_ROOM];
    int sort = token.length > 0 ? sort_of(text[token.at]) : 'a';
    switch (dice(random, 8)) {
    case 0: /* doubled */
        copy_token(word, text, token);
        return replace(text, size, max, (struct stretch){ token.at, 0 }, word);
    case 1: /* gone */
        return replace(text, size, max, token, "");
    case 2: /* one more word, apart */
        some_word(list, "0a\"+"[dice(random, 4)], word, random);
        size = replace(text, size, max, (struct stretch){ token.at, 0 }, " ");
        return replace(text, size, max, (struct stretch){ token.at, 0 }, word);
    case 3:
        return count > 1 ? swap_tokens(text, size, max, token, tokens[dice(random, count)]) : size;
    case 4:
        some_word(list, "0a\"+"[dice(random, 4)], word, random);
        return replace(text, size, max, token, word);
    default:
        if (sort == '0' || dice(random, 12) == 0)
            some_number(word, random);
        else
            some_word(list, sort, word, random);
        return replace(text, size, max, token, word);
    }
}

size_t
tokens_change(const struct token_list *list, uint8_t *text, size_t size, size_t max, uint64_t *random)
{
    if (dice(random, 12) == 0)
        return LLVMFuzzerMutate(text, size, max);
    for (uint64_t times = 1 + dice(random, 4); times > 0; times--)
        size = change_once(list, text, size, max, random);
    return size;
}

/* Behind one of the joints, the end if a few tries find none. */
static size_t
some_joint(struct token_text text, uint64_t *random)
{
    for (int tries = 0; tries < 40 && text.size > 0; tries++) {
        size_t at = (size_t)dice(random, text.size);
        if (strchr("({,\n", text.bytes[at]) != NULL && text.bytes[at] != '\0')
            return at + 1;
    }
    return text.size;
}

size_t
tokens_cross(struct token_text one, struct token_text other, uint8_t *out, size_t max, uint64_t *random)
{
    size_t head = some_joint(one, random), from = some_joint(other, random), tail = other.size - from;
    head = head < max ? head : max;
    tail = tail < max - head ? tail : max - head;
    memcpy(out, one.bytes, head);
    memcpy(out + head, other.bytes + from, tail);
    return head + tail;
}
