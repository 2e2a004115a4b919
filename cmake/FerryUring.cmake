# ferry::uring: the system's liburing (Debian's liburing-dev), by which drives are reached. Linked statically where it
# can be, so that the programs run on boxes without it.
find_path(FERRY_URING_INCLUDE_DIR liburing.h)
find_library(FERRY_URING_LIBRARY NAMES liburing.a uring)
if(NOT FERRY_URING_INCLUDE_DIR OR NOT FERRY_URING_LIBRARY)
  message(FATAL_ERROR "liburing was not found; install liburing-dev (scripts/setup does), or name its header's folder and library "
                      "as FERRY_URING_INCLUDE_DIR and FERRY_URING_LIBRARY, or set FERRY_URING=OFF (drives through threads)")
endif()
file(STRINGS ${FERRY_URING_INCLUDE_DIR}/liburing.h has_sparse REGEX "io_uring_register_buffers_sparse")
if(NOT has_sparse)
  message(FATAL_ERROR "the liburing in ${FERRY_URING_INCLUDE_DIR} is older than 2.2; install a later one, or set FERRY_URING=OFF "
                      "(drives through threads)")
endif()
message(STATUS "liburing at ${FERRY_URING_LIBRARY}")

add_library(ferry_uring UNKNOWN IMPORTED GLOBAL)
add_library(ferry::uring ALIAS ferry_uring)
set_target_properties(ferry_uring PROPERTIES IMPORTED_LOCATION ${FERRY_URING_LIBRARY}
  INTERFACE_INCLUDE_DIRECTORIES ${FERRY_URING_INCLUDE_DIR})
