// The bytes of a metadata entry, and the four verdicts over an entry and its metadata.
//
//   key    user key │ 0x01                             type: deletion, sequence number: the entry's
//   value  checksum u48 │ check u16 [│ payload … │ seal u32]                       form 2, written now
//          sequence u64 │ checksum u64 │ check u64 [│ payload … │ seal u32]        form 1, read only
//
//   checksum  XXH3(key) ^ XXH3(value) ^ XXH3(sequence) ^ XXH3(type), each but the value's with a seed of
//             its own, so that equal fields do not cancel out; of form 2 the lower 48 bits
//   check     XXH3 of the checksum: tells a flipped checksum from a flipped entry; of form 2 the lower 16 bits
//   payload   what providers of general metadata said; its seal is the low half of its XXH3
//
// Integers little-endian. Drawn, with the chance that damage passes, in docs/formats/engine-metahive.md.
//
// Each byte here is one that a cache of blocks has not for keys: so the number is not written twice, and
// sums are no longer than what they are to find asks for.
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
constexpr size_t kChecksumBytes = 6, kCheckBytes = 2;
constexpr uint64_t kChecksumMask = (1ull << (8 * kChecksumBytes)) - 1, kCheckMask = (1ull << (8 * kCheckBytes)) - 1;
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

// How a metadata entry is written; a file's property says which it has.
enum class Form : uint8_t { kUnknown = 0, kFirst = 1, kSecond = 2 };

inline size_t FixedBytes(Form form) { return form == Form::kFirst ? 24 : kChecksumBytes + kCheckBytes; }

struct Metadata {
  Form form = Form::kSecond;
  // Of form 1, which says it once more; of form 2 the metadata entry's own.
  SequenceNumber sequence = 0;
  uint64_t checksum = 0;
  uint64_t check = 0;
  Slice payload;

  // As much of a checksum, and of the checksum of one, as this form keeps.
  uint64_t Kept(uint64_t whole) const { return form == Form::kFirst ? whole : whole & kChecksumMask; }
  uint64_t CheckFor(uint64_t whole) const {
    return form == Form::kFirst ? CheckOf(whole) : CheckOf(whole & kChecksumMask) & kCheckMask;
  }
};

inline void Encode(uint64_t checksum, const Slice& payload, std::string* out) {
  out->clear();
  char bytes[8];
  rocksdb::EncodeFixed64(bytes, checksum);
  out->append(bytes, kChecksumBytes);
  rocksdb::EncodeFixed64(bytes, CheckOf(checksum & kChecksumMask));
  out->append(bytes, kCheckBytes);
  if (!payload.empty()) {
    out->append(payload.data(), payload.size());
    rocksdb::PutFixed32(out, static_cast<uint32_t>(XXH3_64bits_withSeed(payload.data(), payload.size(), kPayloadSeed)));
  }
}

// Which form bytes of a file without the property have: a RocksDB that knows nothing of metadata keeps it
// where it merges not as far as the bottom. By chance no bytes are of form 1: the check has 64 bits.
inline Form FormOf(const Slice& value) {
  if (value.size() < FixedBytes(Form::kFirst)) return Form::kSecond;
  const bool first = CheckOf(rocksdb::DecodeFixed64(value.data() + 8)) == rocksdb::DecodeFixed64(value.data() + 16);
  return first ? Form::kFirst : Form::kSecond;
}

// `sequence`: the metadata entry's own. False: too short to be one. A payload whose seal does not hold is
// left out: it is nobody's data.
inline bool Decode(const Slice& value, Form form, SequenceNumber sequence, Metadata* out) {
  out->form = form == Form::kUnknown ? FormOf(value) : form;
  const size_t fixed = FixedBytes(out->form);
  if (value.size() < fixed) return false;
  if (out->form == Form::kFirst) {
    out->sequence = rocksdb::DecodeFixed64(value.data());
    out->checksum = rocksdb::DecodeFixed64(value.data() + 8);
    out->check = rocksdb::DecodeFixed64(value.data() + 16);
  } else {
    const uint64_t both = rocksdb::DecodeFixed64(value.data());
    static_assert(kChecksumBytes + kCheckBytes == sizeof(both), "they are read as one");
    out->sequence = sequence;
    out->checksum = both & kChecksumMask;
    out->check = both >> (8 * kChecksumBytes);
  }
  out->payload = Slice();
  if (value.size() > fixed + kSealBytes) {
    const Slice payload(value.data() + fixed, value.size() - fixed - kSealBytes);
    const uint32_t seal = rocksdb::DecodeFixed32(payload.data() + payload.size());
    if (seal == static_cast<uint32_t>(XXH3_64bits_withSeed(payload.data(), payload.size(), kPayloadSeed))) {
      out->payload = payload;
    }
  }
  return true;
}

// Whether at most one byte of the two differs.
inline bool OneByteApart(uint64_t one, uint64_t other) {
  const uint64_t apart = one ^ other;
  return apart == 0 || (apart & ~(0xffull << (__builtin_ctzll(apart) / 8 * 8))) == 0;
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

// `current`: the entry's checksum, whole. That the check vouches for the entry, though the checksum kept is
// another, is believed of form 2 only where that one is damaged in a single byte: what damages entry and
// metadata together would meet 16 bits by chance too often.
inline Verdict Judge(uint64_t current, const Metadata& metadata) {
  const uint64_t kept = metadata.Kept(current);
  if (kept == metadata.checksum) return Verdict::kValidated;
  if (metadata.CheckFor(metadata.checksum) == metadata.check) return Verdict::kEntryCorrupted;
  const bool near = metadata.form == Form::kFirst || OneByteApart(kept, metadata.checksum);
  if (near && metadata.CheckFor(current) == metadata.check) return Verdict::kMetadataRecreated;
  return Verdict::kBothCorrupted;
}

}  // namespace hive
