include(detent_warnings)

# detent_layer(NAME SOURCES a.cc ... [DEPENDS layer-or-library ...] [PRIVATE library ...] [TESTS a_test.cc ...]
#              [TEST_DEPENDS library ...] [TORCH])
#
# A static library detent_NAME, alias detent::NAME, from the files of src/detent/NAME. Tests of all layers are
# gathered in two programs, because libtorch costs a second a process: detent_tests and, with TORCH, detent_torch_tests.
# Layers are recorded in the global property DETENT_LAYERS, those with TORCH in DETENT_TORCH_LAYERS, to be installed.
function(detent_layer name)
  cmake_parse_arguments(layer "TORCH" "" "SOURCES;DEPENDS;PRIVATE;TESTS;TEST_DEPENDS" ${ARGN})
  add_library(detent_${name} STATIC ${layer_SOURCES})
  add_library(detent::${name} ALIAS detent_${name})
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
  endif()
  list(TRANSFORM layer_TESTS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL APPEND PROPERTY ${program}_SOURCES ${layer_TESTS})
  set_property(GLOBAL APPEND PROPERTY ${program}_LIBRARIES detent::${name} ${layer_TEST_DEPENDS})
endfunction()
