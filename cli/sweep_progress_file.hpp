#pragma once
// Stores the finished points of a sweep: in the file of `penstock sweep --resume FILE`, or in the -o file of
// `--shard`. A digest in the file identifies the sweep. commands/sweep_command.cpp uses it.

#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "report/result/sweep_progress.hpp"
#include "report/result/sweep_table.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/sweep/sweep.hpp"

namespace penstock {

/// A file to which a sweep adds each finished point. The first line identifies the sweep. Each other line is
/// one point, in any order. If a crash has left an incomplete line, this line is dropped when the file is
/// opened again.
class SweepProgressFile {
 public:
  /// Opens or creates the file, and locks it until the object is destroyed or the process ends. Returns an
  /// error, which starts with the file's name, if the file cannot be read or written, has another format, or
  /// is locked by another sweep. Also returns an error if the file belongs to another sweep or shard than
  /// `sweep`.
  static tl::expected<std::unique_ptr<SweepProgressFile>, std::string> open(const std::string& name,
                                                                            const SweepHead& sweep);

  /// Returns the points that the file had when it was opened.
  const std::map<std::size_t, SweepPoint>& known() const { return known_; }
  /// Appends a point to the file and flushes it. It may be called from any thread.
  void add(std::size_t number, const SweepPoint& point);
  /// Returns an error if a point could not be written.
  tl::expected<void, std::string> state() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  explicit SweepProgressFile(std::string name) : name_(std::move(name)) {}

  /// Writes the first line of a new file. Returns an error if the file cannot be written.
  tl::expected<void, std::string> begin_with(const std::string& head);

  std::string name_;
  std::map<std::size_t, SweepPoint> known_;
  std::unique_ptr<std::FILE, Close> file_;
  std::mutex mutex_;
  int error_ = 0;  ///< the errno of the first failed write; 0 if no write has failed
};

/// Returns a hash, in hexadecimal digits, of everything that determines the points of a sweep. It includes
/// the commit of penstock, the grid, the flags, the scenario's text after overrides, and the content of the
/// files that the scenario names. Comments and file names do not change it. `inputs` must be the flags from
/// which the scenarios of the grid were made, and `scenario` must be the first of them. Returns an error if a
/// file cannot be read twice, such as a pipe.
tl::expected<std::string, UserError> sweep_digest(const std::vector<InputFlags>& inputs,
                                                  const Scenario& scenario, const SweepGrid& grid);

}  // namespace penstock
