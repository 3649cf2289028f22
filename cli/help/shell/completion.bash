# bash completion for kolo, from 'kolo completion bash'.
_kolo() {
  local current=${COMP_WORDS[COMP_CWORD]} word text
  COMPREPLY=()
  while IFS=$'\t' read -r word text; do
    case $word in
      :program) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -c -- "$current") ;;&
      :program | :files)
        compopt -o filenames 2>/dev/null
        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$current") ;;
      *) COMPREPLY+=("$word") ;;
    esac
  done < <("${COMP_WORDS[0]}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _kolo kolo
