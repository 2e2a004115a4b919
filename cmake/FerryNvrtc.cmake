# FERRY_NVRTC: the NVRTC that compiles our CUDA kernels in tests, for GPUs that need not be here: PyPI's
# nvidia-cuda-nvrtc (requirements.txt), or the one that a CUDA build of torch brought. Empty where there is none; tests
# that need it are skipped then.
execute_process(
  COMMAND ${FERRY_PYTHON} -c "import nvidia; print(*nvidia.__path__, sep=';')"
  OUTPUT_VARIABLE packages ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
set(found "")
foreach(package IN LISTS packages)
  file(GLOB libraries ${package}/*/lib/libnvrtc.so.*)
  list(APPEND found ${libraries})
endforeach()
if(found)
  list(GET found 0 found)
endif()
set(FERRY_NVRTC "${found}" CACHE FILEPATH "NVRTC that compiles CUDA kernels in tests")
if(NOT EXISTS "${FERRY_NVRTC}" AND found)
  set(FERRY_NVRTC "${found}" CACHE FILEPATH "NVRTC that compiles CUDA kernels in tests" FORCE)
endif()
message(STATUS "NVRTC for tests: ${FERRY_NVRTC}")

# The tests NAME compile with it. A sanitizer opens libraries in others' place, so that none is found beside the one that
# asks for it.
function(ferry_compiles_kernels name)
  target_compile_definitions(${name}_test PRIVATE FERRY_NVRTC="${FERRY_NVRTC}")
  if(FERRY_SANITIZE AND FERRY_NVRTC)
    cmake_path(GET FERRY_NVRTC PARENT_PATH folder)
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "LD_LIBRARY_PATH=${folder}")
  endif()
endfunction()
