// Entries verified against their metadata, one key's cluster at a time, in one pass.
//
//   versions of k, newest first │ metadata of k │ versions of the next key …
//
// A cluster is read whole, judged, and only then shown. What does not check is read anew, past every
// cache, a few times; what still does not check is reported and shown *with the hash that does not
// fit*, so that it stays found in whatever file it is merged into.
//
// Always: memory holds one cluster; metadata itself is never shown; forward only, as compactions go.
// Not here: what follows from a report (store.cc).
#include "memory/arena.h"
#include "metahive.h"
#include "recycled.h"

namespace hive {

using namespace rocksdb;

namespace {

// Readings anew of one cluster before it counts as damaged.
constexpr int kRetriesMax = 3;
// What a place of a cluster keeps for the next cluster's value.
constexpr size_t kKeptBytesMax = 64 << 10;
// Places that are kept for the next cluster.
constexpr size_t kKeptPlacesMax = 1024;

// One version of a key.
struct Version {
  std::string key;  // with sequence number and type
  std::string value;
  std::string payload;
  uint64_t content = 0;

  Slice UserKey() const { return ExtractUserKey(key); }
};

// One metadata entry.
struct Mark {
  SequenceNumber sequence = 0;  // its own, which is the entry's; form 1 has that in its value, too
  std::string value;
  bool used = false;
};

struct Cluster {
  Recycled<Version> versions;
  Recycled<Mark> marks;
  // Its metadata stands behind other keys in the file.
  bool nested = false;

  void Clear() {
    if (versions.Size() > kKeptPlacesMax) versions = Recycled<Version>();
    if (marks.Size() > kKeptPlacesMax) marks = Recycled<Mark>();
    versions.Clear();
    marks.Clear();
    nested = false;
  }
  void AddVersion(const Slice& key, const Slice& value) {
    Version& version = versions.Add();
    version.key.assign(key.data(), key.size());
    if (version.value.capacity() > kKeptBytesMax) std::string().swap(version.value);
    version.value.assign(value.data(), value.size());
    version.payload.clear();
    version.content = 0;
  }
  void AddMark(SequenceNumber sequence, const Slice& value) {
    Mark& mark = marks.Add();
    mark.sequence = sequence;
    mark.value.assign(value.data(), value.size());
    mark.used = false;
  }
};

void Assign(std::string* to, const Slice& from) { to->assign(from.data(), from.size()); }

std::string MarkKeyOf(const Slice& user_key) {
  std::string key = user_key.ToString();
  key.push_back(kMark);
  return key;
}

std::string SeekKey(const Slice& user_key) {
  std::string key = user_key.ToString();
  PutFixed64(&key, PackSequenceAndType(kMaxSequenceNumber, kValueTypeForSeek));
  return key;
}

// Reads clusters of one table.
class ClusterReader {
 public:
  ClusterReader(const FileInfo& file, TableReader* table, const ReadOptions& options, size_t readahead)
      : file_(file), table_(table), options_(options) {
    // A merge in parts bounds them; a bound must not part a key from its metadata. Who asked clips anyway.
    options_.iterate_lower_bound = options_.iterate_upper_bound = nullptr;
    main_.reset(table->NewIterator(options_, nullptr, nullptr, /*skip_filters=*/true, TableReaderCaller::kCompaction,
                                   readahead, /*allow_unprepared_value=*/false));
  }

  InternalIterator& main() { return *main_; }
  Status status() const { return main_->status(); }

  // The cluster `main` stands at, which is no metadata; leaves it behind that cluster.
  void Read(Cluster* cluster) {
    cluster->Clear();
    Assign(&user_key_, ExtractUserKey(main_->key()));
    while (main_->Valid() && ExtractUserKey(main_->key()) == Slice(user_key_)) {
      cluster->AddVersion(main_->key(), main_->value());
      main_->Next();
    }
    mark_key_ = user_key_;
    mark_key_.push_back(kMark);
    if (main_->Valid() && ExtractUserKey(main_->key()).compare(mark_key_) < 0) {
      cluster->nested = true;
      if (beside_ == nullptr) {
        beside_.reset(table_->NewIterator(options_, nullptr, nullptr, true, TableReaderCaller::kCompaction));
      }
      beside_->Seek(SeekKey(mark_key_));
      ReadMarks(beside_.get(), cluster);
    } else {
      ReadMarks(main_.get(), cluster);
    }
    const auto tail = file_.coverage.tail.find(user_key_);
    if (tail == file_.coverage.tail.end()) return;
    for (const Tail& one : tail->second) cluster->AddMark(one.sequence, one.value);
  }

