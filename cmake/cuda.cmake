# Searches for the CUDA toolkit and for NCCL, and prints one line about each. Sets PENSTOCK_CUDA_FOUND and
# PENSTOCK_NCCL_FOUND. If one is not found, PENSTOCK_CUDA_MISSING or PENSTOCK_NCCL_MISSING is the reason.
# Defines penstock_nccl_library. If LibTorch was built with CUDA, also defines penstock_libtorch_cuda. Must be
# included after cmake/libtorch.cmake.
#
# The build needs no driver. No target links libcuda, because its functions are looked up when the program
# runs (backend/cuda/green_contexts.cpp).

set(PENSTOCK_WITH_CUDA AUTO CACHE STRING "The backend on one GPU, cuda-local: AUTO (where the toolkit is found), ON (required), OFF")
set(PENSTOCK_WITH_NCCL AUTO CACHE STRING "The backend on several GPUs, nccl: AUTO (where CUDA and NCCL are found), ON (required), OFF")
set_property(CACHE PENSTOCK_WITH_CUDA PENSTOCK_WITH_NCCL PROPERTY STRINGS AUTO ON OFF)
set(oldest_cuda 13.0)  # earlier versions lack functions of green contexts

# The path of nvcc, or an empty string.
function(penstock_find_nvcc result)
  find_program(PENSTOCK_NVCC nvcc HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(PENSTOCK_NVCC)
  set(${result} "" PARENT_SCOPE)
  if(CMAKE_CUDA_COMPILER)
    set(${result} ${CMAKE_CUDA_COMPILER} PARENT_SCOPE)
  elseif(PENSTOCK_NVCC)
    set(${result} ${PENSTOCK_NVCC} PARENT_SCOPE)
  endif()
endfunction()

# Sets `result` to the reason why this nvcc cannot be used, or to an empty string if it can be used.
function(penstock_judge_nvcc nvcc result)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT said MATCHES "release ([0-9]+\\.[0-9]+)")
    set(${result} "${nvcc} does not run" PARENT_SCOPE)
  elseif(CMAKE_MATCH_1 VERSION_LESS oldest_cuda)
    set(${result} "${nvcc} is version ${CMAKE_MATCH_1}, ${oldest_cuda} or newer is needed" PARENT_SCOPE)
  else()
    set(${result} "" PARENT_SCOPE)
  endif()
endfunction()

# Prints if a part was found. If a required part is missing, the configuration ends with an error.
function(penstock_report_part name option missing found_text)
  if(NOT missing)
    message(STATUS "${name}: ${found_text}")
  elseif(${option} STREQUAL "ON")
    message(FATAL_ERROR "${name}: ${missing}")
  else()
    message(STATUS "${name}: left out: ${missing}")
  endif()
endfunction()

# --- CUDA -------------------------------------------------------------------------------------------------------

set(PENSTOCK_CUDA_FOUND FALSE)
set(PENSTOCK_CUDA_MISSING "")
if(PENSTOCK_WITH_CUDA STREQUAL "OFF")
  set(PENSTOCK_CUDA_MISSING "switched off by PENSTOCK_WITH_CUDA=OFF")
else()
  penstock_find_nvcc(nvcc)
  if(NOT nvcc)
    set(PENSTOCK_CUDA_MISSING "no nvcc in PATH, CUDA_PATH or /usr/local/cuda")
  else()
    penstock_judge_nvcc(${nvcc} PENSTOCK_CUDA_MISSING)
  endif()
endif()
if(NOT PENSTOCK_CUDA_MISSING)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "Compute capabilities of the GPUs to build for")
  endif()
  set(CMAKE_CUDA_COMPILER ${nvcc})
  set(CMAKE_CUDA_STANDARD 17)  # the newest standard that CMake 3.25 knows for nvcc 13
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  enable_language(CUDA)
  # FindCUDAToolkit of CMake 3.25 marks CUDA::nvToolsExt as deprecated for projects that require 3.25. CUDA 13 has no such
  # library, so that the configuration would end with an error.
  set(penstock_minimum ${CMAKE_MINIMUM_REQUIRED_VERSION})
  set(CMAKE_MINIMUM_REQUIRED_VERSION 3.24)
  find_package(CUDAToolkit ${oldest_cuda} QUIET)
  set(CMAKE_MINIMUM_REQUIRED_VERSION ${penstock_minimum})
  if(NOT TARGET CUDA::cudart OR NOT TARGET CUDA::cublas)
    set(PENSTOCK_CUDA_MISSING "${nvcc} is there, but the toolkit's cudart or cublas is not")
  else()
    set(PENSTOCK_CUDA_FOUND TRUE)
  endif()
