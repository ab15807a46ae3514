# Debian packages first; libllama from wherever find_package finds it: a system package, or the environment that
# scripts/quickstart made under .deps. Nothing is fetched here.
find_package(Threads REQUIRED)
find_package(OpenSSL 3 REQUIRED COMPONENTS Crypto)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

if(TENUTO_LLAMA OR TENUTO_FUZZ)
  file(GLOB tenuto_venv_site ${PROJECT_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages)
  list(APPEND CMAKE_PREFIX_PATH ${tenuto_venv_site})
  find_package(llama CONFIG QUIET)
  if(NOT llama_FOUND)
    message(FATAL_ERROR "libllama was not found. Run scripts/quickstart --no-start (it builds it once, about five "
                        "minutes), or set CMAKE_PREFIX_PATH to where lib/cmake/llama is.")
  endif()
endif()
