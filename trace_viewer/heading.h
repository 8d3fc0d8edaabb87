/* What the story says of the event one stands at. Nothing as long as the story has not been read so far, or a question
 * hides it. Order of use: each alone. */
#ifndef VIEWER_HEADING_H
#define VIEWER_HEADING_H
struct model;
struct str;
struct view;

/* What ran as before, in a line of its own, and the sentence; no newline at the end. */
void heading_print(const struct model *model, const struct view *view, struct str *out);
void heading_print_line(const struct model *model, const struct view *view, struct str *out);   /* "story: ...", a line */
/* The same without the sentence where it is the lesson's own words. */
void heading_print_beside_words(const struct model *model, const struct view *view, struct str *out);
#endif
