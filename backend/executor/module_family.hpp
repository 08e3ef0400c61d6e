#pragma once
// The interface through which a run gets its stage modules. Some modules only take time ("occupy" modules),
// others compute on CPUs or GPUs. The interface also returns the data that modules report after the run
// (measured_run.hpp).

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/occupy_module.hpp"
#include "backend/executor/payload.hpp"
#include "backend/executor/stage_bytes.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"

namespace penstock {

/// The data that one rank's modules report after a run.
struct RankAccount {
  std::optional<RankMemory> memory{};  ///< memory over time; absent if the modules store nothing
  /// Loss of each microbatch; empty unless the rank holds a stage that computes the loss.
  std::map<std::int32_t, double> losses;
};

/// One run of a program by all ranks.
struct ExecutedRun {
  Timeline timeline;
  std::vector<RankAccount> accounts;  ///< one account for each rank; empty if none were collected
  /// The largest possible difference between the clocks of two hosts. Absent if all ranks run on one host.
  std::optional<Ns> clock_error_ns{};
};

/// A factory of stage modules. If ranks are processes, each process calls these functions for its own rank. A
/// function that fails throws an exception.
class ModuleFamily {
 public:
  ModuleFamily() = default;
  ModuleFamily(const ModuleFamily&) = delete;
  ModuleFamily& operator=(const ModuleFamily&) = delete;
  virtual ~ModuleFamily() = default;

  /// Returns a sentence for the result's notes that says what the modules do, such as "occupy modules: each
  /// action holds its thread ...".
  virtual std::string description() const = 0;
  /// Returns new modules with their initial weights. If `rank` is given, the modules of other ranks may be
  /// missing.
  virtual StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const = 0;
  /// Returns the codec of the payloads, or null if all payloads are null. The codec lives as long as the
  /// family.
  virtual const PayloadCodec* codec() const { return nullptr; }
  /// Returns the largest number of bytes of an encoded payload, or 0 if there is no codec. Runs one
  /// microbatch to measure it.
  virtual std::size_t most_payload_bytes() const { return 0; }
  /// Returns the bytes that each stage stores and sends, by stage. Returns an empty list if the modules store
  /// nothing. Runs one microbatch to measure them.
  virtual std::vector<StageBytes> bytes_of_stages() const { return {}; }
  /// Returns the data that the modules of a rank report after a run.
  virtual RankAccount account(std::int32_t, const StageModules&) const { return {}; }
};

/// A family of modules that compute nothing. Each action blocks its worker for the time in the experiment's
/// cost table. All payloads are null.
class OccupyFamily : public ModuleFamily {
 public:
  /// Stores a reference to `experiment`, which must outlive this object.
  OccupyFamily(const Experiment& experiment, const Jitter& jitter)
      : experiment_(experiment), jitter_(jitter) {}

  std::string description() const override;
  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override;

 private:
  const Experiment& experiment_;
  Jitter jitter_;
};

}  // namespace penstock
