#pragma once
// The times of one rank in the form in which it sends them (Done), and their place among the times of all
// ranks. Used only by worker.cpp and coordinator.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/executor/transport.hpp"
#include "backend/process/control_message.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"

namespace penstock {

/// Makes the message Done without its account. `messages` are the times of the messages for which the rank
/// accounts (messages_of in socket_transport.hpp).
Done done_of(const FlatProgram& flat, std::int32_t rank, std::int32_t run, const ProgramTimes& times,
             const std::vector<MessageTime>& messages);

/// Returns why these cannot be times of the rank, or nothing if they can.
std::optional<std::string> fault_of(const FlatProgram& flat, std::int32_t rank, const Done& done);
/// Writes the rank's times into `times`. Requires that fault_of() returned nothing.
void put_among(ProgramTimes& times, const FlatProgram& flat, std::int32_t rank, const Done& done);

}  // namespace penstock
