// A list that is filled and emptied once an entry: what its elements have allocated is kept for the next.
//
// Always: `Add` gives an element as it was left; who adds it sets all of it.
// Not here: bounds; an element that should not keep much gives it back itself (verify.cc).
#pragma once

#include <cstddef>
#include <vector>

namespace hive {

template <typename T>
class Recycled {
 public:
  T& Add() {
    if (size_ == all_.size()) all_.emplace_back();
    return all_[size_++];
  }
  void PopBack() { size_--; }
  void Clear() { size_ = 0; }
  bool Empty() const { return size_ == 0; }
  size_t Size() const { return size_; }
  T& operator[](size_t at) { return all_[at]; }
  const T& operator[](size_t at) const { return all_[at]; }
  T& Front() { return all_[0]; }
  T& Back() { return all_[size_ - 1]; }
  T* begin() { return all_.data(); }
  T* end() { return all_.data() + size_; }

 private:
  std::vector<T> all_;
  size_t size_ = 0;
};

}  // namespace hive
