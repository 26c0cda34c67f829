// How the shim tells Rust what RocksDB said: a kind and a text that Rust frees.
#pragma once

#include <cstring>
#include <string>

#include "rocksdb/status.h"

extern "C" {
// Kinds of an answer; `failure.rs` has the same numbers.
enum HiveKind : int {
  kHiveOk = 0,
  kHiveCorrupt = 1,   // what was read is not what was written
  kHiveNoSpace = 2,   // the disk is full
  kHiveIo = 3,        // the operating system refused
  kHiveNewer = 4,     // files of a later RocksDB, or an option this one does not know
  kHiveBusy = 5,      // open in another process, or stopped
  kHiveOther = 6,
  kHiveThrown = 7,    // a C++ exception (guard.h)
};

struct HiveError {
  int kind;
  char* text;  // `hive_rocks_free` frees it; null when the kind is kHiveOk
  size_t length;
};
}

namespace hive {

inline int KindOf(const rocksdb::Status& status) {
  if (status.ok()) return kHiveOk;
  if (status.IsCorruption()) return kHiveCorrupt;
  if (status.IsIOError() && status.subcode() == rocksdb::Status::kNoSpace) return kHiveNoSpace;
  // A table or journal named by the manifest that is not there.
  if (status.IsPathNotFound()) return kHiveCorrupt;
  if (status.IsIOError()) return kHiveIo;
  if (status.IsNotSupported() || status.IsInvalidArgument()) return kHiveNewer;
  if (status.IsBusy() || status.IsShutdownInProgress() || status.IsTryAgain()) return kHiveBusy;
  return kHiveOther;
}

// True when all is well; else fills `error`.
inline bool Tell(const rocksdb::Status& status, HiveError* error) {
  error->kind = KindOf(status);
  error->text = nullptr;
  error->length = 0;
  if (status.ok()) return true;
  const std::string text = status.ToString();
  error->text = static_cast<char*>(malloc(text.size() + 1));
  if (error->text != nullptr) {
    memcpy(error->text, text.c_str(), text.size() + 1);
    error->length = text.size();
  }
  return false;
}

}  // namespace hive
