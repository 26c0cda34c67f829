// The C interface of the shim; `src/ffi.rs` declares the same.
//
// Always: a handle is used by any thread until it is freed; slices given back live until the next call
// on the handle they came from. Nothing throws through here: every function is `noexcept`, and what RocksDB, the
// library or this shim throws is an error (guard.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "status.h"

extern "C" {

struct HiveRocks;
struct HiveBatch;
struct HiveCursor;
struct HivePinned;

struct HiveSlice {
  const char* bytes;
  size_t length;
};

// General metadata: says in `out` (at most `capacity` bytes) what is to be kept beside an entry;
// `previous` is what was said of it before. Called from RocksDB's threads.
struct HiveProvider {
  void* self;
  size_t (*describe)(void* self, HiveSlice key, HiveSlice value, uint64_t sequence, uint8_t type, HiveSlice previous,
                     char* out, size_t capacity);
};

struct HiveDamage {
  HiveSlice key;
  uint64_t sequence;
  uint64_t file;
  uint8_t type;
  uint8_t verdict;
};

struct HiveOptions {
  HiveProvider provider;
  uint64_t cache_bytes;
  uint64_t memtable_bytes;
  uint64_t file_bytes;
  uint64_t wal_bytes_max;
  int32_t threads;
  uint8_t make;              // 1: the directory is empty and a database is made in it
  uint8_t metahive;          // 0: plain RocksDB, for comparisons
  uint8_t sync;              // 0: writes are not synced, for figures
  uint8_t direct_reads;      // 1: past the system's cache
  uint8_t stock_blocks;      // 1: blocks as RocksDB makes them where it is not told how, for figures
  uint8_t block_checksums;   // 0: none, for tests of what metadata entries find without them
};

HiveRocks* hive_rocks_open(HiveSlice path, const HiveOptions* options, HiveError* error) noexcept;
void hive_rocks_close(HiveRocks* rocks) noexcept;
void hive_rocks_free(char* text) noexcept;

// The value of a key at a snapshot (null: now); null without error: not there.
HivePinned* hive_rocks_get(HiveRocks* rocks, const void* snapshot, HiveSlice key, HiveSlice* value, HiveError* error) noexcept;
void hive_rocks_unpin(HivePinned* pinned) noexcept;

const void* hive_rocks_snapshot(HiveRocks* rocks, HiveError* error) noexcept;
void hive_rocks_release(HiveRocks* rocks, const void* snapshot) noexcept;

// Null: there is no memory for one. What fails while a batch is filled, its writing reports.
HiveBatch* hive_rocks_batch(void) noexcept;
void hive_rocks_batch_put(HiveBatch* batch, HiveSlice key, HiveSlice value) noexcept;
void hive_rocks_batch_delete(HiveBatch* batch, HiveSlice key) noexcept;
void hive_rocks_batch_free(HiveBatch* batch) noexcept;
// Atomic; synced when it returns.
void hive_rocks_write(HiveRocks* rocks, HiveBatch* batch, HiveError* error) noexcept;

// From `start` up to before `end`, or backwards.
HiveCursor* hive_rocks_cursor(HiveRocks* rocks, const void* snapshot, HiveSlice start, HiveSlice end, int backward,
                              HiveError* error) noexcept;
// 1: a pair; 0: the end, or an error.
int hive_rocks_next(HiveCursor* cursor, HiveSlice* key, HiveSlice* value, HiveError* error) noexcept;
void hive_rocks_cursor_free(HiveCursor* cursor) noexcept;

void hive_rocks_flush(HiveRocks* rocks, HiveError* error) noexcept;
void hive_rocks_compact(HiveRocks* rocks, HiveError* error) noexcept;
// Removes [start, end): for tests; the engine has no use for it.
void hive_rocks_delete_range(HiveRocks* rocks, HiveSlice start, HiveSlice end, HiveError* error) noexcept;

// Counters in the order of `Counters` (context.h).
constexpr size_t kHiveCounters = 10;
void hive_rocks_counters(HiveRocks* rocks, uint64_t out[kHiveCounters]) noexcept;
// Every version that is damaged and would be read now.
void hive_rocks_damage(HiveRocks* rocks, void* self, void (*take)(void* self, const HiveDamage* damage),
                       HiveError* error) noexcept;
// The number of the next table file behind one; 0: there is none.
uint64_t hive_rocks_file_after(HiveRocks* rocks, uint64_t number, HiveError* error) noexcept;
// Verifies a table file, read anew; one that is gone has no entries. `take` gets keys with some version whose value is not
// sealed as the contract seals: whether the newest is one, a read tells.
void hive_rocks_verify(HiveRocks* rocks, uint64_t number, uint64_t* entries, uint64_t* bytes, void* self,
                       void (*take)(void* self, HiveSlice key), HiveError* error) noexcept;
// Metadata entries of a key, newest first: the entry's sequence number, checksum, payload.
void hive_rocks_metadata(HiveRocks* rocks, HiveSlice key, void* self,
                         void (*take)(void* self, uint64_t sequence, uint64_t checksum, HiveSlice payload),
                         HiveError* error) noexcept;
// For tests: the verdict (`Verdict` of checksum.h) over an entry whose checksum is `current` and a metadata entry's bytes.
uint8_t hive_rocks_judge(HiveSlice metadata, uint64_t current) noexcept;
void hive_rocks_inject(HiveRocks* rocks, uint32_t read_per_million, uint32_t write_per_million, uint64_t seed) noexcept;
// Nothing is written out, merged or deleted in the background until `go_on`: for copies of the files.
void hive_rocks_pause(HiveRocks* rocks, HiveError* error) noexcept;
void hive_rocks_go_on(HiveRocks* rocks, HiveError* error) noexcept;
// For figures. What reads of this thread did since it began: blocks found in the cache, blocks read and
// their bytes, keys compared.
constexpr size_t kHiveWork = 4;
void hive_rocks_work(uint64_t out[kHiveWork]) noexcept;
// For figures. What this thread writes next is put into tables in memory whose skip lists depend on nothing but the
// seed: where one has higher towers than another by chance, every look-up in it is shorter.
void hive_rocks_seed(uint32_t seed) noexcept;
// Of all tables: entries without metadata, data blocks, bytes of these, of the index, of filters.
constexpr size_t kHiveShape = 5;
void hive_rocks_shape(HiveRocks* rocks, uint64_t out[kHiveShape], HiveError* error) noexcept;
// Bytes of tables on disk and in memory.
uint64_t hive_rocks_bytes(HiveRocks* rocks) noexcept;
// For tests: the next call of this thread throws, 1: an exception, 2: something that is none.
void hive_rocks_throw_next(int what) noexcept;
}
