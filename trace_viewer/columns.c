/* Widths, for the layout, the timeline and whoever moves the window in time alike. */
#include "columns.h"

/* With its numbers a listing has 98 columns: a stage's function has 90 at most. */
enum { SIDE_FROM = 120, LISTING_FROM = 188, LISTING = 98 };

int
columns_of_names(int width)
{
    return width >= 200 ? 24 : width >= 100 ? 16 : width >= 60 ? 13 : width >= 40 ? width / 5 + 1 : width / 5;
}

int
columns_of_side(int width)
{
    return width < SIDE_FROM ? 0 : width >= LISTING_FROM ? LISTING : width * 3 / 10;
}

int
columns_of_time(int width)
{
    int left = width - columns_of_side(width);
    return left - columns_of_names(left);
}
