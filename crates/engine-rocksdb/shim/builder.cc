// Writes each key's metadata entries behind its versions.
//
// A key that continues another with zero bytes stands between that one and its metadata:
//   a   a\0   a\0\1 (of a\0)   a\1 (of a)
// so keys wait on a stack, each a continuation of the one below, until a key behind their metadata
// comes. What still waits when the file ends goes into its property.
//
// Always: entries reach the table in order; counts told to RocksDB are those without metadata.
// Not here: block boundaries and filters (blocks.cc).
#include "metahive.h"
#include "recycled.h"

namespace hive {

using namespace rocksdb;

std::string EncodeCoverage(const Coverage& coverage) {
  std::string out;
  out.push_back(static_cast<char>(Form::kSecond));
  PutFixed64(&out, coverage.entries);
  PutFixed64(&out, coverage.key_bytes);
  PutFixed64(&out, coverage.value_bytes);
  PutFixed64(&out, coverage.tail.size());
  for (const auto& key : coverage.tail) {
    PutLengthPrefixedSlice(&out, key.first);
    PutFixed64(&out, key.second.size());
    for (const Tail& one : key.second) {
      PutVarint64(&out, one.sequence);
      PutLengthPrefixedSlice(&out, one.value);
    }
  }
  PutFixed64(&out, XXH3_64bits(out.data(), out.size()));
  return out;
}

namespace {

bool DecodeTail(Form form, Slice* rest, std::vector<Tail>* list) {
  Tail tail;
  Slice value;
  if (form == Form::kSecond && !GetVarint64(rest, &tail.sequence)) return false;
  if (!GetLengthPrefixedSlice(rest, &value)) return false;
  // Form 1 says the number in the entry alone.
  if (form == Form::kFirst) tail.sequence = value.size() < 8 ? 0 : DecodeFixed64(value.data());
  tail.value = value.ToString();
  list->push_back(std::move(tail));
  return true;
}

}  // namespace

bool DecodeCoverage(const Slice& bytes, Coverage* coverage) {
  if (bytes.size() < 1 + 5 * 8) return false;
  coverage->form = static_cast<Form>(bytes[0]);
  if (coverage->form != Form::kFirst && coverage->form != Form::kSecond) return false;
  Slice rest(bytes.data() + 1, bytes.size() - 9);
  if (XXH3_64bits(bytes.data(), bytes.size() - 8) != DecodeFixed64(bytes.data() + bytes.size() - 8)) return false;
  uint64_t keys = 0;
  if (!GetFixed64(&rest, &coverage->entries) || !GetFixed64(&rest, &coverage->key_bytes) ||
      !GetFixed64(&rest, &coverage->value_bytes) || !GetFixed64(&rest, &keys)) {
    return false;
  }
  for (uint64_t i = 0; i < keys; i++) {
    Slice key;
    uint64_t values = 0;
    if (!GetLengthPrefixedSlice(&rest, &key) || !GetFixed64(&rest, &values)) return false;
    std::vector<Tail>& list = coverage->tail[key.ToString()];
    for (uint64_t j = 0; j < values; j++) {
      if (!DecodeTail(coverage->form, &rest, &list)) return false;
    }
  }
  return rest.empty();
}

void Subtract(const Coverage& coverage, TableProperties* properties) {
  const auto less = [](uint64_t* from, uint64_t by) { *from = *from < by ? 0 : *from - by; };
  less(&properties->num_entries, coverage.entries);
  less(&properties->num_deletions, coverage.entries);
  less(&properties->raw_key_size, coverage.key_bytes);
  less(&properties->raw_value_size, coverage.value_bytes);
}

namespace {

class Builder;

// Puts the property into the file.
class Collector : public IntTblPropCollector {
 public:
  explicit Collector(const Coverage* coverage) : coverage_(coverage) {}
  Status InternalAdd(const Slice&, const Slice&, uint64_t) override { return Status::OK(); }
  void BlockAdd(uint64_t, uint64_t, uint64_t) override {}
  Status Finish(UserCollectedProperties* properties) override {
    (*properties)[kProperty] = EncodeCoverage(*coverage_);
    return Status::OK();
  }
  const char* Name() const override { return kProperty; }
  UserCollectedProperties GetReadableProperties() const override {
    return {{kProperty, std::to_string(coverage_->entries)}};
  }

