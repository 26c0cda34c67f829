// RocksDB as one ordered map with an atomic, synced write.
//
// Always: the write-ahead log is synced once a write; every file the manifest names is opened when the
// database is (`max_open_files = -1`), so that a lost one is found then.
// A key known to be damaged is not read, nor a range it lies in, until it has been written anew.
// Not here: what keys and values mean (Rust), metadata entries (metahive.h).
#include "store.h"

#include <memory>

#include "guard.h"
#include "metahive.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/options.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/debug.h"
#include "rocksdb/write_batch.h"
#include "util/random.h"

using namespace rocksdb;

namespace {

constexpr int kFilterBitsPerKey = 10;
constexpr size_t kLogFileBytesMax = 1 << 20;
constexpr size_t kLogFilesKept = 2;
// Metadata entries of one key that are looked at.
constexpr size_t kMetadataShownMax = 64;
// Entries, metadata among them, between two places of a block that a look-up can begin at, which it finds by
// hash: with metadata, blocks hold twice the entries. Every RocksDB since 5.15 reads it.
constexpr int kRestartInterval = 8;
// What Debian's RocksDB 7.8 and all since read.
constexpr uint32_t kFormatVersion = 5;

inline Slice S(HiveSlice slice) { return Slice(slice.bytes, slice.length); }
inline HiveSlice H(const Slice& slice) { return HiveSlice{slice.data(), slice.size()}; }

}  // namespace

struct HiveRocks {
  bool sync = true;
  std::shared_ptr<hive::Context> context;
  std::shared_ptr<TableFactory> factory;
  std::unique_ptr<DB> db;
};

struct HiveBatch {
  WriteBatch batch;
  // The first change that could not be taken: the batch is not written then.
  HiveError failed{kHiveOk, nullptr, 0};
  ~HiveBatch() { free(failed.text); }
};

struct HivePinned {
  PinnableSlice value;
};

struct HiveCursor {
  HiveRocks* rocks;
  std::unique_ptr<Iterator> iterator;
  std::string start, end;
  Slice lower, upper;
  bool backward;
  bool begun = false;
};

