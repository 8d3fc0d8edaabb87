/* From a terminal's bytes to keys, mouse reports and pasted text, as --keys writes them: "s", "Space", "^L", "F10",
 * "Click 12,5", "Drag 10,5 30,5", "CtrlWheelUp 3,4" (column and row from 1), "Paste x". What is broken or unknown is
 * dropped whole and acts as no key. Order of use: decoder_feed what was read, decoder_key until there is none. */
#ifndef VIEWER_DECODE_H
#define VIEWER_DECODE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEY_ROOM = 64, DECODER_ROOM = 4096, SEQUENCE_ROOM = 12, SEQUENCES = 32 };

/* What this terminal sends for a key, beside what most do. */
struct sequence { char bytes[SEQUENCE_ROOM]; char key[12]; };

struct decoder {
    unsigned char   bytes[DECODER_ROOM];
    size_t          count;
    struct sequence own[SEQUENCES];
    size_t          own_count;
    bool            pasting, down;       /* between the marks of a paste; the left button is held */
    int             down_x, down_y;      /* where it went down */
    int64_t         down_ms;             /* and when, for a second click */
    int             at_x, at_y;          /* of the last report of a drag */
};

size_t decoder_room(const struct decoder *decoder);
void   decoder_feed(struct decoder *decoder, const void *bytes, size_t count); /* at most decoder_room */
/* The next key. `late`: nothing has followed for a while, so an Esc is the key and half a sequence is dropped.
 * false: there is none, or not all of it. */
bool   decoder_key(struct decoder *decoder, bool late, int64_t now_ms, char key[KEY_ROOM]);
/* Bytes wait for others: `late` is to be asked for after a while. */
bool   decoder_waits(const struct decoder *decoder);
#endif
