/* Interface: answering.h. */
#include "answering.h"

#include "question.h"
#include "view.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- answers ---- */

/* The question has lost the keys; false: there is no memory for what was answered. */
static bool
settle(struct view *view, const struct given *given)
{
    bool kept = asking_keep(&view->asking, given);
    view->asking.taken    = NO_EVENT;
    view->asking.chosen   = -1;
    view->asking.typed[0] = '\0';
    if (!kept)
        view_say(view, "out of memory");
    return kept;
}

void
answering_pass(struct view *view, const struct model *model, size_t seq)
{
    for (size_t i = 0; i < model->lesson_count && model->lessons[i] < seq; i++)
        if (asking_is_question(model, model->lessons[i]) && asking_holds(&view->asking, model->lessons[i]))
            asking_keep(&view->asking, &(struct given){ .seq = model->lessons[i], .how = GIVEN_PASSED, .choice = -1 });
}

/* All of the text is one number. */
static bool
read_number(const char *text, double *number)
{
    char *end;
    *number = strtod(text, &end);
    return end != text && end[strspn(end, " \n")] == '\0' && isfinite(*number);
}

/* Blanks at the ends and how many there are between words say nothing, nor do capitals. */
static bool
are_same_words(const char *a, const char *b)
{
    a += strspn(a, " \n");
    b += strspn(b, " \n");
    while (*a != '\0' && *b != '\0') {
        bool blank = isspace((unsigned char)*a) != 0;
        if (blank != (isspace((unsigned char)*b) != 0) ||
            (!blank && tolower((unsigned char)*a) != tolower((unsigned char)*b)))
            return false;
        a += blank ? strspn(a, " \n") : 1;
        b += blank ? strspn(b, " \n") : 1;
    }
    return a[strspn(a, " \n")] == '\0' && b[strspn(b, " \n")] == '\0';
}

static bool
is_right(const char *typed, const char *answer)
{
    double a, b;
    if (read_number(typed, &a) && read_number(answer, &b))
        return fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b));
    return are_same_words(typed, answer);
}

/* What it comes to: whether it is the answer, says that one does not know, or says nothing. */
static enum given_how
judge(const struct model *model, size_t seq, const struct given *given)
{
    struct question_choice choice;
    bool chosen = given->choice >= 0 && question_choice(model, seq, given->choice, &choice);
    if (!chosen && given->text[strspn(given->text, " ")] == '\0')
        return GIVEN_SHOWN;
    if (chosen ? question_is_unknown(choice.text) : are_same_words(given->text, QUESTION_UNKNOWN))
        return GIVEN_UNKNOWN;
    bool right = chosen ? question_is_answer(model, seq, choice.text)
                        : is_right(given->text, model_argument_text(model, seq, "answer"));
    return right ? GIVEN_RIGHT : GIVEN_WRONG;
}

static void
tell_shown(struct view *view, const struct model *model, size_t seq)
{
    view_say(view, "-> %.200s  %.300s", model_argument_text(model, seq, "answer"),
             model_argument_text(model, seq, "why"));
}

static void
tell_given(struct view *view, const struct model *model, size_t seq, const struct given *given)
{
    struct question_choice choice = { { "", 0 }, { "", 0 } };
    const char *answer = model_argument_text(model, seq, "answer");
    const char *word = given->how == GIVEN_RIGHT ? "yes: " : given->how == GIVEN_WRONG ? "no, it is " : "it is ";
    if (given->choice >= 0)
        question_choice(model, seq, given->choice, &choice);
    if (given->how == GIVEN_WRONG && choice.wrong.length > 0) /* why comes behind it, in the lesson's pane */
        view_say(view, "no, it is %.200s  %.*s", answer, (int)choice.wrong.length, choice.wrong.text);
    else
        view_say(view, "%s%.200s  %.300s", word, answer, model_argument_text(model, seq, "why"));
}

