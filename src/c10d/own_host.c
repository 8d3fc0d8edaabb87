/* Under which address others reach this process: that of the way to the store. */
#include "c10d/own_host.h"
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* No packet is sent: connecting a datagram's socket only asks the routes. */
const char *
own_host(const char *store_host, char *out, size_t size)
{
    struct addrinfo         hints = { .ai_socktype = SOCK_DGRAM }, *list = NULL;
    struct sockaddr_storage own;
    socklen_t               own_size = sizeof own;
    bool                    known    = false;
    if (getaddrinfo(store_host, "29500", &hints, &list) != 0)
        return NULL;
    for (struct addrinfo *at = list; at != NULL && !known; at = at->ai_next) {
        int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        own_size = sizeof own;
        known = fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
                getsockname(fd, (struct sockaddr *)&own, &own_size) == 0 &&
                getnameinfo((struct sockaddr *)&own, own_size, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) == 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    return known && strncmp(out, "127.", 4) != 0 && strcmp(out, "::1") != 0 ? out : NULL;
}

/* Equal where processes share a clock: the kernel's boot and, in a container, the namespace of its clocks. */
void
own_host_id(char host[HOST_ID_BYTES])
{
    FILE *file   = fopen("/proc/sys/kernel/random/boot_id", "r");
    char  of[24] = "";
    host[0]      = '\0';
    if (file == NULL)
        return;
    if (fgets(host, HOST_ID_BYTES, file) == NULL)
        host[0] = '\0';
    fclose(file);
    (void)!readlink("/proc/self/ns/time", of, sizeof of - 1);
    size_t length = strcspn(host, "\n");
    snprintf(host + length, HOST_ID_BYTES - length, "%s", of);
}
