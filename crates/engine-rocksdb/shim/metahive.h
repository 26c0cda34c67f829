// MetaHive on RocksDB as it is: a table factory around the block-based one.
//
//   memtable ─▶ CompactionIterator ─▶ Builder ─▶ BlockBasedTableBuilder ─▶ table
//   table ─▶ BlockBasedTable ─▶ VerifyingIterator ─▶ merging ─▶ CompactionIterator ─▶ Builder …   (compaction)
//   table ─▶ BlockBasedTable ─▶ HidingIterator ─▶ users' iterators;   Get goes straight through
//
// Behind the versions of each key stand as many metadata entries (checksum.h), in the same block. They
// are tombstones of a key no user has, so any RocksDB skips them and drops them when it merges.
//
// Always: every entry of a file built here has metadata: behind its key or, for keys that are last in
// the file, in the property "hive.metahive" (metadata behind the file's largest key would break the
// order of files). Missing metadata in such a file is damage; in any other it is made at compaction.
// Not here: what is done about damage (store.cc refuses the keys until they are written anew).
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "context.h"
#include "db/table_properties_collector.h"
#include "file/random_access_file_reader.h"
#include "table/block_based/block_based_table_factory.h"
#include "table/table_builder.h"
#include "table/table_reader.h"

namespace hive {

constexpr char kProperty[] = "hive.metahive";

// A metadata entry that the property has.
struct Tail {
  SequenceNumber sequence = 0;
  std::string value;
};

// What the property says.
struct Coverage {
  uint64_t entries = 0;  // metadata entries in the data blocks
  uint64_t key_bytes = 0;
  uint64_t value_bytes = 0;
  // Of keys that are last in the file: their metadata entries, newest first.
  std::unordered_map<std::string, std::vector<Tail>> tail;
  Form form = Form::kSecond;
};
std::string EncodeCoverage(const Coverage& coverage);
bool DecodeCoverage(const Slice& bytes, Coverage* coverage);
// A file's properties as they would be without metadata entries.
void Subtract(const Coverage& coverage, rocksdb::TableProperties* properties);

class Factory;

// A table file, and how to open it once more past every cache. The references are to what its column
// family owns, which outlives its tables.
struct FileInfo {
  FileInfo(const Factory* factory, std::shared_ptr<Context> context, const rocksdb::TableReaderOptions& options,
           std::string name, uint64_t size);
  rocksdb::Status OpenAnew(std::unique_ptr<rocksdb::TableReader>* table) const;
  // The form its metadata has.
  Form FormHere() const { return covered ? coverage.form : Form::kUnknown; }

  const Factory* const factory;
  const std::shared_ptr<Context> context;
  const rocksdb::ImmutableOptions& ioptions;
  const std::shared_ptr<const rocksdb::SliceTransform> prefix_extractor;
  // A copy: a compaction hands in options that end with it.
  const rocksdb::EnvOptions env_options;
  const rocksdb::InternalKeyComparator& comparator;
  const SequenceNumber largest_sequence;
  const uint64_t number;
  const std::string name;
  const uint64_t size;
  bool covered = false;
  Coverage coverage;
};

// Shows an inner iterator's entries after verifying them; forward only. `carry`: hashes go to builders.
rocksdb::InternalIterator* NewVerifyingIterator(std::shared_ptr<const FileInfo> file, rocksdb::TableReader* table,
                                                const rocksdb::ReadOptions& options, rocksdb::Arena* arena,
                                                size_t readahead, bool carry);
// Verifies a whole file, read anew; the entries met.
rocksdb::Status VerifyFile(const std::shared_ptr<const FileInfo>& file, uint64_t* entries,
                           std::vector<std::string>* unsealed);

// Wraps options so that builders made with them keep metadata beside its key and out of filters.
rocksdb::BlockBasedTableOptions Wrapped(rocksdb::BlockBasedTableOptions options);

rocksdb::TableBuilder* NewBuilder(const Factory& factory, const std::shared_ptr<Context>& context,
                                  const rocksdb::TableBuilderOptions& options, rocksdb::WritableFileWriter* file);

class Factory : public rocksdb::BlockBasedTableFactory {
 public:
  Factory(const rocksdb::BlockBasedTableOptions& options, std::shared_ptr<Context> context);

  using rocksdb::BlockBasedTableFactory::NewTableReader;
  rocksdb::Status NewTableReader(const rocksdb::ReadOptions& read, const rocksdb::TableReaderOptions& options,
                                 std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                                 std::unique_ptr<rocksdb::TableReader>* table, bool prefetch) const override;
  rocksdb::TableBuilder* NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                         rocksdb::WritableFileWriter* file) const override;

  const rocksdb::BlockBasedTableFactory& uncached() const { return uncached_; }
  rocksdb::TableBuilder* NewPlainBuilder(const rocksdb::TableBuilderOptions& options,
                                         rocksdb::WritableFileWriter* file) const {
    return rocksdb::BlockBasedTableFactory::NewTableBuilder(options, file);
  }

 private:
  const std::shared_ptr<Context> context_;
  const rocksdb::BlockBasedTableFactory uncached_;
};

// While one lives, iterators made on its thread show metadata entries too.
class ShowMetadata {
 public:
  ShowMetadata();
  ~ShowMetadata();
  static bool Asked();
};

}  // namespace hive