void
answering_give(struct view *view, const struct model *model, size_t seq, int choice)
{
    struct given given = { .seq = seq, .choice = choice };
    snprintf(given.text, sizeof given.text, "%s", choice < 0 ? view->asking.typed : "");
    given.how = judge(model, seq, &given);
    if (!settle(view, &given))
        return;
    if (given.how == GIVEN_SHOWN)
        tell_shown(view, model, seq);
    else
        tell_given(view, model, seq, &given);
}

void
answering_answer(struct view *view, const struct model *model, const char *words)
{
    size_t seq = view_question(view, model);
    int    count = seq != NO_EVENT ? question_choices(model, seq) : 0, choice = -1;
    struct question_choice each;
    for (int i = 0; i < count && question_choice(model, seq, i, &each); i++)
        if ((words[0] == 'a' + i && words[1] == '\0') ||
            (strlen(words) == each.text.length && memcmp(words, each.text.text, each.text.length) == 0))
            choice = i;
    if (seq == NO_EVENT) {
        view_say(view, "no question waits here");
    } else if (count > 0 && choice < 0 && words[0] != '\0') {
        view_say(view, "%.60s is no choice; a to %c are", words, 'a' + count - 1);
    } else {
        snprintf(view->asking.typed, sizeof view->asking.typed, "%s", words);
        answering_give(view, model, seq, choice);
    }
}

void
answering_put_off(struct view *view, size_t seq)
{
    if (settle(view, &(struct given){ .seq = seq, .how = GIVEN_LATER, .choice = -1 }))
        view_say(view, "put off: n goes on, Esc again shows the answer, :question comes back to it");
}

size_t
answering_waits(const struct view *view, const struct model *model)
{
    size_t here = view_question(view, model);
    return here != NO_EVENT ? here : veil_question(model, &view->asking, view->cursor);
}

void
answering_reveal(struct view *view, const struct model *model, const char *what)
{
    size_t here = answering_waits(view, model);
    if (strcmp(what, "all") == 0) {
        view->asking.all   = true;
        view->asking.taken = NO_EVENT;
        view_say(view, "all answers are shown from here on");
    } else if (what[0] != '\0') {
        view_say(view, "reveal shows the answer of the question here, reveal all those of all");
    } else if (here == NO_EVENT) {
        view_say(view, "no question waits here; reveal all shows the answers of all");
    } else {
        view->asking.typed[0] = '\0';
        answering_give(view, model, here, -1);
    }
}

/* Of those that were put off the last one before the cursor, round and round; else the one that waits. */
void
answering_return(struct view *view, const struct model *model)
{
    const struct asking *asking = &view->asking;
    size_t before = NO_EVENT, last = asking_horizon(asking, model), open = 0;
    for (size_t i = 0; i < asking->count && !asking->all; i++) {
        if (asking->given[i].how != GIVEN_LATER)
            continue;
        open++;
        last = asking->given[i].seq;
        if (last < view->cursor)
            before = last;
    }
    size_t to = before != NO_EVENT ? before : last;
    if (to != NO_EVENT)
        view_goto(view, model, to);
    if (to == NO_EVENT)
        view_say(view, "no question is open");
    else if (open > 1)
        view_say(view, "one of %zu that were put off", open);
}

bool
answering_lets_pass(struct view *view, const struct model *model)
{
    size_t seq = view_question(view, model);
    if (seq == NO_EVENT || !asking_holds(&view->asking, seq))
        return true;
    int count = question_choices(model, seq);
    if (answering_has_keys(view))
        view_say(view, "first your answer: Enter confirms or shows it, Esc puts it off");
    else if (count > 0)
        view_say(view, "first your answer: a to %c choose, Enter confirms; Esc puts it off", 'a' + count - 1);
    else
        view_say(view, "first your answer: Enter begins it, Esc puts it off");
    return false;
}

/* ---- keys ---- */

bool
answering_has_keys(const struct view *view)
{
    return view->asking.taken != NO_EVENT && view->asking.taken == view->cursor;
}

