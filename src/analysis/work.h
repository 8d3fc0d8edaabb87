/* What an event is for: its class of work, by the family of its kind. */
#ifndef ANALYSIS_WORK_H
#define ANALYSIS_WORK_H

enum work {
    WORK_NONE, WORK_FORWARD, WORK_BACKWARD, WORK_COMMUNICATION, WORK_KERNEL, WORK_COPY, WORK_OPTIMIZER, WORK_DATA,
    WORK_LESSON, WORK_WAIT, WORK_FAULT, WORK_OTHER, WORK_COUNT
};

enum work work_of_kind(const char *kind);                       /* "c10d.wait": WORK_WAIT */
enum work work_inside(enum work work, enum work around);        /* an operator inside of a backward is its work */
#endif
