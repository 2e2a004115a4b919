# ferry_library(NAME SOURCES ... [LINKS ...] [TORCH])   one static library per folder of src/
# ferry_tests(NAME SOURCES ... [LINKS ...] [TORCH] [PARTS N])   its tests: one binary, one ctest entry
# ferry_pytest(NAME [BESIDE] [CONFIGURATION NAME] FILE_OR_FOLDER...)   Python tests: one ctest entry, with a
#                                                       configuration only under `ctest -C NAME`
#
# One test runs at a time, since times and memory are looked at. What looks at neither, be it in PARTS or said to run
# BESIDE others, runs on as many cores as there are (scripts/test).
#
# A target with TORCH is left out of a build without torch (FERRY_TORCH=OFF). Tests that compute with
# torch have the label torch (ctest -L torch), which scripts/test-kernels runs.
add_library(ferry_flags INTERFACE)
target_compile_options(ferry_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion)
target_include_directories(ferry_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(ferry_flags INTERFACE Threads::Threads)
if(FERRY_SANITIZE)
  target_compile_definitions(ferry_flags INTERFACE _GLIBCXX_ASSERTIONS) # indices beyond a vector, too
  target_compile_options(ferry_flags INTERFACE -fsanitize=${FERRY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(ferry_flags INTERFACE -fsanitize=${FERRY_SANITIZE})
endif()

# Targets with TORCH share one precompiled header, owned by ferry_torch_pch: 28 s once instead of 10 s per file.
if(FERRY_TORCH)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/torch_pch.cc CONTENT "// Owns the precompiled torch header.\n")
  add_library(ferry_torch_pch STATIC ${CMAKE_BINARY_DIR}/torch_pch.cc)
  target_link_libraries(ferry_torch_pch PUBLIC ferry_flags ferry::torch)
  target_compile_options(ferry_torch_pch PRIVATE -fpch-preprocess)
  target_precompile_headers(ferry_torch_pch PRIVATE
    <ATen/ATen.h> <torch/csrc/autograd/autograd.h> <torch/csrc/autograd/custom_function.h>)
endif()

function(ferry_use_torch target)
  target_link_libraries(${target} PUBLIC ferry::torch)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  target_precompile_headers(${target} REUSE_FROM ferry_torch_pch)
endfunction()

function(ferry_library name)
  cmake_parse_arguments(arg "TORCH" "" "SOURCES;LINKS" ${ARGN})
  if(arg_TORCH AND NOT FERRY_TORCH)
    return()
  endif()
  add_library(ferry_${name} STATIC ${arg_SOURCES})
  target_link_libraries(ferry_${name} PUBLIC ferry_flags ${arg_LINKS})
  if(arg_TORCH)
    ferry_use_torch(ferry_${name})
  endif()
endfunction()

function(ferry_tests name)
  cmake_parse_arguments(arg "TORCH" "PARTS" "SOURCES;LINKS" ${ARGN})
  if(NOT FERRY_TESTS OR (arg_TORCH AND NOT FERRY_TORCH))
    return()
  endif()
  add_executable(${name}_test ${arg_SOURCES})
  target_link_libraries(${name}_test PRIVATE ferry_${name} ${arg_LINKS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name}_test PRIVATE FERRY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(arg_TORCH)
    ferry_use_torch(${name}_test)
  endif()
  if(arg_PARTS)
    foreach(part RANGE 1 ${arg_PARTS})
      math(EXPR index "${part} - 1")
      ferry_add_gtest(${name}_${part} ${name}_test GTEST_TOTAL_SHARDS=${arg_PARTS} GTEST_SHARD_INDEX=${index})
    endforeach()
    return()
  endif()
  ferry_add_gtest(${name} ${name}_test)
  set_tests_properties(${name} PROPERTIES RUN_SERIAL TRUE)
  if(arg_TORCH)
    set_tests_properties(${name} PROPERTIES LABELS torch)
  endif()
endfunction()

# With the environment that follows. The results are read by tests/count.py, which counts the cases.
function(ferry_add_gtest name program)
  cmake_parse_arguments(arg "" "CONFIGURATION" "" ${ARGN})
  add_test(NAME ${name} CONFIGURATIONS ${arg_CONFIGURATION} COMMAND ${program})
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT "GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml;${arg_UNPARSED_ARGUMENTS}")
endfunction()

function(ferry_pytest name)
  cmake_parse_arguments(arg "BESIDE" "CONFIGURATION" "" ${ARGN})
  add_test(NAME ${name} CONFIGURATIONS ${arg_CONFIGURATION}
    COMMAND ${FERRY_PYTHON} -m pytest -q -p no:cacheprovider
      --junitxml=${CMAKE_BINARY_DIR}/test-results/${name}.xml ${arg_UNPARSED_ARGUMENTS}
    WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  if(arg_BESIDE)
    set(serial FALSE)
  else()
    set(serial TRUE)
  endif()
  set_tests_properties(${name} PROPERTIES RUN_SERIAL ${serial}
    ENVIRONMENT "PYTHONPATH=${PROJECT_SOURCE_DIR}/tools;PYTHONDONTWRITEBYTECODE=1")
endfunction()
