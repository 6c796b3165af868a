# What kernels are compiled for, of x86-64: DETENT_SIMD=all, for every processor, or native, for this one. Sets
# `detent_left_out`, bits of Highway's targets; `detent_native_options`, with which Highway's kernels have one target alone,
# in half of the time, and `detent_kernels_need`, the feature that they then ask of a processor; and of the engine's files
# kernels/target_*.cc `detent_engine_kernels` and, joined by |, `detent_engine_left_out`.
set(DETENT_SIMD all CACHE STRING "Instruction sets of kernels: all, or native, those of this machine")
set_property(CACHE DETENT_SIMD PROPERTY STRINGS all native)
if(NOT DETENT_SIMD MATCHES "^(all|native)$")
  message(FATAL_ERROR "DETENT_SIMD: got ${DETENT_SIMD}, expected all or native")
endif()

set(detent_sse4 0x800)
set(detent_avx2 0x200)
set(detent_avx512 0x100)
# No processor sold since 2010 has SSSE3 (0x1000) and not SSE4; its kernels were a fifth of all. One that has runs the
# portable ones. Highway's newer kinds of AVX-512 (0x80, 0x40, 0x10, of which Debian 12's knows one) have no instruction
# that its kernels here use.
set(detent_left_out 0x10d0)
set(detent_engine_kernels avx2 avx512 avx512_vnni)

set(flags "")
if(EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
endif()
set(detent_native_options "")
set(detent_kernels_need "")
# The same source for every instruction set: sanitizers watch the portable kernels and the machine's own.
if(DETENT_SIMD STREQUAL "native" OR DETENT_SANITIZE)
  set(native_kernels "")
  if(flags MATCHES " avx512bw .*avx512vl ")
    math(EXPR detent_left_out "${detent_left_out} | ${detent_sse4} | ${detent_avx2}")
    set(native_kernels avx512)
    if(flags MATCHES " avx512_vnni ")
      set(native_kernels avx512_vnni)
    endif()
    set(level 4)
    set(detent_kernels_need avx512bw)
  elseif(flags MATCHES " avx2 ")
    math(EXPR detent_left_out "${detent_left_out} | ${detent_sse4} | ${detent_avx512}")
    set(native_kernels avx2)
    set(level 3)
    set(detent_kernels_need avx2)
  elseif(flags MATCHES " sse4_2 ")
    math(EXPR detent_left_out "${detent_left_out} | ${detent_avx2} | ${detent_avx512}")
  else()
    math(EXPR detent_left_out "${detent_left_out} | ${detent_sse4} | ${detent_avx2} | ${detent_avx512}")
  endif()
  if(DETENT_SIMD STREQUAL "native")
    set(detent_engine_kernels ${native_kernels})
  endif()
  # Highway asks for the instructions of AES too.
  if(DETENT_SIMD STREQUAL "native" AND detent_kernels_need AND flags MATCHES " aes " AND flags MATCHES " pclmulqdq ")
    # Products and sums stay apart: the numbers must not depend on which the compiler fuses.
    set(detent_native_options -march=x86-64-v${level} -maes -mpclmul -ffp-contract=off)
  else()
    set(detent_kernels_need "")
  endif()
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(detent_engine_kernels "")
endif()
set(detent_engine_left_out none avx2 avx512 avx512_vnni)
list(REMOVE_ITEM detent_engine_left_out ${detent_engine_kernels})
list(JOIN detent_engine_left_out "|" detent_engine_left_out)
