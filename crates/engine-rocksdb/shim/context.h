// What the tables of one database share: counters, damage found, hashes on their way from a reader to a
// builder, providers of general metadata, and the flips that tests ask for.
//
// Always: every map here is bounded; a lock is held for a look-up only.
// Not here: judging (verify.cc), writing (builder.cc).
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "checksum.h"
#include "store.h"

namespace hive {

struct FileInfo;

// Damaged keys that are told apart; beyond, the whole database counts as damaged.
constexpr size_t kDamagedKeysMax = 65536;
// Damaged versions of one key that are told apart; beyond, the oldest report goes.
constexpr size_t kDamagedVersionsMax = 16;

struct Damage {
  std::string user_key;
  SequenceNumber sequence = 0;
  uint8_t type = 0;
  Verdict verdict = Verdict::kValidated;
  uint64_t file = 0;
  // The content hash of the entry as it was found.
  uint64_t found = 0;
};

// The order is that of `Counters` in metahive.rs.
struct Counters {
  std::atomic<uint64_t> written{0};     // metadata entries written
  std::atomic<uint64_t> verified{0};    // entries whose checksum held
  std::atomic<uint64_t> adopted{0};     // entries that had none, and get one
  std::atomic<uint64_t> orphans{0};     // metadata without an entry, dropped
  std::atomic<uint64_t> recreated{0};   // metadata found flipped, and made anew
  std::atomic<uint64_t> mismatches{0};  // entries that did not check when first read
  std::atomic<uint64_t> retries{0};     // readings anew, past every cache
  std::atomic<uint64_t> repaired{0};    // of the mismatches, those a reading anew mended
  std::atomic<uint64_t> damaged{0};     // of the mismatches, those it did not
  std::atomic<uint64_t> injected{0};    // flips made for tests
};

// Content hashes of values a reader verified and has handed to RocksDB, by their place in memory. The
// builder on the same thread looks its values up here: a flip in between is then covered by the hash of
// before, and not sealed by a new one.
class Registry {
 public:
  struct Carried {
    size_t length = 0;
    uint64_t content = 0;
    std::string payload;
  };
  static std::shared_ptr<Registry> OfThisThread();
  void Put(const char* place, Carried carried);
  void Erase(const char* place);
  bool Find(const Slice& value, Carried* out);

 private:
  std::mutex mutex_;
  std::unordered_map<const char*, Carried> by_place_;
};

class Context {
 public:
  explicit Context(const HiveProvider& provider) : provider_(provider) {}

  Counters counters;

  void Report(Damage damage);
  bool AnyDamage() const { return any_damage_.load(std::memory_order_acquire); }
  bool Overflowed() const { return overflowed_.load(std::memory_order_acquire); }
  bool IsDamaged(const Slice& user_key, SequenceNumber sequence);
  // Those with start <= key, and key < end.
  std::vector<Damage> DamageWithin(const Slice& start, const Slice& end);
  std::vector<Damage> AllDamage();
  // What was found is not what a reader gets any more.
  void Forget(const Damage& damage);
  // The key was written anew: versions up to `sequence` are of no interest any more.
  void Heal(const Slice& user_key, SequenceNumber sequence);

  // What providers say of an entry; `previous` is what they said before.
  void Describe(const Slice& user_key, const Slice& value, SequenceNumber sequence, ValueType type,
                const Slice& previous, std::string* payload) const;

  void AddFile(uint64_t number, std::shared_ptr<const FileInfo> file);
  void RemoveFile(uint64_t number, const FileInfo* file);
  std::shared_ptr<const FileInfo> FileAfter(uint64_t number);

  // For tests: of a million entries read (or written) so many get one bit flipped.
  void Inject(uint32_t read, uint32_t written, uint64_t seed);
  // A number to choose the bit with; zero: none this time.
  uint64_t ReadFlip() { return Flip(read_flips_); }
  uint64_t WriteFlip() { return Flip(write_flips_); }

 private:
  uint64_t Flip(const std::atomic<uint32_t>& per_million);

  const HiveProvider provider_;
  std::mutex mutex_;
  void EraseIfEmpty(std::map<std::string, std::vector<Damage>>::iterator at);

  std::map<std::string, std::vector<Damage>> damage_;
  // What keys were damaged with before they were written anew: it may be met again until it is merged
  // away. RocksDB sets sequence numbers to zero at the lowest level, so they alone do not tell.
  std::map<std::string, std::vector<Damage>> healed_;
  std::map<uint64_t, std::shared_ptr<const FileInfo>> files_;
  std::atomic<bool> any_damage_{false};
  std::atomic<bool> overflowed_{false};
  std::atomic<uint32_t> read_flips_{0};
  std::atomic<uint32_t> write_flips_{0};
  std::atomic<uint64_t> random_{0};
};

// Flips bit `choice` of the bytes, counted around their end.
void FlipBit(std::string* bytes, uint64_t choice);

}  // namespace hive