namespace {

BlockBasedTableOptions TableOptionsOf(const HiveOptions& options) {
  BlockBasedTableOptions table;
  table.format_version = kFormatVersion;
  table.filter_policy.reset(NewBloomFilterPolicy(kFilterBitsPerKey));
  table.block_cache = NewLRUCache(options.cache_bytes);
  table.checksum = options.block_checksums ? kXXH3 : kNoChecksum;
  if (!options.stock_blocks) {
    table.data_block_index_type = BlockBasedTableOptions::kDataBlockBinaryAndHash;
    table.block_restart_interval = kRestartInterval;
  }
  return table;
}

Options OptionsOf(const HiveOptions& options) {
  Options out;
  out.create_if_missing = options.make != 0;
  out.error_if_exists = false;
  out.max_open_files = -1;
  out.max_background_jobs = options.threads < 1 ? 1 : options.threads;
  out.max_subcompactions = options.threads < 3 ? 1 : options.threads - 1;
  out.write_buffer_size = options.memtable_bytes;
  out.target_file_size_base = options.file_bytes;
  out.max_total_wal_size = options.wal_bytes_max;
  out.max_bytes_for_level_base = options.memtable_bytes * 4;
  out.level_compaction_dynamic_level_bytes = true;
  out.compression = kLZ4Compression;
  out.use_direct_reads = options.direct_reads != 0;
  out.wal_recovery_mode = WALRecoveryMode::kPointInTimeRecovery;
  out.track_and_verify_wals_in_manifest = true;
  out.verify_sst_unique_id_in_manifest = true;
  out.info_log_level = WARN_LEVEL;
  out.max_log_file_size = kLogFileBytesMax;
  out.keep_log_file_num = kLogFilesKept;
  out.stats_dump_period_sec = 0;
  out.stats_persist_period_sec = 0;
  return out;
}

// Whether what was found damaged is still what a reader of now would get.
Status StillDamaged(HiveRocks* rocks, const hive::Damage& damage) {
  std::vector<KeyVersion> versions;
  const Slice key(damage.user_key);
  const Status status = GetAllKeyVersions(rocks->db.get(), key, key, 1, &versions);
  if (!status.ok()) return status;
  const bool value = damage.type == kTypeValue && damage.verdict != hive::Verdict::kKeyLost;
  if (versions.empty() && value) {
    rocks->context->Forget(damage);
    return Status::OK();
  }
  if (!versions.empty()) {
    const KeyVersion& newest = versions.front();
    // At the lowest level all numbers are zero: then it is told by what it holds.
    const bool other = value && hive::ContentHash(key, newest.value) != damage.found;
    if (newest.sequence > damage.sequence || other) {
      rocks->context->Forget(damage);
      return Status::OK();
    }
  }
  return Status::Corruption("MetaHive: an entry does not match its checksum; write the key anew from a healthy replica",
                            key.ToString(true));
}

Status CheckRange(HiveRocks* rocks, const Slice& start, const Slice& end) {
  if (!rocks->context->AnyDamage()) return Status::OK();
  if (rocks->context->Overflowed()) return Status::Corruption("MetaHive: more damaged keys than are told apart");
  for (const auto& damage : rocks->context->DamageWithin(start, end)) {
    const Status status = StillDamaged(rocks, damage);
    if (!status.ok()) return status;
  }
  return Status::OK();
}

// A change of a batch. One that fails is never left out silently: the writing answers with it.
template <typename F>
void Change(HiveBatch* batch, F&& change) noexcept {
  if (batch == nullptr || batch->failed.kind != kHiveOk) return;
  hive::Guarded(&batch->failed, [&] { hive::Tell(change(), &batch->failed); });
}

// The batch's failure, if it has one, is the error's.
bool Failed(HiveBatch* batch, HiveError* error) {
  if (batch->failed.kind == kHiveOk) return false;
  *error = batch->failed;
  batch->failed.text = nullptr;
  return true;
}

// Tells which keys a batch wrote.
class Healer : public WriteBatch::Handler {
 public:
  explicit Healer(HiveRocks* rocks) : rocks_(rocks), newest_(rocks->db->GetLatestSequenceNumber()) {}
  Status PutCF(uint32_t, const Slice& key, const Slice&) override { return Heal(key); }
  Status DeleteCF(uint32_t, const Slice& key) override { return Heal(key); }

 private:
  Status Heal(const Slice& key) {
    rocks_->context->Heal(key, newest_);
    return Status::OK();
  }
  HiveRocks* const rocks_;
  const SequenceNumber newest_;
};

Status CheckKey(HiveRocks* rocks, const Slice& key) {
  if (!rocks->context->AnyDamage()) return Status::OK();
  return CheckRange(rocks, key, key.ToString() + '\0');
}

}  // namespace

