/* The embedded store of Hive, for C. Made by cbindgen (crates/edge-embedded-c/cbindgen.toml); do not edit. */

#ifndef HIVE_EMBEDDED_H
#define HIVE_EMBEDDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Done.
#define HIVE_OK 0

// There is no such key, or the scan has ended.
#define HIVE_NOT_FOUND 1

// A parameter, key, value or option that cannot be; a directory that is no store's, or was made otherwise.
#define HIVE_INVALID 2

// The store is open elsewhere, or was closed.
#define HIVE_IN_USE 3

// No room; nothing was written.
#define HIVE_FULL 4

// The disk is behind; nothing was written, try again later.
#define HIVE_OVERLOADED 5

// The write may or may not be on the disk.
#define HIVE_UNKNOWN 6

// Damaged files.
#define HIVE_CORRUPT 7

// The operating system, a disk or a thread failed.
#define HIVE_FAILED 8

// The scan was held too long; begin another.
#define HIVE_EXPIRED 9

// What a write waits for: what the store's options say.
#define HIVE_DEFAULT 0

// Until it is in memory; it is on the disk within a second.
#define HIVE_WEAK 1

// Until it is on the disk, synced.
#define HIVE_STRONG 2

// Several changes that happen together.
typedef struct hive_batch hive_batch;

// A walk through the keys of one instant.
typedef struct hive_scan hive_scan;

// An open store.
typedef struct hive_store hive_store;

// How a store is opened; begin with `hive_options_default`.
typedef struct hive_options {
  // Make the store if it is not there.
  bool create;
  // Cores that share the keys; 0: one a processor, or as the store was made.
  uint16_t cores;
  // HIVE_WEAK or HIVE_STRONG, for writes that say HIVE_DEFAULT.
  int durability;
  // How long a weak write may be in memory only, in milliseconds.
  uint64_t flush_every_ms;
  // Memory for what the engine does not hold yet.
  uint64_t memory_bytes_max;
  // The engine's name; null: lmdb, or as the store was made.
  const char *engine;
} hive_options;

// Bytes handed out; freed by `hive_bytes_free`.
typedef struct hive_bytes {
  // The bytes; null where there are none.
  uint8_t *data;
  // How many.
  size_t length;
} hive_bytes;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The text of the last failure of this thread. Valid until its next call.
const char *hive_error(void);

// What stores are opened with unless told otherwise: made if need be, strong writes.
struct hive_options hive_options_default(void);

// As `hive_options_default`, but writes that say HIVE_DEFAULT are weak: they return once they are in memory, every read
// sees them, and they are on the disk within `flush_every_ms` (a second). A crash loses, of each core, the writes after its
// last flush; never a part of a batch, and nothing written before `hive_flush`, `hive_store_close` or a write with
// HIVE_STRONG to the same core returned.
struct hive_options hive_options_weak(void);

// Opens the store in a directory, or makes it. `path` is a C string; `options` may be null; `*store` is
// set where HIVE_OK is answered.
int hive_store_open(const char *path,
                    const struct hive_options *options,
                    struct hive_store **store);

// Writes everything out, closes the store and frees it, whatever is answered. No other thread may be
// using it, and its scans must have been freed.
int hive_store_close(struct hive_store *store);

// Sets a key. `durability` is HIVE_DEFAULT, HIVE_WEAK or HIVE_STRONG.
int hive_put(const struct hive_store *store,
             const uint8_t *key,
             size_t key_length,
             const uint8_t *value,
             size_t value_length,
             int durability);

// Removes a key; HIVE_OK too where it is not there.
int hive_delete(const struct hive_store *store,
                const uint8_t *key,
                size_t key_length,
                int durability);

// The value of a key into `*value`, to be freed by `hive_bytes_free`; HIVE_NOT_FOUND where there is none.
int hive_get(const struct hive_store *store,
             const uint8_t *key,
             size_t key_length,
             struct hive_bytes *value);

// Frees bytes handed out by `hive_get` or `hive_scan_next`.
void hive_bytes_free(struct hive_bytes bytes);

// Waits until everything written before is on the disk.
int hive_flush(const struct hive_store *store);

// An empty batch; freed by `hive_batch_free`.
struct hive_batch *hive_batch_new(void);

// Adds the setting of a key to a batch.
int hive_batch_put(struct hive_batch *batch,
                   const uint8_t *key,
                   size_t key_length,
                   const uint8_t *value,
                   size_t value_length);

// Adds the removal of a key to a batch.
int hive_batch_delete(struct hive_batch *batch, const uint8_t *key, size_t key_length);

// Makes all changes of a batch or none. The batch stays as it is.
int hive_write(const struct hive_store *store, const struct hive_batch *batch, int durability);

// Frees a batch.
void hive_batch_free(struct hive_batch *batch);

// Begins a walk through the keys from `start` (inclusive) up to before `end` (null: all behind `start`),
// as of now; `reverse`: from the last down. Freed by `hive_scan_free`.
int hive_scan_begin(const struct hive_store *store,
                    const uint8_t *start,
                    size_t start_length,
                    const uint8_t *end,
                    size_t end_length,
                    bool reverse,
                    struct hive_scan **scan);

// The next key and value, each to be freed by `hive_bytes_free`; HIVE_NOT_FOUND at the end.
int hive_scan_next(struct hive_scan *scan, struct hive_bytes *key, struct hive_bytes *value);

// Frees a scan.
void hive_scan_free(struct hive_scan *scan);

#ifdef __cplusplus
} // extern "C"
#endif // __cplusplus

#endif /* HIVE_EMBEDDED_H */
