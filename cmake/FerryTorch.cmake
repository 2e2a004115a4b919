# ferry::torch: the torch of a Python installation, as one imported target.
#
# Not find_package(Torch): on a CUDA wheel that drags in a whole CUDA toolkit (compilers, probes, global
# flags) that C++-only users do not need. FERRY_PYTHON names the interpreter whose torch is used.
execute_process(
  COMMAND ${FERRY_PYTHON} -c
    "import os, torch; print(os.path.dirname(torch.__file__), torch.__version__.split('+')[0], int(torch.compiled_with_cxx11_abi()), sep=';')"
  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "no torch in ${FERRY_PYTHON}; run scripts/setup, or set FERRY_PYTHON to an interpreter that has torch >= 2.11 (a package: "
                      "pip install --no-build-isolation ., docs/install.md)")
endif()
list(GET found 0 FERRY_TORCH_DIR)
list(GET found 1 FERRY_TORCH_VERSION)
list(GET found 2 torch_cxx11_abi)
if(NOT torch_cxx11_abi OR FERRY_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "torch ${FERRY_TORCH_VERSION} at ${FERRY_TORCH_DIR}: need >= 2.11 with the C++11 ABI")
endif()
if(NOT EXISTS ${FERRY_TORCH_DIR}/include/c10/core/Device.h)
  message(FATAL_ERROR "torch ${FERRY_TORCH_VERSION} at ${FERRY_TORCH_DIR} came without C++ headers")
endif()
message(STATUS "torch ${FERRY_TORCH_VERSION} at ${FERRY_TORCH_DIR}")

add_library(ferry_torch INTERFACE)
add_library(ferry::torch ALIAS ferry_torch)
target_include_directories(ferry_torch SYSTEM INTERFACE
  ${FERRY_TORCH_DIR}/include ${FERRY_TORCH_DIR}/include/torch/csrc/api/include)
# The wheels are built with NDEBUG, and torch's headers lay out and check some classes by it.
target_compile_definitions(ferry_torch INTERFACE NDEBUG)
set(FERRY_TORCH_LIBRARY_DIR ${FERRY_TORCH_DIR}/lib)
target_link_directories(ferry_torch INTERFACE ${FERRY_TORCH_LIBRARY_DIR})
target_link_libraries(ferry_torch INTERFACE torch torch_cpu c10)
# One OpenMP for torch and us: its libgomp is found first, through the run path of every binary.
set(CMAKE_BUILD_RPATH ${FERRY_TORCH_LIBRARY_DIR})
