/* A clock that can be stopped for one process: put between it and libc with LD_PRELOAD (faults.py, `Clocks`).
 *
 * The file named by HIVE_TEST_CLOCK holds two 64-bit numbers: nanoseconds that CLOCK_MONOTONIC and CLOCK_BOOTTIME have
 * missed. Always: without the file or the variable the real clocks are told. Not here: who stops the process meanwhile.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *missed;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("HIVE_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *page = mmap(0, 16, PROT_READ, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) missed = page;
        close(file);
    }
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    if (!real) begin();
    int result = real(clock, out);
    if (result || !missed) return result;
    int64_t gone = 0;
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW) gone = missed[0];
    if (clock == CLOCK_BOOTTIME) gone = missed[1];
    int64_t now = (int64_t)out->tv_sec * 1000000000 + out->tv_nsec - gone;
    out->tv_sec = now / 1000000000;
    out->tv_nsec = now % 1000000000;
    return 0;
}
