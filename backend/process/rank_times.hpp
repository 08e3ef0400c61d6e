#pragma once
// The times of one rank, as it tells them (Done) and as they are put among those of all ranks. Private to
// worker.cpp and coordinator.cpp.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/executor/transport.hpp"
#include "backend/process/control_message.hpp"
#include "schedules/check/flat_program.hpp"
#include "schedules/check/program_times.hpp"

namespace penstock {

/// `messages`: of those that the rank accounts for (socket_transport.hpp, messages_of). Without its account.
Done done_of(const FlatProgram& flat, std::int32_t rank, std::int32_t run, const ProgramTimes& times,
             const std::vector<MessageTime>& messages);

/// Why these are no times of the rank, if they are none.
std::optional<std::string> fault_of(const FlatProgram& flat, std::int32_t rank, const Done& done);
/// Requires that they are.
void put_among(ProgramTimes& times, const FlatProgram& flat, std::int32_t rank, const Done& done);

}  // namespace penstock
