/* Cuts an address into its parts, from the right: query, scheme, path, host, port. Python's urllib.parse.urlparse. */
#include "c10d/url.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool
url_number(const char *text, int64_t *number)
{
    char *end = NULL;
    errno     = 0;
    *number   = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

static bool
refuse(char *why, size_t why_size, const char *text, const char *what)
{
    snprintf(why, why_size, "'%.200s': %s", text, what);
    return false;
}

/* HOST:PORT at `at`. */
static bool
parse_host(char *at, const char *text, struct url *url, char *why, size_t why_size)
{
    char *colon = strrchr(at, ':');
    url->host   = at;
    if (*at == '[') {
        char *end = strchr(at, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return refuse(why, why_size, text, "a host in brackets ends with ']'");
        *end      = '\0';
        url->host = at + 1;
        colon     = end[1] == ':' ? end + 1 : NULL;
    }
    if (colon == NULL)
        return true;
    *colon = '\0';
    if (strchr(url->host, ':') != NULL && *at != '[')
        return refuse(why, why_size, text, "a host with colons stands in brackets");
    if (!url_number(colon + 1, &url->port) || url->port < 0 || url->port > 65535)
        return refuse(why, why_size, text, "a port is a number from 0 to 65535");
    return true;
}

bool
url_parse(const char *text, struct url *url, char *why, size_t why_size)
{
    *url = (struct url){ .scheme = "", .host = "", .path = "", .query = "", .port = -1 };
    if (strlen(text) >= sizeof url->text)
        return refuse(why, why_size, text, "too long for an address");
    char *end  = memcpy(url->text, text, strlen(text) + 1);
    char *mark = strstr(url->text, "://");
    if (mark == NULL || mark == url->text)
        return refuse(why, why_size, text, "an address begins with a scheme, as env://, tcp:// and file:// do");
    *mark       = '\0';
    url->scheme = end;
    char *rest  = mark + 3, *query = strchr(rest, '?');
    if (query != NULL) {
        *query     = '\0';
        url->query = query + 1;
    }
    char *slash = strchr(rest, '/');
    if (slash != NULL) { /* the host moves into the room of "//", so that its end has one, too */
        size_t length = (size_t)(slash - rest);
        memmove(rest - 1, rest, length);
        rest[length - 1] = '\0';
        rest--;
        url->path = slash;
    }
    return parse_host(rest, text, url, why, why_size);
}

bool
url_option(const struct url *url, const char *name, char *value, size_t size)
{
    size_t length = strlen(name);
    for (const char *at = url->query; *at != '\0';) {
        size_t whole = strcspn(at, "&");
        if (whole > length && at[length] == '=' && strncmp(at, name, length) == 0) {
            snprintf(value, size, "%.*s", (int)(whole - length - 1), at + length + 1);
            return true;
        }
        at += whole + (at[whole] == '&');
    }
    return false;
}
