# ferry::xxhash: the system's libxxhash (Debian's libxxhash-dev), which checksums checkpoints.
find_path(FERRY_XXHASH_INCLUDE_DIR xxhash.h)
find_library(FERRY_XXHASH_LIBRARY xxhash)
if(NOT FERRY_XXHASH_INCLUDE_DIR OR NOT FERRY_XXHASH_LIBRARY)
  message(FATAL_ERROR "libxxhash was not found; install libxxhash-dev (scripts/setup does), or name its header's folder "
                      "and library as FERRY_XXHASH_INCLUDE_DIR and FERRY_XXHASH_LIBRARY")
endif()
message(STATUS "xxHash at ${FERRY_XXHASH_LIBRARY}")

add_library(ferry_xxhash UNKNOWN IMPORTED GLOBAL)
add_library(ferry::xxhash ALIAS ferry_xxhash)
set_target_properties(ferry_xxhash PROPERTIES IMPORTED_LOCATION ${FERRY_XXHASH_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${FERRY_XXHASH_INCLUDE_DIR})
