/* A store in a directory, from C:
 *
 *   cargo build --release -p edge-embedded-c
 *   cc -I crates/edge-embedded-c/include crates/edge-embedded-c/examples/hello.c \
 *      target/release/libhive_embedded.a -lpthread -ldl -lm -o hello
 *   ./hello /tmp/hello-store
 */
#include <stdio.h>
#include <string.h>

#include "hive_embedded.h"

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, hive_error());
    return 1;
}

static const uint8_t *bytes(const char *text) { return (const uint8_t *)text; }

int main(int count, char **arguments) {
    struct hive_store *store = NULL;
    struct hive_options options = hive_options_default();
    options.cores = 2;
    if (count != 2) {
        fprintf(stderr, "usage: hello DIRECTORY\n");
        return 2;
    }
    if (hive_store_open(arguments[1], &options, &store) != HIVE_OK) return failed("open");

    /* Strong: on the disk when it returns. Weak: within a second. */
    if (hive_put(store, bytes("hello"), 5, bytes("world"), 5, HIVE_STRONG) != HIVE_OK) return failed("put");
    if (hive_put(store, bytes("count"), 5, bytes("1"), 1, HIVE_WEAK) != HIVE_OK) return failed("put");

    /* All or nothing. */
    struct hive_batch *batch = hive_batch_new();
    hive_batch_put(batch, bytes("apple"), 5, bytes("red"), 3);
    hive_batch_put(batch, bytes("pear"), 4, bytes("green"), 5);
    hive_batch_delete(batch, bytes("count"), 5);
    if (hive_write(store, batch, HIVE_DEFAULT) != HIVE_OK) return failed("write");
    hive_batch_free(batch);

    struct hive_bytes value;
    if (hive_get(store, bytes("hello"), 5, &value) != HIVE_OK) return failed("get");
    printf("hello = %.*s\n", (int)value.length, (const char *)value.data);
    hive_bytes_free(value);
    if (hive_get(store, bytes("count"), 5, &value) != HIVE_NOT_FOUND) return failed("a deleted key");

    /* In order, over all cores, as of one instant. */
    struct hive_scan *scan = NULL;
    struct hive_bytes key;
    if (hive_scan_begin(store, NULL, 0, NULL, 0, false, &scan) != HIVE_OK) return failed("scan");
    int code;
    while ((code = hive_scan_next(scan, &key, &value)) == HIVE_OK) {
        printf("%.*s\t%.*s\n", (int)key.length, (const char *)key.data, (int)value.length, (const char *)value.data);
        hive_bytes_free(key);
        hive_bytes_free(value);
    }
    if (code != HIVE_NOT_FOUND) return failed("scan");
    hive_scan_free(scan);

    /* Errors are codes and texts. */
    if (hive_put(store, bytes(""), 0, NULL, 0, HIVE_DEFAULT) != HIVE_INVALID) return failed("an empty key");
    printf("refused: %s\n", hive_error());
    if (hive_store_close(store) != HIVE_OK) return failed("close");
    return 0;
}
