#pragma once
// Converts the times of one rank to the message Done and back. Only worker.cpp and coordinator.cpp use it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/executor/transport.hpp"
#include "backend/process/control_message.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"

namespace penstock {

/// Returns the message Done without its account. `messages` has the times of the messages that the rank
/// reports (messages_of in socket_transport.hpp).
Done done_of(const FlatProgram& flat, std::int32_t rank, std::int32_t run, const ProgramTimes& times,
             const std::vector<MessageTime>& messages);

/// Returns why the times in `done` are not possible for the rank, or nothing if they are possible.
std::optional<std::string> fault_of(const FlatProgram& flat, std::int32_t rank, const Done& done);
/// Writes the rank's times into `times`, which has the times of all ranks. Requires that fault_of() returned
/// nothing.
void put_among(ProgramTimes& times, const FlatProgram& flat, std::int32_t rank, const Done& done);

}  // namespace penstock
