include(detent_warnings)
include(detent_unity)

# detent_layer(NAME [SOURCES made.cc ...] [EXCLUDE regex] [OPERATORS prefix] [DEPENDS layer-or-library ...]
#              [PRIVATE library ...] [TEST_DEPENDS library ...] [OPTIMIZE level [LOOPS loops.cc ...]] [TORCH] [PRECOMPILED]
#              [PARSES])
#
# A static library detent_NAME, alias detent::NAME, from the .cc files under src/detent/NAME, found anew at each build,
# but for those that match EXCLUDE; SOURCES are further ones. OPERATORS adds the files of src/detent/operators whose names
# begin with the prefix: a family of operators has a folder there, of which each layer takes its own files. The *_test.cc
# files of all layers are gathered in two programs, because libtorch costs a second a process: detent_tests and, with TORCH,
# detent_torch_tests.
# OPTIMIZE takes the place of Release's -O3 where no loop over tensors is compiled: a third less time for each file. SIMD
# kernels and LOOPS, files with such loops, keep -O3.
# PRECOMPILED: GCC reads the headers of graphs once, precompiled for the layer graph, for all layers that ask for it. Checks
# with sanitizers compile without, and show where an include is missing.
# PARSES: the layer reads files of strangers. Only there do fuzzers count branches (DETENT_FUZZ): to count takes a quarter
# of the time to compile.
# Layers are recorded in the global property DETENT_LAYERS, those with TORCH in DETENT_TORCH_LAYERS, to be installed.
# Without libtorch (DETENT_TORCH=OFF) a layer with TORCH is not built.
function(detent_layer name)
  cmake_parse_arguments(layer "TORCH;PRECOMPILED;PARSES" "EXCLUDE;OPERATORS;OPTIMIZE" "SOURCES;DEPENDS;PRIVATE;TEST_DEPENDS;LOOPS" ${ARGN})
  if(layer_TORCH AND NOT DETENT_TORCH)
    return()
  endif()
  file(GLOB_RECURSE files RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS *.cc)
  if(layer_OPERATORS)
    set(operators ${PROJECT_SOURCE_DIR}/src/detent/operators)
    file(GLOB operators CONFIGURE_DEPENDS ${operators}/${layer_OPERATORS}*.cc ${operators}/*/${layer_OPERATORS}*.cc)
    list(APPEND files ${operators})
  endif()
  if(layer_EXCLUDE)
    list(FILTER files EXCLUDE REGEX "${layer_EXCLUDE}")
  endif()
  set(tests ${files})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER files EXCLUDE REGEX "_test\\.cc$")
  add_library(detent_${name} STATIC ${files} ${layer_SOURCES})
  add_library(detent::${name} ALIAS detent_${name})
  detent_unity(detent_${name} ${files})
  set_target_properties(detent_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(detent_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(detent_${name} PUBLIC cxx_std_20)
  target_link_libraries(detent_${name} PUBLIC ${layer_DEPENDS} PRIVATE ${layer_PRIVATE} $<BUILD_INTERFACE:detent_warnings>)
  if(layer_TORCH)
    set(program DETENT_TORCH_TESTS)
    set_property(GLOBAL APPEND PROPERTY DETENT_TORCH_LAYERS ${name})
  else()
    set(program DETENT_TESTS)
    set_property(GLOBAL APPEND PROPERTY DETENT_LAYERS ${name})
    # So that the C library leaves out functions that it does not call.
    target_compile_options(detent_${name} PRIVATE -ffunction-sections -fdata-sections)
  endif()
  if(layer_OPTIMIZE)
    # -Og alone leaves a function that is called once where it is: a fifth more code. And GCC does not see there that an
    # optional's value is assigned only where there is one.
    target_compile_options(detent_${name} PRIVATE "$<$<CONFIG:Release>:${layer_OPTIMIZE}>"
      "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-finline-functions-called-once;-Wno-maybe-uninitialized>")
    get_target_property(kernels detent_${name} DETENT_KERNELS)
    set_property(SOURCE ${layer_LOOPS} ${kernels} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
    # Clang's -Og is -O1, which takes sanitized code twice as long to compile. Tests and fuzzers read too many files for -O0.
    if(DETENT_SANITIZE AND layer_OPTIMIZE STREQUAL "-Og" AND NOT layer_PARSES)
      target_compile_options(detent_${name} PRIVATE -O0)
      set_property(SOURCE ${layer_LOOPS} ${kernels} APPEND PROPERTY COMPILE_OPTIONS -O1)
    endif()
  endif()
  if(layer_PARSES AND DETENT_FUZZ)
    target_compile_options(detent_${name} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  if(layer_PRECOMPILED)
    detent_precompile(detent_${name})
  endif()
  list(TRANSFORM tests PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ REGEX "^[^/]")
  set_property(GLOBAL APPEND PROPERTY ${program}_SOURCES ${tests})
  set_property(GLOBAL APPEND PROPERTY ${program}_LIBRARIES detent::${name} ${layer_TEST_DEPENDS})
endfunction()

# detent_precompile(TARGET)
function(detent_precompile target)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR DETENT_SANITIZE)
    return()
  endif()
  # GCC 13 and later do not take what another level of optimization made, and gain nothing where they do.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    return()
  endif()
  if(target STREQUAL "detent_graph")
    target_precompile_headers(detent_graph PRIVATE <algorithm> <cmath> <fmt/format.h> <fmt/ranges.h> <numeric> <optional> <set>
      <detent/core/log.h> <detent/core/text_table.h> <detent/formats/verbs.h> <detent/graph/graph.h>
      <detent/graph/graph_parameters.h> <detent/graph/operators.h> <detent/graph/traits.h> <detent/graph/value_sizes.h>)
  else()
    target_precompile_headers(${target} REUSE_FROM detent_graph)
  endif()
  get_target_property(kernels ${target} DETENT_KERNELS)
  set_property(SOURCE ${kernels} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# What tests themselves compute is little; what takes time is to compile them. With -Og GCC 12 warns of strings and optionals.
function(detent_test_options target)
  target_link_libraries(${target} PRIVATE detent_warnings)
  target_compile_definitions(${target} PRIVATE DETENT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og> $<$<CONFIG:RelWithDebInfo>:-O0>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endfunction()
