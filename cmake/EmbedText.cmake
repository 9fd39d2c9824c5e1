# cmake -DNAME=name -DFILES="a;b" -DOUT=file.c -P EmbedText.cmake: the files, one after the other, as the C string
# `const char NAME[]`.
set(text "")
foreach(file IN LISTS FILES)
  file(READ "${file}" hex HEX)
  string(APPEND text "${hex}")
endforeach()
string(REGEX REPLACE "(..)" "0x\\1," bytes "${text}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
file(WRITE "${OUT}" "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0};\n")
