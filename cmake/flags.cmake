# Compiler flags for our own code. Linked PRIVATE by every target of ours, so foreign code is never held to them.
add_library(tenuto_flags INTERFACE)
target_compile_options(tenuto_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast
  -Wimplicit-fallthrough -Wundef
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op>
  # A false positive of g++ 12 at -O3: for `"text" + std::string` it names memcpy calls of impossible sizes inside
  # libstdc++ (GCC bug 105651, fixed in 13). The dev preset (-O2, -Werror) keeps the warning.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>,$<CONFIG:Release>>:-Wno-restrict>
  $<$<BOOL:${TENUTO_WERROR}>:-Werror>)
# For builds that are not for users: lines for stack traces and no more, and the fast linker, where there is one. Full
# debug information made the sanitizer builds half as long again.
add_compile_options($<$<NOT:$<CONFIG:Release>>:-g${TENUTO_DEBUG_LEVEL}>)
find_program(TENUTO_LLD ld.lld)
if(TENUTO_LLD)
  add_link_options($<$<NOT:$<CONFIG:Release>>:-fuse-ld=lld>)
endif()
# Tests run once: optimising them takes longer than it saves, much longer with clang's address sanitizer.
add_library(tenuto_test_flags INTERFACE)
target_compile_options(tenuto_test_flags INTERFACE $<$<NOT:$<CONFIG:Release>>:${TENUTO_TEST_OPTIMISED}>)
target_link_libraries(tenuto_test_flags INTERFACE tenuto_flags)
if(TENUTO_SANITIZE)
  # Global, so that headers-only foreign code (Boost) is instrumented as well.
  add_compile_options(-fsanitize=${TENUTO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -O1)
  string(REPLACE "fuzzer-no-link," "" tenuto_link_sanitize "${TENUTO_SANITIZE}")
  add_link_options(-fsanitize=${tenuto_link_sanitize})
endif()
