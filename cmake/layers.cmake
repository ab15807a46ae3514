# One folder under src/ = one layer = one static library; what it may link comes from layers.json, not from its own
# CMakeLists.txt, so that no folder can widen its own rights.
file(READ ${PROJECT_SOURCE_DIR}/layers.json TENUTO_LAYERS_JSON)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/layers.json)

find_package(GTest REQUIRED)
include(GoogleTest)

# tenuto_layer(<name> SOURCES ... [LINK <foreign targets>] [TEST_LINK <targets>])
# Headers are not listed; *_test.cc beside the sources are found by themselves, so that no test is dropped by a line.
function(tenuto_layer name)
  cmake_parse_arguments(L "" "" "SOURCES;LINK;TEST_LINK" ${ARGN})
  add_library(tenuto_${name} STATIC ${L_SOURCES})
  target_include_directories(tenuto_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  string(JSON n LENGTH "${TENUTO_LAYERS_JSON}" layers ${name} deps)
  if(n GREATER 0)
    math(EXPR last "${n} - 1")
    foreach(i RANGE ${last})
      string(JSON dep GET "${TENUTO_LAYERS_JSON}" layers ${name} deps ${i})
      target_link_libraries(tenuto_${name} PUBLIC tenuto_${dep})
    endforeach()
  endif()
  target_link_libraries(tenuto_${name} PUBLIC ${L_LINK} PRIVATE tenuto_flags)

  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  if(NOT TENUTO_LLAMA)
    list(FILTER tests EXCLUDE REGEX "/llama/")
  endif()
  if(tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE tenuto_${name} ${L_TEST_LINK} tenuto_test_flags GTest::gtest_main)
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 60 PROPERTIES LABELS unit)
  endif()
endfunction()
