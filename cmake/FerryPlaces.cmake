# Where the programs find what they need, counted from their own folder, so that what holds them all may be
# moved (src/cli/installation.h):
#
#   FERRY_PYTHON_BESIDE FERRY_TOOLS_BESIDE FERRY_MACHINES_BESIDE   an interpreter, tools/, machines/
#   FERRY_RUN_PATH     folders of libraries; the absolute ones at the end are those that were linked
if(SKBUILD)
  # A package: PREFIX/lib/pythonX.Y/site-packages/ferry/bin, beside the packages of torch and highsbox.
  set(FERRY_PYTHON_BESIDE ../../../../../bin/python3)
  set(FERRY_TOOLS_BESIDE ../..)
  set(FERRY_MACHINES_BESIDE ../machines)
  set(torch_beside ../../torch/lib)
  set(highs_beside ../../highsbox/highs_dist/lib)
else()
  # A source folder, with .venv in it or elsewhere.
  file(RELATIVE_PATH FERRY_PYTHON_BESIDE ${CMAKE_BINARY_DIR} ${FERRY_PYTHON})
  file(RELATIVE_PATH FERRY_TOOLS_BESIDE ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR}/tools)
  file(RELATIVE_PATH FERRY_MACHINES_BESIDE ${CMAKE_BINARY_DIR} ${PROJECT_SOURCE_DIR}/machines)
  foreach(library IN ITEMS torch highs)
    string(TOUPPER FERRY_${library}_LIBRARY_DIR folder)
    if(${folder})
      file(RELATIVE_PATH ${library}_beside ${CMAKE_BINARY_DIR} ${${folder}})
    endif()
  endforeach()
endif()
set(FERRY_RUN_PATH)
foreach(beside IN ITEMS ${torch_beside} ${highs_beside})
  list(APPEND FERRY_RUN_PATH $ORIGIN/${beside})
endforeach()
list(APPEND FERRY_RUN_PATH ${FERRY_TORCH_LIBRARY_DIR} ${FERRY_HIGHS_LIBRARY_DIR})
