#pragma once
// The interface through which a run gets its modules: occupy modules, or mathematics on CPUs and GPUs. It
// also returns what they report after the run (measured_run.hpp).

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
  std::optional<RankMemory> memory{};     ///< absent if the modules store nothing
  std::map<std::int32_t, double> losses;  ///< loss of each microbatch, of stages that compute the loss
};

/// One run of a program by all ranks.
struct ExecutedRun {
  Timeline timeline;
  std::vector<RankAccount> accounts;  ///< by rank; empty if they were not collected
  /// The largest possible difference between two clocks of the ranks' hosts. Absent on a single host.
  std::optional<Ns> clock_error_ns{};
};

/// Makes modules. With several processes, each rank's process calls the functions. Failures are exceptions.
class ModuleFamily {
 public:
  ModuleFamily() = default;
  ModuleFamily(const ModuleFamily&) = delete;
  ModuleFamily& operator=(const ModuleFamily&) = delete;
  virtual ~ModuleFamily() = default;

  /// Returns what the modules do, for the notes of a result: "occupy modules: each action holds its thread
  /// ...".
  virtual std::string description() const = 0;
  /// Returns new modules in their first state. With a rank, only that rank's modules need to be present.
  virtual StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const = 0;
  /// Returns the codec of the payloads, or null if all payloads are null. It lives as long as the family.
  virtual const PayloadCodec* codec() const { return nullptr; }
  /// Returns the largest size of an encoded payload; 0 without a codec. Computes one microbatch to find it.
  virtual std::size_t most_payload_bytes() const { return 0; }
  /// Returns the bytes of each stage of the experiment's program; empty if the modules store nothing.
  /// Computes one microbatch to find them.
  virtual std::vector<StageBytes> bytes_of_stages() const { return {}; }
  /// Returns the account of the rank's modules after a run.
  virtual RankAccount account(std::int32_t, const StageModules&) const { return {}; }
};

/// Modules that hold each action's worker for the time that the experiment's costs say. All payloads are
/// null.
class OccupyFamily : public ModuleFamily {
 public:
  /// Keeps a reference to `experiment`, which must outlive this object.
  OccupyFamily(const Experiment& experiment, const Jitter& jitter)
      : experiment_(experiment), jitter_(jitter) {}

  std::string description() const override;
  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override;

 private:
  const Experiment& experiment_;
  Jitter jitter_;
};

}  // namespace penstock
