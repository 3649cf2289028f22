#compdef kolo
# zsh completion for kolo, from 'kolo completion zsh'.
_kolo() {
  local line
  local -a offers
  for line in "${(@f)$("${(e)~words[1]}" complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      :files) _files ;;
      :program*)  # of the words, so many come before it
        shift ${line#:program$'\t'} words
        (( CURRENT -= ${line#:program$'\t'} ))
        _normal ;;
      ?*) offers+=("${${line//:/\\:}/$'\t'/:}") ;;
    esac
  done
  (( $#offers )) && _describe kolo offers
}
# As a file in fpath, and read by `source`.
if [[ $funcstack[1] == _kolo ]]; then _kolo "$@"; else compdef _kolo kolo; fi
