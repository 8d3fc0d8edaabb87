/* What comes between keys: the engine's answer, a slice of a search, and then what was typed meanwhile. Lines are
 * drive_lines.c's business, keys drive_keys.c's. Interface: drive_reply, drive_on, drive_is_busy. */
#include "drive.h"

#include "browse.h"
#include "look.h"

/* What was typed meanwhile is done now: the line, then the keys, until one has to wait again. */
static void
catch_up(struct driver *driver)
{
    struct typed_ahead ahead = driver->ahead;
    driver->ahead = (struct typed_ahead){ .held = false };
    bool asks = ahead.line[0] != '\0';
    if (!ahead.held || (asks && driver->view->run != RUN_PAUSED))
        return;
    if (asks)
        drive_line(driver, ahead.line);
    for (int i = 0; i < ahead.count && !driver->leave; i++)
        drive_key(driver, ahead.keys[i]);
}

void
drive_reply(struct driver *driver)
{
    drive_take_reply(driver);
    drive_again(driver);
    if (driver->ahead.held)
        catch_up(driver);
}

bool
drive_on(struct driver *driver)
{
    struct view *view = driver->view;
    if (view->moving) {
        if (!browse_on(driver->model, view))
            drive_again(driver);
        if (!view->moving)
            catch_up(driver);
        return true;
    }
    if (!view->search.telling && !search_is_busy(&view->search, driver->model))
        return false;
    bool hunted = view->search.hunting;
    bool goes_on = look_on(view, driver->model);
    if (hunted && !view->search.hunting)
        catch_up(driver);
    return goes_on || hunted;
}

bool
drive_is_busy(const struct driver *driver)
{
    return driver->view->moving || search_is_busy(&driver->view->search, driver->model);
}
