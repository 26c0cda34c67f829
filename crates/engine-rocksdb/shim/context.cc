// What the tables of one database share. See context.h.
#include "context.h"

#include <algorithm>

#include "metahive.h"

namespace hive {

std::shared_ptr<Registry> Registry::OfThisThread() {
  static thread_local std::shared_ptr<Registry> registry = std::make_shared<Registry>();
  return registry;
}

void Registry::Put(const char* place, Carried carried) {
  std::lock_guard<std::mutex> lock(mutex_);
  by_place_[place] = std::move(carried);
}

void Registry::Erase(const char* place) {
  std::lock_guard<std::mutex> lock(mutex_);
  by_place_.erase(place);
}

bool Registry::Find(const Slice& value, Carried* out) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = by_place_.find(value.data());
  if (found == by_place_.end() || found->second.length != value.size()) return false;
  *out = found->second;
  return true;
}

namespace {

bool Same(const Damage& one, const Damage& other) {
  return one.found == other.found && one.verdict == other.verdict;
}

}  // namespace

void Context::Report(Damage damage) {
  counters.damaged++;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto healed = healed_.find(damage.user_key);
  if (healed != healed_.end()) {
    for (const Damage& before : healed->second) {
      // A lost key leaves nothing to know it by but its number.
      const bool known = damage.verdict != Verdict::kKeyLost || damage.sequence == before.sequence;
      if (known && damage.sequence <= before.sequence && Same(before, damage)) return;
    }
  }
  if (damage_.size() >= kDamagedKeysMax && damage_.count(damage.user_key) == 0) {
    overflowed_.store(true, std::memory_order_release);
  } else {
    std::vector<Damage>& versions = damage_[damage.user_key];
    for (Damage& known : versions) {
      if (!Same(known, damage)) continue;
      known.file = damage.file;
      known.sequence = std::max(known.sequence, damage.sequence);
      return;
    }
    if (versions.size() >= kDamagedVersionsMax) versions.erase(versions.begin());
    versions.push_back(std::move(damage));
  }
  any_damage_.store(true, std::memory_order_release);
}

bool Context::IsDamaged(const Slice& user_key, SequenceNumber sequence) {
  if (!AnyDamage()) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = damage_.find(user_key.ToString());
  if (found == damage_.end()) return false;
  for (const Damage& one : found->second) {
    if (one.sequence == sequence) return true;
  }
  return false;
}

std::vector<Damage> Context::DamageWithin(const Slice& start, const Slice& end) {
  std::vector<Damage> out;
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto at = damage_.lower_bound(start.ToString()); at != damage_.end(); ++at) {
    if (Slice(at->first).compare(end) >= 0) break;
    out.insert(out.end(), at->second.begin(), at->second.end());
  }
  return out;
}

std::vector<Damage> Context::AllDamage() {
  std::vector<Damage> out;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& key : damage_) out.insert(out.end(), key.second.begin(), key.second.end());
  return out;
}

void Context::EraseIfEmpty(std::map<std::string, std::vector<Damage>>::iterator at) {
  if (at->second.empty()) damage_.erase(at);
  any_damage_.store(!damage_.empty() || Overflowed(), std::memory_order_release);
}

void Context::Forget(const Damage& damage) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto at = damage_.find(damage.user_key);
  if (at == damage_.end()) return;
  auto& versions = at->second;
  versions.erase(std::remove_if(versions.begin(), versions.end(),
                                [&](const Damage& one) { return one.sequence == damage.sequence && Same(one, damage); }),
                 versions.end());
  EraseIfEmpty(at);
}

void Context::Heal(const Slice& user_key, SequenceNumber sequence) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto at = damage_.find(user_key.ToString());
  if (at == damage_.end()) return;
  if (healed_.size() >= kDamagedKeysMax) healed_.clear();
  std::vector<Damage>& healed = healed_[at->first];
  for (Damage& one : at->second) {
    if (one.sequence > sequence) continue;
    if (healed.size() >= kDamagedVersionsMax) healed.erase(healed.begin());
    healed.push_back(std::move(one));
  }
  at->second.clear();
  EraseIfEmpty(at);
}

void Context::Describe(const Slice& user_key, const Slice& value, SequenceNumber sequence, ValueType type,
                       const Slice& previous, std::string* payload) const {
  payload->clear();
  if (provider_.describe == nullptr) return;
  char buffer[kPayloadBytesMax];
  const HiveSlice key{user_key.data(), user_key.size()}, bytes{value.data(), value.size()};
  const HiveSlice before{previous.data(), previous.size()};
  const size_t length =
      provider_.describe(provider_.self, key, bytes, sequence, static_cast<uint8_t>(type), before, buffer, sizeof(buffer));
  if (length <= sizeof(buffer)) payload->assign(buffer, length);
}

void Context::AddFile(uint64_t number, std::shared_ptr<const FileInfo> file) {
  std::lock_guard<std::mutex> lock(mutex_);
  files_[number] = std::move(file);
}

void Context::RemoveFile(uint64_t number, const FileInfo* file) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = files_.find(number);
  if (found != files_.end() && found->second.get() == file) files_.erase(found);
}

std::shared_ptr<const FileInfo> Context::FileAfter(uint64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = files_.upper_bound(number);
  return found == files_.end() ? nullptr : found->second;
}

void Context::Inject(uint32_t read, uint32_t written, uint64_t seed) {
  random_.store(seed);
  read_flips_.store(read);
  write_flips_.store(written);
}

uint64_t Context::Flip(const std::atomic<uint32_t>& per_million) {
  const uint32_t rate = per_million.load(std::memory_order_relaxed);
  if (rate == 0) return 0;
  uint64_t z = random_.fetch_add(0x9e3779b97f4a7c15ull) + 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z ^= z >> 31;
  if (z % 1000000 >= rate) return 0;
  counters.injected++;
  return (z >> 20) | 1;
}

void FlipBit(std::string* bytes, uint64_t choice) {
  if (bytes->empty()) return;
  const uint64_t bit = choice % (bytes->size() * 8);
  (*bytes)[bit / 8] = static_cast<char>((*bytes)[bit / 8] ^ (1 << (bit % 8)));
}

}  // namespace hive
