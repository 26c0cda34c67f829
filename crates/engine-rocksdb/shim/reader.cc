// Tables with metadata, read.
//
// Always: users see neither metadata entries nor their counts; compactions see only what was verified.
// Not here: verifying (verify.cc).
#include "metahive.h"

#include "memory/arena.h"

namespace hive {

using namespace rocksdb;

namespace {

thread_local int show_metadata = 0;

// An iterator that passes metadata entries over.
class HidingIterator : public InternalIterator {
 public:
  explicit HidingIterator(InternalIterator* inner) : inner_(inner) {}

  bool Valid() const override { return inner_->Valid(); }
  void SeekToFirst() override { inner_->SeekToFirst(), SkipForward(); }
  void SeekToLast() override { inner_->SeekToLast(), SkipBackward(); }
  void Seek(const Slice& target) override { inner_->Seek(target), SkipForward(); }
  void SeekForPrev(const Slice& target) override { inner_->SeekForPrev(target), SkipBackward(); }
  void Next() override { inner_->Next(), SkipForward(); }
  void Prev() override { inner_->Prev(), SkipBackward(); }
  bool NextAndGetResult(IterateResult* result) override {
    do {
      if (!inner_->NextAndGetResult(result)) return false;
    } while (IsMetadata(result->key));
    return true;
  }
  Slice key() const override { return inner_->key(); }
  Slice user_key() const override { return inner_->user_key(); }
  Slice value() const override { return inner_->value(); }
  Status status() const override { return inner_->status(); }
  bool PrepareValue() override { return inner_->PrepareValue(); }
  bool MayBeOutOfLowerBound() override { return inner_->MayBeOutOfLowerBound(); }
  IterBoundCheck UpperBoundCheckResult() override { return inner_->UpperBoundCheckResult(); }
  void SetPinnedItersMgr(PinnedIteratorsManager* manager) override { inner_->SetPinnedItersMgr(manager); }
  bool IsKeyPinned() const override { return inner_->IsKeyPinned(); }
  bool IsValuePinned() const override { return inner_->IsValuePinned(); }
  Status GetProperty(std::string name, std::string* value) override { return inner_->GetProperty(name, value); }
  void GetReadaheadState(ReadaheadFileInfo* state) override { inner_->GetReadaheadState(state); }
  void SetReadaheadState(ReadaheadFileInfo* state) override { inner_->SetReadaheadState(state); }

 private:
  void SkipForward() {
    while (inner_->Valid() && IsMetadata(inner_->key())) inner_->Next();
  }
  void SkipBackward() {
    while (inner_->Valid() && IsMetadata(inner_->key())) inner_->Prev();
  }

  const std::unique_ptr<InternalIterator> inner_;
};

class Reader : public TableReader {
 public:
  Reader(std::shared_ptr<const FileInfo> file, std::unique_ptr<TableReader> inner)
      : file_(std::move(file)), inner_(std::move(inner)) {
    auto properties = std::make_shared<TableProperties>(*inner_->GetTableProperties());
    Subtract(file_->coverage, properties.get());
    properties_ = std::move(properties);
    file_->context->AddFile(file_->number, file_);
  }
  ~Reader() override { file_->context->RemoveFile(file_->number, file_.get()); }

  InternalIterator* NewIterator(const ReadOptions& read, const SliceTransform* extractor, Arena* arena,
                                bool skip_filters, TableReaderCaller caller, size_t readahead,
                                bool unprepared) override {
    if (caller == TableReaderCaller::kCompaction) {
      return NewVerifyingIterator(file_, inner_.get(), read, arena, readahead, /*carry=*/true);
    }
    if (!file_->covered || ShowMetadata::Asked()) {
      // In files of others they are tombstones that RocksDB itself hides.
      return inner_->NewIterator(read, extractor, arena, skip_filters, caller, readahead, unprepared);
    }
    InternalIterator* inner =
        inner_->NewIterator(read, extractor, nullptr, skip_filters, caller, readahead, unprepared);
    if (arena == nullptr) return new HidingIterator(inner);
    return new (arena->AllocateAligned(sizeof(HidingIterator))) HidingIterator(inner);
  }

