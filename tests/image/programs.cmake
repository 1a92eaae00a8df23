# Objects under test, as compilers and linkers make them. Plain custom commands: our warnings and
# sanitizers must not apply to them.

set(IMAGE_PROGRAMS ${PROJECT_BINARY_DIR}/image_programs)
file(MAKE_DIRECTORY ${IMAGE_PROGRAMS})
set(IMAGE_PROGRAM_FILES "")
find_program(PROGRAM_GCC gcc REQUIRED)
find_program(PROGRAM_GXX g++ REQUIRED)
find_program(PROGRAM_CLANG NAMES clang clang-14)

function(image_program name source compiler)
  set(path ${CMAKE_CURRENT_SOURCE_DIR}/targets/image/${source})
  add_custom_command(OUTPUT ${IMAGE_PROGRAMS}/${name}
    COMMAND ${compiler} -O2 -o ${IMAGE_PROGRAMS}/${name} ${path} ${ARGN}
    DEPENDS ${path} VERBATIM)
  set(IMAGE_PROGRAM_FILES ${IMAGE_PROGRAM_FILES} ${IMAGE_PROGRAMS}/${name} PARENT_SCOPE)
endfunction()

set(PIE -fPIE -pie)
set(NO_PIE -fno-pie -no-pie)
image_program(basic_pie basic.c ${PROGRAM_GCC} ${PIE} -Wl,--build-id=sha1)
image_program(basic_nopie basic.c ${PROGRAM_GCC} ${NO_PIE} -Wl,--build-id=sha1)
image_program(basic_no_id basic.c ${PROGRAM_GCC} ${PIE} -Wl,--build-id=none)
image_program(basic_static basic.c ${PROGRAM_GCC} ${NO_PIE} -static)
image_program(basic_huge_bss basic.c ${PROGRAM_GCC} ${NO_PIE} -mcmodel=large
  -DHUGE_BSS=0x80000000)
image_program(points_pie points.c ${PROGRAM_GCC} ${PIE})
image_program(points_nopie points.c ${PROGRAM_GCC} ${NO_PIE})
set(TRACEPOINTS -I${PROJECT_SOURCE_DIR}/include)
image_program(tracepoints_pie ../orders.c ${PROGRAM_GCC} ${PIE} ${TRACEPOINTS})
image_program(tracepoints_nopie ../orders.c ${PROGRAM_GCC} ${NO_PIE} ${TRACEPOINTS})
image_program(tracepoints_packed ../orders.c ${PROGRAM_GCC} ${PIE} ${TRACEPOINTS}
  -Wl,-z,pack-relative-relocs)
image_program(basic.o basic.c ${PROGRAM_GCC} -c)
image_program(libbasic.so.1 basic.c ${PROGRAM_GCC} -DLIBRARY -fPIC -shared -Wl,--hash-style=gnu)
image_program(libbasic_sysv.so.1 basic.c ${PROGRAM_GCC} -DLIBRARY -fPIC -shared
  -Wl,--hash-style=sysv)
image_program(nested nested.S ${PROGRAM_GCC} -nostdlib ${NO_PIE})
image_program(copied copied.S ${PROGRAM_GCC} -nostdlib ${NO_PIE})
image_program(copied_writable copied.S ${PROGRAM_GCC} -nostdlib ${NO_PIE} -Wl,--omagic
  -Wl,--no-warn-rwx-segments)
foreach(runtime MONO CORE_CLR NATIVE_AOT GHC)
  string(TOLOWER ${runtime} name)
  image_program(${name}_pie runtimes.S ${PROGRAM_GCC} -nostdlib ${PIE} -D${runtime} -rdynamic)
  image_program(${name}_nopie runtimes.S ${PROGRAM_GCC} -nostdlib ${NO_PIE} -D${runtime} -rdynamic)
