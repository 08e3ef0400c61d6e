# Searches for LibTorch, first in CMAKE_PREFIX_PATH and Torch_DIR, and then in the folder of
# scripts/libtorch.sh. Sets PENSTOCK_TORCH_FOUND, and defines penstock_libtorch, the part of LibTorch that
# needs no GPU. If LibTorch is not found, PENSTOCK_TORCH_MISSING is the reason.
#
# This file defines its own targets instead of those of LibTorch's package. If LibTorch was built with CUDA,
# that package needs the whole CUDA toolkit, and a program that is linked with all of it takes seconds to
# start. LibTorch contains headers of another version of fmt, which come before the system's headers. So
# sources that use LibTorch must not include fmt.

set(PENSTOCK_WITH_TORCH AUTO CACHE STRING "LibTorch stage modules: AUTO (where LibTorch is found), ON (required), OFF")
set_property(CACHE PENSTOCK_WITH_TORCH PROPERTY STRINGS AUTO ON OFF)
set(oldest_version 2.4)

# The folder with include/ and lib/, or an empty string. Because of CONFIGURE_DEPENDS, the next build
# configures again after a later installation.
function(penstock_find_libtorch result)
  file(GLOB installed CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/build/libtorch/lib/python3*/site-packages/torch)
  set(prefixes ${Torch_DIR} ${CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" from_environment "$ENV{CMAKE_PREFIX_PATH}")
  set(${result} "" PARENT_SCOPE)
  foreach(prefix ${prefixes} ${from_environment} ${installed})
    foreach(root ${prefix} ${prefix}/../.. ${prefix}/../../..)
      if(EXISTS ${root}/lib/libtorch_cpu.so AND EXISTS ${root}/include/ATen/ATen.h)
        get_filename_component(root ${root} ABSOLUTE)
        set(${result} ${root} PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
endfunction()

function(penstock_libtorch_version root result)
  set(${result} 0 PARENT_SCOPE)
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    if(EXISTS ${root}/include/${header})
      file(STRINGS ${root}/include/${header} lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
      if(lines)
        string(REGEX REPLACE "[^0-9]+" "." version "${lines}")
        string(REGEX REPLACE "^\\." "" version "${version}")
        set(${result} ${version} PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

set(PENSTOCK_TORCH_FOUND FALSE)
set(PENSTOCK_TORCH_MISSING "")
if(PENSTOCK_WITH_TORCH STREQUAL "OFF")
  set(PENSTOCK_TORCH_MISSING "switched off by PENSTOCK_WITH_TORCH=OFF")
else()
  penstock_find_libtorch(torch_root)
  if(NOT torch_root)
    set(PENSTOCK_TORCH_MISSING "not found in CMAKE_PREFIX_PATH, and scripts/libtorch.sh has not installed it")
  else()
    penstock_libtorch_version(${torch_root} torch_version)
    if(torch_version VERSION_LESS oldest_version)
      set(PENSTOCK_TORCH_MISSING "${torch_root} is version ${torch_version}, ${oldest_version} or newer is needed")
    else()
      set(PENSTOCK_TORCH_FOUND TRUE)
    endif()
  endif()
endif()

if(PENSTOCK_TORCH_FOUND)
  add_library(penstock_libtorch INTERFACE)
  foreach(part c10 torch_cpu)
    add_library(penstock_libtorch_${part} SHARED IMPORTED)
    set_target_properties(penstock_libtorch_${part} PROPERTIES IMPORTED_LOCATION ${torch_root}/lib/lib${part}.so)
    target_link_libraries(penstock_libtorch INTERFACE penstock_libtorch_${part})
  endforeach()
  target_include_directories(penstock_libtorch SYSTEM INTERFACE
    ${torch_root}/include ${torch_root}/include/torch/csrc/api/include)
  message(STATUS "LibTorch ${torch_version}: ${torch_root}")
elseif(PENSTOCK_WITH_TORCH STREQUAL "ON")
  message(FATAL_ERROR "LibTorch: ${PENSTOCK_TORCH_MISSING}")
else()
  message(STATUS "LibTorch stage modules are left out: ${PENSTOCK_TORCH_MISSING}")
endif()
