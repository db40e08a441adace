# Lets the built program write its manual page and completion scripts.   -DQUERN=program -DOUT=folder
file(MAKE_DIRECTORY ${OUT})
foreach(shell bash zsh fish)
  execute_process(COMMAND ${QUERN} help --completion ${shell} OUTPUT_FILE ${OUT}/quern.${shell} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
execute_process(COMMAND ${QUERN} help --man OUTPUT_FILE ${OUT}/quern.1 COMMAND_ERROR_IS_FATAL ANY)