endforeach()
image_program(mono_twice_pie runtimes.S ${PROGRAM_GCC} -nostdlib ${PIE} -DMONO -DTWICE)
image_program(mono_twice_nopie runtimes.S ${PROGRAM_GCC} -nostdlib ${NO_PIE} -DMONO -DTWICE)
image_program(emulated emulated.S ${PROGRAM_GCC} -nostdlib ${NO_PIE})
image_program(sequences_pie sequences.S ${PROGRAM_GCC} -nostdlib ${PIE})
image_program(sequences_nopie sequences.S ${PROGRAM_GCC} -nostdlib ${NO_PIE})
image_program(jumps_pie jumps.S ${PROGRAM_GCC} -nostdlib ${PIE})
image_program(jumps_nopie jumps.S ${PROGRAM_GCC} -nostdlib ${NO_PIE})
image_program(exits_pie exits.S ${PROGRAM_GCC} -nostdlib ${PIE})
image_program(exits_nopie exits.S ${PROGRAM_GCC} -nostdlib ${NO_PIE})
image_program(jumps_packed jumps.S ${PROGRAM_GCC} -nostdlib ${PIE} -Wl,-z,pack-relative-relocs)
# Read-only data and exception tables lie in the segment of the code, as with old linkers.
set(ONE_SEGMENT -Wl,-z,noseparate-code -Wl,-z,norelro)
image_program(throws_pie throws.cc ${PROGRAM_GXX} ${PIE})
image_program(throws_one_segment throws.cc ${PROGRAM_GXX} ${PIE} ${ONE_SEGMENT})
foreach(program switches gotos)
  image_program(${program}_gcc_pie ${program}.c ${PROGRAM_GCC} ${PIE})
  image_program(${program}_gcc_nopie ${program}.c ${PROGRAM_GCC} ${NO_PIE})
  image_program(${program}_gcc_O0 ${program}.c ${PROGRAM_GCC} ${PIE} -O0)
  image_program(${program}_gcc_cet ${program}.c ${PROGRAM_GCC} ${PIE} -fcf-protection=full)
  image_program(${program}_gcc_pic_in_nopie ${program}.c ${PROGRAM_GCC} -fPIC -no-pie)
  image_program(${program}_gcc_one_segment ${program}.c ${PROGRAM_GCC} ${PIE} ${ONE_SEGMENT})
  image_program(${program}_gcc_nopie_one_segment ${program}.c ${PROGRAM_GCC} ${NO_PIE}
    ${ONE_SEGMENT})
  if(PROGRAM_CLANG)
    set(quiet -Wno-unknown-attributes)
    image_program(${program}_clang_pie ${program}.c ${PROGRAM_CLANG} ${quiet} ${PIE})
    image_program(${program}_clang_nopie ${program}.c ${PROGRAM_CLANG} ${quiet} ${NO_PIE})
  endif()
endforeach()

# Stripped, except for what distributions put into .gnu_debugdata: a compressed debug file with the
# local functions, without debug information.
find_program(PROGRAM_OBJCOPY objcopy REQUIRED)
find_program(PROGRAM_XZ xz REQUIRED)
set(embedded ${IMAGE_PROGRAMS}/basic_embedded)
add_custom_command(OUTPUT ${embedded}
  COMMAND ${PROGRAM_OBJCOPY} --only-keep-debug ${IMAGE_PROGRAMS}/basic_pie ${embedded}.symbols
  COMMAND ${PROGRAM_OBJCOPY} -S --keep-symbol=local_one ${embedded}.symbols
  COMMAND ${PROGRAM_XZ} --force ${embedded}.symbols
  COMMAND ${PROGRAM_OBJCOPY} -S --add-section .gnu_debugdata=${embedded}.symbols.xz
    ${IMAGE_PROGRAMS}/basic_pie ${embedded}
  DEPENDS ${IMAGE_PROGRAMS}/basic_pie VERBATIM)
list(APPEND IMAGE_PROGRAM_FILES ${embedded})

add_custom_target(image_programs DEPENDS ${IMAGE_PROGRAM_FILES})
