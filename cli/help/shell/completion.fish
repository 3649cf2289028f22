# fish completion for kolo, from 'kolo completion fish'.
function __kolo_offers
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] complete $words[2..-1] 2>/dev/null)
        switch $line
            case ':files*'
                __fish_complete_path (commandline -ct)
            case ':program*'
                __fish_complete_command
                __fish_complete_path (commandline -ct)
            case '*'
                echo $line
        end
    end
end
complete -c kolo -f -a '(__kolo_offers)'
