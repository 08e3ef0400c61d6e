#pragma once
// Stores the finished points of a sweep in a file. It is FILE of `penstock sweep --resume FILE`, or with
// `--shard` the file of -o. A digest in the file identifies the sweep. report/result/sweep_table.hpp defines
// the lines of the file. commands/sweep_command.cpp uses it.

#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "backend/process/process_execution.hpp"
#include "cli/flags.hpp"
#include "cli/outcome.hpp"
#include "report/result/sweep_table.hpp"
#include "report/why/explanation.hpp"
#include "scenarios/read/scenario.hpp"
#include "sim/sweep/sweep.hpp"

namespace penstock {

/// A file to which a sweep adds each finished point. The first line identifies the sweep. Each other line is
/// one point, in any order. If a crash has left an incomplete line, this line is dropped when the file is
/// opened again.
class SweepProgressFile {
 public:
  /// Opens or creates the file, and locks it until the object is destroyed or the process ends. Fails if
  /// the file cannot be read or written, has another format, or is locked by another sweep. Also fails if
  /// the file belongs to another sweep or shard than `sweep`. The error starts with the file's name.
  static tl::expected<std::unique_ptr<SweepProgressFile>, std::string> open(const std::string& name,
                                                                            const SweepHead& sweep);

  /// Returns the points that were in the file when it was opened. The key is the number of the point.
  const std::map<std::size_t, SweepPoint>& known() const { return known_; }
  /// Returns the bills that were in the file when it was opened, by the numbers of their points.
  const std::map<std::size_t, MeanBill>& known_bills() const { return known_bills_; }
  /// Appends a point to the file and flushes it. It may be called from any thread.
  void add(std::size_t number, const SweepPoint& point) { add_line(sweep_point_json(number, point)); }
  /// Appends the bill of a point, which must be in the file already, and flushes the file.
  void add(std::size_t number, const MeanBill& bill) { add_line(sweep_bill_json(number, bill)); }
  /// Returns an error if a point could not be written.
  tl::expected<void, std::string> state() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  explicit SweepProgressFile(std::string name) : name_(std::move(name)) {}

  /// Writes the first line of a new file. Returns an error if the file cannot be written.
  tl::expected<void, std::string> begin_with(const std::string& head);

  void add_line(const std::string& line);

  std::string name_;
  std::map<std::size_t, SweepPoint> known_;
  std::map<std::size_t, MeanBill> known_bills_;
  std::unique_ptr<std::FILE, Close> file_;
  std::mutex mutex_;
  int error_ = 0;  ///< the errno of the first failed write; 0 if no write has failed
};

/// Returns a hash, in hexadecimal digits, of everything that determines the points of a sweep. This
/// includes the commit of penstock, the grid, the flags, the scenario's text after overrides, and the
/// content of the files that the scenario names. Comments and file names do not change the hash. `inputs`
/// must be the flags from which the scenarios of the grid were made, and `scenario` must be the first of
/// these scenarios. Fails if a file, such as a pipe, cannot be read twice.
tl::expected<std::string, UserError> sweep_digest(const std::vector<InputFlags>& inputs,
                                                  const Scenario& scenario, const SweepGrid& grid);

// Finds the shard of a sweep that this process computes, and merges the files of all shards into one
// sweep. commands/sweep_command.cpp uses it.

/// A shard of a sweep, and the flag or environment variable that states it.
struct StatedShard {
  SweepShard shard;
  std::string stated_by;
};

/// Returns the shard that `flag` states ("2/4"). If `flag` is empty, the shard follows from the environment
/// variables of a launcher. They are RANK and WORLD_SIZE, or those of Open MPI, MPICH, a Slurm step or a
/// Slurm job array. Each task of a job array may have several processes. Returns nothing if the process
/// runs alone. Fails if the flag does not name a shard, or if the variables contradict each other.
tl::expected<std::optional<StatedShard>, UserError> shard_of_process(const std::string& flag,
                                                                     const Environment& environment);

/// Reads the files that `sweep --shard` and `sweep --resume` write, each with a part of a sweep. Returns
/// the sweep that a single process would compute. Fails if a file is not such a part, or if parts belong to
/// different sweeps. Also fails if a shard is missing, duplicate or incomplete. The error names the files.
tl::expected<Sweep, UserError> merged_sweep(const std::vector<std::string>& files);

}  // namespace penstock
