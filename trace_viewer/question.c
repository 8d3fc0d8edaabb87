/* The argument `choices` of a lesson.ask, as src/lua/narration.c writes it: lines of a word and a text.
 *
 * Interface: question_hides, question_choices, question_choice, question_is_answer,
 * question_is_unknown. */
#include "question.h"

#include "trace/reader.h"

#include <string.h>

/* In older traces `choices` is a number. */
static const char *
details(const struct model *model, size_t seq)
{
    const struct trace_event *event = trace_event(model->trace, seq);
    if (event == NULL || !model_is_lesson(model, seq, "ask"))
        return "";
    const struct trace_kind *kind = trace_kind(model->trace, event->kind);
    for (int i = 0; i < kind->arg_count && i < 4; i++)
        if (strcmp(kind->arg_name[i], "choices") == 0 && strcmp(kind->arg_type[i], "text") == 0)
            return trace_text_at(model->trace, event->args[i]);
    return "";
}

/* What stands behind the word at the beginning of the line at `at`; false: it is another line. */
static bool
line_of(const char *at, const char *word, struct part *out)
{
    size_t length = strlen(word);
    if (strncmp(at, word, length) != 0 || at[length] != ' ')
        return false;
    *out = (struct part){ at + length + 1, strcspn(at + length + 1, "\n") };
    return true;
}

static const char *
next_line(const char *at)
{
    at += strcspn(at, "\n");
    return at + (*at == '\n');
}

struct part
question_hides(const struct model *model, size_t seq)
{
    struct part hides = { "", 0 };
    line_of(details(model, seq), "hides", &hides);
    return hides;
}

bool
question_is_unknown(struct part text)
{
    return text.length == strlen(QUESTION_UNKNOWN) && memcmp(text.text, QUESTION_UNKNOWN, text.length) == 0;
}

int
question_choices(const struct model *model, size_t seq)
{
    struct part part;
    int         count = 0;
    bool        own = false;
    for (const char *at = details(model, seq); *at != '\0'; at = next_line(at))
        if (line_of(at, "choice", &part)) {
            count++;
            own |= question_is_unknown(part);
        }
    return count > 0 && count < 26 && !own ? count + 1 : count;
}

bool
question_choice(const struct model *model, size_t seq, int number, struct question_choice *out)
{
    const char *at = details(model, seq);
    bool        unknown = number >= 0 && number == question_choices(model, seq) - 1;
    *out                = (struct question_choice){ { "", 0 }, { "", 0 } };
    for (; *at != '\0'; at = next_line(at)) {
        if (!line_of(at, "choice", &out->text) || number-- > 0)
            continue;
        line_of(next_line(at), "wrong", &out->wrong);
        return true;
    }
    out->text = (struct part){ QUESTION_UNKNOWN, unknown ? strlen(QUESTION_UNKNOWN) : 0 };
    return unknown;
}

bool
question_is_answer(const struct model *model, size_t seq, struct part text)
{
    const char *answer = model_argument_text(model, seq, "answer");
    for (size_t i = 0; i < text.length; i++, answer++)
        if (*answer != text.text[i] && !(*answer == '\n' && text.text[i] == ' '))
            return false;
    return *answer == '\0';
}
