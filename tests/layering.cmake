# Fails when a folder or a room includes one that it may not, and when one name stands for files of two folders:
# cmake -DROOT=<source dir> -P layering.cmake
cmake_minimum_required(VERSION 3.25)

set(folders text topology schedules report scenarios sim backend cli bench)

# What a folder may include beside itself.
set(text_uses)
set(topology_uses text)
set(schedules_uses text)
set(report_uses text schedules)
set(scenarios_uses text schedules topology)
set(sim_uses text scenarios schedules topology report)
set(backend_uses text scenarios schedules topology report)
set(cli_uses text topology schedules report scenarios sim backend)
set(bench_uses text topology schedules report scenarios sim backend)

# A folder's rooms: one includes itself and those to its left. "." are the files that lie in the folder itself.
set(text_rooms .)
set(topology_rooms .)
set(schedules_rooms ir text check passes search rules)
set(report_rooms print timeline result why compare figure pages)
set(scenarios_rooms host architecture pricing model partition read import prepare)
set(sim_rooms network engines memory runs why sweep hold choose risk published autopsy)
set(backend_rooms executor threads process calibration torch cuda nccl cuda/torch)
set(cli_rooms . commands measured)
set(bench_rooms . timing gpu peers)

# The one header through which rooms to the left of its own may reach it.
set(doors cli/commands/commands.hpp)

# The room of `path`, which is FOLDER/ROOM/FILE or FOLDER/FILE.
function(room_of path room)
  cmake_path(GET path PARENT_PATH place)
  if(place MATCHES "^[^/]+/(.+)")
    set(${room} ${CMAKE_MATCH_1} PARENT_SCOPE)
  else()
    set(${room} . PARENT_SCOPE)
  endif()
endfunction()

# Complains unless `file` of `folder`, which is in the room at `place` of its folder's list, may include `header`.
function(check_include file folder place header)
  if(NOT header MATCHES "^([a-z_]+)/" OR header MATCHES "\\.\\.?/")
    message(SEND_ERROR "${file}: \"${header}\": include from the source root, \"folder/room/file.hpp\"")
    return()
  endif()
  string(REGEX REPLACE "/.*" "" other ${header})
  if(NOT other STREQUAL folder)
    if(NOT other IN_LIST ${folder}_uses)
      message(SEND_ERROR "${file}: ${folder}/ must not include ${other}/")
    endif()
    return()
  endif()
  room_of(${header} room)
  list(FIND ${folder}_rooms ${room} other_place)
  if(other_place EQUAL -1)
    message(SEND_ERROR "${file}: ${header}: ${room} is no room of ${folder}/, \"${${folder}_rooms}\"")
  elseif(other_place GREATER place AND NOT header IN_LIST doors)
    message(SEND_ERROR "${file}: must not include ${header}: a room of ${folder}/ includes itself and those to its "
                       "left in \"${${folder}_rooms}\"")
  endif()
endfunction()

function(check_file file folder)
  cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE path)
  room_of(${path} room)
  list(FIND ${folder}_rooms ${room} place)
  if(place EQUAL -1)
    message(SEND_ERROR "${path}: sources of ${folder}/ lie in one of its rooms, \"${${folder}_rooms}\"")
    return()
  endif()
  # In quotes, and in angle brackets where these name a folder of the project.
  list(JOIN folders "|" own)
  file(STRINGS ${file} includes REGEX "^[ \t]*#[ \t]*include[ \t]*(\"|<(${own}|tests)/)")
  foreach(include ${includes})
    string(REGEX REPLACE "^[^\"<]*[\"<]([^\">]*)[\">].*" "\\1" header "${include}")
    check_include(${path} ${folder} ${place} ${header})
  endforeach()
endfunction()

# One name, one thing: files of one name differ in their suffix alone.
function(check_names)
  foreach(file ${ARGN})
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${ROOT} OUTPUT_VARIABLE path)
    cmake_path(GET path PARENT_PATH place)
    cmake_path(GET path STEM name)
    if(DEFINED place_of_${name} AND NOT place_of_${name} STREQUAL place)
      message(SEND_ERROR "${path}: ${place_of_${name}}/ has a file of the name ${name}, too; give one of them a name "
                         "of its own")
    endif()
    set(place_of_${name} ${place})
  endforeach()
endfunction()

set(all)
foreach(folder ${folders})
  file(GLOB_RECURSE files ${ROOT}/${folder}/*.hpp ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.cu)
  list(APPEND all ${files})
  foreach(file ${files})
    check_file(${file} ${folder})
  endforeach()
endforeach()
check_names(${all})
