/* The three descriptors that every program may count on. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

/* Where 0, 1 or 2 is closed it becomes /dev/null, so that no file that is opened later is taken for one of them. For
 * the first line of main. */
void descriptors_fill(void);
#endif