extern "C" {

HiveRocks* hive_rocks_open(HiveSlice path, const HiveOptions* options, HiveError* error) noexcept {
  return hive::Guarded<HiveRocks*>(error, nullptr, [&]() -> HiveRocks* {
    auto rocks = std::make_unique<HiveRocks>();
    Options all = OptionsOf(*options);
    rocks->sync = options->sync != 0;
    rocks->context = std::make_shared<hive::Context>(options->provider);
    const BlockBasedTableOptions table = TableOptionsOf(*options);
    if (options->metahive) {
      rocks->factory = std::make_shared<hive::Factory>(table, rocks->context);
    } else {
      rocks->factory.reset(NewBlockBasedTableFactory(table));
    }
    all.table_factory = rocks->factory;
    DB* db = nullptr;
    const Status status = DB::Open(all, S(path).ToString(), &db);
    rocks->db.reset(db);
    return hive::Tell(status, error) ? rocks.release() : nullptr;
  });
}

void hive_rocks_close(HiveRocks* rocks) noexcept {
  if (rocks == nullptr) return;
  hive::Guarded(nullptr, [&] { rocks->db->Close().PermitUncheckedError(); });
  hive::Guarded(nullptr, [&] { delete rocks; });
}

void hive_rocks_free(char* text) noexcept { free(text); }

HivePinned* hive_rocks_get(HiveRocks* rocks, const void* snapshot, HiveSlice key, HiveSlice* value,
                           HiveError* error) noexcept {
  return hive::Guarded<HivePinned*>(error, nullptr, [&]() -> HivePinned* {
    ReadOptions read;
    read.snapshot = static_cast<const Snapshot*>(snapshot);
    auto pinned = std::make_unique<HivePinned>();
    if (!hive::Tell(CheckKey(rocks, S(key)), error)) return nullptr;
    const Status status = rocks->db->Get(read, rocks->db->DefaultColumnFamily(), S(key), &pinned->value);
    if (status.IsNotFound()) {
      hive::Tell(Status::OK(), error);
      return nullptr;
    }
    if (!hive::Tell(status, error)) return nullptr;
    *value = H(pinned->value);
    return pinned.release();
  });
}

void hive_rocks_unpin(HivePinned* pinned) noexcept {
  hive::Guarded(nullptr, [&] { delete pinned; });
}

const void* hive_rocks_snapshot(HiveRocks* rocks, HiveError* error) noexcept {
  return hive::Guarded<const void*>(error, nullptr, [&] { return rocks->db->GetSnapshot(); });
}

void hive_rocks_release(HiveRocks* rocks, const void* snapshot) noexcept {
  hive::Guarded(nullptr, [&] { rocks->db->ReleaseSnapshot(static_cast<const Snapshot*>(snapshot)); });
}

HiveBatch* hive_rocks_batch(void) noexcept {
  return hive::Guarded<HiveBatch*>(nullptr, nullptr, [] { return new HiveBatch(); });
}

void hive_rocks_batch_put(HiveBatch* batch, HiveSlice key, HiveSlice value) noexcept {
  Change(batch, [&] { return batch->batch.Put(S(key), S(value)); });
}

void hive_rocks_batch_delete(HiveBatch* batch, HiveSlice key) noexcept {
  Change(batch, [&] { return batch->batch.Delete(S(key)); });
}

void hive_rocks_batch_free(HiveBatch* batch) noexcept {
  hive::Guarded(nullptr, [&] { delete batch; });
}

void hive_rocks_write(HiveRocks* rocks, HiveBatch* batch, HiveError* error) noexcept {
  if (batch == nullptr) return hive::Fill(error, "there was no memory for a batch");
  hive::Guarded(error, [&] {
    if (Failed(batch, error)) return;
    WriteOptions write;
    write.sync = rocks->sync;
    const bool written = hive::Tell(rocks->db->Write(write, &batch->batch), error);
    if (written && rocks->context->AnyDamage()) {
      Healer healer(rocks);
      batch->batch.Iterate(&healer).PermitUncheckedError();
    }
  });
}

HiveCursor* hive_rocks_cursor(HiveRocks* rocks, const void* snapshot, HiveSlice start, HiveSlice end, int backward,
                              HiveError* error) noexcept {
  return hive::Guarded<HiveCursor*>(error, nullptr, [&] {
    auto cursor = std::make_unique<HiveCursor>();
    cursor->rocks = rocks;
    cursor->start = S(start).ToString();
    cursor->end = S(end).ToString();
    cursor->lower = cursor->start;
    cursor->upper = cursor->end;
    cursor->backward = backward != 0;
    ReadOptions read;
    read.snapshot = static_cast<const Snapshot*>(snapshot);
    // The slices lie in the cursor, which does not move.
    read.iterate_lower_bound = &cursor->lower;
    read.iterate_upper_bound = &cursor->upper;
    cursor->iterator.reset(rocks->db->NewIterator(read));
    return cursor.release();
  });
}

int hive_rocks_next(HiveCursor* cursor, HiveSlice* key, HiveSlice* value, HiveError* error) noexcept {
  return hive::Guarded(error, 0, [&] {
    Iterator* iterator = cursor->iterator.get();
    if (!cursor->begun) {
      cursor->begun = true;
      if (!hive::Tell(CheckRange(cursor->rocks, cursor->lower, cursor->upper), error)) return 0;
      cursor->backward ? iterator->SeekToLast() : iterator->SeekToFirst();
    } else if (iterator->Valid()) {
      cursor->backward ? iterator->Prev() : iterator->Next();
    }
    if (!hive::Tell(iterator->status(), error) || !iterator->Valid()) return 0;
    *key = H(iterator->key());
    *value = H(iterator->value());
    return 1;
  });
}

void hive_rocks_cursor_free(HiveCursor* cursor) noexcept {
  hive::Guarded(nullptr, [&] { delete cursor; });
}

void hive_rocks_flush(HiveRocks* rocks, HiveError* error) noexcept {
  hive::Guarded(error, [&] { hive::Tell(rocks->db->Flush(FlushOptions()), error); });
}

void hive_rocks_compact(HiveRocks* rocks, HiveError* error) noexcept {
  hive::Guarded(error, [&] {
    CompactRangeOptions compact;
    // Also what lies at the bottom already: it is to be verified, and to get metadata.
    compact.bottommost_level_compaction = BottommostLevelCompaction::kForceOptimized;
    hive::Tell(rocks->db->CompactRange(compact, nullptr, nullptr), error);
  });
}

void hive_rocks_delete_range(HiveRocks* rocks, HiveSlice start, HiveSlice end, HiveError* error) noexcept {
  hive::Guarded(error, [&] {
    WriteOptions write;
    write.sync = true;
    hive::Tell(rocks->db->DeleteRange(write, rocks->db->DefaultColumnFamily(), S(start), S(end)), error);
  });
}

void hive_rocks_counters(HiveRocks* rocks, uint64_t out[kHiveCounters]) noexcept {
  const hive::Counters& counters = rocks->context->counters;
  const std::atomic<uint64_t>* all[kHiveCounters] = {
      &counters.written, &counters.verified, &counters.adopted, &counters.orphans, &counters.recreated,
      &counters.mismatches, &counters.retries, &counters.repaired, &counters.damaged, &counters.injected};
  for (size_t i = 0; i < kHiveCounters; i++) out[i] = all[i]->load();
}

void hive_rocks_damage(HiveRocks* rocks, void* self, void (*take)(void* self, const HiveDamage* damage),
                       HiveError* error) noexcept {
  hive::Guarded(error, [&] {
    hive::Tell(Status::OK(), error);
    for (const auto& one : rocks->context->AllDamage()) {
      if (StillDamaged(rocks, one).ok()) continue;
      const HiveDamage damage{H(one.user_key), one.sequence, one.file, one.type, static_cast<uint8_t>(one.verdict)};
      take(self, &damage);
    }
  });
}

uint64_t hive_rocks_file_after(HiveRocks* rocks, uint64_t number, HiveError* error) noexcept {
  return hive::Guarded<uint64_t>(error, 0, [&]() -> uint64_t {
    hive::Tell(Status::OK(), error);
    const auto file = rocks->context->FileAfter(number);
    return file == nullptr ? 0 : file->number;
  });
}

void hive_rocks_verify(HiveRocks* rocks, uint64_t number, uint64_t* entries, uint64_t* bytes, void* self,
                       void (*take)(void* self, HiveSlice key), HiveError* error) noexcept {
  *entries = *bytes = 0;
  hive::Guarded(error, [&] {
    hive::Tell(Status::OK(), error);
    const auto file = rocks->context->FileAfter(number - 1);
    if (file == nullptr || file->number != number) return;
    *bytes = file->size;
    std::vector<std::string> unsealed;
    const Status status = hive::VerifyFile(file, entries, &unsealed);
    for (const std::string& key : unsealed) take(self, H(key));
    // Merged into another meanwhile, which verified it.
    const bool gone = !status.ok() && rocks->context->FileAfter(file->number - 1) != file;
    if (!gone) hive::Tell(status, error);
  });
}

void hive_rocks_metadata(HiveRocks* rocks, HiveSlice key, void* self,
                         void (*take)(void* self, uint64_t sequence, uint64_t checksum, HiveSlice payload),
                         HiveError* error) noexcept {
  hive::Guarded(error, [&] {
    const hive::ShowMetadata show;
    const std::string mark_key = S(key).ToString() + hive::kMark;
    std::vector<KeyVersion> versions;
    const Status status = GetAllKeyVersions(rocks->db.get(), mark_key, mark_key, kMetadataShownMax, &versions);
    for (const auto& version : versions) {
      hive::Metadata metadata;
      if (!hive::Decode(version.value, hive::Form::kUnknown, version.sequence, &metadata)) continue;
      take(self, metadata.sequence, metadata.checksum, H(metadata.payload));
    }
    hive::Tell(status, error);
  });
}

uint8_t hive_rocks_judge(HiveSlice metadata, uint64_t current) noexcept {
  const auto missing = static_cast<uint8_t>(hive::Verdict::kMetadataMissing);
  return hive::Guarded(nullptr, missing, [&] {
    hive::Metadata decoded;
    if (!hive::Decode(S(metadata), hive::Form::kUnknown, 0, &decoded)) return missing;
    return static_cast<uint8_t>(hive::Judge(current, decoded));
  });
}

void hive_rocks_inject(HiveRocks* rocks, uint32_t read_per_million, uint32_t write_per_million, uint64_t seed) noexcept {
  rocks->context->Inject(read_per_million, write_per_million, seed);
}

void hive_rocks_pause(HiveRocks* rocks, HiveError* error) noexcept {
  hive::Guarded(error, [&] {
    Status status = rocks->db->PauseBackgroundWork();
    if (status.ok()) status = rocks->db->DisableFileDeletions();
    hive::Tell(status, error);
  });
}

void hive_rocks_go_on(HiveRocks* rocks, HiveError* error) noexcept {
  hive::Guarded(error, [&] {
    Status status = rocks->db->EnableFileDeletions(/*force=*/false);
    const Status resumed = rocks->db->ContinueBackgroundWork();
    hive::Tell(status.ok() ? resumed : status, error);
  });
}

void hive_rocks_work(uint64_t out[kHiveWork]) noexcept {
  for (size_t i = 0; i < kHiveWork; i++) out[i] = 0;
  hive::Guarded(nullptr, [&] {
    const PerfContext& perf = *get_perf_context();
    const uint64_t all[kHiveWork] = {perf.block_cache_hit_count, perf.block_read_count, perf.block_read_byte,
                                     perf.user_key_comparison_count};
    for (size_t i = 0; i < kHiveWork; i++) out[i] = all[i];
  });
}

void hive_rocks_seed(uint32_t seed) noexcept {
  hive::Guarded(nullptr, [&] { Random::GetTLSInstance()->Reset(seed); });
}

void hive_rocks_shape(HiveRocks* rocks, uint64_t out[kHiveShape], HiveError* error) noexcept {
  for (size_t i = 0; i < kHiveShape; i++) out[i] = 0;
  hive::Guarded(error, [&] {
    TablePropertiesCollection tables;
    hive::Tell(rocks->db->GetPropertiesOfAllTables(&tables), error);
    for (const auto& table : tables) {
      const TableProperties& of = *table.second;
      const uint64_t all[kHiveShape] = {of.num_entries, of.num_data_blocks, of.data_size, of.index_size,
                                        of.filter_size};
      for (size_t i = 0; i < kHiveShape; i++) out[i] += all[i];
    }
  });
}

uint64_t hive_rocks_bytes(HiveRocks* rocks) noexcept {
  return hive::Guarded<uint64_t>(nullptr, 0, [&] {
    uint64_t tables = 0, memory = 0;
    rocks->db->GetIntProperty(DB::Properties::kTotalSstFilesSize, &tables);
    rocks->db->GetIntProperty(DB::Properties::kCurSizeAllMemTables, &memory);
    return tables + memory;
  });
}

void hive_rocks_throw_next(int what) noexcept { hive::throw_next = what; }

}  // extern "C"
