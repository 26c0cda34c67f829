// Where C++ exceptions end: at the C boundary, as errors. Through it they would be undefined behaviour in Rust.
//
// Always: every function of store.h is `noexcept` and does its work inside `Guarded`; what it answers after an
// exception is never mistaken for a good answer (null with an error, zero, nothing written).
// Not here: exceptions on RocksDB's own threads, which end the process.
#pragma once

#include <cstdlib>
#include <exception>
#include <stdexcept>

#include "status.h"

namespace hive {

// For tests: what the next guarded call of this thread throws. 1: an exception, 2: something that is none.
inline thread_local int throw_next = 0;

inline void ThrowIfAsked() {
  const int what = throw_next;
  throw_next = 0;
  if (what == 1) throw std::runtime_error("asked to throw");
  if (what == 2) throw 2;
}

// Fills an error without allocating anything that could throw.
inline void Fill(HiveError* error, const char* what) noexcept {
  if (error == nullptr) return;
  free(error->text);
  error->kind = kHiveThrown;
  error->length = 0;
  const size_t length = strlen(what);
  error->text = static_cast<char*>(malloc(length + 1));
  if (error->text == nullptr) return;
  memcpy(error->text, what, length + 1);
  error->length = length;
}

// What `body` answers; `otherwise`, with the error filled, where it throws.
template <typename T, typename F>
T Guarded(HiveError* error, T otherwise, F&& body) noexcept {
  try {
    ThrowIfAsked();
    return body();
  } catch (const std::exception& thrown) {
    Fill(error, thrown.what());
  } catch (...) {
    Fill(error, "something that is no exception was thrown");
  }
  return otherwise;
}

// The same for what answers nothing; whether it came to its end.
template <typename F>
bool Guarded(HiveError* error, F&& body) noexcept {
  return Guarded(error, false, [&] {
    body();
    return true;
  });
}

}  // namespace hive
