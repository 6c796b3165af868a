# Run by CTest (tests/CMakeLists.txt): builds the consumer against an installed detent (WAY=find_package) or together
# with its sources (WAY=add_subdirectory), and runs it.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${WORK})
if(WAY STREQUAL "find_package")
  run(${CMAKE_COMMAND} --install ${DETENT_BUILD} --prefix ${WORK}/prefix)
  set(options -DCMAKE_PREFIX_PATH=${WORK}/prefix)
else()
  # With the options of this build, so that a compiler cache has what this build compiled.
  set(options -DDETENT_SOURCE=${DETENT_SOURCE} -DDETENT_TORCH=OFF -DDETENT_WERROR=${WERROR})
endif()
if(SANITIZE)
  list(APPEND options "-DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE}")
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build -G ${GENERATOR} -DCMAKE_BUILD_TYPE=${BUILD_TYPE}
  -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
  -DCMAKE_RUNTIME_OUTPUT_DIRECTORY=${WORK}/bin ${options})
run(${CMAKE_COMMAND} --build ${WORK}/build --target consumer)
run(${WORK}/bin/consumer)

# A program in C that knows no more than pkg-config.
if(WAY STREQUAL "find_package")
  find_program(PKG_CONFIG pkg-config REQUIRED)
  file(GLOB_RECURSE description ${WORK}/prefix/*/detent_engine.pc)
  cmake_path(GET description PARENT_PATH folder)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  execute_process(COMMAND ${PKG_CONFIG} --cflags --libs detent_engine OUTPUT_VARIABLE flags
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${PKG_CONFIG} --variable=libdir detent_engine OUTPUT_VARIABLE libraries
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  if(SANITIZE)
    list(APPEND flags -fsanitize=${SANITIZE})
  endif()
  run(cc -std=c11 ${DETENT_SOURCE}/examples/run_quantized.c ${flags} -Wl,-rpath,${libraries} -o ${WORK}/bin/in_c)
  run(${WORK}/bin/in_c)
  run(cc -std=c11 ${CMAKE_CURRENT_LIST_DIR}/generate.c ${flags} -Wl,-rpath,${libraries} -o ${WORK}/bin/generate)
  run(${WORK}/bin/generate ${DETENT_SOURCE}/tests/data/gguf/small_llama.gguf)
endif()

# What is installed must also run, and under both of its names.
foreach(program detent ch)
  if(EXISTS ${WORK}/prefix/bin/${program})
    run(${WORK}/prefix/bin/${program} --help)
  endif()
endforeach()
