# detent_embed(FILE SYMBOL OUTPUT_VARIABLE)
#
# Makes a C++ source file, written at build time and again whenever FILE changes, that defines
#   std::span<const std::byte> detent::SYMBOL();
# which returns the bytes of FILE, and stores its path in OUTPUT_VARIABLE. Only CMake is needed.
function(detent_embed file symbol output_variable)
  cmake_path(ABSOLUTE_PATH file NORMALIZE)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.cc)
  set(script ${PROJECT_SOURCE_DIR}/cmake/detent_embed_script.cmake)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -Dinput=${file} -Doutput=${output} -Dsymbol=${symbol} -P ${script}
    DEPENDS ${file} ${script}
    COMMENT "Embedding ${file}"
    VERBATIM)
  set(${output_variable} ${output} PARENT_SCOPE)
endfunction()
