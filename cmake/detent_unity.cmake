# detent_unity(TARGET file.cc ...)
#
# Compiles the files of one folder together, at most 1,600 lines at once, so that headers are read once for some twelve
# files. Left alone are files whose macros would reach their neighbours: kernels, which are compiled once for each
# instruction set, and what defines macros for the header of a library, or includes one that does. The target's property
# DETENT_KERNELS names the kernels.
set(DETENT_UNITY_LINES 1600 CACHE STRING "Lines of source compiled together; 0 compiles each file alone")

function(detent_unity target)
  set(kernels "")
  foreach(file IN LISTS ARGN)
    get_filename_component(path ${file} ABSOLUTE)
    file(STRINGS ${path} lines)
    if("${lines}" MATCHES "#include (<hwy/|\"[^\"]*-inl\\.h\")")
      list(APPEND kernels ${file})
    endif()
    if(NOT DETENT_UNITY_LINES OR "${lines}" MATCHES "#define|#include <(hwy/|toml\\+\\+|jpeglib|png|setjmp)|#include \"[^\"]*-inl\\.h")
      continue()
    endif()
    list(LENGTH lines length)
    get_filename_component(folder ${path} DIRECTORY)
    file(RELATIVE_PATH folder ${CMAKE_CURRENT_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    if(NOT DEFINED length_${folder})
      set(length_${folder} 0)
      set(unit_${folder} 1)
    endif()
    math(EXPR length_${folder} "${length_${folder}} + ${length}")
    if(length_${folder} GREATER DETENT_UNITY_LINES AND NOT length_${folder} EQUAL length)
      math(EXPR unit_${folder} "${unit_${folder}} + 1")
      set(length_${folder} ${length})
    endif()
    set_source_files_properties(${file} PROPERTIES UNITY_GROUP "${target}_${folder}_${unit_${folder}}")
  endforeach()
  set_target_properties(${target} PROPERTIES DETENT_KERNELS "${kernels}")
  # Three fifths of what clang takes for kernels with sanitizers: whether an address wraps around. AddressSanitizer sees
  # what is read and written there.
  if(DETENT_SANITIZE MATCHES undefined)
    set_property(SOURCE ${kernels} APPEND PROPERTY COMPILE_OPTIONS -fno-sanitize=pointer-overflow)
  endif()
  if(NOT DETENT_UNITY_LINES)
    return()
  endif()
  # GCC takes what the .cc files of a unit define for that of a header, of which each unit would have another.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
