# Fails when a source does not open with its idea or a room has no page: cmake -DROOT=<source dir> -P openings.cmake
#
# A source begins, before anything is included, with comments of at least LEAST letters and digits: a good line. Pictures and
# formulas count. A room is a folder that holds sources or headers; its page is README.md. The benchmarks have one page for all.
cmake_minimum_required(VERSION 3.25)

set(LEAST 60)
set(folders text topology schedules report scenarios sim backend cli bench)
set(folders_of_one_page bench)

# The letters and digits of the block of comments that the file begins with.
function(opening_of file result)
  file(READ ${file} text LIMIT 8192)
  string(REGEX MATCH "^(//[^\n]*\n)+" comments "${text}")
  string(REGEX REPLACE "[^A-Za-z0-9]" "" letters "${comments}")
  set(${result} "${letters}" PARENT_SCOPE)
endfunction()

foreach(folder ${folders})
  file(GLOB_RECURSE sources ${ROOT}/${folder}/*.cpp ${ROOT}/${folder}/*.cu)
  foreach(source ${sources})
    opening_of(${source} opening)
    string(LENGTH "${opening}" length)
    if(length EQUAL 0)
      message(SEND_ERROR "${source}: opens without a word: say its idea (picture, formula, paper) above the includes")
    elseif(length LESS LEAST)
      message(SEND_ERROR "${source}: its opening is ${length} letters long, expected ${LEAST} or more: what is the idea?")
    endif()
  endforeach()

  file(GLOB_RECURSE headers ${ROOT}/${folder}/*.hpp)
  set(rooms ${ROOT}/${folder})
  if(folder IN_LIST folders_of_one_page)
    set(sources)
    set(headers)
  endif()
  foreach(file ${sources} ${headers})
    cmake_path(GET file PARENT_PATH room)
    list(APPEND rooms ${room})
  endforeach()
  list(REMOVE_DUPLICATES rooms)
  foreach(room ${rooms})
    if(NOT EXISTS ${room}/README.md)
      message(SEND_ERROR "${room}: has no README.md: what lives here, what holds, who may call it, how to add one")
    endif()
  endforeach()
endforeach()