endif()
penstock_report_part("CUDA" PENSTOCK_WITH_CUDA "${PENSTOCK_CUDA_MISSING}"
                     "${CUDAToolkit_VERSION}, ${nvcc}, for compute capability ${CMAKE_CUDA_ARCHITECTURES}")

# --- NCCL -------------------------------------------------------------------------------------------------------

set(PENSTOCK_NCCL_FOUND FALSE)
set(PENSTOCK_NCCL_MISSING "")
if(PENSTOCK_WITH_NCCL STREQUAL "OFF")
  set(PENSTOCK_NCCL_MISSING "switched off by PENSTOCK_WITH_NCCL=OFF")
elseif(NOT PENSTOCK_CUDA_FOUND OR NOT PENSTOCK_TORCH_FOUND)
  set(PENSTOCK_NCCL_MISSING "needs CUDA, and LibTorch for the store where its ranks meet")
else()
  find_path(PENSTOCK_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME PATH_SUFFIXES include)
  find_library(PENSTOCK_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR} ENV NCCL_HOME PATH_SUFFIXES lib)
  mark_as_advanced(PENSTOCK_NCCL_INCLUDE PENSTOCK_NCCL_LIBRARY)
  if(NOT PENSTOCK_NCCL_INCLUDE OR NOT PENSTOCK_NCCL_LIBRARY)
    set(PENSTOCK_NCCL_MISSING "no nccl.h or libnccl beside the toolkit, in NCCL_HOME or CMAKE_PREFIX_PATH")
  else()
    set(PENSTOCK_NCCL_FOUND TRUE)
    file(STRINGS ${PENSTOCK_NCCL_INCLUDE}/nccl.h version REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9]+" "." version "${version}")
    string(REGEX REPLACE "^\\." "" PENSTOCK_NCCL_VERSION "${version}")
    add_library(penstock_nccl_library SHARED IMPORTED)
    set_target_properties(penstock_nccl_library PROPERTIES IMPORTED_LOCATION ${PENSTOCK_NCCL_LIBRARY})
    target_include_directories(penstock_nccl_library SYSTEM INTERFACE ${PENSTOCK_NCCL_INCLUDE})
  endif()
endif()
penstock_report_part("NCCL" PENSTOCK_WITH_NCCL "${PENSTOCK_NCCL_MISSING}" "${PENSTOCK_NCCL_VERSION}, ${PENSTOCK_NCCL_LIBRARY}")

# --- LibTorch's part for CUDA ---------------------------------------------------------------------------------

set(PENSTOCK_TORCH_CUDA_FOUND FALSE)
set(torch_cuda_missing "")
if(NOT PENSTOCK_CUDA_FOUND OR NOT PENSTOCK_TORCH_FOUND)
  set(torch_cuda_missing "needs CUDA and LibTorch")
elseif(NOT EXISTS ${torch_root}/lib/libtorch_cuda.so)
  set(torch_cuda_missing "${torch_root} was built without CUDA")
else()
  set(PENSTOCK_TORCH_CUDA_FOUND TRUE)
  add_library(penstock_libtorch_cuda INTERFACE)
  foreach(part c10_cuda torch_cuda)
    add_library(penstock_libtorch_${part} SHARED IMPORTED)
    set_target_properties(penstock_libtorch_${part} PROPERTIES IMPORTED_LOCATION ${torch_root}/lib/lib${part}.so)
  endforeach()
  # LibTorch's libraries need other libraries, which are in wheels of pip beside it and in the toolkit. The program's
  # DT_RPATH names these folders. Unlike DT_RUNPATH, it also applies to libraries that the program's libraries load.
  file(GLOB of_wheels ${torch_root}/../nvidia/*/lib)
  foreach(folder ${CUDAToolkit_LIBRARY_DIR} ${of_wheels})
    target_link_options(penstock_libtorch_cuda INTERFACE -Wl,-rpath,${folder} -Wl,-rpath-link,${folder})
  endforeach()
  # No source refers to a name in torch_cuda, because its operators register themselves when the library is loaded.
  target_link_options(penstock_libtorch_cuda INTERFACE -Wl,--disable-new-dtags -Wl,--no-as-needed)
  target_link_libraries(penstock_libtorch_cuda INTERFACE
    penstock_libtorch penstock_libtorch_c10_cuda penstock_libtorch_torch_cuda CUDA::cudart CUDA::cublas)
endif()
if(torch_cuda_missing)
  message(STATUS "LibTorch on CUDA: left out: ${torch_cuda_missing}")
else()
  message(STATUS "LibTorch on CUDA: ${torch_root}/lib/libtorch_cuda.so")
endif()
