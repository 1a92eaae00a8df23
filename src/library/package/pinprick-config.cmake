include(${CMAKE_CURRENT_LIST_DIR}/pinprick-targets.cmake)
