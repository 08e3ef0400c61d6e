#pragma once
// What a sweep or a shard of it has done so far, in a file: `penstock sweep --resume FILE`, and the -o file
// of
// `--shard`. Used by commands/sweep_command.cpp.

#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "report/result/sweep_progress.hpp"
#include "report/result/sweep_table.hpp"

namespace penstock {

/// A file to which each point of a sweep is added as it is done. Line 1 says what it is, then a line a point,
/// in any order. A line that a crash left unfinished is dropped when the file is opened again.
class SweepProgressFile {
 public:
  /// Opens the file, or makes it, and holds it until it is destroyed or the process ends. Errors, which start
  /// with its name: it cannot be read or written, is of another sweep or shard than `sweep`, is no such file,
  /// or another sweep holds it.
  static tl::expected<std::unique_ptr<SweepProgressFile>, std::string> open(const std::string& name,
                                                                            const SweepHead& sweep);

  /// What it held when it was opened.
  const std::map<std::size_t, SweepPoint>& known() const { return known_; }
  /// From any thread. Each is handed to the system at once.
  void add(std::size_t number, const SweepPoint& point);
  /// Error: some point could not be written.
  tl::expected<void, std::string> state() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  explicit SweepProgressFile(std::string name) : name_(std::move(name)) {}

  /// Of a new file. Error: it cannot be written.
  tl::expected<void, std::string> begin_with(const std::string& head);

  std::string name_;
  std::map<std::size_t, SweepPoint> known_;
  std::unique_ptr<std::FILE, Close> file_;
  std::mutex mutex_;
  int error_ = 0;  ///< errno of the first write that failed
};

}  // namespace penstock