 private:
  const Coverage* const coverage_;
};

class CollectorFactory : public IntTblPropCollectorFactory {
 public:
  explicit CollectorFactory(const Coverage* coverage) : coverage_(coverage) {}
  IntTblPropCollector* CreateIntTblPropCollector(uint32_t, int) override { return new Collector(coverage_); }
  const char* Name() const override { return kProperty; }

 private:
  const Coverage* const coverage_;
};

// An application's collector, from which metadata entries are kept.
class UnawareCollector : public IntTblPropCollector {
 public:
  explicit UnawareCollector(IntTblPropCollector* inner) : inner_(inner) {}
  Status InternalAdd(const Slice& key, const Slice& value, uint64_t file_size) override {
    return IsMetadata(key) ? Status::OK() : inner_->InternalAdd(key, value, file_size);
  }
  void BlockAdd(uint64_t raw, uint64_t fast, uint64_t slow) override { inner_->BlockAdd(raw, fast, slow); }
  Status Finish(UserCollectedProperties* properties) override { return inner_->Finish(properties); }
  const char* Name() const override { return inner_->Name(); }
  UserCollectedProperties GetReadableProperties() const override { return inner_->GetReadableProperties(); }
  bool NeedCompact() const override { return inner_->NeedCompact(); }

 private:
  const std::unique_ptr<IntTblPropCollector> inner_;
};

class UnawareCollectorFactory : public IntTblPropCollectorFactory {
 public:
  explicit UnawareCollectorFactory(IntTblPropCollectorFactory* inner) : inner_(inner) {}
  IntTblPropCollector* CreateIntTblPropCollector(uint32_t family, int level) override {
    IntTblPropCollector* made = inner_->CreateIntTblPropCollector(family, level);
    return made == nullptr ? nullptr : new UnawareCollector(made);
  }
  const char* Name() const override { return inner_->Name(); }

 private:
  IntTblPropCollectorFactory* const inner_;
};

class Builder : public TableBuilder {
 public:
  Builder(const Factory& factory, const std::shared_ptr<Context>& context, const TableBuilderOptions& options,
          WritableFileWriter* file)
      : context_(context), registry_(Registry::OfThisThread()) {
    collectors_.emplace_back(new CollectorFactory(&coverage_));
    if (options.int_tbl_prop_collector_factories != nullptr) {
      for (const auto& one : *options.int_tbl_prop_collector_factories) {
        collectors_.emplace_back(new UnawareCollectorFactory(one.get()));
      }
    }
    TableBuilderOptions ours(options);
    ours.int_tbl_prop_collector_factories = &collectors_;
    inner_.reset(factory.NewPlainBuilder(ours, file));
  }

  void Add(const Slice& key, const Slice& value) override {
    const ValueType type = ExtractValueType(key);
    if (type == kTypeRangeDeletion) {
      inner_->Add(key, value);
      return;
    }
    const Slice user_key = ExtractUserKey(key);
    if (!user_key.empty() && user_key[user_key.size() - 1] == kMark) {
      if (refused_.ok()) refused_ = Status::NotSupported("MetaHive: a key ends in 0x01", user_key.ToString(true));
      return;
    }
    if (waiting_.Empty() || user_key != Slice(waiting_.Back().key)) {
      EmitBefore(user_key);
      Waiting& key_waiting = waiting_.Add();
      key_waiting.key.assign(user_key.data(), user_key.size());
      key_waiting.metadata.clear();
    }
    AddWithMetadata(key, user_key, GetInternalKeySeqno(key), type, value);
  }

  Status status() const override { return refused_.ok() ? inner_->status() : refused_; }
  IOStatus io_status() const override { return inner_->io_status(); }

