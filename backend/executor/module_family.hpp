#pragma once
// What the ranks of a run compute with, and what they can tell about it afterwards: the seam through which
// occupy modules and mathematics on CPUs and GPUs enter the ways to execute (measured_run.hpp).

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

/// What one rank's modules know after a run.
struct RankAccount {
  std::optional<RankMemory> memory{};     ///< absent: the modules store nothing
  std::map<std::int32_t, double> losses;  ///< by microbatch, of stages that feed nobody
};

/// One run of a program by all ranks.
struct ExecutedRun {
  Timeline timeline;
  std::vector<RankAccount> accounts;  ///< by rank; empty where nobody asked
  /// Of ranks on several hosts: how far apart the clocks of two may have been, at most.
  std::optional<Ns> clock_error_ns{};
};

/// Makes modules. Functions are called in each rank's process where there are several; failures are
/// exceptions.
class ModuleFamily {
 public:
  ModuleFamily() = default;
  ModuleFamily(const ModuleFamily&) = delete;
  ModuleFamily& operator=(const ModuleFamily&) = delete;
  virtual ~ModuleFamily() = default;

  /// What its modules do, for the notes of a result: "occupy modules: each action holds its thread ...".
  virtual std::string description() const = 0;
  /// New modules, in their first state. With a rank, only that rank's need be there.
  virtual StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const = 0;
  /// Null where all payloads are null. Lives as long as the family.
  virtual const PayloadCodec* codec() const { return nullptr; }
  /// Of one payload, as the codec encodes it; 0 without a codec. Computes one microbatch.
  virtual std::size_t most_payload_bytes() const { return 0; }
  /// By stage of the experiment's program; empty where its modules store nothing. Computes one microbatch.
  virtual std::vector<StageBytes> bytes_of_stages() const { return {}; }
  /// Of the rank's modules after a run.
  virtual RankAccount account(std::int32_t, const StageModules&) const { return {}; }
};

/// Holds each action's worker for as long as the experiment's costs say. Everything sends null.
class OccupyFamily : public ModuleFamily {
 public:
  /// `experiment` must outlive it.
  OccupyFamily(const Experiment& experiment, const Jitter& jitter)
      : experiment_(experiment), jitter_(jitter) {}

  std::string description() const override;
  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override;

 private:
  const Experiment& experiment_;
  Jitter jitter_;
};

}  // namespace penstock
