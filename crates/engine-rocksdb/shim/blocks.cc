// Keeps metadata in the block of its key, and out of Bloom filters.
//
// Always: wrapped policies have the names, options and formats of what they wrap, so that OPTIONS files
// and tables are read by any RocksDB.
// Not here: the order of entries (builder.cc).
#include "metahive.h"
#include "rocksdb/flush_block_policy.h"
#include "table/block_based/filter_policy_internal.h"

namespace hive {

using namespace rocksdb;

namespace {

// Keys that continue others with zero bytes may nest without end; then a block is cut all the same.
constexpr uint64_t kNestedBlockBytesFactor = 16;

// Asks the stock policy, but only where a key's versions and metadata are whole.
class WholeClusters : public FlushBlockPolicy {
 public:
  WholeClusters(FlushBlockPolicy* inner, uint64_t block_bytes)
      : inner_(inner), nested_bytes_max_(block_bytes * kNestedBlockBytesFactor) {}

  bool Update(const Slice& key, const Slice& value) override {
    const Slice user_key = ExtractUserKey(key);
    const bool same = user_key == Slice(last_);
    if (!same) last_.assign(user_key.data(), user_key.size());
    bool cut = false;
    if (IsMetadata(key)) {
      if (!same && open_ > 0) open_--;
    } else if (!same) {
      cut = (open_ == 0 || bytes_ > nested_bytes_max_) && inner_->Update(key, value);
      open_++;
    }
    bytes_ = (cut ? 0 : bytes_) + key.size() + value.size();
    return cut;
  }

 private:
  const std::unique_ptr<FlushBlockPolicy> inner_;
  const uint64_t nested_bytes_max_;
  std::string last_;
  // Keys whose metadata is still to come.
  uint64_t open_ = 0;
  uint64_t bytes_ = 0;
};

class WholeClustersFactory : public FlushBlockBySizePolicyFactory {
 public:
  FlushBlockPolicy* NewFlushBlockPolicy(const BlockBasedTableOptions& options,
                                        const BlockBuilder& block) const override {
    return new WholeClusters(FlushBlockBySizePolicyFactory::NewFlushBlockPolicy(options, block), options.block_size);
  }
};

class FilterBuilder : public FilterBitsBuilder {
 public:
  explicit FilterBuilder(FilterBitsBuilder* inner) : inner_(inner) {}
  void AddKey(const Slice& key) override {
    if (key.empty() || key[key.size() - 1] != kMark) inner_->AddKey(key);
  }
  size_t EstimateEntriesAdded() override { return inner_->EstimateEntriesAdded(); }
  Slice Finish(std::unique_ptr<const char[]>* bytes) override { return inner_->Finish(bytes); }
  Slice Finish(std::unique_ptr<const char[]>* bytes, Status* status) override {
    return inner_->Finish(bytes, status);
  }
  Status MaybePostVerify(const Slice& filter) override { return inner_->MaybePostVerify(filter); }
  size_t ApproximateNumEntries(size_t bytes) override { return inner_->ApproximateNumEntries(bytes); }

 private:
  const std::unique_ptr<FilterBitsBuilder> inner_;
};

class Filter : public FilterPolicy {
 public:
  explicit Filter(std::shared_ptr<const FilterPolicy> inner) : inner_(std::move(inner)) {}
  const char* Name() const override { return inner_->Name(); }
  std::string GetId() const override { return inner_->GetId(); }
  bool IsInstanceOf(const std::string& name) const override { return inner_->IsInstanceOf(name); }
  const char* CompatibilityName() const override { return inner_->CompatibilityName(); }
  FilterBitsBuilder* GetBuilderWithContext(const FilterBuildingContext& context) const override {
    FilterBitsBuilder* made = inner_->GetBuilderWithContext(context);
    return made == nullptr ? nullptr : new FilterBuilder(made);
  }
  FilterBitsReader* GetFilterBitsReader(const Slice& contents) const override {
    return inner_->GetFilterBitsReader(contents);
  }

 private:
  const std::shared_ptr<const FilterPolicy> inner_;
};

}  // namespace

BlockBasedTableOptions Wrapped(BlockBasedTableOptions options) {
  options.flush_block_policy_factory = std::make_shared<WholeClustersFactory>();
  if (options.filter_policy != nullptr) options.filter_policy = std::make_shared<Filter>(options.filter_policy);
  return options;
}

}  // namespace hive