 private:
  void ReadMarks(InternalIterator* from, Cluster* cluster) const {
    for (; from->Valid() && IsMetadata(from->key()) && ExtractUserKey(from->key()) == Slice(mark_key_); from->Next()) {
      cluster->AddMark(GetInternalKeySeqno(from->key()), from->value());
    }
  }

  const FileInfo& file_;
  TableReader* const table_;
  ReadOptions options_;
  std::unique_ptr<InternalIterator> main_, beside_;
  // Of the cluster being read.
  std::string user_key_, mark_key_;
};

struct Tally {
  uint64_t verified = 0, adopted = 0, recreated = 0, orphans = 0;
};

// The mark of a version: one that has its checksum (in which its number is), else one that names its number.
Mark* MarkOf(const FileInfo& file, Cluster* cluster, SequenceNumber sequence, uint64_t current, Metadata* found) {
  Mark* best = nullptr;
  for (Mark& mark : cluster->marks) {
    Metadata metadata;
    if (mark.used || !Decode(mark.value, file.FormHere(), mark.sequence, &metadata)) continue;
    const bool same = metadata.checksum == metadata.Kept(current);
    if (!same && (best != nullptr || (metadata.sequence != sequence && mark.sequence != sequence))) continue;
    best = &mark;
    *found = metadata;
    if (same) break;
  }
  return best;
}

// Fills the versions' content hashes and payloads; appends what is wrong.
void JudgeCluster(const FileInfo& file, Cluster* cluster, Tally* tally, std::vector<Damage>* damage) {
  for (Version& version : cluster->versions) {
    const Slice user_key = version.UserKey();
    const SequenceNumber sequence = GetInternalKeySeqno(version.key);
    const ValueType type = ExtractValueType(version.key);
    version.content = ContentHash(user_key, version.value);
    const uint64_t place = PlaceHash(sequence, type);
    const uint64_t current = version.content ^ place;
    Metadata metadata;
    Mark* mark = MarkOf(file, cluster, sequence, current, &metadata);
    Verdict verdict = Verdict::kValidated;
    if (mark != nullptr) {
      mark->used = true;
      verdict = Judge(current, metadata);
      Assign(&version.payload, metadata.payload);
    } else if (file.covered) {
      verdict = Verdict::kMetadataMissing;
    } else {
      tally->adopted++;
      continue;
    }
    if (verdict == Verdict::kValidated || verdict == Verdict::kMetadataRecreated) {
      tally->verified++;
      if (verdict == Verdict::kMetadataRecreated) tally->recreated++;
      continue;
    }
    const uint64_t found = version.content;
    version.content = verdict == Verdict::kEntryCorrupted ? metadata.checksum ^ place : version.content ^ kPoison;
    damage->push_back(Damage{user_key.ToString(), sequence, static_cast<uint8_t>(type), verdict, file.number, found});
  }
  for (const Mark& mark : cluster->marks) {
    if (mark.used) continue;
    tally->orphans++;
    if (!file.covered || cluster->versions.Empty()) continue;
    const std::string user_key = cluster->versions.Front().UserKey().ToString();
    damage->push_back(Damage{user_key, mark.sequence, 0, Verdict::kKeyLost, file.number});
  }
}

class VerifyingIterator : public InternalIterator {
 public:
  VerifyingIterator(std::shared_ptr<const FileInfo> file, TableReader* table, const ReadOptions& options,
                    size_t readahead, bool carry)
      : file_(std::move(file)), reader_(*file_, table, options, readahead), carry_(carry) {}
  ~VerifyingIterator() override {
    Release();
    Counters& counters = file_->context->counters;
    counters.verified += tally_.verified;
    counters.adopted += tally_.adopted;
    counters.recreated += tally_.recreated;
    counters.orphans += tally_.orphans;
  }

  bool Valid() const override { return at_ < cluster_.versions.Size(); }
  Slice key() const override { return cluster_.versions[at_].key; }
  Slice value() const override { return cluster_.versions[at_].value; }
  Status status() const override { return status_.ok() ? reader_.status() : status_; }

