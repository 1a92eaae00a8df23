# CPack runs this over the files that it is about to pack. All get the commit's time, so that the
# same commit makes the same packages; Debian's get what its policy asks for.
foreach(component program library development)
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component}/usr)
  if(CPACK_GENERATOR STREQUAL "DEB" AND EXISTS ${root})
    string(TOUPPER ${component} upper)
    set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    file(COPY ${CMAKE_CURRENT_LIST_DIR}/debian/copyright DESTINATION ${root}/share/doc/${package})
    file(WRITE ${root}/share/doc/${package}/changelog
"pinprick (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Built from $ENV{PINPRICK_COMMIT}.

 -- ${CPACK_PACKAGE_CONTACT}  $ENV{PINPRICK_DATE}
")
    execute_process(COMMAND gzip -9n ${root}/share/doc/${package}/changelog)
    set(overrides ${CMAKE_CURRENT_LIST_DIR}/debian/${package}.lintian-overrides)
    if(EXISTS ${overrides})
      file(MAKE_DIRECTORY ${root}/share/lintian/overrides)
      file(COPY_FILE ${overrides} ${root}/share/lintian/overrides/${package})
    endif()
    # Debian has it for all packages in /usr/share/common-licenses.
    file(REMOVE ${root}/share/doc/pinprick/LICENSE)
  endif()
endforeach()
execute_process(COMMAND chmod -R u=rwX,go=rX ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
execute_process(COMMAND find ${CPACK_TEMPORARY_INSTALL_DIRECTORY}
  -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +)