  Status Finish() override {
    if (!refused_.ok()) {
      inner_->Abandon();
      return refused_;
    }
    for (auto& key : waiting_) coverage_.tail[key.key] = std::move(key.metadata);
    waiting_.Clear();
    context_->counters.written += written_;
    return inner_->Finish();
  }

  void Abandon() override { inner_->Abandon(); }
  uint64_t NumEntries() const override { return inner_->NumEntries() - coverage_.entries; }
  bool IsEmpty() const override { return inner_->IsEmpty(); }
  uint64_t FileSize() const override { return inner_->FileSize(); }
  uint64_t EstimatedFileSize() const override { return inner_->EstimatedFileSize(); }
  bool NeedCompact() const override { return inner_->NeedCompact(); }
  TableProperties GetTableProperties() const override {
    TableProperties properties = inner_->GetTableProperties();
    Subtract(coverage_, &properties);
    return properties;
  }
  std::string GetFileChecksum() const override { return inner_->GetFileChecksum(); }
  const char* GetFileChecksumFuncName() const override { return inner_->GetFileChecksumFuncName(); }
  void SetSeqnoTimeTableProperties(const std::string& mapping, uint64_t oldest) override {
    inner_->SetSeqnoTimeTableProperties(mapping, oldest);
  }

 private:
  struct Waiting {
    std::string key;
    // Its metadata entries, newest version first.
    std::vector<Tail> metadata;
  };

  void AddWithMetadata(const Slice& key, const Slice& user_key, SequenceNumber sequence, ValueType type,
                       const Slice& value) {
    Registry::Carried carried;
    if (type != kTypeValue || !registry_->Find(value, &carried)) {
      carried.content = ContentHash(user_key, value);
      // A deletion has no value to carry the hash with: that it was found damaged is known by its key.
      if (context_->IsDamaged(user_key, sequence)) carried.content ^= kPoison;
    }
    context_->Describe(user_key, value, sequence, type, carried.payload, &payload_);
    std::vector<Tail>& metadata = waiting_.Back().metadata;
    metadata.push_back(Tail{sequence, std::string()});
    Encode(carried.content ^ PlaceHash(sequence, type), payload_, &metadata.back().value);
    written_++;
    const uint64_t flip = value.empty() ? 0 : context_->WriteFlip();
    if (flip == 0) {
      inner_->Add(key, value);
    } else {
      std::string flipped = value.ToString();
      FlipBit(&flipped, flip);
      inner_->Add(key, flipped);
    }
  }

  // Emits what sorts before a key.
  void EmitBefore(const Slice& user_key) {
    while (!waiting_.Empty()) {
      Waiting& top = waiting_.Back();
      // Behind `top` and its mark comes every key that does not continue it with a zero byte.
      const bool nested = user_key.size() > top.key.size() && user_key.starts_with(top.key) &&
                          user_key[top.key.size()] == '\0';
      if (nested) return;
      Emit(top);
      waiting_.PopBack();
    }
  }

  void Emit(const Waiting& waiting) {
    for (const Tail& one : waiting.metadata) {
      key_.assign(waiting.key);
      key_.push_back(kMark);
      PutFixed64(&key_, PackSequenceAndType(one.sequence, kTypeDeletion));
      inner_->Add(key_, one.value);
      coverage_.entries++;
      coverage_.key_bytes += key_.size();
      coverage_.value_bytes += one.value.size();
    }
  }

  const std::shared_ptr<Context> context_;
  const std::shared_ptr<Registry> registry_;
  Coverage coverage_;
  IntTblPropCollectorFactories collectors_;
  std::unique_ptr<TableBuilder> inner_;
  Recycled<Waiting> waiting_;
  uint64_t written_ = 0;
  Status refused_;
  std::string key_, payload_;
};

}  // namespace

TableBuilder* NewBuilder(const Factory& factory, const std::shared_ptr<Context>& context,
                         const TableBuilderOptions& options, WritableFileWriter* file) {
  return new Builder(factory, context, options, file);
}

}  // namespace hive