void
answering_take(struct view *view, const struct model *model)
{
    size_t seq = answering_waits(view, model);
    if (seq == NO_EVENT)
        return;
    if (seq != view->cursor)
        view_goto(view, model, seq);
    view->asking.taken    = seq;
    view->asking.chosen   = -1;
    view->asking.typed[0] = '\0';
}

/* Up and Down go round. */
static bool
choose(struct asking *asking, const char *key, int count)
{
    int last = count - 1;
    if (strcmp(key, "Down") == 0)
        asking->chosen = asking->chosen < last ? asking->chosen + 1 : 0;
    else if (strcmp(key, "Up") == 0)
        asking->chosen = asking->chosen > 0 ? asking->chosen - 1 : last;
    else if (key[0] >= 'a' && key[0] <= 'a' + last && key[1] == '\0')
        asking->chosen = key[0] - 'a';
    else
        return false;
    return true;
}

static void
take_back(char *typed)
{
    size_t length = strlen(typed);
    while (length > 0 && ((unsigned char)typed[--length] & 0xc0) == 0x80)
        continue;
    typed[length] = '\0';
}

/* Keys that are letters, whatever they mean elsewhere. */
static bool
type(struct asking *asking, const char *key)
{
    const char *text = strcmp(key, "Space") == 0 ? " " : key;
    bool        letter = text[0] != '\0' && (text[1] == '\0' || (text[0] & 0x80) != 0);
    size_t      length = strlen(asking->typed);
    if (strcmp(key, "Backspace") == 0)
        take_back(asking->typed);
    else if (letter && length + strlen(text) < sizeof asking->typed)
        memcpy(asking->typed + length, text, strlen(text) + 1);
    return letter || strcmp(key, "Backspace") == 0;
}

bool
answering_letter(struct view *view, const struct model *model, const char *key)
{
    int last = question_choices(model, view_question(view, model)) - 1;
    if (view_is_predicting(view) || key[0] < 'a' || key[0] > 'a' + last || key[1] != '\0')
        return false;
    answering_take(view, model);
    return choose(&view->asking, key, last + 1);
}

bool
answering_key(struct view *view, const struct model *model, const char *key)
{
    struct asking *asking = &view->asking;
    if (!answering_has_keys(view))
        return false;
    size_t seq = asking->taken;
    int    count = question_choices(model, seq);
    if (strcmp(key, "Esc") == 0 && asking_holds(asking, seq))
        answering_put_off(view, seq);
    else if (strcmp(key, "Esc") == 0)
        answering_reveal(view, model, "");
    else if (strcmp(key, "Enter") == 0)
        answering_give(view, model, seq, asking->chosen);
    else if (count > 0 ? choose(asking, key, count) : type(asking, key))
        return true;
    else if (key[0] >= 'a' && key[0] <= 'z' && key[1] == '\0')
        view_say(view, "a to %c choose, Enter confirms; Esc puts it off", 'a' + count - 1);
    else
        return false;
    return true;
}

bool
answering_offers_predict(const struct view *view)
{
    const struct asking *asking = &view->asking;
    const struct given  *given = view->before != NO_EVENT ? asking_given(asking, view->before) : NULL;
    size_t told = asking->count - asking_count(asking, GIVEN_LATER) - asking_count(asking, GIVEN_PASSED);
    return told == 1 && given != NULL && given->how > GIVEN_PASSED && !view->predict.on;
}

const char *
answering_hint(const struct view *view, const struct model *model)
{
    size_t seq = view_question(view, model);
    if (seq == NO_EVENT && answering_waits(view, model) != NO_EVENT)
        return "hidden by your question: Enter answers it, Esc again shows the answer";
    if (seq == NO_EVENT)
        return "";
    if (!answering_has_keys(view))
        return asking_holds(&view->asking, seq) ? "Enter: answer  Esc: later" : "Enter: answer  n: go on";
    if (question_choices(model, seq) > 0)
        return view->asking.chosen >= 0 ? "Enter: confirm" : "a letter or arrows choose";
    return view->asking.typed[0] != '\0' ? "Enter: confirm" : "type your answer";
}
