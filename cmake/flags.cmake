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
if(TENUTO_SANITIZE)
  # Global, so that headers-only foreign code (Boost) is instrumented as well.
  add_compile_options(-fsanitize=${TENUTO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -O1)
  string(REPLACE "fuzzer-no-link," "" tenuto_link_sanitize "${TENUTO_SANITIZE}")
  add_link_options(-fsanitize=${tenuto_link_sanitize})
endif()