  void SeekToFirst() override {
    Begin(Slice());
    reader_.main().SeekToFirst();
    Load();
  }
  void Seek(const Slice& target) override {
    // The whole cluster is read, whatever of it is asked for.
    Begin(ExtractUserKey(target));
    reader_.main().Seek(SeekKey(ExtractUserKey(target)));
    Load();
    while (Valid() && file_->comparator.Compare(key(), target) < 0) Next();
  }
  void Next() override {
    if (++at_ >= cluster_.versions.Size()) Load();
  }
  void SeekToLast() override { Refuse(); }
  void SeekForPrev(const Slice&) override { Refuse(); }
  void Prev() override { Refuse(); }

  void GetReadaheadState(ReadaheadFileInfo* state) override { reader_.main().GetReadaheadState(state); }
  void SetReadaheadState(ReadaheadFileInfo* state) override { reader_.main().SetReadaheadState(state); }

 private:
  void Refuse() {
    Release();
    status_ = Status::NotSupported("MetaHive: a compaction reads forward");
  }

  void Begin(const Slice& from) {
    Release();
    status_ = Status::OK();
    from_ = from.ToString();
    last_.clear();
    any_before_ = false;
    elsewhere_.clear();
  }

  // Nothing of the cluster is shown any more.
  void Release() {
    if (registry_ != nullptr) {
      for (const Version& version : cluster_.versions) registry_->Erase(version.value.data());
      registry_ = nullptr;
    }
    cluster_.versions.Clear();
    at_ = 0;
  }

  void Load() {
    Release();
    InternalIterator& main = reader_.main();
    while (main.Valid() && IsMetadata(main.key())) {
      PassMark(main);
      main.Next();
    }
    if (!main.Valid()) return;
    reader_.Read(&cluster_);
    if (!reader_.status().ok()) {
      cluster_.versions.Clear();
      return;
    }
    FlipForTests();
    Tally tally;
    std::vector<Damage> damage;
    JudgeCluster(*file_, &cluster_, &tally, &damage);
    if (!damage.empty()) Mend(&tally, &damage);
    tally_.verified += tally.verified;
    tally_.adopted += tally.adopted;
    tally_.recreated += tally.recreated;
    tally_.orphans += tally.orphans;
    const Slice user_key = cluster_.versions.Front().UserKey();
    last_.assign(user_key.data(), user_key.size());
    any_before_ = true;
    if (cluster_.nested) elsewhere_.push_back(last_);
    Carry();
  }

  // Metadata met where no cluster took it: of a key further up that nests this one, of one before the
  // place sought, or of none.
  void PassMark(InternalIterator& main) {
    Slice owner = ExtractUserKey(main.key());
    owner.remove_suffix(1);
    while (!elsewhere_.empty()) {
      const int order = Slice(elsewhere_.back()).compare(owner);
      if (order == 0) return;
      // One whose metadata would have come before: it is behind us.
      if (Slice(MarkKeyOf(elsewhere_.back())).compare(MarkKeyOf(owner)) > 0) break;
      elsewhere_.pop_back();
    }
    if (owner.compare(from_) < 0) return;
    tally_.orphans++;
    if (!file_->covered) return;
    file_->context->counters.mismatches++;
    file_->context->Report(
        Damage{owner.ToString(), GetInternalKeySeqno(main.key()), 0, Verdict::kKeyLost, file_->number});
  }

  // Reads the cluster anew, past every cache; if it then checks, that is what is shown.
  void Mend(Tally* tally, std::vector<Damage>* damage) {
    Counters& counters = file_->context->counters;
    counters.mismatches += damage->size();
    for (int attempt = 0; attempt < kRetriesMax; attempt++) {
      counters.retries++;
      Cluster again;
      if (!ReadAnew(&again)) continue;
      Tally tally_again;
      std::vector<Damage> damage_again;
      JudgeCluster(*file_, &again, &tally_again, &damage_again);
      if (!damage_again.empty()) continue;
      // A flipped key: the right one's metadata is still ahead of us.
      if (again.versions.Front().UserKey() != cluster_.versions.Front().UserKey()) {
        elsewhere_.push_back(again.versions.Front().UserKey().ToString());
      }
      counters.repaired += damage->size();
      cluster_ = std::move(again);
      *tally = tally_again;
      damage->clear();
      return;
    }
    for (Damage& one : *damage) file_->context->Report(std::move(one));
  }

