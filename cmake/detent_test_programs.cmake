# The two test programs, from what detent_layer() and tests/ have gathered. Suites or tests with "Slow" in their name
# carry the label `slow` (ctest -LE slow leaves them out), those of the second program the label `torch`.
include(GoogleTest)

# Tests of kernels, which are linked a second time (see below).
set(kernel_tests "/formats/[a-z]+/(bit_packing|block_codes|block_kernels|element_kernels|encode|group|target_bytes|reference_for|reference_blocks_for)_test")

function(detent_add_test_program program property)
  cmake_parse_arguments(program "" "" "PRECOMPILED" ${ARGN})
  get_property(sources GLOBAL PROPERTY ${property}_SOURCES)
  get_property(libraries GLOBAL PROPERTY ${property}_LIBRARIES)
  list(REMOVE_DUPLICATES libraries)
  add_executable(${program} ${sources})
  # Exhaustive loops, ten times slower without optimization.
  if(DETENT_SANITIZE)
    set(exhaustive ${sources})
    list(FILTER exhaustive INCLUDE REGEX "/formats/elements/")
    set_source_files_properties(${exhaustive} PROPERTIES COMPILE_OPTIONS -O1 SKIP_PRECOMPILE_HEADERS ON)
  endif()
  # Scalar twins of kernels: their sums and products are rounded one by one.
  set(references ${sources})
  list(FILTER references INCLUDE REGEX "/formats/reference/")
  set_property(SOURCE ${references} APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=off)
  list(FILTER sources EXCLUDE REGEX "${kernel_tests}")
  detent_unity(${program} ${sources})
  target_link_libraries(${program} PRIVATE ${libraries} GTest::gmock GTest::gtest_main)
  detent_test_options(${program})
  target_precompile_headers(${program} PRIVATE
    <functional> <map> <string> <vector> <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h> ${program_PRECOMPILED})
endfunction()

# A CTest entry for every 16th test: a process each would spend as long on starting as on its test.
detent_add_test_program(detent_tests DETENT_TESTS)
foreach(shard RANGE 15)
  add_test(NAME detent_tests.${shard} COMMAND detent_tests --gtest_brief=1 --gtest_filter=-*Slow*:*Signal*)
  set_tests_properties(detent_tests.${shard} PROPERTIES
    ENVIRONMENT "GTEST_TOTAL_SHARDS=16;GTEST_SHARD_INDEX=${shard}" TIMEOUT 1200)
endforeach()
# Which signals a process ends by is settled once in it.
add_test(NAME detent_tests.signals COMMAND detent_tests --gtest_brief=1 --gtest_filter=*Signal*:-*Slow*)
# Verilator's own library is compiled for every design: a compiler cache has it from the second on.
gtest_discover_tests(detent_tests TEST_FILTER *Slow* DISCOVERY_TIMEOUT 60
  PROPERTIES LABELS slow COST 20 ENVIRONMENT "OBJCACHE=${CMAKE_CXX_COMPILER_LAUNCHER}")

# The tests of kernels once more, with vectors of four lanes that can each be shifted by another number of bits. ARM
# processors have such, x86 processors do not: Highway emulates them. It would not with GCC before 12.3, which compiles
# products of 16-bit lanes wrongly there (bug 106322); no kernel has any. What is compiled here takes the place of the
# same files in detent::formats. Sanitizers see the same code in the other tests.
if(NOT DETENT_SANITIZE)
  file(GLOB_RECURSE kernels ${PROJECT_SOURCE_DIR}/src/detent/formats/*.cc)
  foreach(file IN LISTS kernels)
    file(STRINGS ${file} highway REGEX "#include <hwy/")
    if(NOT highway)
      list(REMOVE_ITEM kernels ${file})
    endif()
  endforeach()
  add_executable(detent_emulated_tests ${kernels} "$<FILTER:$<TARGET_OBJECTS:detent_tests>,INCLUDE,${kernel_tests}>")
  target_compile_definitions(detent_emulated_tests PRIVATE HWY_COMPILE_ONLY_EMU128 HWY_BROKEN_EMU128=0)
  target_compile_options(detent_emulated_tests PRIVATE $<TARGET_PROPERTY:detent_formats,COMPILE_OPTIONS>
    $<$<CONFIG:Release>:-O1>)
  target_link_libraries(detent_emulated_tests PRIVATE
    detent::formats hwy::hwy rapidcheck GTest::gmock GTest::gtest_main detent_warnings)
  add_test(NAME emulated_kernels COMMAND detent_emulated_tests --gtest_brief=1)
endif()

# Here each process first spends a second on loading libtorch: few entries, each with every n-th test.
get_property(torch_sources GLOBAL PROPERTY DETENT_TORCH_TESTS_SOURCES)
if(torch_sources)
  detent_add_test_program(detent_torch_tests DETENT_TORCH_TESTS PRECOMPILED <ATen/TensorOperators.h>)
  set(shards 4)
  # Threads that spin while they wait starve each other where tests share cores.
  set(environment GOMP_SPINCOUNT=0 GTEST_TOTAL_SHARDS=${shards})
  math(EXPR last_shard "${shards} - 1")
  foreach(shard RANGE ${last_shard})
    add_test(NAME torch_tests.${shard} COMMAND detent_torch_tests --gtest_brief=1 --gtest_filter=-*Slow*)
    add_test(NAME torch_tests_slow.${shard} COMMAND detent_torch_tests --gtest_brief=1 --gtest_filter=*Slow*)
    set_tests_properties(torch_tests.${shard} torch_tests_slow.${shard} PROPERTIES
      ENVIRONMENT "${environment};GTEST_SHARD_INDEX=${shard}" TIMEOUT 1200 COST 20)
    set_tests_properties(torch_tests.${shard} PROPERTIES LABELS torch)
    set_tests_properties(torch_tests_slow.${shard} PROPERTIES LABELS "torch;slow")
  endforeach()
endif()
