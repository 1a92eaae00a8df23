include(${CMAKE_CURRENT_LIST_DIR}/pinprick-targets.cmake)

# For programs that are linked statically.
if(NOT TARGET pinprick::static)
  add_library(pinprick::static STATIC IMPORTED)
  set_target_properties(pinprick::static PROPERTIES
    IMPORTED_LOCATION ${CMAKE_CURRENT_LIST_DIR}/../../libpinprick.a)
endif()
