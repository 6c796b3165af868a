# detent_build_identity(OUTPUT_VARIABLE)
#
# Makes a C++ source file, written again whenever a source of detent changes, that defines
#   const char* detent::build_identity();
# a digest of the sources, the compiler and the build type. Two halves of a program that were not built together
# have different ones.
function(detent_build_identity output_variable)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/build_identity.cc)
  set(script ${PROJECT_SOURCE_DIR}/cmake/detent_build_identity_script.cmake)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/detent/*.cc ${PROJECT_SOURCE_DIR}/src/detent/*.h)
  list(FILTER sources EXCLUDE REGEX "_test\\.(cc|h)$")
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -Dfolder=${PROJECT_SOURCE_DIR}/src/detent -Doutput=${output}
      "-Dtoolchain=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} ${CMAKE_BUILD_TYPE} ${DETENT_SANITIZE}" -P ${script}
    DEPENDS ${sources} ${script}
    COMMENT "Computing the digest of the sources"
    VERBATIM)
  set(${output_variable} ${output} PARENT_SCOPE)
endfunction()
