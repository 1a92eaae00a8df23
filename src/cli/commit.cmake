# Writes OUTPUT, a source file with the commit of SOURCES, if it is not there with the same one.
# The commit is COMMIT if that is given; that of .git; what the file COMMIT says, as in an archive of
# the sources; or `unknown`. Nothing fails if there is no git.

set(commit "${COMMIT}")
if(commit STREQUAL "" AND EXISTS ${SOURCES}/.git)
  # `sudo make install` would otherwise not know it, as git reads no folder of another user. Without
  # locks, a commit that is made at the same time does not fail.
  execute_process(COMMAND git --no-optional-locks -c safe.directory=${SOURCES} -C ${SOURCES}
      describe --always --exclude=* --abbrev=12 --dirty
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(commit STREQUAL "" AND EXISTS ${SOURCES}/COMMIT)
  file(STRINGS ${SOURCES}/COMMIT commit LIMIT_COUNT 1)
endif()
# It becomes part of a string constant.
if(NOT commit MATCHES "^[-+.~_0-9A-Za-z]+$")
  set(commit unknown)
endif()

set(text "#include \"cli/version.h\"\n\nconst char* const pinprick::cli::kCommit = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL before)
  file(WRITE ${OUTPUT} "${text}")
endif()
