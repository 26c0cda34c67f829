// The bytes of a metadata entry, and the four verdicts over an entry and its metadata.
//
//   key    user key │ 0x01                             type: deletion, sequence number: the entry's
//   value  sequence u64 │ checksum u64 │ check u64 [│ payload … │ seal u32]
//
//   checksum  XXH3(key) ^ XXH3(value) ^ XXH3(sequence) ^ XXH3(type), each but the value's with a seed of
//             its own, so that equal fields do not cancel out
//   check     XXH3 of the checksum: tells a flipped checksum from a flipped entry
//   payload   what providers of general metadata said; its seal is the low half of its XXH3
//
// Integers little-endian. Drawn in docs/formats/engine-metahive.md.
//
// Always: `content` (key and value) is independent of sequence and type, so it outlives RocksDB's
// setting of sequence numbers to zero at the lowest level.
// Not here: where entries stand in a table (builder.cc), what is done about a verdict (verify.cc).
#pragma once

#include "util/xxhash.h"

#include <cstdint>
#include <string>

#include "db/dbformat.h"
#include "rocksdb/slice.h"
#include "util/coding.h"

namespace hive {

using rocksdb::SequenceNumber;
using rocksdb::Slice;
using rocksdb::ValueType;

// The last byte of a metadata entry's key.
constexpr char kMark = '\x01';
constexpr uint64_t kKeySeed = 1, kSequenceSeed = 2, kTypeSeed = 3, kCheckSeed = 4, kPayloadSeed = 5;
constexpr size_t kFixedBytes = 24;
constexpr size_t kSealBytes = 4;
// What all providers together may say of one entry.
constexpr size_t kPayloadBytesMax = 256;
// Changes a content hash into one that no entry has: what was found damaged stays so.
constexpr uint64_t kPoison = 0xdeadc0dedeadc0deull;

inline bool IsMetadata(const Slice& internal_key) {
  const size_t size = internal_key.size();
  return size > rocksdb::kNumInternalBytes && internal_key[size - rocksdb::kNumInternalBytes - 1] == kMark &&
         internal_key[size - rocksdb::kNumInternalBytes] == static_cast<char>(rocksdb::kTypeDeletion);
}

inline uint64_t ContentHash(const Slice& user_key, const Slice& value) {
  return XXH3_64bits_withSeed(user_key.data(), user_key.size(), kKeySeed) ^ XXH3_64bits(value.data(), value.size());
}

inline uint64_t HashOfNumber(uint64_t number, uint64_t seed) {
  char bytes[8];
  rocksdb::EncodeFixed64(bytes, number);
  return XXH3_64bits_withSeed(bytes, sizeof(bytes), seed);
}

inline uint64_t PlaceHash(SequenceNumber sequence, ValueType type) {
  const char byte = static_cast<char>(type);
  return HashOfNumber(sequence, kSequenceSeed) ^ XXH3_64bits_withSeed(&byte, 1, kTypeSeed);
}

inline uint64_t CheckOf(uint64_t checksum) { return HashOfNumber(checksum, kCheckSeed); }

struct Metadata {
  SequenceNumber sequence = 0;
  uint64_t checksum = 0;
  uint64_t check = 0;
  Slice payload;
};

inline void Encode(SequenceNumber sequence, uint64_t checksum, const Slice& payload, std::string* out) {
  out->clear();
  rocksdb::PutFixed64(out, sequence);
  rocksdb::PutFixed64(out, checksum);
  rocksdb::PutFixed64(out, CheckOf(checksum));
  if (!payload.empty()) {
    out->append(payload.data(), payload.size());
    rocksdb::PutFixed32(out, static_cast<uint32_t>(XXH3_64bits_withSeed(payload.data(), payload.size(), kPayloadSeed)));
  }
}

// False: too short to be one. A payload whose seal does not hold is left out: it is nobody's data.
inline bool Decode(const Slice& value, Metadata* out) {
  if (value.size() < kFixedBytes) return false;
  out->sequence = rocksdb::DecodeFixed64(value.data());
  out->checksum = rocksdb::DecodeFixed64(value.data() + 8);
  out->check = rocksdb::DecodeFixed64(value.data() + 16);
  out->payload = Slice();
  if (value.size() > kFixedBytes + kSealBytes) {
    const Slice payload(value.data() + kFixedBytes, value.size() - kFixedBytes - kSealBytes);
    const uint32_t seal = rocksdb::DecodeFixed32(payload.data() + payload.size());
    if (seal == static_cast<uint32_t>(XXH3_64bits_withSeed(payload.data(), payload.size(), kPayloadSeed))) {
      out->payload = payload;
    }
  }
  return true;
}

// Figure 5 of the paper; the numbers are `Verdict`'s in metahive.rs.
enum class Verdict : uint8_t {
  kValidated = 0,          // the checksum is the entry's
  kMetadataRecreated = 1,  // the checksum was flipped, its check vouches for the entry
  kEntryCorrupted = 2,     // the check vouches for the checksum: the entry is wrong
  kBothCorrupted = 3,
  kMetadataMissing = 4,    // in a file of ours, where every entry has some
  kKeyLost = 5,            // metadata of a key that is not there, in a file of ours
};

inline Verdict Judge(uint64_t current, const Metadata& metadata) {
  if (current == metadata.checksum) return Verdict::kValidated;
  if (CheckOf(metadata.checksum) == metadata.check) return Verdict::kEntryCorrupted;
  if (CheckOf(current) == metadata.check) return Verdict::kMetadataRecreated;
  return Verdict::kBothCorrupted;
}

}  // namespace hive