  FragmentedRangeTombstoneIterator* NewRangeTombstoneIterator(const ReadOptions& read) override {
    return inner_->NewRangeTombstoneIterator(read);
  }
  uint64_t ApproximateOffsetOf(const Slice& key, TableReaderCaller caller) override {
    return inner_->ApproximateOffsetOf(key, caller);
  }
  uint64_t ApproximateSize(const Slice& start, const Slice& end, TableReaderCaller caller) override {
    return inner_->ApproximateSize(start, end, caller);
  }
  Status ApproximateKeyAnchors(const ReadOptions& read, std::vector<Anchor>& anchors) override {
    return inner_->ApproximateKeyAnchors(read, anchors);
  }
  void SetupForCompaction() override { inner_->SetupForCompaction(); }
  std::shared_ptr<const TableProperties> GetTableProperties() const override { return properties_; }
  void Prepare(const Slice& target) override { inner_->Prepare(target); }
  size_t ApproximateMemoryUsage() const override { return inner_->ApproximateMemoryUsage(); }
  Status Get(const ReadOptions& read, const Slice& key, GetContext* context, const SliceTransform* extractor,
             bool skip_filters) override {
    return inner_->Get(read, key, context, extractor, skip_filters);
  }
  Status MultiGetFilter(const ReadOptions& read, const SliceTransform* extractor,
                        MultiGetContext::Range* range) override {
    return inner_->MultiGetFilter(read, extractor, range);
  }
  void MultiGet(const ReadOptions& read, const MultiGetContext::Range* range, const SliceTransform* extractor,
                bool skip_filters) override {
    inner_->MultiGet(read, range, extractor, skip_filters);
  }
  Status Prefetch(const Slice* begin, const Slice* end) override { return inner_->Prefetch(begin, end); }
  Status DumpTable(WritableFile* out) override { return inner_->DumpTable(out); }
  Status VerifyChecksum(const ReadOptions& read, TableReaderCaller caller) override {
    return inner_->VerifyChecksum(read, caller);
  }

 private:
  const std::shared_ptr<const FileInfo> file_;
  const std::unique_ptr<TableReader> inner_;
  std::shared_ptr<const TableProperties> properties_;
};

BlockBasedTableOptions Uncached(BlockBasedTableOptions options) {
  options.no_block_cache = true;
  options.block_cache = nullptr;
  return options;
}

}  // namespace

ShowMetadata::ShowMetadata() { show_metadata++; }
ShowMetadata::~ShowMetadata() { show_metadata--; }
bool ShowMetadata::Asked() { return show_metadata > 0; }

FileInfo::FileInfo(const Factory* made_by, std::shared_ptr<Context> shared, const TableReaderOptions& options,
                   std::string file_name, uint64_t file_size)
    : factory(made_by),
      context(std::move(shared)),
      ioptions(options.ioptions),
      prefix_extractor(options.prefix_extractor),
      env_options(options.env_options),
      comparator(options.internal_comparator),
      largest_sequence(options.largest_seqno),
      number(options.cur_file_num),
      name(std::move(file_name)),
      size(file_size) {}

Status FileInfo::OpenAnew(std::unique_ptr<TableReader>* table) const {
  FileOptions past_cache(env_options);
  past_cache.use_direct_reads = true;
  std::unique_ptr<FSRandomAccessFile> opened;
  Status status = ioptions.fs->NewRandomAccessFile(name, past_cache, &opened, nullptr);
  if (!status.ok()) {
    // A file system without direct reads (tmpfs): at least not through RocksDB's caches.
    status = ioptions.fs->NewRandomAccessFile(name, FileOptions(env_options), &opened, nullptr);
  }
  if (!status.ok()) return status;
  auto file = std::make_unique<RandomAccessFileReader>(std::move(opened), name, ioptions.clock);
  const TableReaderOptions options(ioptions, prefix_extractor, env_options, comparator, /*skip_filters=*/true,
                                   /*immortal=*/false, /*force_direct_prefetch=*/false, /*level=*/-1,
                                   /*block_cache_tracer=*/nullptr, /*max_file_size_for_l0_meta_pin=*/0,
                                   /*cur_db_session_id=*/"", number, /*unique_id=*/{}, largest_sequence);
  return factory->uncached().NewTableReader(ReadOptions(), options, std::move(file), size, table, false);
}

Factory::Factory(const BlockBasedTableOptions& options, std::shared_ptr<Context> context)
    : BlockBasedTableFactory(Wrapped(options)), context_(std::move(context)), uncached_(Uncached(options)) {}

Status Factory::NewTableReader(const ReadOptions& read, const TableReaderOptions& options,
                               std::unique_ptr<RandomAccessFileReader>&& file, uint64_t file_size,
                               std::unique_ptr<TableReader>* table, bool prefetch) const {
  auto info = std::make_shared<FileInfo>(this, context_, options, file->file_name(), file_size);
  std::unique_ptr<TableReader> inner;
  const Status status =
      BlockBasedTableFactory::NewTableReader(read, options, std::move(file), file_size, &inner, prefetch);
  if (!status.ok()) return status;
  const auto properties = inner->GetTableProperties();
  const auto found = properties->user_collected_properties.find(kProperty);
  if (found != properties->user_collected_properties.end()) {
    if (!DecodeCoverage(found->second, &info->coverage)) {
      return Status::Corruption("MetaHive: the property hive.metahive does not check", info->name);
    }
    info->covered = true;
  }
  table->reset(new Reader(std::move(info), std::move(inner)));
  return Status::OK();
}

TableBuilder* Factory::NewTableBuilder(const TableBuilderOptions& options, WritableFileWriter* file) const {
  // Files made to be ingested get their sequence numbers later, so a checksum over them would not hold:
  // they get metadata when they are first merged.
  if (options.reason == TableFileCreationReason::kMisc) return NewPlainBuilder(options, file);
  return NewBuilder(*this, context_, options, file);
}

}  // namespace hive
