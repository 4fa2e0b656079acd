# Report a step that takes long, for scripts that source this file:
#
#   . "$(dirname "$0")/progress.sh"
#   while_waiting "make-venv: installing the packages" COMMAND ARGUMENT...
#
# The first report comes after 2 s, on stderr; later ones come at growing pauses of at most a minute.

while_waiting() {
    _text=$1
    shift
    (
        waited_s=0
        due_s=2
        # The reporter ignores Ctrl-C, as every background job of a script does; so it looks for its script.
        while sleep 2 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
            waited_s=$((waited_s + 2))
            if [ "$waited_s" -ge "$due_s" ]; then
                echo "$_text ($waited_s s so far)" >&2
                if [ "$due_s" -lt 62 ]; then due_s=$((due_s * 2 + 2)); else due_s=$((due_s + 60)); fi
            fi
        done
    ) &
    _reporter=$!
    _status=0
    "$@" || _status=$?
    kill "$_reporter" 2>/dev/null || true
    wait "$_reporter" 2>/dev/null || true
    return "$_status"
}