  // The cluster behind the last one shown, from the file.
  bool ReadAnew(Cluster* cluster) const {
    std::unique_ptr<TableReader> table;
    if (!file_->OpenAnew(&table).ok()) return false;
    ReadOptions options;
    options.fill_cache = false;
    ClusterReader reader(*file_, table.get(), options, 0);
    InternalIterator& main = reader.main();
    if (any_before_ || !from_.empty()) {
      main.Seek(SeekKey(any_before_ ? last_ : from_));
    } else {
      main.SeekToFirst();
    }
    while (main.Valid() && (IsMetadata(main.key()) || (any_before_ && ExtractUserKey(main.key()) == Slice(last_)))) {
      main.Next();
    }
    if (!main.Valid()) return false;
    reader.Read(cluster);
    return reader.status().ok() && !cluster->versions.Empty();
  }

  void Carry() {
    if (!carry_) return;
    registry_ = Registry::OfThisThread();
    for (const Version& version : cluster_.versions) {
      // The value of a deletion may be passed on after its memory is gone.
      if (ExtractValueType(version.key) != kTypeValue) continue;
      registry_->Put(version.value.data(),
                     Registry::Carried{version.value.size(), version.content, version.payload});
    }
  }

  // Of the first entry: its value mostly, its metadata, its key.
  void FlipForTests() {
    const uint64_t flip = file_->context->ReadFlip();
    if (flip == 0) return;
    Version& version = cluster_.versions.Front();
    switch (flip % 8) {
      case 1:
        FlipBit(&version.key, flip >> 3);
        // Not into the mark of metadata, which this iterator never shows.
        if (IsMetadata(version.key)) FlipBit(&version.key, flip >> 3);
        break;
      case 3:
        if (!cluster_.marks.Empty()) {
          std::string& value = cluster_.marks.Front().value;
          value.resize(FixedBytes(file_->covered ? file_->coverage.form : FormOf(value)));
          FlipBit(&value, flip >> 3);
          break;
        }
        [[fallthrough]];
      default:
        version.value.empty() ? FlipBit(&version.key, flip >> 3) : FlipBit(&version.value, flip >> 3);
    }
  }

  const std::shared_ptr<const FileInfo> file_;
  ClusterReader reader_;
  const bool carry_;
  Cluster cluster_;
  size_t at_ = 0;
  Tally tally_;
  std::string from_, last_;
  bool any_before_ = false;
  // Keys whose metadata is ahead of `main`, outermost first.
  std::vector<std::string> elsewhere_;
  std::shared_ptr<Registry> registry_;
  Status status_;
};

}  // namespace

InternalIterator* NewVerifyingIterator(std::shared_ptr<const FileInfo> file, TableReader* table,
                                       const ReadOptions& options, Arena* arena, size_t readahead, bool carry) {
  if (arena == nullptr) return new VerifyingIterator(std::move(file), table, options, readahead, carry);
  char* place = arena->AllocateAligned(sizeof(VerifyingIterator));
  return new (place) VerifyingIterator(std::move(file), table, options, readahead, carry);
}

namespace {

// Whether a value ends in the seal that base_engine::stored put there (format.rs): the contract's own check, which holds from
// before RocksDB had the pair, and so covers what a checksum made later seals in.
bool IsSealed(const Slice& user_key, const Slice& value) {
  if (value.size() < kSealBytes || user_key.empty()) return false;
  // The contract's key, without the zero behind it.
  const uint64_t seed = XXH3_64bits(user_key.data(), user_key.size() - 1);
  const size_t size = value.size() - kSealBytes;
  const uint32_t seal = static_cast<uint32_t>(XXH3_64bits_withSeed(value.data(), size, seed));
  return DecodeFixed32(value.data() + size) == seal;
}

}  // namespace

Status VerifyFile(const std::shared_ptr<const FileInfo>& file, uint64_t* entries, std::vector<std::string>* unsealed) {
  *entries = 0;
  std::unique_ptr<TableReader> table;
  Status status = file->OpenAnew(&table);
  if (!status.ok()) return status;
  ReadOptions options;
  options.fill_cache = false;
  options.verify_checksums = true;
  VerifyingIterator iterator(file, table.get(), options, 0, /*carry=*/false);
  for (iterator.SeekToFirst(); iterator.Valid(); iterator.Next()) {
    (*entries)++;
    const Slice user_key = ExtractUserKey(iterator.key());
    if (ExtractValueType(iterator.key()) == kTypeValue && !IsSealed(user_key, iterator.value()) &&
        unsealed->size() < kDamagedKeysMax) {
      unsealed->push_back(user_key.ToString());
    }
  }
  return iterator.status();
}

}  // namespace hive
