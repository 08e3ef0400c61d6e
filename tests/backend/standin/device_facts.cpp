// Implements only the functions that the backend calls. Errors have their real names, so that tests can
// compare messages, but no explanations.

#include "tests/backend/standin/device_facts.hpp"

#include <cstring>
#include <fstream>

namespace standin {
namespace {

constexpr std::size_t kMemory = std::size_t{80} << 30;

template <typename Number>
void add(std::byte* sum, const std::byte* addend, std::size_t count) {
  auto* numbers = reinterpret_cast<Number*>(sum);
  const auto* others = reinterpret_cast<const Number*>(addend);
  for (std::size_t i = 0; i < count; ++i) numbers[i] += others[i];
}

}  // namespace

cudaDeviceProp properties_of(int sms, int capability, int device) {
  cudaDeviceProp facts{};
  std::strcpy(facts.name, "stand-in");
  facts.multiProcessorCount = sms;
  facts.major = capability;
  facts.totalGlobalMem = kMemory;
  // Devices of two hosts differ. A host differs from others by the number of its boot.
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  boot.read(facts.uuid.bytes, 8);
  facts.uuid.bytes[15] = static_cast<char>(device);
  return facts;
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclFloat64:
    case ncclInt64:
    case ncclUint64:
      return 8;
    case ncclFloat32:
    case ncclInt32:
    case ncclUint32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

bool add_to(std::byte* sum, const std::byte* addend, std::size_t count, ncclDataType_t type) {
  if (type == ncclFloat64) {
    add<double>(sum, addend, count);
  } else if (type == ncclFloat32) {
    add<float>(sum, addend, count);
  } else {
    return false;
  }
  return true;
}

}  // namespace standin

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorInitializationError:
      return "cudaErrorInitializationError";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaErrorUnknown";
  }
}

const char* cudaGetErrorString(cudaError_t) { return "said the stand-in"; }

const char* ncclGetErrorString(ncclResult_t) { return "said the stand-in"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }

}  // extern "C"
