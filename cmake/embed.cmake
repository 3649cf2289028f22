# cmake -D FOLDER=cli/draw -D OUTPUT=page.cpp -P embed.cmake: the files of the web page as constants of draw/formats.hpp.
set(text "#include \"draw/formats.hpp\"\n\nnamespace kolo::draw {\n")
foreach(kind Html Css Js)
  string(TOLOWER ${kind} suffix)
  file(READ ${FOLDER}/page.${suffix} content)
  string(APPEND text "\nconst std::string_view kPage${kind} = R\"embedded(${content})embedded\";\n")
endforeach()
string(APPEND text "\n}  // namespace kolo::draw\n")
file(WRITE ${OUTPUT} "${text}")
