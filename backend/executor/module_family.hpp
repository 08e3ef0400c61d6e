#pragma once
// The interface through which a run gets its modules. Some modules only block their workers (occupy modules),
// and others compute on CPUs or GPUs. A family also returns what its modules report after the run, and the
// bytes that its stages store.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/executor/clock.hpp"
#include "backend/executor/executor.hpp"
#include "backend/executor/stage_module.hpp"
#include "backend/executor/transport.hpp"
#include "report/result/result.hpp"
#include "report/timeline/timeline.hpp"
#include "scenarios/prepare/experiment.hpp"
#include "schedules/ir/action.hpp"
#include "schedules/ir/cost_table.hpp"
#include "schedules/ir/program.hpp"

namespace penstock {

/// The bytes that one stage stores and sends. The first five fields count one microbatch, and the others
/// the whole stage.
struct StageBytes {
  Bytes input = 0;              ///< bytes of the model's input that the stage reads; 0 if it reads none
  Bytes activation = 0;         ///< bytes of the activation that the stage sends forward
  Bytes gradient = 0;           ///< bytes of the gradient that the stage sends back
  Bytes kept = 0;               ///< bytes that the stage stores from F to B
  Bytes released_by_input = 0;  ///< part of `kept` that the stage frees after I, before W
  Bytes weights = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;

  friend bool operator==(const StageBytes&, const StageBytes&) = default;
};

/// Returns `costs` in which `bytes` replaces the bytes of the stages. `bytes` must have one element for
/// each stage of the program.
CostTable with_stage_bytes(CostTable costs, const Program& program, const std::vector<StageBytes>& bytes);

// Stage modules that compute nothing. Each action blocks its worker for the time in the cost table.

/// A random variation of durations. Each duration is multiplied by a random factor between 1 - fraction and 1
/// + fraction. The factor depends only on the seed and the action. An action therefore has the same duration
/// in every schedule and repeat.
struct Jitter {
  double fraction = 0;  ///< largest relative deviation of a duration from the cost table, 0 to 1
  std::uint64_t seed = 1;
};

/// Returns the time for which an overlapped group, or a single action, blocks its worker.
Ns held_ns(const CostTable& costs, std::span<const Action> group, const Jitter& jitter);

/// A stage module that computes nothing and returns null payloads. It stores references to the costs and
/// the clock, which must outlive it.
class OccupyModule : public StageModule {
 public:
  OccupyModule(const CostTable& costs, const Clock& clock, const Jitter& jitter)
      : costs_(costs), clock_(clock), jitter_(jitter) {}

  std::vector<Payload> forward(const ComputeCall& call, std::vector<Payload> inputs) override;
  std::vector<Payload> backward(const ComputeCall& call, std::vector<Payload> gradients) override;
  std::vector<Payload> backward_input(const ComputeCall& call, std::vector<Payload> gradients) override;
  void backward_weight(const ComputeCall& call) override { occupy(call); }
  void recompute(const ComputeCall& call) override { occupy(call); }
  void step(const ComputeCall& call) override { occupy(call); }
  void drop_version(std::int32_t) override {}
  Payload contribution(ActionKind) override { return nullptr; }
  void accept(ActionKind, std::span<const SharedPayload>) override {}
  void reshard() override {}
  void offload(std::int32_t) override {}
  void reload(std::int32_t) override {}

 private:
  void occupy(const ComputeCall& call) const;

  const CostTable& costs_;
  const Clock& clock_;
  Jitter jitter_;
};

/// Returns one module for each stage that a rank holds, indexed by rank and stage. If `only` is given,
/// returns the modules of that rank alone.
StageModules occupy_modules(const Program& program, const CostTable& costs, const Clock& clock,
                            const Jitter& jitter, std::optional<std::int32_t> only = std::nullopt);

/// The data that one rank's modules report after a run.
struct RankAccount {
  std::optional<RankMemory> memory{};  ///< memory over time; absent if the modules store nothing
  /// The loss of each microbatch. It is empty if the rank does not hold the stage that computes the loss.
  std::map<std::int32_t, double> losses;
};

/// One run of a program by all ranks.
struct ExecutedRun {
  Timeline timeline;
  /// The data that the modules of each rank reported, by rank; empty if nothing was collected.
  std::vector<RankAccount> accounts;
  /// The largest possible difference between the clocks of two hosts. Absent if all ranks run on one host.
  std::optional<Ns> clock_error_ns{};
};

/// A factory of stage modules. If each rank is a process, each process calls these functions for its own
/// rank. A function that fails throws an exception.
class ModuleFamily {
 public:
  ModuleFamily() = default;
  ModuleFamily(const ModuleFamily&) = delete;
  ModuleFamily& operator=(const ModuleFamily&) = delete;
  virtual ~ModuleFamily() = default;

  /// Returns a sentence that says what the modules do, for the notes of a result. An example is "occupy
  /// modules: each action holds its thread ...".
  virtual std::string description() const = 0;
  /// Returns new modules with their initial weights. If `rank` is given, the modules of other ranks may be
  /// missing.
  virtual StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const = 0;
  /// Returns the codec of the payloads, or null if all payloads are null. The codec lives as long as the
  /// family.
  virtual const PayloadCodec* codec() const { return nullptr; }
  /// Returns the largest number of bytes of an encoded payload, or 0 if there is no codec. It runs one
  /// microbatch to find this number.
  virtual std::size_t most_payload_bytes() const { return 0; }
  /// Returns the bytes that each stage stores and sends, by stage. It runs one microbatch to measure them.
  /// Returns an empty list if the modules store nothing.
  virtual std::vector<StageBytes> bytes_of_stages() const { return {}; }
  /// Returns true if the modules run OFFLOAD and RELOAD.
  virtual bool moves_activations() const { return false; }
  /// Returns the data that the modules of a rank report after a run.
  virtual RankAccount account(std::int32_t, const StageModules&) const { return {}; }
};

/// A family of modules that compute nothing. Each action blocks its worker for the time that the
/// experiment's cost table states. All payloads are null.
class OccupyFamily : public ModuleFamily {
 public:
  /// Stores a reference to `experiment`, which must outlive this object.
  OccupyFamily(const Experiment& experiment, const Jitter& jitter)
      : experiment_(experiment), jitter_(jitter) {}

  std::string description() const override;
  StageModules modules(std::optional<std::int32_t> rank, const Clock& clock) const override;
  bool moves_activations() const override { return true; }

 private:
  const Experiment& experiment_;
  Jitter jitter_;
};

}  // namespace penstock
