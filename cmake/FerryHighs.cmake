# ferry::highs: the HiGHS of PyPI's highsbox (library, C header), as one imported target.
#
# FERRY_PYTHON names the interpreter whose highsbox is used. The library's folder becomes part of the
# run path of every binary that links it, so nothing has to be set to run from the build tree.
execute_process(
  COMMAND ${FERRY_PYTHON} -c "import highsbox; print(highsbox.highs_include_dir(), highsbox.highs_lib_dir(), sep=';')"
  OUTPUT_VARIABLE found ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "no highsbox in ${FERRY_PYTHON}; run scripts/setup, or set FERRY_PYTHON to an interpreter that has "
                      "highsbox >= 1.15, or set FERRY_HIGHS=OFF (no proof of partitions by HiGHS)")
endif()
list(GET found 0 FERRY_HIGHS_INCLUDE_DIR)
list(GET found 1 FERRY_HIGHS_LIBRARY_DIR)
set(highs_header ${FERRY_HIGHS_INCLUDE_DIR}/interfaces/highs_c_api.h)
set(highs_library ${FERRY_HIGHS_LIBRARY_DIR}/libhighs.so)
foreach(file IN ITEMS ${highs_header} ${highs_library} ${FERRY_HIGHS_INCLUDE_DIR}/HConfig.h)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "the highsbox of ${FERRY_PYTHON} came without ${file}; install highsbox >= 1.15 (requirements.txt)")
  endif()
endforeach()
file(STRINGS ${FERRY_HIGHS_INCLUDE_DIR}/HConfig.h versions REGEX "HIGHS_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" versions "${versions}")
list(JOIN versions "." FERRY_HIGHS_VERSION)
if(FERRY_HIGHS_VERSION VERSION_LESS 1.15)
  message(FATAL_ERROR "HiGHS ${FERRY_HIGHS_VERSION} at ${FERRY_HIGHS_LIBRARY_DIR}: need >= 1.15 (requirements.txt)")
endif()
message(STATUS "HiGHS ${FERRY_HIGHS_VERSION} at ${FERRY_HIGHS_LIBRARY_DIR}")

add_library(ferry_highs SHARED IMPORTED GLOBAL)
add_library(ferry::highs ALIAS ferry_highs)
set_target_properties(ferry_highs PROPERTIES IMPORTED_LOCATION ${highs_library})
target_include_directories(ferry_highs SYSTEM INTERFACE ${FERRY_HIGHS_INCLUDE_DIR})
